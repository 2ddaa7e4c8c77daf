"""What speculation.py asks of an engine's process: timed steps and their drafts, streams, refusals."""

from __future__ import annotations

import contextlib
import cProfile
import json
import statistics
import time
from collections import Counter
from pathlib import Path
from typing import Any

import hot_spots
import kinds
import stages
from drafters import add_loops, fill_drafter, prompt_of, shape_target, speculating
from engines import PROMPT, SETTLE, Run, croupier_options, llm_of, stay_apart

# What a request may not have where vLLM 0.33 drafts (SamplingParams._validate_spec_decode).
REFUSED = ("min_p", "logit_bias")
STREAMS = ("greedy", "full")
# Steps that are in flight when the last timed one ends, and more.
_SPARE = 8


class Windows:
    """Counts each window's drafts and those accepted, where the scheduler would for its log, which is off."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[int, int]] = Counter()

    def __call__(
        self, stats: Any, num_draft_tokens: int, num_accepted_tokens: int, *others: Any, **named: Any
    ) -> None:
        self.counts[num_draft_tokens, num_accepted_tokens] += 1

    def listed(self) -> list[list[int]]:
        """Drafts, accepted ones, and how many windows had as many of both."""
        return [[*key, count] for key, count in sorted(self.counts.items())]


def make(runtime: Path, arguments: Any, side: str, method: str, speculative: dict[str, Any] | None) -> Any:
    stay_apart(runtime)
    croupier = croupier_options(arguments) if side == "croupier" else None
    llm = llm_of(arguments, speculating(arguments, side, croupier, speculative))
    llm.collective_rpc(shape_target, args=(arguments,))
    if method == "ngram":
        llm.collective_rpc(add_loops, args=(arguments.loops,))
    if speculative is not None:
        llm.collective_rpc(fill_drafter, args=(method, arguments))
    return llm


class DraftedRun(Run):
    """Requests that are all under way while steps are timed, however many of their drafts are accepted."""

    def __init__(
        self, llm: Any, parameters: list[dict[str, Any]], steps: int, window: int, method: str
    ) -> None:
        self._settled = SETTLE * window
        # A request may settle with one token a step, while others draw whole windows.
        tokens = (self._settled + steps + _SPARE) * window
        super().__init__(llm, parameters, tokens, PROMPT, prompt_of(method))
        self._inner = self._core.engine_core.engine_core

    def timed(
        self, steps: int, watched: contextlib.AbstractContextManager[Any] | None = None
    ) -> dict[str, Any]:
        """Microseconds from one step's tokens to the next one's; then the requests are aborted."""
        windows = Windows()
        try:
            while min(progress.num_output_tokens() for progress in self._progress) < self._settled:
                self._advance()
            self._inner.scheduler.make_spec_decoding_stats = windows
            before, seen = self._tokens_drawn(), self._progress[0].num_output_tokens()
            stamps = [time.perf_counter()]
            with watched or contextlib.nullcontext():
                while len(stamps) <= steps:
                    self._advance()
                    now, drawn = time.perf_counter(), self._progress[0].num_output_tokens()
                    if drawn > seen:
                        stamps.append(now)
                        seen = drawn
            tokens = self._tokens_drawn() - before
        finally:
            # The count of the scheduler's class again.
            vars(self._inner.scheduler).pop("make_spec_decoding_stats", None)
            self._abort()
        each = [round((one - other) * 1e6, 1) for one, other in zip(stamps[1:], stamps, strict=False)]
        return {
            "steps_us": each,
            "seconds": round(stamps[-1] - stamps[0], 6),
            "tokens": tokens,
            "windows": windows.listed(),
        }

    def _tokens_drawn(self) -> int:
        return sum(progress.num_output_tokens() for progress in self._progress)

    def _advance(self) -> None:
        if not self.step():
            raise RuntimeError("no request is left, and steps were to be timed")
        if self._finished:
            raise RuntimeError(f"{len(self._finished)} requests have ended while steps were timed")

    def _abort(self) -> None:
        self._core.abort_request(self._names)
        while self._inner.batch_queue:
            self._core.step()


def time_kind(
    llm: Any, parameters: list[dict[str, Any]], steps: int, window: int, method: str
) -> dict[str, Any]:
    before = stages.totals()
    found = DraftedRun(llm, parameters, steps, window, method).timed(steps)
    daemon = stages.per_column(before, stages.totals())
    return {**found, **({"daemon": daemon} if daemon else {})}


def where_time_goes(
    llm: Any, parameters: list[dict[str, Any]], steps: int, window: int, method: str
) -> dict[str, Any]:
    """Of a step: its stages, and, in a second run, which takes longer, its functions."""
    seconds: dict[str, float] = {}
    watched = hot_spots.timed_stages(seconds)
    found = DraftedRun(llm, parameters, steps, window, method).timed(steps, watched)
    profile = cProfile.Profile()
    DraftedRun(llm, parameters, steps, window, method).timed(steps, profile)
    return {
        "us_per_step": statistics.median(found["steps_us"]),
        "stages_us": {name: round(of / steps * 1e6) for name, of in seconds.items()},
        "functions": hot_spots.functions(profile, steps),
    }


def refusal(llm: Any, kind: str) -> str:
    """What the engine says to a request of this kind that it does not take; empty: it takes all."""
    from vllm.exceptions import VLLMValidationError

    asked = {json.dumps(given, sort_keys=True): given for given in kinds.batch_of(kind, 20)}
    for given in asked.values():
        try:
            Run(llm, [given], 1).outputs()
        except VLLMValidationError as error:
            return str(error)
    return ""


def nearest(batch: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Requests that vLLM takes with drafts."""
    return [{name: value for name, value in given.items() if name not in REFUSED} for given in batch]


def batch_for(side: str, kind: str, count: int) -> list[dict[str, Any]]:
    batch = kinds.batch_of(kind, count)
    return nearest(batch) if side == "native" else batch


def text_of(method: str) -> str:
    """Which prompts and weights a method has: those of another one may be the same."""
    return "loops" if method == "ngram" else "text"


def streams(llm: Any, side: str, method: str, count: int, tokens: int) -> dict[str, list[list[int]]]:
    """Of each kind the tokens of so many requests that are served together."""
    found = {}
    for kind in STREAMS:
        run = Run(llm, batch_for(side, kind, count), tokens, PROMPT, prompt_of(method))
        found[kind] = [list(output.token_ids) for output in run.outputs()]
    return found


def plain_streams(llm: Any, side: str, methods: list[str], arguments: Any) -> dict[str, Any]:
    """As streams(), without drafts: all requests at once, and half of them, which is another shape."""
    found = {}
    # N-grams come last: their weights stay.
    for method in sorted(methods, key=lambda method: text_of(method) == "loops"):
        if (text := text_of(method)) in found:
            continue
        if text == "loops":
            llm.collective_rpc(add_loops, args=(arguments.loops,))
        counts = {"all": arguments.equal, "half": arguments.equal // 2}
        found[text] = {
            name: streams(llm, side, method, count, arguments.equal_tokens) for name, count in counts.items()
        }
    return found
