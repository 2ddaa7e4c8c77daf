"""In vLLM's own engine core, a step that reuses columns of an earlier one has those that a look at each
request gives, whatever happens to requests meanwhile."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import Any

import pytest

pytest.importorskip("vllm")
pytest.importorskip("host_engine", exc_type=ImportError)

import vllm_engine_test as engine_test  # noqa: E402
from engine_life import Life  # noqa: E402

from croupier.vllm.columns import Columns  # noqa: E402
from croupier.vllm.plane import Plane  # noqa: E402

engine = engine_test.engine


@pytest.fixture
def steps(monkeypatch: Any) -> Counter[str]:
    """Counts the steps that draw by which of their columns are those of an earlier one. Each is compared with
    what a look at all requests gives."""
    counted: Counter[str] = Counter()
    schedule, columns_of = Plane.schedule, Plane._columns_of

    def schedule_and_compare(plane: Plane, scheduled: Any) -> None:
        made = []

        def kept(plane: Plane, scheduled: Any, names: list[str], prefix: Columns) -> Columns:
            made.append("some" if prefix.names else "none")
            return columns_of(plane, scheduled, names, prefix)

        with monkeypatch.context() as patched:
            patched.setattr(Plane, "_columns_of", kept)
            schedule(plane, scheduled)
        columns = plane._columns
        # As it was before this step: reusable columns are ahead of it.
        for sequence, counted_tokens in zip(columns.sequences, columns.expected, strict=True):
            sequence.due = counted_tokens
        rebuilt = columns_of(plane, scheduled, list(scheduled.num_scheduled_tokens), Columns())
        assert asdict(rebuilt) == asdict(columns)
        counted[made[0] if made else "all"] += bool(columns.names)

    monkeypatch.setattr(Plane, "schedule", schedule_and_compare)
    return counted


def test_requests_that_are_moved_about_have_the_tokens_and_log_probs_that_they_have_alone(
    engine: engine_test.Engine, steps: Counter[str], monkeypatch: Any
) -> None:
    waits_for = engine_test.preempt_often(
        engine.scheduler, monkeypatch, lambda victim: victim.num_output_tokens % 3 == 0
    )
    life = Life(engine, seed=1)
    life.live(40)
    life.check()
    assert len(waits_for) > 3
    assert min(steps["all"], steps["some"], steps["none"]) > 10, steps
