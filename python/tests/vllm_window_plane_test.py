"""The engine core's half where the engine speculates, alone: rows, masks and counts are those of vLLM."""

from __future__ import annotations

import random
from collections.abc import Iterable
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("vllm")
pytest.importorskip("host_engine", exc_type=ImportError)

from vllm_plane_test import LIMITS, VOCAB, new  # noqa: E402

from croupier import DecisionError  # noqa: E402
from croupier.vllm.sequences import Sequences  # noqa: E402
from croupier.vllm.windows import WindowPlane  # noqa: E402

DRAFTS = 3
TOKEN = 7


class Session:
    """Accepts as many drafts of each window as the test says, and all where it says nothing."""

    segment_path = "croupier-x-1.seg"

    def __init__(self) -> None:
        self.submitted: list[tuple[list[int], Any, Any, list[int]]] = []
        self.errors: dict[int, int] = {}
        """Of rows of the next step to be collected."""
        self.truncated: list[int] = []

    def add(self, uid: int, prompt: list[int], **lists: Any) -> None:
        pass

    def finish(self, uid: int) -> None:
        pass

    def truncate(self, uid: int, outputs: int) -> None:
        self.truncated.append(outputs)

    def submit(self, uids: list[int], masks: Any, mask_rows: Any, rows: list[int]) -> int:
        self.submitted.append((list(uids), masks, mask_rows, list(rows)))
        return len(self.submitted)

    def wait(self, timeout: float) -> Any:
        self.collected = getattr(self, "collected", 0) + 1
        rows = sum(self.submitted[self.collected - 1][3])
        errors = [self.errors.get(row, 0) for row in range(rows)]
        self.errors = {}
        decisions = [
            SimpleNamespace(token=-1 if error else TOKEN, error=error, error_text=str(error))
            for error in errors
        ]
        return SimpleNamespace(
            step=self.collected, decisions=decisions, mismatches=partial(different, decisions)
        )


def different(
    decisions: list[Any], sampled: list[list[int]], *, rows: list[int], windows: list[int]
) -> list[int]:
    """As Step.mismatches()."""
    found, first = [], 0
    for column, (place, count) in enumerate(zip(rows, windows, strict=True)):
        own = decisions[first : first + count]
        tokens = [one.token for one in own if one.token >= 0]
        failed = own[len(tokens)].error if len(tokens) < count else DecisionError.REJECTED
        if not tokens or tokens != sampled[place] or failed != DecisionError.REJECTED:
            found.append(column)
        first += count
    return found


class Engine:
    def __init__(self) -> None:
        self.session = Session()
        sequences = Sequences(self.session, VOCAB, LIMITS, random.Random(1), print, 1 + DRAFTS)
        self.plane = WindowPlane(self.session, sequences, 1.0, print, mask_stride=1 + DRAFTS, most_masks=10)
        self.batches: list[Any] = []

    def schedule(
        self,
        new: Iterable[Any] = (),
        cached: dict[str, tuple[int, int]] | None = None,
        finished: Iterable[str] = (),
        preempted: Iterable[str] = (),
        grammar: Any = None,
        drafts: dict[str, list[int]] | None = None,
    ) -> None:
        """`cached` has each request's computed tokens, and its drafts. `drafts` are told before submit()."""
        cached = cached or {}
        counts = {one.req_id: len(one.prefill_token_ids) - one.num_computed_tokens for one in new}
        counts |= {name: 1 + count for name, (_, count) in cached.items()}
        scheduled = SimpleNamespace(
            finished_req_ids=set(finished),
            preempted_req_ids=set(preempted),
            scheduled_new_reqs=list(new),
            scheduled_cached_reqs=SimpleNamespace(
                req_ids=list(cached), num_computed_tokens=[computed for computed, _ in cached.values()]
            ),
            num_scheduled_tokens=counts,
            scheduled_spec_decode_tokens={name: [-1] * count for name, (_, count) in cached.items() if count},
        )
        self.plane.schedule(scheduled)
        scheduled.scheduled_spec_decode_tokens |= drafts or {}
        self.batches.append(self.plane.submit(grammar))

    def collect(self, tokens: dict[str, int]) -> Any:
        """`tokens`: how many each request has in the workers' eyes."""
        batch = self.batches.pop(0)
        output = SimpleNamespace(
            req_ids=list(tokens),
            req_id_to_index={name: row for row, name in enumerate(tokens)},
            sampled_token_ids=[[TOKEN] * count for count in tokens.values()],
            prompt_logprobs_dict={},
            prompt_token_id_logprobs_dict={},
        )
        return self.plane.collect(batch, output)


@pytest.fixture
def engine() -> Engine:
    return Engine()


def test_rejected_rows_leave_the_count_when_vllm_takes_them_off(engine: Engine) -> None:
    engine.schedule([new("r", prompt=3)])
    engine.schedule(cached={"r": (3, 3)})
    # A step in flight behind them counts all of them.
    engine.collect({"r": 1})
    engine.schedule(cached={"r": (7, 3)})
    engine.session.errors = {1: DecisionError.REJECTED, 2: DecisionError.REJECTED, 3: DecisionError.REJECTED}
    engine.collect({"r": 1})
    engine.schedule(cached={"r": (8, 2)})
    assert [rows for _, _, _, rows in engine.session.submitted] == [[1], [4], [4], [3]]
    assert [batch.order.rows for batch in engine.batches] == [[4], [3]]


@pytest.mark.parametrize("computed", [6, 8])
def test_a_count_other_than_the_sessions_ends_the_engine(engine: Engine, computed: int) -> None:
    engine.schedule([new("r", prompt=3)])
    engine.schedule(cached={"r": (3, 3)})
    with pytest.raises(RuntimeError, match="request r: vLLM counts"):
        engine.schedule(cached={"r": (computed, 3)})


def test_workers_that_accept_other_rows_than_the_daemon_end_the_engine(engine: Engine) -> None:
    engine.schedule([new("r")])
    engine.schedule(cached={"r": (3, 2)})
    engine.collect({"r": 1})
    engine.session.errors = {2: DecisionError.REJECTED}
    with pytest.raises(RuntimeError, match=r"request r: the worker has \[7, 7, 7\], the daemon \[7, 7\]"):
        engine.collect({"r": 3})


def test_a_grammars_window_ends_where_its_drafts_are_not_known(engine: Engine) -> None:
    engine.schedule([new("a"), new("b"), new("c"), new("d")])
    bitmask = np.arange(3 * (1 + DRAFTS)).reshape(-1, 1)
    grammar = SimpleNamespace(structured_output_request_ids=["d", "b", "a"], grammar_bitmask=bitmask)
    cached = {"a": (3, 3), "b": (3, 3), "c": (3, 3), "d": (3, 2)}
    engine.schedule(cached=cached, grammar=grammar, drafts={"a": [5, 6, -1], "b": [5, 6, 7]})
    uids, masks, first, rows = engine.session.submitted[-1]
    assert masks is bitmask
    assert first == [2 * (1 + DRAFTS), 1 + DRAFTS, None, 0]
    # What the scheduler has not been told of is not known either.
    assert rows == [3, 4, 4, 1]
    engine.collect({"a": 1, "b": 1, "c": 1, "d": 1})
    engine.collect({"a": 3, "b": 4, "c": 4, "d": 1})
    # vLLM scheduled three drafts of a, and two of d.
    engine.schedule(cached={"a": (6, 0), "b": (7, 0), "c": (7, 0), "d": (4, 0)})


def test_windows_end_where_a_step_has_no_room_for_more_masks(engine: Engine) -> None:
    names = ["a", "b", "c", "d"]
    engine.schedule([new(name) for name in names])
    bitmask = np.zeros((4 * (1 + DRAFTS), 1))
    grammar = SimpleNamespace(structured_output_request_ids=["d", "c", "b"], grammar_bitmask=bitmask)
    known = dict.fromkeys(names, [5, 6, 7])
    engine.schedule(cached=dict.fromkeys(names, (3, 3)), grammar=grammar, drafts=known)
    _, _, first, rows = engine.session.submitted[-1]
    assert first == [None, 2 * (1 + DRAFTS), 1 + DRAFTS, 0]
    assert rows == [4, 3, 3, 4]
    engine.collect(dict.fromkeys(names, 1))
    engine.collect({"a": 4, "b": 3, "c": 3, "d": 4})
    engine.schedule(cached={"a": (7, 0), "b": (6, 0), "c": (6, 0), "d": (7, 0)})


def test_workers_are_told_which_ids_of_a_prompt_the_session_lacks(engine: Engine) -> None:
    """A picture's placeholders: behind them the session's positions are lower than vLLM's."""
    seen = new("r", prompt=5)
    seen.prompt_token_ids[1:3] = [VOCAB, VOCAB + 7]
    engine.schedule([new("q")])
    engine.schedule([seen, new("s")])
    assert [batch.order.left_out for batch in engine.batches] == [None, [2, 0]]


def test_an_error_inside_a_window_ends_the_request_behind_the_tokens_before_it(engine: Engine) -> None:
    engine.schedule([new("r"), new("s")])
    engine.schedule(cached={"r": (3, 3), "s": (3, 3)})
    engine.collect({"r": 1, "s": 1})
    engine.session.errors = {
        2: DecisionError.NAN_LOGIT,
        3: DecisionError.VOID,
        4: DecisionError.BAD_INPUT,
        5: DecisionError.VOID,
        6: DecisionError.VOID,
        7: DecisionError.VOID,
    }
    output = engine.collect({"r": 2, "s": 1})
    assert output.sampled_token_ids == [[TOKEN] * 2, []]
    assert output.croupier_errors.keys() == {"r", "s"}


def test_windows_of_before_a_preemption_are_not_counted_twice(engine: Engine) -> None:
    engine.schedule([new("r")])
    engine.schedule(cached={"r": (3, 3)})
    engine.collect({"r": 1})
    engine.schedule(preempted=["r"])
    # A reset drops what is in flight: up to a whole window.
    engine.schedule([new("r", outputs=1)])
    assert engine.session.truncated == [1]
    engine.session.errors = dict.fromkeys(range(4), DecisionError.VOID)
    assert not hasattr(engine.collect({"r": 1}), "croupier_errors")
    engine.schedule(cached={"r": (4, 3)})
    with pytest.raises(RuntimeError, match="vLLM counts 3 .* the session 6"):
        engine.schedule(cached={"r": (5, 0)})
