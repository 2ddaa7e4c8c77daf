"""Logits and tokens in a GPU's memory, where there is one and a torch that knows it."""

import pytest

import croupier
from support import PATIENCE, VOCAB, Daemon, row

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("there is no GPU", allow_module_level=True)

TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}


@pytest.mark.parametrize("dtype", list(TYPES))
def test_tensors_reach_the_samplers_and_tokens_come_back(daemon: Daemon, name: str, dtype: str) -> None:
    device = torch.device("cuda", 0)
    with (
        daemon.open(name, dtype=dtype) as session,
        croupier.Writer(session.segment_path, device=0) as writer,
        torch.cuda.stream(torch.cuda.Stream(device)),
    ):
        stream = torch.cuda.current_stream().cuda_stream
        asked = {uid: croupier.Params(seed=uid, top_p=0.95) for uid in (1, 2, 3)}
        outputs: dict[int, list[int]] = {uid: [] for uid in asked}
        for uid, params in asked.items():
            session.add(uid, [uid], params=params)
        # Rows of a wider tensor: its stride is not their length.
        wide = torch.full((3, VOCAB + 24), 99.0, dtype=TYPES[dtype], device=device)
        for position in range(4):
            rows = [torch.from_numpy(row(uid, position)) for uid in asked]
            wide[:, :VOCAB] = torch.stack(rows).to(device=device, dtype=TYPES[dtype])
            step = session.submit(list(asked))
            assert writer.begin(step)
            if position % 2 == 0:
                writer.enqueue(wide[:, :VOCAB], stream)
            else:
                writer.enqueue_pointer(wide.data_ptr(), wide.stride(0), stream)
            assert writer.wait_tokens(step, PATIENCE)
            tokens = torch.zeros(3, dtype=torch.int32, device=device)
            writer.enqueue_tokens(step, tokens, stream)
            decided = session.wait(PATIENCE)
            assert tokens.tolist() == decided.tokens.tolist()
            for column, (uid, params) in enumerate(asked.items()):
                answer = croupier.decide(rows[column].to(TYPES[dtype]), [uid], outputs[uid], params=params)
                assert answer.token == decided.tokens[column]
                outputs[uid].append(answer.token)


def test_a_tensor_elsewhere_is_refused(daemon: Daemon, name: str) -> None:
    with daemon.open(name) as session:
        host = croupier.Writer(session.segment_path)
        session.add(1, [1])
        assert host.begin(session.submit([1]))
        with pytest.raises(croupier.Error, match="CUDA device 0; this writer's device is the host"):
            host.enqueue(torch.zeros((1, VOCAB), device="cuda"))
        with pytest.raises(croupier.Error, match="by DLPack"):
            host.enqueue(torch.zeros((1, VOCAB), requires_grad=True))
        host.enqueue(torch.zeros((1, VOCAB)).pin_memory())
        assert session.wait(PATIENCE).errors.tolist() == [0]
        host.detach()
        with croupier.Writer(session.segment_path, device=0) as writer:
            assert writer.begin(session.submit([1]))
            with pytest.raises(croupier.Error, match="the host; this writer's device is CUDA device 0"):
                writer.enqueue(torch.zeros((1, VOCAB)))
            writer.enqueue(torch.zeros((1, VOCAB), device="cuda"), torch.cuda.current_stream().cuda_stream)
            assert session.wait(PATIENCE).errors.tolist() == [0]
