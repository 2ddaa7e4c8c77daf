"""The engine core's half alone: vLLM's count of a request's tokens is the session's, or the engine ends."""

from __future__ import annotations

import random
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("vllm")
pytest.importorskip("host_engine", exc_type=ImportError)

from vllm import SamplingParams  # noqa: E402

from croupier import Error  # noqa: E402
from croupier.vllm.parameters import Limits  # noqa: E402
from croupier.vllm.plane import Plane  # noqa: E402
from croupier.vllm.sequences import Sequences  # noqa: E402

LIMITS = Limits(max_bias=4, max_stop_ids=4, max_list_tokens=4, max_logprobs=0, logprobs_mode="raw_logprobs")
SAMPLING = SamplingParams(temperature=0.0, detokenize=False)
TOKEN, VOID, VOCAB = 7, 13, 100


class Session:
    """Decides the same token everywhere, but where the test says otherwise."""

    def __init__(self) -> None:
        self.steps = 0
        self.waiting: list[tuple[int, int]] = []
        self.submitted: list[list[int]] = []
        self.void: set[int] = set()
        self.added: list[tuple[list[int], dict[str, Any]]] = []
        self.truncated: list[int] = []

    def add(self, uid: int, prompt: list[int], **lists: Any) -> None:
        self.added.append((prompt, lists))

    def finish(self, uid: int) -> None:
        pass

    def truncate(self, uid: int, outputs: int) -> None:
        self.truncated.append(outputs)

    def submit(self, uids: list[int], masks: Any, mask_rows: Any) -> int:
        self.steps += 1
        self.submitted.append(list(uids))
        self.waiting.append((self.steps, len(uids)))
        return self.steps

    def wait(self, timeout: float) -> Any:
        step, columns = self.waiting.pop(0)
        token = -1 if step in self.void else TOKEN
        return SimpleNamespace(
            step=step,
            decisions=[SimpleNamespace(token=token, error=VOID, error_text="void")] * columns,
            mismatches=lambda sampled, rows: list(range(columns)) if step in self.void else [],
        )


class Engine:
    """As vLLM's: batches are scheduled and submitted, and collected when they are to be."""

    def __init__(self) -> None:
        self.session = Session()
        sequences = Sequences(self.session, VOCAB, LIMITS, random.Random(1), print)
        self.plane = Plane(self.session, sequences, 1.0, print)
        self.batches: list[Any] = []

    def schedule(
        self,
        new: Iterable[Any] = (),
        cached: dict[str, tuple[int, int]] | None = None,
        finished: Iterable[str] = (),
        preempted: Iterable[str] = (),
        order: Iterable[str] = (),
    ) -> None:
        """`cached` has each request's computed and scheduled tokens; a new one has all of its own, or a part.
        `order` is that of num_scheduled_tokens, if it is another one."""
        cached = cached or {}
        counts = {name: count for name, (_, count) in cached.items()}
        counts |= {
            one.req_id: one.part or len(one.prefill_token_ids) - one.num_computed_tokens for one in new
        }
        self.plane.schedule(
            SimpleNamespace(
                finished_req_ids=set(finished),
                preempted_req_ids=set(preempted),
                scheduled_new_reqs=list(new),
                scheduled_cached_reqs=SimpleNamespace(
                    req_ids=list(cached), num_computed_tokens=[computed for computed, _ in cached.values()]
                ),
                num_scheduled_tokens={name: counts[name] for name in order or counts},
                total_num_scheduled_tokens=sum(counts.values()),
            )
        )
        self.batches.append(self.plane.submit(None))

    def collect(self, *others: str) -> dict[str, str]:
        """The reasons of those that end with an error; `others` are in the batch and draw nothing."""
        batch = self.batches.pop(0)
        names = [*batch.columns.names, *others]
        token = 0 if batch.order.step in self.session.void else TOKEN
        output = SimpleNamespace(
            req_ids=names,
            req_id_to_index={name: row for row, name in enumerate(names)},
            sampled_token_ids=[[token] for _ in names],
            prompt_logprobs_dict={},
            prompt_token_id_logprobs_dict={},
        )
        self.plane.collect(batch, output)
        return getattr(output, "croupier_errors", {})


def new(name: str, prompt: int = 3, outputs: int = 0, computed: int = 0) -> SimpleNamespace:
    return SimpleNamespace(
        req_id=name,
        prompt_token_ids=[1] * prompt,
        prefill_token_ids=[1] * prompt + [TOKEN] * outputs,
        num_computed_tokens=computed,
        part=None,
        sampling_params=SAMPLING,
    )


@pytest.fixture
def engine() -> Engine:
    return Engine()


@pytest.mark.parametrize(
    ("place", "told"), [((4, 1), 2), ((3, 1), 1), ((5, 2), 4)], ids=["right", "dropped", "repeated"]
)
def test_a_count_other_than_the_sessions_ends_the_engine(
    engine: Engine, place: tuple[int, int], told: int
) -> None:
    engine.schedule([new("r")])
    engine.schedule(cached={"r": (3, 1)})
    if told == 2:
        engine.schedule(cached={"r": place})
        return
    with pytest.raises(
        RuntimeError, match=rf"request r: vLLM counts {told} .* the session 2; .*would be right"
    ):
        engine.schedule(cached={"r": place})


@pytest.mark.parametrize(
    "place", [(8, 1), (6, 1), (7, 2), (7, 1)], ids=["repeated", "dropped", "two", "right"]
)
def test_a_count_that_is_wrong_after_a_row_of_equal_batches_ends_the_engine(
    engine: Engine, place: tuple[int, int]
) -> None:
    engine.schedule([new("r"), new("s")])
    for computed in range(3, 7):
        engine.schedule(cached={"r": (computed, 1), "s": (computed, 1)})
        assert engine.batches[-1].columns.names == ["r", "s"]
        engine.collect()
    if place == (7, 1):
        engine.schedule(cached={"s": (7, 1), "r": place})
        engine.schedule(cached={"r": (8, 1)}, finished=["s"])
        assert engine.batches[-1].columns.names == ["r"]
        return
    with pytest.raises(RuntimeError, match="request s: vLLM counts . output tokens"):
        engine.schedule(cached={"r": (7, 1), "s": place})


def decode_twice(engine: Engine) -> None:
    """a and b, of uids 1 and 2 and another length each: the next batch may go on with their columns."""
    engine.schedule([new("a", prompt=3), new("b", prompt=5)])
    for drawn in range(2):
        engine.schedule(cached={"a": (3 + drawn, 1), "b": (5 + drawn, 1)})
    assert engine.session.submitted == [[1, 2]] * 3


def test_columns_stand_in_the_order_in_which_workers_know_their_batch(engine: Engine) -> None:
    decode_twice(engine)
    engine.schedule(cached={"a": (5, 1), "b": (7, 1)}, order=["b", "a"])
    assert engine.session.submitted[-1] == [2, 1]
    engine.schedule(cached={"b": (8, 1), "a": (6, 1)})
    assert engine.session.submitted[-1] == [2, 1]
    engine.schedule(cached={"b": (9, 1), "a": (7, 1)}, order=["a", "b"])
    assert engine.session.submitted[-1] == [1, 2]
    assert [batch.order.places for batch in engine.batches] == [None] * 6


def test_counts_are_those_of_their_own_requests(engine: Engine) -> None:
    decode_twice(engine)
    with pytest.raises(RuntimeError, match="request a: vLLM counts 5 .* the session 3"):
        engine.schedule(cached={"b": (5, 1), "a": (7, 1)}, order=["a", "b"])


def test_batches_that_take_turns_go_on_with_columns_of_their_own(engine: Engine) -> None:
    engine.schedule([new("a"), new("b")])
    engine.schedule([new("c"), new("d")])
    for drawn in range(4):
        engine.schedule(cached={"a": (3 + drawn, 1), "b": (3 + drawn, 1)})
        engine.schedule(cached={"c": (3 + drawn, 1), "d": (3 + drawn, 1)})
    assert engine.session.submitted == [[1, 2], [3, 4]] * 5
    assert len({id(batch.columns) for batch in engine.batches[2:]}) == 2
    # Their requests' counts are right also where they leave their batches.
    engine.schedule(cached={"a": (7, 1), "d": (7, 1)})
    with pytest.raises(RuntimeError, match="request d: vLLM counts 5 .* the session 6"):
        engine.schedule(cached={"c": (7, 1), "d": (7, 1)})


@pytest.mark.parametrize("gone", ["finished", "preempted"])
def test_a_request_that_comes_back_has_no_column_of_its_first_life(engine: Engine, gone: str) -> None:
    decode_twice(engine)
    if gone == "finished":
        engine.schedule([new("a", prompt=4), new("b", prompt=6)], finished=["a", "b"])
    else:
        # Evicted, it is added again.
        engine.plane._sequences.get("a").live = False
        again = [new("a", outputs=1), new("b", prompt=5, outputs=1)]
        engine.schedule(preempted=["a", "b"])
        engine.schedule(again)
    uids = [3, 4] if gone == "finished" else [3, 2]
    assert engine.session.submitted[-1] == uids
    engine.schedule(cached={"a": (4, 1), "b": (6, 1)})
    engine.schedule(cached={"a": (5, 1), "b": (7, 1)})
    assert engine.session.submitted[-2:] == [uids] * 2


def test_the_last_part_of_a_prompt_does_not_go_on_with_a_first_life(engine: Engine) -> None:
    engine.schedule([new("a")])
    for drawn in range(2):
        engine.schedule(cached={"a": (3 + drawn, 1)})
    again = new("a", prompt=6)
    again.part = 5
    engine.schedule([again], finished=["a"])
    # As many are computed as would be of the first one.
    engine.schedule(cached={"a": (5, 1)})
    assert engine.session.submitted == [[1]] * 3 + [[2]]


def test_a_truncation_between_equal_batches_is_seen(engine: Engine) -> None:
    engine.schedule([new("r")])
    for computed in range(3, 6):
        engine.schedule(cached={"r": (computed, 1)})
        engine.collect()
    engine.schedule(preempted=["r"])
    engine.collect()
    engine.schedule([new("r", outputs=3)])
    engine.schedule(cached={"r": (6, 1)})
    with pytest.raises(RuntimeError, match="vLLM counts 4 .* the session 5"):
        engine.schedule(cached={"r": (6, 1)})


def test_parts_of_a_prompt_and_a_cached_prefix_draw_and_count_nothing(engine: Engine) -> None:
    part = new("r", prompt=40, computed=16)
    part.prefill_token_ids = part.prompt_token_ids
    engine.schedule([part])
    engine.schedule([new("s")], {"r": (40, 1)})
    with pytest.raises(RuntimeError, match="request r: vLLM counts 1 .* the session 2"):
        engine.schedule(cached={"s": (3, 1), "r": (40, 1)})


@pytest.mark.parametrize("kept", [0, 1])
def test_a_preempted_request_may_lose_what_was_in_flight(engine: Engine, kept: int) -> None:
    engine.schedule([new("r")])
    engine.schedule(cached={"r": (3, 1)})
    engine.collect()
    engine.schedule(preempted=["r"])
    engine.collect()
    engine.schedule([new("r", outputs=1 + kept, computed=2)])
    assert engine.session.truncated == [1 + kept]
    engine.schedule(cached={"r": (4 + kept, 1)})
    with pytest.raises(RuntimeError, match=rf"vLLM counts {2 + kept} .* the session {3 + kept}"):
        engine.schedule(cached={"r": (4 + kept, 1)})


@pytest.mark.parametrize("outputs", [1, 6])
def test_a_preempted_request_that_comes_back_with_other_tokens_ends_the_engine(
    engine: Engine, outputs: int
) -> None:
    engine.schedule([new("r")])
    for drawn in range(4):
        engine.schedule(cached={"r": (3 + drawn, 1)})
        engine.collect()
    engine.schedule(preempted=["r"])
    # Five are drawn, and never were more than two in flight.
    with pytest.raises(RuntimeError, match=rf"request r: vLLM counts {outputs} .* the session 5"):
        engine.schedule([new("r", outputs=outputs)])


def test_a_void_column_ends_a_request_that_goes_on(engine: Engine) -> None:
    # Nothing but a truncation makes one: no decision stops a sequence.
    engine.session.void = {2}
    engine.schedule([new("r")])
    engine.schedule(cached={"r": (3, 1)})
    engine.collect()
    assert "void" in engine.collect()["r"]


def test_ids_beyond_the_vocabulary_count_in_no_penalty_and_in_every_length(engine: Engine) -> None:
    asked = new("r", prompt=5)
    asked.prompt_token_ids = asked.prefill_token_ids = [1, VOCAB, 2, VOCAB + 7, VOCAB - 1]
    asked.sampling_params = SamplingParams(min_tokens=3, stop_token_ids=[4, VOCAB + 1], detokenize=False)
    engine.schedule([asked])
    [(prompt, lists)] = engine.session.added
    assert prompt == [1, 2, VOCAB - 1]
    assert lists["stop_ids"] == [4]
    engine.schedule(cached={"r": (5, 1)})
    with pytest.raises(RuntimeError, match="request r: vLLM counts 1 .* the session 2"):
        engine.schedule(cached={"r": (5, 1)})


def test_a_request_without_prompt_ids_ends_alone(engine: Engine) -> None:
    bad = new("bad")
    bad.prompt_token_ids, bad.prefill_token_ids = None, [0, 0, 0]
    engine.schedule([bad, new("good")])
    assert engine.batches[0].columns.names == ["good"]
    assert "prompt_embeds" in engine.collect("bad")["bad"]


def test_a_void_column_of_before_a_preemption_is_not_counted_twice(engine: Engine) -> None:
    engine.session.void = {2}
    engine.schedule([new("r")])
    engine.schedule(cached={"r": (3, 1)})
    engine.collect()
    engine.schedule(preempted=["r"])
    engine.schedule([new("r", outputs=1)])
    engine.collect()
    engine.schedule(cached={"r": (4, 1)})
    with pytest.raises(RuntimeError, match="vLLM counts 2 .* the session 3"):
        engine.schedule(cached={"r": (4, 1)})


def test_a_name_that_is_used_again_begins_anew(engine: Engine) -> None:
    engine.schedule([new("r")])
    engine.schedule(cached={"r": (3, 1)})
    engine.schedule([new("r", prompt=9)], finished=["r"])
    engine.schedule(cached={"r": (9, 1)})


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("peer_gone", "The relay on the last stage's host has died"),
        ("daemon_gone", "step 1 was not decided within 1 s"),
    ],
)
def test_why_a_step_has_no_decisions_is_told(
    name: str, text: str, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wait(_: float) -> None:
        raise Error(0, name, "so it is")

    monkeypatch.setattr(engine.session, "wait", wait)
    monkeypatch.setattr(engine.session, "segment_path", "/dev/shm/croupier/croupier-x-1.seg", raising=False)
    engine.schedule([new("a")])
    with pytest.raises(RuntimeError, match=f"(?s){text}.*so it is|so it is.*{text}"):
        engine.collect()
