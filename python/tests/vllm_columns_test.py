"""In vLLM's own engine core, a step that reuses columns of an earlier one has those that a look at each
request gives, whatever happens to requests meanwhile."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest

pytest.importorskip("vllm")
host_engine = pytest.importorskip("host_engine", exc_type=ImportError)

import vllm_engine_test as engine_test  # noqa: E402
from vllm import SamplingParams  # noqa: E402

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


class Life:
    """Requests that come, go and are moved about, at random."""

    def __init__(self, engine: engine_test.Engine, seed: int) -> None:
        self.engine, self.core, self.random = engine, engine.llm.llm_engine, random.Random(seed)
        self.prompts: dict[str, list[int]] = {}
        self.logprobs: dict[str, int | None] = {}
        self.aborted: set[str] = set()
        self.finished: dict[str, Any] = {}

    def add(self) -> None:
        name = str(len(self.prompts))
        prompt = [len(self.prompts), *(self.random.randrange(3, 400) for _ in range(9))]
        # Longer than a batch: it is prefilled in parts, beside requests that draw.
        self.prompts[name] = prompt * 8 if self.random.random() < 0.2 else prompt
        self.logprobs[name] = self.random.choice([None, None, 0, 2, 5])
        asked = SamplingParams(
            max_tokens=self.random.randint(4, 60),
            temperature=0.0,
            ignore_eos=True,
            detokenize=False,
            logprobs=self.logprobs[name],
        )
        self.core.add_request(name, {"prompt_token_ids": self.prompts[name]}, asked)

    def abort(self) -> None:
        if live := sorted(self.prompts.keys() - self.finished.keys() - self.aborted):
            name = self.random.choice(live)
            self.aborted.add(name)
            self.core.abort_request([name])

    def reset(self) -> None:
        self.engine.scheduler.reset_prefix_cache(reset_running_requests=True)

    def reorder(self) -> None:
        self.random.shuffle(self.engine.scheduler.running)

    def reorder_rows(self) -> None:
        self.engine.executor.reverses_rows = not self.engine.executor.reverses_rows

    def step(self) -> None:
        if self.random.random() < 0.2:
            self.random.choice([self.add, self.abort, self.reset, self.reorder, self.reorder_rows])()
        for output in self.core.step():
            if output.finished:
                self.finished[output.request_id] = output.outputs[0]


def check_logprobs(prompt: list[int], output: Any, wanted: int | None) -> None:
    """The drawn token's and the best ones, of the rows that its own history makes."""
    if wanted is None:
        assert output.logprobs is None
        return
    tokens = list(prompt)
    for token, found in zip(output.token_ids, output.logprobs, strict=True):
        row = host_engine.row_after(tokens).astype(np.float64)
        expected = row - row.max() - np.log(np.exp(row - row.max()).sum())
        best = np.argsort(-row, kind="stable")[:wanted].tolist()
        assert found.keys() == {token, *best}
        for each, logprob in found.items():
            assert logprob.logprob == pytest.approx(expected[each], abs=1e-4)
        tokens.append(token)


def test_requests_that_are_moved_about_have_the_tokens_and_log_probs_that_they_have_alone(
    engine: engine_test.Engine, steps: Counter[str], monkeypatch: Any
) -> None:
    waits_for = engine_test.preempt_often(
        engine.scheduler, monkeypatch, lambda victim: victim.num_output_tokens % 3 == 0
    )
    life = Life(engine, seed=1)
    while len(life.prompts) < 4:
        life.add()
    while len(life.prompts) < 40:
        if not life.core.has_unfinished_requests():
            life.add()
        life.step()
    while life.core.has_unfinished_requests():
        life.step()
    kept = life.prompts.keys() - life.aborted
    assert kept <= life.finished.keys()
    for name in kept:
        tokens = list(life.finished[name].token_ids)
        assert tokens == engine_test.greedy(life.prompts[name], len(tokens))
        check_logprobs(life.prompts[name], life.finished[name], life.logprobs[name])
    for name in life.aborted & life.finished.keys():
        assert life.finished[name].finish_reason == "abort"
    assert engine.verifier.differing == []
    assert len(waits_for) > 3
    assert len(life.aborted) > 3
    assert min(steps["all"], steps["some"], steps["none"]) > 10, steps
