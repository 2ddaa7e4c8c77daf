"""A step that goes on with the columns of the step before: in vLLM's own engine core, it has just those that a
look at every request gives, whatever happens to requests meanwhile."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import numpy as np
import pytest

pytest.importorskip("vllm")
host_engine = pytest.importorskip("host_engine", exc_type=ImportError)

from vllm import SamplingParams  # noqa: E402
from vllm_engine_test import Engine, engine, greedy, preempt_often  # noqa: E402, F401

from croupier.vllm.plane import Plane  # noqa: E402


@pytest.fixture
def steps(monkeypatch: Any) -> Counter[bool]:
    """Counts the steps that draw by whether they go on. Those that do are looked at as the others are."""
    counted: Counter[bool] = Counter()
    schedule = Plane.schedule

    def schedule_and_compare(plane: Plane, scheduled: Any) -> None:
        recent = list(plane._recent)
        schedule(plane, scheduled)
        columns = plane._columns
        goes_on = any(columns is each for each in recent)
        if goes_on:
            assert plane._columns_of(scheduled) == columns
        counted[goes_on] += bool(columns.names)

    monkeypatch.setattr(Plane, "schedule", schedule_and_compare)
    return counted


class Life:
    """Requests that come and go; `turn` changes something, then makes a step."""

    def __init__(self, engine: Engine, seed: int, **asked: Any) -> None:  # noqa: F811
        self.engine, self.core, self.random, self.asked = engine, engine.llm.llm_engine, random.Random(seed), asked
        self.prompts: dict[str, list[int]] = {}
        self.aborted: set[str] = set()
        self.finished: dict[str, Any] = {}

    def add(self) -> None:
        name, length = str(len(self.prompts)), self.random.randint(4, 60)
        self.prompts[name] = [len(self.prompts) % 400, *(self.random.randrange(3, 400) for _ in range(9))]
        if self.random.random() < 0.2:
            # Longer than a batch: it is prefilled in parts, beside requests that draw.
            self.prompts[name] *= 8
        asked = SamplingParams(
            max_tokens=length, temperature=0.0, ignore_eos=True, detokenize=False, **self.asked
        )
        self.core.add_request(name, {"prompt_token_ids": self.prompts[name]}, asked)

    def abort(self) -> None:
        if live := sorted(self.prompts.keys() - self.finished.keys() - self.aborted):
            self.aborted.add(self.random.choice(live))
            known = self.core.output_processor.external_req_ids
            self.core.abort_request([name for name in self.aborted if name in known])

    def reset(self) -> None:
        self.engine.scheduler.reset_prefix_cache(reset_running_requests=True)

    def reorder(self) -> None:
        self.random.shuffle(self.engine.scheduler.running)

    def reorder_rows(self) -> None:
        self.engine.executor.reverses_rows = not self.engine.executor.reverses_rows

    def turn(self, changes: list[Any]) -> None:
        if changes and self.random.random() < 0.2:
            self.random.choice(changes)()
        for output in self.core.step():
            if output.finished:
                self.finished[output.request_id] = output.outputs[0]


def test_requests_that_come_go_and_are_moved_about_get_the_tokens_that_they_get_alone(
    engine: Engine,  # noqa: F811
    steps: Counter[bool],
    monkeypatch: Any,
) -> None:
    waits_for = preempt_often(engine.scheduler, monkeypatch, lambda victim: victim.num_output_tokens % 3 == 0)
    life = Life(engine, seed=1)
    for _ in range(4):
        life.add()
    changes = [life.add, life.add, life.abort, life.reset, life.reorder, life.reorder_rows]
    while len(life.prompts) < 40:
        life.turn(changes)
    while life.core.has_unfinished_requests():
        life.turn([])
    kept = life.prompts.keys() - life.aborted
    assert kept <= life.finished.keys()
    for name in kept:
        tokens = list(life.finished[name].token_ids)
        assert tokens == greedy(life.prompts[name], len(tokens))
    assert engine.verifier.differing == []
    assert len(waits_for) > 3
    assert len(life.aborted) > 3
    assert steps[True] > 30
    assert steps[False] > 30
