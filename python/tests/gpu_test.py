"""Logits and tokens in a GPU's memory, where there is one and a torch that knows it."""

import numpy as np
import pytest

import croupier
from croupier.vllm import gpu_memory
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
                writer.enqueue(torch.zeros((1, VOCAB)), 0)
            writer.enqueue(torch.zeros((1, VOCAB), device="cuda"), torch.cuda.current_stream().cuda_stream)
            assert session.wait(PATIENCE).errors.tolist() == [0]


def test_a_forgotten_stream_is_refused(daemon: Daemon, name: str) -> None:
    with daemon.open(name) as session, croupier.Writer(session.segment_path, device=0) as writer:
        session.add(1, [1], params=croupier.Params(temperature=0))
        step = session.submit([1])
        assert writer.begin(step)
        logits = torch.from_numpy(row(1, 0))[None].cuda()
        tokens = torch.zeros(1, dtype=torch.int32, device="cuda")
        torch.cuda.synchronize()
        for forgets in (
            lambda: writer.enqueue(logits),
            lambda: writer.enqueue_head(logits, logits, logits),
            lambda: writer.enqueue_pointer(logits.data_ptr(), VOCAB),
            lambda: writer.enqueue_tokens(step, tokens),
            lambda: writer.enqueue_tokens_pointer(step, tokens.data_ptr()),
            lambda: writer.enqueue_awaited_tokens(step, tokens, timeout=1),
            lambda: writer.enqueue_awaited_tokens_pointer(step, tokens.data_ptr(), timeout=1),
            writer.enqueue_randoms,
        ):
            with pytest.raises(croupier.Error, match="stream is None; allowed: the CUDA stream on which"):
                forgets()
        writer.enqueue(logits, 0)
        assert session.wait(PATIENCE).errors.tolist() == [0]


@pytest.mark.parametrize(
    ("transport", "path", "rows"),
    [
        ("rows", "store", "auto"),
        ("rows", "copy", "auto"),
        ("lean", "auto", "lent"),
        ("lean", "auto", "copied"),
    ],
)
@pytest.mark.parametrize("replays", [False, True])
def test_windows_bring_the_tokens_of_plain_steps(
    daemon: Daemon, name: str, transport: str, path: str, rows: str, replays: bool
) -> None:
    """All drafts right, wrong or absent; greedy, drawn and penalised requests, in any order of rows."""
    if replays and path == "copy":
        pytest.skip("the path copy is not captured")
    device = torch.device("cuda", 0)
    asked = {
        1: croupier.Params(temperature=0),
        2: croupier.Params(seed=2, temperature=1.1),
        3: croupier.Params(seed=3, top_p=0.9, repetition_penalty=1.2, logprobs=2),
        4: croupier.Params(seed=4, temperature=0.9, typical_p=0.9),
    }
    plain = {uid: [] for uid in asked}
    for uid, params in asked.items():
        for position in range(24):
            answer = croupier.decide(row(uid, position), [uid], plain[uid], params=params)
            plain[uid].append(answer.token)
    # Each request has a head and three more rows.
    drafts, columns = 3, 4 * len(asked)
    with (
        daemon.open(name, transport=transport, max_batch=columns, max_windows=len(asked)) as session,
        croupier.Writer(session.segment_path, device=0, path=path, rows=rows) as writer,
        torch.cuda.stream(torch.cuda.Stream(device)),
    ):
        stream = torch.cuda.current_stream().cuda_stream
        for uid, params in asked.items():
            session.add(uid, [uid], params=params)
        wide = torch.zeros((columns, VOCAB), device=device)
        arrays = {
            which: torch.zeros(columns, dtype=torch.int32, device=device)
            for which in ("row_of", "inputs", "parents", "positions")
        }
        graph = torch.cuda.CUDAGraph() if replays else None
        if graph is not None:
            with torch.cuda.graph(graph, capture_error_mode="relaxed"):
                writer.enqueue(wide, torch.cuda.current_stream().cuda_stream, **arrays)
        outputs: dict[int, list[int]] = {uid: [] for uid in asked}
        random = np.random.default_rng(7)
        for kind in ("right", "wrong", "absent", "any", "right", "any", "any"):
            order = random.permutation(columns)
            given = {which: np.zeros(columns, np.int32) for which in arrays}
            logits = np.full((columns, VOCAB), np.nan, np.float32)
            for head, (uid, output) in enumerate(outputs.items()):
                for number in range(1 + drafts):
                    column, position = head * (1 + drafts) + number, len(output) + number
                    draft = plain[uid][position - 1] if position > 0 else -2
                    how = random.choice(["right", "wrong", "absent"]) if kind == "any" else kind
                    if number > 0 and how == "wrong":
                        draft ^= 1
                    if number > 0 and how == "absent":
                        draft = -1
                    given["inputs"][column] = draft
                    given["parents"][column] = column - min(number, 1)
                    given["positions"][column] = position
                    given["row_of"][column] = -1 if draft == -1 else order[column]
                    if draft != -1:
                        logits[order[column]] = row(uid, position)
            for which, values in given.items():
                arrays[which].copy_(torch.from_numpy(values))
            wide.copy_(torch.from_numpy(logits))
            step = session.submit(list(asked), rows=[1 + drafts] * len(asked))
            assert writer.begin(step)
            if graph is None:
                writer.enqueue(wide, stream, **arrays)
            else:
                graph.replay()
            assert writer.wait_tokens(step, PATIENCE)
            tokens = torch.zeros(columns, dtype=torch.int32, device=device)
            writer.enqueue_tokens(step, tokens, stream)
            decided = session.wait(PATIENCE)
            assert tokens.tolist() == decided.tokens.tolist()
            for uid, output in outputs.items():
                had = len(output)
                outputs[uid] = session.output(uid)
                assert outputs[uid] == plain[uid][: len(outputs[uid])]
                assert len(outputs[uid]) > had
                if kind != "any":
                    assert len(outputs[uid]) - had == (1 + drafts if kind == "right" else 1)
        assert writer.state.empty_launches == 0


@pytest.mark.parametrize("transport", ["rows", "lean"])
@pytest.mark.parametrize(("rows", "masks"), [(64, 64), (512, 512)])
def test_a_writer_takes_the_memory_that_vllm_is_told(
    daemon: Daemon, name: str, transport: str, rows: int, masks: int
) -> None:
    """vLLM deals out a GPU's memory before there is a writer."""
    vocab, slots = 152_064, 4
    opened = {"vocab": vocab, "dtype": "bf16", "transport": transport, "max_logprobs": 0}
    sizes = {"max_batch": rows, "max_windows": 64, "mask_rows": masks, "steps_in_flight": slots}
    torch.zeros(1, device="cuda")
    with daemon.open(name, **opened, **sizes) as session:
        before = torch.cuda.mem_get_info()[0]
        with croupier.Writer(session.segment_path, device=0):
            taken = before - torch.cuda.mem_get_info()[0]
    told = gpu_memory.of_rows_writer(vocab, 1, 2, rows)
    if transport == "lean":
        told = gpu_memory.of_lean_writer(vocab, 1, 2, slots, rows, masks)
    assert told - gpu_memory.ANYHOW < taken + (8 << 20)
    assert taken <= told
