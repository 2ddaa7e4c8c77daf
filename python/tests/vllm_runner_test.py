"""The workers' half on the host: which rows a runner writes, and where it puts their tokens."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("vllm")
pytest.importorskip("host_engine", exc_type=ImportError)

from croupier import Params, Session  # noqa: E402
from croupier.vllm import runner as runners  # noqa: E402
from croupier.vllm.options import Options  # noqa: E402
from croupier.vllm.order import Order  # noqa: E402
from croupier.vllm.private_daemon import PrivateDaemon  # noqa: E402

VOCAB, PADDED, HIDDEN, RANKS = 500, 512, 16, 2


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[PrivateDaemon]:
    daemon = PrivateDaemon.join(Options(samplers=1, shm_dir=f"/dev/shm/croupier-{tmp_path.name}"), tmp_path)
    yield daemon
    daemon.leave()


def make_runner(rank: int, head: Any) -> Any:
    """A runner as vLLM leaves it, of what sample() looks at."""
    runner = runners.CroupierModelRunner.__new__(runners.CroupierModelRunner)
    runner.device = torch.device("cpu")
    runner.is_last_pp_rank = True
    runner.pp_handler = None
    runner.vocab_size = VOCAB
    runner.model_config = SimpleNamespace(get_hidden_size=lambda: HIDDEN)
    runner.dtype = torch.bfloat16
    runner.sampler = SimpleNamespace(add_request=lambda *_: None)
    shard = head[rank * PADDED // RANKS : (rank + 1) * PADDED // RANKS]
    runner.model = SimpleNamespace(compute_logits=lambda hidden: hidden @ shard.T)
    return runner


def test_each_rank_writes_its_own_shard_in_the_orders_order(daemon: PrivateDaemon, monkeypatch: Any) -> None:
    monkeypatch.setattr(torch.cuda, "current_stream", lambda *_: SimpleNamespace(cuda_stream=0))
    monkeypatch.setattr(runners, "Writer", lambda path, rank, device: HostWriter(path, rank=rank))
    generator = torch.Generator().manual_seed(3)
    head = torch.randn(PADDED, HIDDEN, generator=generator).to(torch.bfloat16)
    # An engine's padding holds anything: here what would win.
    head[VOCAB:] = 100.0
    hidden = torch.randn(9, HIDDEN, generator=generator).to(torch.bfloat16).abs()
    ranks = []
    for rank in range(RANKS):
        monkeypatch.setattr(runners, "get_tensor_model_parallel_rank", lambda rank=rank: rank)
        ranks.append(make_runner(rank, head))
        assert ranks[rank].croupier_describe() == {"rank": rank, "ids": PADDED // RANKS, "dtype": "bf16"}
    with Session(
        endpoint=daemon.endpoint, name="runner", vocab=VOCAB, tp=RANKS, padded_vocab=PADDED, max_length=64
    ) as session:
        for rank, runner in enumerate(ranks):
            monkeypatch.setattr(runners, "get_tensor_model_parallel_rank", lambda rank=rank: rank)
            runner.croupier_attach(session.segment_path, 20.0, 0)
        names = ["a", "b", "c", "d"]
        for uid, _ in enumerate(names, 1):
            session.add(uid, [uid], params=Params(temperature=0.0))
        batch = SimpleNamespace(req_ids=names, num_reqs=4, logits_indices=torch.tensor([8, 2, 5, 0]))
        best = (hidden.float() @ head[:VOCAB].float().T).to(torch.bfloat16).argmax(dim=-1)

        step = session.submit([4, 1, 3])
        for output in sample(ranks, Order(step, ["d", "a", "c"]), hidden, batch):
            assert output.num_sampled.tolist() == [1, 0, 1, 1]
            expected = [best[8].item(), 0, best[5].item(), best[0].item()]
            assert output.sampled_token_ids.tolist() == [[token] for token in expected]
        assert session.wait(20.0).tokens.tolist() == [best[0].item(), best[8].item(), best[5].item()]

        step = session.submit([1, 2, 3, 4])
        for output in sample(ranks, Order(step, names), hidden, batch):
            assert output.num_sampled.tolist() == [1, 1, 1, 1]
            assert output.sampled_token_ids[:, 0].tolist() == best[batch.logits_indices].tolist()
            assert output.sampled_token_ids.dtype == torch.int64
        session.wait(20.0)

        for output in sample(ranks, Order(None, []), hidden, batch):
            assert output.num_sampled.tolist() == [0, 0, 0, 0]
        for runner in ranks:
            runner.croupier_detach()


class HostWriter(runners.Writer):
    """The host's, with a GPU writer's arguments."""


def sample(ranks: list[Any], order: Order, hidden: Any, batch: Any) -> list[Any]:
    """All ranks at once, as their processes would: each waits for tokens that need the other's shard."""

    def one(runner: Any) -> Any:
        runner.croupier_order = order
        output, counts, rejected = runner.sample(hidden, batch, None)
        assert output.num_sampled is counts
        assert rejected.tolist() == [0] * batch.num_reqs
        return output

    with ThreadPoolExecutor(len(ranks)) as threads:
        return list(threads.map(one, ranks))


class Lender:
    """A lean step's writer: it notes what it may still read, and where."""

    info = SimpleNamespace(steps_in_flight=3)
    state = SimpleNamespace(late_steps=0)

    def __init__(self) -> None:
        self.borrowed: list[int] = []

    def begin(self, step: int) -> bool:
        return True

    def enqueue_pointer(self, address: int, stride: int, stream: int) -> None:
        self.borrowed = [*self.borrowed, address][-3:]

    def enqueue_awaited_tokens_pointer(self, *_: Any) -> None:
        pass

    def detach(self) -> None:
        pass


@pytest.mark.parametrize("strided", [False, True])
@pytest.mark.parametrize("drawing", [["a", "b"], ["b"]], ids=["all draw", "some draw"])
def test_the_logits_of_the_steps_in_flight_are_kept(
    monkeypatch: Any, strided: bool, drawing: list[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "current_stream", lambda *_: SimpleNamespace(cuda_stream=0))
    monkeypatch.setattr(runners, "get_tensor_model_parallel_rank", lambda: 0)
    writer = Lender()
    monkeypatch.setattr(runners, "Writer", lambda *_, **__: writer)
    runner = make_runner(0, torch.ones(PADDED, HIDDEN, dtype=torch.bfloat16))
    made = []

    def compute_logits(hidden: Any) -> Any:
        # As PyTorch's memory of a GPU: what nobody keeps is the next tensor's.
        logits = torch.zeros(len(hidden), VOCAB).T.contiguous().T if strided else torch.zeros(2, VOCAB)
        made.append(weakref.ref(logits))
        return logits

    runner.model = SimpleNamespace(compute_logits=compute_logits)
    runner.croupier_attach("segment", 1.0, 0)
    batch = SimpleNamespace(req_ids=["a", "b"], num_reqs=2, logits_indices=torch.tensor([0, 1]))
    for step in range(1, 8):
        runner.croupier_order = Order(step, drawing)
        runner.sample(torch.zeros(2, HIDDEN), batch, None)
        # A step without a column borrows nothing, and ends no loan.
        runner.croupier_order = Order(None, [])
        runner.sample(torch.zeros(2, HIDDEN), batch, None)
        assert [logits.data_ptr() for logits in runner.croupier_logits] == writer.borrowed
        assert len(set(writer.borrowed)) == min(step, 3)
        if not strided:
            assert [logits() is not None for logits in made] == [
                step - place < 3 for place in range(1, step + 1)
            ]
    runner.croupier_detach()
    assert not runner.croupier_logits


@pytest.mark.parametrize("last", [True, False])
def test_a_loaded_runner_keeps_no_counts_for_penalties(last: bool, monkeypatch: Any) -> None:
    added = []
    sampler = object.__new__(runners.Sampler)
    # In vLLM's sampler it is a method.
    sampler.__dict__["add_request"] = lambda *given: added.append(given)
    sampler.penalties_state = SimpleNamespace(output_bin_counts="counts", prompt_bin_mask="mask")
    runner = runners.CroupierModelRunner.__new__(runners.CroupierModelRunner)
    runner.is_last_pp_rank = last
    monkeypatch.setattr(
        runners.GPUModelRunner,
        "load_model",
        lambda self, **_: setattr(self, "sampler", sampler if last else None),
    )
    runner.load_model(load_dummy_weights=True)
    if not last:
        return
    assert sampler.penalties_state.output_bin_counts is None
    assert sampler.penalties_state.prompt_bin_mask is None
    runner.sampler.add_request(3, 7, SimpleNamespace(repetition_penalty=1.5))
    [(index, prompt_len, params)] = added
    assert (index, prompt_len, params.repetition_penalty) == (3, 7, 1.0)
