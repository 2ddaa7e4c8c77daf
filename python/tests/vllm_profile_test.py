"""What a worker's profiling run makes, so that vLLM leaves room for it, and what it finds out."""

from __future__ import annotations

import weakref
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("vllm")
pytest.importorskip("host_engine", exc_type=ImportError)

from host_runner import BANNED, HIDDEN, PADDED, RANKS, VOCAB, lone_runner  # noqa: E402

from croupier.vllm import gpu_memory, shards  # noqa: E402
from croupier.vllm import runner as runners  # noqa: E402


def profiled(monkeypatch: Any, compute_logits: Any, ranks: int = 1, drafts: int = 0) -> Any:
    """A runner before its profiling run, of which only the logits are made: those of seven requests."""
    runner = lone_runner(monkeypatch, compute_logits)
    monkeypatch.setattr(runners, "get_tensor_model_parallel_world_size", lambda: ranks)
    monkeypatch.setattr(runners, "get_tensor_model_parallel_rank", lambda: 0)
    monkeypatch.setattr(runners, "warm_up", lambda *_: None)
    monkeypatch.setattr(runners.GPUModelRunner, "_dummy_sampler_run", lambda self, hidden: None)
    monkeypatch.setattr(
        runners.GPUModelRunner, "profile_run", lambda self: self._dummy_sampler_run(torch.ones(7, HIDDEN))
    )
    runner.num_speculative_steps, runner.max_num_reqs = drafts, 7
    runner.model_config = SimpleNamespace(head_dtype=torch.float32, get_vocab_size=lambda: VOCAB)
    runner.vllm_config = SimpleNamespace(
        additional_config={"croupier": {}},
        max_concurrent_batches=3,
        num_speculative_tokens=drafts,
        scheduler_config=SimpleNamespace(max_num_seqs=7, max_num_batched_tokens=40),
        parallel_config=SimpleNamespace(pipeline_parallel_size=1),
        model_config=runner.model_config,
        device_config=SimpleNamespace(device_type="cpu"),
    )
    return runner


@pytest.mark.parametrize(("drafts", "rows"), [(0, None), (2, 3 * 7), (9, 40)])
def test_the_profile_makes_as_many_logits_as_a_step_of_windows_may_have(
    monkeypatch: Any, drafts: int, rows: int | None
) -> None:
    made = []

    def compute_logits(hidden: Any) -> Any:
        made.append(len(hidden))
        return torch.zeros(len(hidden), VOCAB)

    runner = profiled(monkeypatch, compute_logits, drafts=drafts)
    runner.profile_run()
    # Its first two rows tell what logits are.
    assert made == [2] + ([] if rows is None else [rows])


@pytest.mark.parametrize("own", [False, True], ids=["of another rank", "of this rank"])
@pytest.mark.parametrize("adapters", [False, True])
def test_where_a_rank_gathers_the_profile_gathers_as_many_rows(
    monkeypatch: Any, own: bool, adapters: bool
) -> None:
    """They need several times the memory of a rank's own part, for as long as they are gathered."""
    gathered = []

    def gather(logits: Any) -> Any:
        if logits.shape[-1] == 1:  # Whether each rank gathers.
            return torch.tensor([[int(logits), int(not own or adapters)]])
        gathered.append(len(logits))
        return torch.cat([logits, logits], dim=-1)

    def compute_logits(hidden: Any) -> Any:
        row = shards.LogitsProcessor._gather_logits(None, torch.zeros(len(hidden), PADDED // RANKS))
        if own and row.shape[-1] >= VOCAB:
            row[:, BANNED] = -1.0
        return row[:, :VOCAB]

    monkeypatch.setattr(runners, "tensor_model_parallel_all_gather", gather)
    monkeypatch.setattr(shards.LogitsProcessor, "_gather_logits", lambda self, logits: gather(logits))
    runner = profiled(monkeypatch, compute_logits, RANKS, drafts=2)
    runner.lora_config = object() if adapters else None
    runner.profile_run()
    assert runner.croupier_describe()["gathers"] == (own or adapters)
    # vLLM has set adapters for as many rows as its run has, and no fewer may pass them.
    assert gathered == [7 if adapters else 2, 3 * 7]


@pytest.mark.parametrize(("stages", "last", "rows"), [(1, True, 0), (2, True, 3 * 7), (2, False, 0)])
@pytest.mark.parametrize(("device", "options"), [("cpu", {}), ("cuda", {}), ("cuda", {"transport": "rows"})])
def test_the_profile_has_room_for_what_stays_beside_a_batch(
    monkeypatch: Any, stages: int, last: bool, rows: int, device: str, options: dict[str, str]
) -> None:
    """The writer's memory on a GPU, and with stages the logits of several batches."""
    runner = profiled(monkeypatch, lambda hidden: torch.zeros(len(hidden), VOCAB))
    runner.is_last_pp_rank, runner.pp_handler = last, object() if stages > 1 else None
    runner.vllm_config.device_config.device_type = device
    runner.vllm_config.additional_config = {"croupier": options}
    made, during = [], []
    empty = torch.empty

    def noting(*sizes: Any, **how: Any) -> Any:
        tensor = empty(*sizes, **how)
        made.append(weakref.ref(tensor))
        return tensor

    monkeypatch.setattr(torch, "empty", noting)
    monkeypatch.setattr(
        runners.GPUModelRunner, "profile_run", lambda self: during.extend(ref().nbytes for ref in made)
    )
    runner.profile_run()
    writer = 0
    if last and options:
        writer = gpu_memory.of_rows_writer(VOCAB, 1, 4, rows=7)
    elif last and device == "cuda":
        # Steps in flight, and more for those that the ranks still read.
        slots = 3 + 2
        writer = gpu_memory.of_lean_writer(VOCAB, 1, 4, slots, rows=7, masks=7)
    assert during == [writer + rows * VOCAB * 4]
    assert [ref() for ref in made] == [None]


def test_the_shape_of_logits_is_asked_with_what_the_model_gave(monkeypatch: Any) -> None:
    """OPT-350m's hidden states have 512 numbers where its configuration says 1,024."""
    seen = []

    def compute_logits(hidden: Any) -> Any:
        seen.append(tuple(hidden.shape))
        return hidden @ torch.ones(VOCAB, 512).T

    monkeypatch.setattr(runners, "get_tensor_model_parallel_rank", lambda: 0)
    runner = lone_runner(monkeypatch, compute_logits)
    runner.num_speculative_steps = 0
    runner.model_config = SimpleNamespace(get_hidden_size=lambda: 1024)
    runner.vllm_config = SimpleNamespace(additional_config=None)
    with pytest.raises(RuntimeError, match="made no profiling run"):
        runner.croupier_describe()
    monkeypatch.setattr(runners.GPUModelRunner, "_dummy_sampler_run", lambda self, hidden: None)
    runner._dummy_sampler_run(torch.ones(9, 512))
    described = runner.croupier_describe()
    assert described == {"rank": 0, "ids": VOCAB, "row": VOCAB, "dtype": "fp32", "gathers": False}
    assert seen == [(2, 512)]


@pytest.mark.parametrize(
    ("capability", "why"), [((8, 0), "compute capability 8.0"), ((9, 0), "from 0 products of an LM head")]
)
def test_the_profile_tells_why_a_fused_head_cannot_be(
    monkeypatch: Any, capability: tuple[int, int], why: str
) -> None:
    runner = profiled(monkeypatch, lambda hidden: torch.zeros(len(hidden), VOCAB))
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: capability)
    runner.vllm_config.additional_config = {"croupier": {"head": "fused"}}
    runner.profile_run()
    assert why in runner.croupier_describe()["unfit_head"]
    assert runner.croupier_head is None
