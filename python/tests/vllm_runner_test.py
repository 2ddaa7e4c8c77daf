"""The workers' half on the host: which rows a runner writes, and where it puts their tokens."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("vllm")
pytest.importorskip("host_engine", exc_type=ImportError)

from host_runner import BANNED, HIDDEN, PADDED, RANKS, VOCAB, lone_runner, make_runner  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from vllm.lora.layers import LogitsProcessorWithLoRA, LoRAMapping  # noqa: E402
from vllm.lora.layers import logits_processor as lora_logits  # noqa: E402
from vllm.lora.punica_wrapper.punica_cpu import PunicaWrapperCPU  # noqa: E402
from vllm.utils import torch_utils  # noqa: E402

from croupier import Params, Session  # noqa: E402
from croupier.serving.private_daemon import PrivateDaemon  # noqa: E402
from croupier.vllm import runner as runners  # noqa: E402
from croupier.vllm.options import Options  # noqa: E402
from croupier.vllm.order import Order  # noqa: E402


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[PrivateDaemon]:
    daemon = PrivateDaemon.join(Options(samplers=1, shm_dir=f"/dev/shm/croupier-{tmp_path.name}"), tmp_path)
    yield daemon
    daemon.leave()


def fuse(runner: Any, alone: bool = True) -> None:
    """Its writer makes the product, and `alone`: the model is not asked for logits."""
    rank_head = runner.model.compute_logits(torch.eye(HIDDEN, dtype=torch.bfloat16)).T.contiguous()
    runner.croupier_head = SimpleNamespace(weight=rank_head)
    if alone:
        runner.model = None


def masking_model(head: Any) -> Any:
    """Its gathered rows lack an id: the one that would win most."""

    def compute_logits(hidden: Any) -> Any:
        logits = (hidden @ head.T)[:, :VOCAB]
        logits[:, BANNED] = float("-inf")
        return logits

    return SimpleNamespace(compute_logits=compute_logits)


@pytest.fixture
def local(monkeypatch: Any) -> Any:
    """Its rank is the thread's."""
    monkeypatch.setattr(torch.cuda, "current_stream", lambda *_: SimpleNamespace(cuda_stream=0))
    monkeypatch.setattr(runners, "get_tensor_model_parallel_world_size", lambda: RANKS)
    local = threading.local()
    monkeypatch.setattr(runners, "get_tensor_model_parallel_rank", lambda: local.rank)
    monkeypatch.setattr(runners, "Writer", lambda path, rank, device: RankWriter(path, rank=rank))
    return local


@pytest.mark.parametrize("way", ["alone", "gathered", "fused", "fused where few"])
def test_each_rank_writes_its_own_shard_in_the_orders_order(
    daemon: PrivateDaemon, local: Any, monkeypatch: Any, way: str
) -> None:
    gathers = way == "gathered"
    generator = torch.Generator().manual_seed(3)
    head = torch.randn(PADDED, HIDDEN, generator=generator).to(torch.bfloat16)
    # An engine's padding holds anything: here what would win.
    head[VOCAB:] = 100.0
    hidden = torch.randn(9, HIDDEN, generator=generator).to(torch.bfloat16).abs()
    head[BANNED] = 50.0 if gathers else head[0]
    ranks = []
    for rank in range(RANKS):
        ranks.append(make_runner(rank, head))
        if gathers:
            ranks[rank].model = masking_model(head)
        if way.startswith("fused"):
            fuse(ranks[rank], alone=way == "fused")
    # Of the two steps the one of four rows is then the model's.
    monkeypatch.setattr(RankWriter, "head_rows", 3 if way == "fused where few" else 128)
    with Session(
        endpoint=daemon.endpoint,
        name="runner",
        vocab=VOCAB,
        dtype="bf16",
        tp=RANKS,
        padded_vocab=VOCAB if gathers else PADDED,
        max_length=64,
    ) as session:
        for local.rank, runner in enumerate(ranks):
            runner.croupier_attach(session.segment_path, 20.0, 0, gathers)
        names = ["a", "b", "c", "d"]
        for uid, _ in enumerate(names, 1):
            session.add(uid, [uid], params=Params(temperature=0.0))
        batch = SimpleNamespace(req_ids=names, num_reqs=4, logits_indices=torch.tensor([8, 2, 5, 0]))
        rows = (hidden.float() @ head[:VOCAB].float().T).to(torch.bfloat16)
        if gathers:
            rows[:, BANNED] = float("-inf")
        best = rows.argmax(dim=-1)

        step = session.submit([4, 1, 3])
        # The engine core's order of a batch is not the runner's own.
        for output in sample(local, ranks, Order(step, [0, 3, 1]), hidden, batch, ["d", "c", "b", "a"]):
            assert output.num_sampled.tolist() == [1, 0, 1, 1]
            expected = [best[8].item(), 0, best[5].item(), best[0].item()]
            assert output.sampled_token_ids.tolist() == [[token] for token in expected]
        assert session.wait(20.0).tokens.tolist() == [best[0].item(), best[8].item(), best[5].item()]

        step = session.submit([1, 2, 3, 4])
        for output in sample(local, ranks, Order(step), hidden, batch, names):
            assert output.num_sampled.tolist() == [1, 1, 1, 1]
            assert output.sampled_token_ids[:, 0].tolist() == best[batch.logits_indices].tolist()
            assert output.sampled_token_ids.dtype == torch.int64
        session.wait(20.0)

        for output in sample(local, ranks, Order(None), hidden, batch, names):
            assert output.num_sampled.tolist() == [0, 0, 0, 0]
        for runner in ranks:
            assert runner.croupier_writer.products == {"fused": 2, "fused where few": 1}.get(way, 0)
            runner.croupier_detach()


def test_a_fused_head_that_the_writer_lacks_ends_the_start(
    daemon: PrivateDaemon, local: Any, monkeypatch: Any
) -> None:
    runner = make_runner(0, torch.ones(PADDED, HIDDEN, dtype=torch.bfloat16))
    fuse(runner)
    local.rank = 0
    monkeypatch.setattr(RankWriter, "head_rows", 0)
    with Session(endpoint=daemon.endpoint, name="lacks", vocab=VOCAB, dtype="bf16", max_length=64) as session:
        with pytest.raises(RuntimeError, match="not in this build of Croupier"):
            runner.croupier_attach(session.segment_path, 20.0, 0, False)
        assert runner.croupier_writer is None


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("transport", ["rows", "lean"])
def test_windows_are_verified_by_all_ranks(
    daemon: PrivateDaemon, local: Any, transport: str, fused: bool
) -> None:
    generator = torch.Generator().manual_seed(4)
    head = torch.randn(PADDED, HIDDEN, generator=generator).to(torch.bfloat16)
    head[VOCAB:] = 100.0
    hidden = torch.randn(12, HIDDEN, generator=generator).to(torch.bfloat16).abs()
    best = (hidden.float() @ head[:VOCAB].float().T).to(torch.bfloat16).argmax(dim=-1).tolist()
    ranks = [make_runner(rank, head) for rank in range(RANKS)]
    for runner in ranks if fused else []:
        fuse(runner)
    opened = {"vocab": VOCAB, "dtype": "bf16", "tp": RANKS, "padded_vocab": PADDED, "max_length": 64}
    opened["transport"] = transport
    with Session(endpoint=daemon.endpoint, name="windows", **opened) as session:
        for local.rank, runner in enumerate(ranks):
            runner.croupier_attach(session.segment_path, 20.0, 0, False)
        for uid in (1, 2, 3):
            session.add(uid, [uid, uid], params=Params(temperature=0.0))
        # a's second draft is wrong, c has a part of its prompt left, d has fewer rows than scheduled.
        names = ["b", "c", "d", "a"]
        ids = torch.zeros(12, dtype=torch.int32)
        ids[4], ids[5], ids[9], ids[10] = best[3], best[4], best[8], best[9] ^ 1
        batch = SimpleNamespace(
            req_ids=names,
            num_reqs=4,
            logits_indices=torch.arange(3, 11),
            cu_num_logits=torch.tensor([0, 3, 4, 5, 8], dtype=torch.int32),
            input_ids=ids,
            positions=torch.tensor([0, 0, 0, 1, 2, 3, 1, 1, 1, 2, 3, 0]),
            idx_mapping=torch.tensor([0, 3, 1, 2]),
        )
        step = session.submit([1, 2, 3], rows=[3, 3, 2])
        order = Order(step, [0, 1, 3], [3, 3, 2])
        for output in sample(local, ranks, order, hidden, batch, ["a", "b", "c", "d"], [0, 0, 0, 1]):
            assert output.num_sampled.tolist() == [3, 0, 1, 2]
            sampled = output.sampled_token_ids.tolist()
            assert (sampled[0], sampled[2][:1], sampled[3][:2]) == (best[3:6], [best[7]], best[8:10])
        decided = session.wait(20.0).tokens.tolist()
        assert decided == [best[8], best[9], -1, *best[3:6], best[7], -1]
        for runner in ranks:
            runner.croupier_detach()


class NeverWaits(TorchDispatchMode):
    """Fails where the host would wait for a GPU: it would to see a tensor's values, or how many there are."""

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = function.overloadpacket.__name__
        assert name not in {"_local_scalar_dense", "nonzero", "masked_select", "unique", "repeat_interleave"}
        if name in {"index", "index_put", "index_put_"}:
            assert not any(each is not None and each.dtype == torch.bool for each in args[1])
        return function(*args, **(kwargs or {}))


def test_windows_are_laid_out_and_counted_without_a_wait_for_the_device(monkeypatch: Any) -> None:
    runner = lone_runner(monkeypatch, lambda hidden: torch.zeros(len(hidden), VOCAB))
    runner.croupier_order, runner.croupier_scheduled = Order(1, [1, 0], [2, 3]), ["a", "b", "c"]
    batch = SimpleNamespace(
        req_ids=["b", "c", "a"],
        num_reqs=3,
        logits_indices=torch.arange(6),
        cu_num_logits=torch.tensor([0, 2, 3, 6], dtype=torch.int32),
        input_ids=torch.zeros(6, dtype=torch.int32),
        positions=torch.arange(6),
        idx_mapping=torch.tensor([0, 1, 2]),
    )
    with NeverWaits():
        output, _, _ = runner.sample(torch.zeros(6, HIDDEN), batch, None)
    assert output.sampled_token_ids.shape == (3, 3)


class RankWriter(runners.Writer):
    """The host's, with a GPU writer's arguments, and a product of a head as only a GPU's has it."""

    head_rows = 128
    products = 0

    @property
    def info(self) -> Any:
        ids = super().info.ids
        return SimpleNamespace(ids=ids, head_rows=self.head_rows, head_row_elements=ids + 8)

    def enqueue_head(self, hidden: Any, weight: Any, logits: Any, stream: int, **arrays: Any) -> None:
        self.products += 1
        computed = logits[:, : self.info.ids]
        computed[:] = (hidden.float() @ weight.float().T).to(torch.bfloat16)
        pointers = {name: array.data_ptr() for name, array in arrays.items()}
        self.enqueue_pointer(computed.data_ptr(), computed.stride(0), stream, **pointers)


def sample(
    local: Any,
    ranks: list[Any],
    order: Order,
    hidden: Any,
    batch: Any,
    scheduled: list[str],
    expected_rejected: list[int] | None = None,
) -> list[Any]:
    """All ranks at once, as their processes would: each waits for tokens that need the other's shard."""

    def one(runner: Any) -> Any:
        local.rank = ranks.index(runner)
        runner.croupier_order, runner.croupier_scheduled = order, scheduled
        output, counts, rejected = runner.sample(hidden, batch, None)
        assert output.num_sampled is counts
        assert rejected.tolist() == (expected_rejected or [0] * batch.num_reqs)
        return output

    with ThreadPoolExecutor(len(ranks)) as threads:
        return list(threads.map(one, ranks))


@pytest.mark.parametrize("strided", [False, True])
@pytest.mark.parametrize("places", [None, [1]], ids=["all draw", "some draw"])
def test_with_one_stage_no_logits_are_kept_behind_their_step(
    monkeypatch: Any, strided: bool, places: list[int] | None
) -> None:
    made = []

    def compute_logits(hidden: Any) -> Any:
        logits = torch.zeros(len(hidden), VOCAB).T.contiguous().T if strided else torch.zeros(2, VOCAB)
        made.append(weakref.ref(logits))
        return logits

    runner = lone_runner(monkeypatch, compute_logits)
    batch = SimpleNamespace(req_ids=["a", "b"], num_reqs=2, logits_indices=torch.tensor([0, 1]))
    for step in range(1, 5):
        runner.croupier_order, runner.croupier_scheduled = Order(step, places), ["a", "b"]
        runner.sample(torch.zeros(2, HIDDEN), batch, None)
        assert [logits() for logits in made] == [None] * step


@pytest.mark.parametrize("drawing", [["a", "b", "c"], ["c", "a"], ["b"]])
def test_an_adapter_of_the_lm_head_is_that_of_each_rows_own_request(
    monkeypatch: Any, drawing: list[str]
) -> None:
    """vLLM's own layer and mapping: each request has an adapter that lets a token of its own win."""
    base = SimpleNamespace(
        vocab_size=VOCAB,
        _apply_head=lambda head, hidden, bias: torch.zeros(len(hidden), VOCAB),
        _gather_logits=lambda logits: logits,
    )
    cpu = torch.device("cpu")
    monkeypatch.setattr(lora_logits, "get_tensor_model_parallel_world_size", lambda: 1)
    monkeypatch.setattr(lora_logits, "get_tensor_model_parallel_rank", lambda: 0)
    monkeypatch.setattr(torch_utils, "PIN_MEMORY", False)
    layer = LogitsProcessorWithLoRA(base, HIDDEN, torch.float32, cpu, None)
    layer.create_lora_weights(3, SimpleNamespace(max_lora_rank=8, lora_dtype=torch.float32), None)
    best = {"a": 20, "b": 400, "c": 7}
    for place, token in enumerate(best.values()):
        wins = torch.zeros(VOCAB, 8)
        wins[token] = 1.0
        layer.set_lora(place, torch.ones(8, HIDDEN), wins)
    punica = PunicaWrapperCPU(64, 8, cpu)
    layer.set_mapping(punica)
    # Of a batch of a, b and c, in this order, of one token each.
    punica.update_metadata(LoRAMapping((1, 2, 3), (1, 2, 3), is_prefill=True), [1, 2, 3], 3, VOCAB)
    runner = lone_runner(monkeypatch, lambda hidden: layer._get_logits(hidden, SimpleNamespace()))
    runner.lora_config = object()
    batch = SimpleNamespace(req_ids=["a", "b", "c"], num_reqs=3, logits_indices=torch.tensor([0, 1, 2]))
    rows = None
    if drawing != batch.req_ids:
        rows = runner._rows_of(drawing, batch)
    logits = runner._logits_of(torch.ones(3, HIDDEN), batch, rows)
    assert logits.argmax(dim=-1).tolist() == [best[name] for name in drawing]


@pytest.mark.parametrize("last", [True, False])
def test_a_loaded_runner_keeps_of_requests_what_drafters_read(last: bool, monkeypatch: Any) -> None:
    """No counts for penalties and no masks of a GPU's memory; the temperature, by which adaptive verification
    guesses which drafts are accepted."""
    added = []
    sampler = object.__new__(runners.Sampler)
    # In vLLM's sampler it is a method.
    sampler.__dict__["add_request"] = lambda *given: added.append(given)
    sampler.penalties_state = SimpleNamespace(output_bin_counts="counts", prompt_bin_mask="mask")
    sampler.sampling_states = SimpleNamespace(temperature=SimpleNamespace(np=np.zeros(8, np.float32)))
    grammars = SimpleNamespace(grammar_bitmask="masks", apply_grammar_bitmask=None)
    runner = runners.CroupierModelRunner.__new__(runners.CroupierModelRunner)
    runner.is_last_pp_rank = last

    def load(self: Any, **_: Any) -> None:
        self.sampler, self.structured_outputs_worker = (sampler, grammars) if last else (None, None)

    monkeypatch.setattr(runners.GPUModelRunner, "load_model", load)
    runner.load_model(load_dummy_weights=True)
    if not last:
        return
    assert sampler.penalties_state.output_bin_counts is None
    assert sampler.penalties_state.prompt_bin_mask is None
    assert grammars.grammar_bitmask is None
    # vLLM's warm-up has masks.
    grammars.apply_grammar_bitmask("logits", "batch", ["a"], "bitmask")
    runner.sampler.add_request(3, 7, SimpleNamespace(repetition_penalty=1.5, temperature=0.75))
    [(index, prompt_len, params)] = added
    assert (index, prompt_len, params.repetition_penalty, params.temperature) == (3, 7, 1.0, 0.0)
    assert sampler.sampling_states.temperature.np.tolist() == [0.0] * 3 + [0.75] + [0.0] * 4
