"""Requests of vLLM's own engine core that come, go and are moved about, at random."""

from __future__ import annotations

import random
from typing import Any

import host_engine
import numpy as np
import pytest
from vllm import SamplingParams
from vllm_engine_test import Engine, greedy


class Life:
    """What happened to the requests of one engine."""

    def __init__(self, engine: Engine, seed: int) -> None:
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

    def live(self, requests: int) -> None:
        """Until so many have come, and all have ended or are aborted."""
        while len(self.prompts) < 4:
            self.add()
        while len(self.prompts) < requests:
            if not self.core.has_unfinished_requests():
                self.add()
            self.step()
        while self.core.has_unfinished_requests():
            self.step()

    def check(self) -> None:
        """Each has the tokens and log-probs that it has alone, and enough was aborted."""
        kept = self.prompts.keys() - self.aborted
        assert kept <= self.finished.keys()
        for name in kept:
            tokens = list(self.finished[name].token_ids)
            assert tokens == greedy(self.prompts[name], len(tokens))
            check_logprobs(self.prompts[name], self.finished[name], self.logprobs[name])
        for name in self.aborted & self.finished.keys():
            assert self.finished[name].finish_reason == "abort"
        assert self.engine.verifier.differing == []
        assert len(self.aborted) > 3


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
