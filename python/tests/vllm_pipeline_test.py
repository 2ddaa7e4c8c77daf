"""What an engine with pipeline stages has beyond the others: more in flight, and requests that wait."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("vllm")
host_engine = pytest.importorskip("host_engine", exc_type=ImportError)

from vllm import SamplingParams  # noqa: E402
from vllm.config.vllm import VllmConfig  # noqa: E402
from vllm.v1.core.sched.request_queue import SchedulingPolicy, create_request_queue  # noqa: E402
from vllm.v1.core.sched.scheduler import Scheduler  # noqa: E402
from vllm.v1.request import Request, RequestStatus  # noqa: E402
from vllm.v1.worker.gpu.model_runner import GPUModelRunner  # noqa: E402
from vllm.v1.worker.gpu_worker import Worker  # noqa: E402
from vllm_engine_test import Engine, greedy, preempt_often  # noqa: E402

from croupier import Error  # noqa: E402
from croupier.vllm import compat, pipeline  # noqa: E402
from croupier.vllm.options import Options  # noqa: E402
from croupier.vllm.parameters import Limits  # noqa: E402
from croupier.vllm.sequences import Sequences  # noqa: E402
from croupier.vllm.worker import CroupierWorker  # noqa: E402


def request(name: str, status: RequestStatus = RequestStatus.WAITING, tokens: int = 0) -> Request:
    made = Request(name, [1, 2], SamplingParams(max_tokens=5), None, arrival_time=float(ord(name)))
    made.status, made.num_output_placeholders, made.num_in_flight_tokens = status, tokens, tokens
    return made


@pytest.fixture
def held_back(monkeypatch: Any) -> Any:
    """A scheduler whose own schedule() is stood for: it notes whom it may admit, and preempts p."""
    if compat.current().holds_back_preempted:
        pytest.skip("this vLLM holds back preempted requests itself")

    def schedule(self: Any) -> Any:
        self.seen.append([waiting.request_id for waiting in self.waiting])
        self.seen_skipped = [skipped.request_id for skipped in self.skipped_waiting]
        self.prefill_capacity_bound = bool(self.waiting)
        if self.broken:
            raise RuntimeError("broken")
        if self.to_preempt is None:
            return SimpleNamespace(preempted_req_ids=set())
        self.waiting.prepend_request(self.to_preempt)
        return SimpleNamespace(preempted_req_ids={self.to_preempt.request_id})

    monkeypatch.setattr(Scheduler, "croupier_preempted", frozenset(), raising=False)
    del Scheduler.croupier_preempted
    monkeypatch.setattr(Scheduler, "schedule", schedule)
    pipeline._hold_back_preempted()
    return Scheduler


def scheduler_of(kind: Any, policy: SchedulingPolicy, waiting: list[Request]) -> Any:
    made = kind.__new__(kind)
    made.policy, made.waiting = policy, create_request_queue(policy)
    made.skipped_waiting = create_request_queue(policy)
    for one in waiting:
        made.waiting.add_request(one)
    made.requests = {one.request_id: one for one in waiting}
    made.seen, made.broken, made.to_preempt = [], False, None
    made.reset_preempted_req_ids = set()
    return made


@pytest.mark.parametrize("policy", list(SchedulingPolicy))
def test_nobody_passes_a_preempted_request_whose_token_is_under_way(held_back: Any, policy: Any) -> None:
    scheduler = scheduler_of(held_back, policy, [request("x"), request("y")])
    preempted = request("p", RequestStatus.PREEMPTED, tokens=1)
    scheduler.requests["p"] = scheduler.to_preempt = preempted
    scheduler.schedule()
    # One that is preempted after it comes before it, as in vLLM's own queue.
    earlier = scheduler.requests["o"] = scheduler.to_preempt = request("o", RequestStatus.PREEMPTED)
    scheduler.schedule()
    scheduler.to_preempt = None
    in_order = ["o", "p", "x", "y"]
    assert [waiting.request_id for waiting in scheduler.waiting] == in_order
    scheduler.broken = True
    with pytest.raises(RuntimeError, match="broken"):
        scheduler.schedule()
    scheduler.broken = False
    assert [waiting.request_id for waiting in scheduler.waiting] == in_order
    preempted.num_output_placeholders = preempted.num_in_flight_tokens = 0
    scheduler.schedule()
    assert scheduler.seen == [["x", "y"], [], [], in_order]
    assert earlier in scheduler.waiting


@pytest.mark.parametrize("policy", list(SchedulingPolicy))
def test_nobody_that_was_skipped_passes_one_that_is_more_urgent(held_back: Any, policy: Any) -> None:
    preempted = request("p", RequestStatus.PREEMPTED, tokens=1)
    scheduler = scheduler_of(held_back, policy, [preempted, request("x")])
    scheduler.croupier_preempted = frozenset({"p"})
    for name in ("s", "t"):
        scheduler.skipped_waiting.add_request(request(name))
    scheduler.schedule()
    assert scheduler.seen == [[]]
    # First come, first served: those that were skipped come before all that wait, in vLLM too.
    assert scheduler.seen_skipped == ([] if policy == SchedulingPolicy.PRIORITY else ["s", "t"])
    assert [skipped.request_id for skipped in scheduler.skipped_waiting] == ["s", "t"]
    assert [waiting.request_id for waiting in scheduler.waiting] == ["p", "x"]
    # Somebody waits, though vLLM saw nobody.
    assert scheduler.prefill_capacity_bound


def test_a_request_waits_only_for_what_is_in_flight(held_back: Any) -> None:
    scheduler = scheduler_of(held_back, SchedulingPolicy.FCFS, [request("x")])
    for name, change in {
        "gone": None,
        "resumed": {"status": RequestStatus.RUNNING},
        "lost": {"num_in_flight_tokens": 0},
        "prefilling": {"num_output_placeholders": 0},
    }.items():
        scheduler.croupier_preempted = frozenset({name})
        if change is not None:
            scheduler.requests[name] = request("p", RequestStatus.PREEMPTED, tokens=1)
            for field, value in change.items():
                setattr(scheduler.requests[name], field, value)
        scheduler.schedule()
        assert scheduler.seen.pop() == ["x"], name
        assert scheduler.croupier_preempted == frozenset()


def test_a_reset_of_the_prefix_cache_waits_for_the_tokens_that_it_drops(held_back: Any) -> None:
    preempted = request("p", RequestStatus.PREEMPTED, tokens=1)
    preempted.num_output_placeholders, preempted.async_tokens_to_discard = 0, 1
    scheduler = scheduler_of(held_back, SchedulingPolicy.FCFS, [preempted, request("x")])
    scheduler.reset_preempted_req_ids = {"p"}
    scheduler.schedule()
    scheduler.reset_preempted_req_ids = set()
    scheduler.schedule()
    preempted.async_tokens_to_discard = 0
    scheduler.schedule()
    assert scheduler.seen == [[], [], ["p", "x"]]


@pytest.fixture
def make_engine(tmp_path: Path, monkeypatch: Any) -> Iterator[Callable[..., Engine]]:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    made = []

    def make(**kind: Any) -> Engine:
        made.append(Engine(tmp_path, **kind))
        return made[-1]

    yield make
    for engine in made:
        engine.close()


@pytest.mark.parametrize(
    ("kind", "batches", "cadence", "slots"),
    [
        ({}, 2, 1, 4),
        ({"stages": 2}, 3, 2, 5),
        ({"stages": 2, "croupier": {"spare_batches": 1}}, 4, 3, 7),
        ({"stages": 4}, 5, 4, 9),
    ],
)
def test_a_spare_batch_is_one_more_everywhere(
    make_engine: Any, kind: dict[str, int], batches: int, cadence: int, slots: int
) -> None:
    engine = make_engine(**kind)
    core = engine.llm.llm_engine.engine_core.engine_core
    assert core.batch_queue_size == core.batch_queue.maxlen == batches
    assert core.vllm_config.max_concurrent_batches == batches
    assert getattr(core.scheduler, compat.current().stagger) == cadence
    assert pipeline.slots_of(core.vllm_config) == slots
    assert len(engine.executor.tokens_sent.queue) == cadence


def test_the_last_stage_keeps_no_tokens_for_later() -> None:
    config = SimpleNamespace(
        parallel_config=SimpleNamespace(pipeline_parallel_size=2),
        additional_config={"croupier": {"spare_batches": 1}},
    )
    for is_last_rank, length in ((True, 2), (False, 3)):
        handler = SimpleNamespace(is_last_rank=is_last_rank, queue=deque([None] * 2))
        pipeline.deepen(handler, config)
        assert len(handler.queue) == length


def test_a_worker_knows_of_the_spare_batch_when_its_runner_is_made(monkeypatch: Any) -> None:
    # What is made of it there is as large as there are batches in flight.
    config = VllmConfig.__new__(VllmConfig)
    config.parallel_config = SimpleNamespace(pipeline_parallel_size=2)
    config.scheduler_config = SimpleNamespace(async_scheduling=True)
    # vLLM 0.33 asks it for the runner.
    config.attention_config = SimpleNamespace(hisparse_config=None)
    config.additional_config = {"croupier": {"spare_batches": 1}}
    batches = []

    def init_device(worker: Any) -> None:
        batches.append(worker.vllm_config.max_concurrent_batches)
        worker.model_runner = GPUModelRunner.__new__(GPUModelRunner)
        worker.model_runner.pp_handler = SimpleNamespace(
            is_last_rank=False, queue=deque([None] * 2), device=SimpleNamespace(type="cpu")
        )

    monkeypatch.setattr(Worker, "init_device", init_device)
    # init_device() is stood for, and so is what it asks: vLLM 0.33 has the runner made by a hook.
    monkeypatch.setattr(compat, "current", lambda: compat.supported("0.26.0"))
    worker = CroupierWorker.__new__(CroupierWorker)
    worker.vllm_config = config
    worker.init_device()
    assert batches == [4]
    assert len(worker.model_runner.pp_handler.queue) == 3
    assert worker.model_runner.croupier_under_way is None


def test_more_than_one_spare_batch_is_refused() -> None:
    with pytest.raises(ValueError, match=r"\['spare_batches'\] is 2; 0 or 1 would be right"):
        Options.parse({"spare_batches": 2})


def draws_its_last(request: Any) -> bool:
    under_way = request.num_output_placeholders
    return under_way > 0 and request.num_output_tokens + under_way == request.max_tokens


@pytest.mark.parametrize("policy", ["fcfs", "priority"])
@pytest.mark.parametrize("stages", [2, 3])
def test_a_request_ends_by_the_token_that_came_while_it_was_preempted(
    make_engine: Any, monkeypatch: Any, stages: int, policy: str
) -> None:
    engine = make_engine(stages=stages, scheduling_policy=policy)
    waits_for = preempt_often(engine.scheduler, monkeypatch, draws_its_last)
    prompts = [[place, place + 1] for place in range(60, 90)]
    asked = [{"temperature": 0.0, "ignore_eos": True, "max_tokens": 1 + place % 7} for place in range(30)]
    outputs = engine.generate(prompts, asked)
    assert waits_for
    for prompt, given, output in zip(prompts, asked, outputs, strict=True):
        assert list(output.token_ids) == greedy(prompt, given["max_tokens"])
    assert not engine.scheduler.waiting
    queue = "kv_holding_waiting" if compat.current().name == "0.33" else "skipped_waiting"
    assert not getattr(engine.scheduler, queue)


class Table:
    """A session with room for one sequence."""

    def __init__(self) -> None:
        self.uids: list[int] = []

    def add(self, uid: int, prompt: Any, **given: Any) -> None:
        if self.uids:
            raise Error(16, "table_full", "the table is full")
        self.uids.append(uid)

    def finish(self, uid: int) -> None:
        self.uids.remove(uid)


def test_a_sequence_whose_token_is_under_way_stays_in_the_table() -> None:
    said: list[str] = []
    limits = Limits(
        max_bias=4, max_stop_ids=4, max_list_tokens=4, max_logprobs=0, logprobs_mode="raw_logprobs"
    )
    sequences = Sequences(Table(), 500, limits, random.Random(1), said.append)
    new = [
        SimpleNamespace(
            req_id=name,
            prompt_token_ids=[1, 2],
            prefill_token_ids=None,
            sampling_params=SamplingParams(detokenize=False),
        )
        for name in ("first", "second", "third")
    ]
    sequences.admit(new[0], 0)
    sequences.park("first")
    sequences.in_flight.append([sequences.get("first")])
    sequences.admit(new[1], 1)
    assert "second" in sequences.refused
    assert "the table is full" in said[0]
    sequences.in_flight.popleft()
    sequences.admit(new[2], 1)
    assert not sequences.get("first").live
    assert sequences.get("third").live
