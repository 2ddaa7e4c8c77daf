"""Measures the plugin's own host time a step, in the engine core's process and without a GPU.

    build/release/vllm/0.33.0/bin/python bench/vllm/host_time.py FOLDER [--before PLACE]

vLLM's own front end, scheduler and engine core run over the model of python/tests/host_engine.py and a real
daemon (./dev test --vllm makes that environment). The worker runs in the same thread, as with vLLM's
UniProcExecutor, so that no other thread holds the GIL. Each hook of the plugin is timed.

With --before, two versions run alternately, each in a process of its own. FOLDER/host_time.json has the
medians of both and their ratios. PLACE has the other version: `croupier`, the installed package, and `tests`,
its python/tests. To make it:

    git worktree add /tmp/before BASE
    (cd /tmp/before && ./dev build release && python/install.sh build/release)
    mkdir PLACE && cp -r /tmp/before/python/tests PLACE/tests
    cp -r /tmp/before/build/release/python/venv/lib/python3*/site-packages/croupier PLACE/croupier
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import statistics
import sys
import tempfile
import time
from collections import defaultdict, deque
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from sides import Side, write_json

_TESTS = Path(__file__).parents[2] / "python" / "tests"
_SETTLE = 8
_PARTS = ("Plane.schedule", "Plane.submit", "Plane.collect", "Session.submit", "Session.wait")
_HOOKS = _PARTS[:3]
# logprobs20: 20 for each request; grammar: a mask for each; changing: about one request ends in each step and
# another one comes; mixed: half of the requests with 5 or 15 log-probs.
KINDS = ("greedy", "logprobs20", "grammar", "changing", "mixed")


class Inline:
    """An executor's thread that is the caller's own."""

    @staticmethod
    def submit(function: Any, *given: Any) -> Future:
        done: Future = Future()
        try:
            done.set_result(function(*given))
        except Exception as error:
            done.set_exception(error)
        return done


def parameters_of(kind: str, batch: int, steps: int) -> list[dict[str, Any]]:
    plain = {"temperature": 0.0, "max_tokens": steps}
    if kind == "logprobs20":
        return [{"temperature": 0.8, "top_p": 0.95, "logprobs": 20, "max_tokens": steps}] * batch
    if kind == "changing":
        return [plain | {"max_tokens": 1 + (place * 7919) % batch} for place in range(4 * batch)]
    if kind == "mixed":
        return [plain | ({"logprobs": 5 * (place % 4)} if place % 2 else {}) for place in range(batch)]
    return [plain] * batch


class Engine:
    """An LLM over host_engine.py's model, with rows that cost nothing to make."""

    def __init__(self, place: str, most: int, samplers: int, drafts: int) -> None:
        sys.path[:0] = [place, str(Path(place) / "tests")] if place else [str(_TESTS)]
        self._folder = tempfile.TemporaryDirectory()
        os.environ["XDG_RUNTIME_DIR"] = self._folder.name
        import host_engine
        import numpy as np
        from vllm import LLM

        from croupier.vllm import register

        rows = np.random.default_rng(1).normal(0, 3, (64, host_engine.VOCAB)).astype(np.float32)
        best = rows.argmax(axis=1).tolist()
        base, speculates = host_engine.HostExecutorWithSession, {}
        if drafts:
            import torch
            from host_speculation import NGRAM, SpeculatingExecutor

            # Others would take the cores from what is measured.
            torch.set_num_threads(1)
            base = SpeculatingExecutor
            speculates = {"speculative_config": {**NGRAM, "num_speculative_tokens": drafts}}

        class Executor(base):
            def _init_executor(self) -> None:
                super()._init_executor()
                self.thread = Inline()
                self.drafter = self._half

            def _half(self, tokens: list[int], count: int) -> list[int]:
                """The first half of them is right."""
                right = [best[(len(tokens) + place) % len(best)] for place in range((count + 1) // 2)]
                return right + [-1] * (count - len(right))

            def rank_determine_available_memory(self) -> int:
                return most * super().rank_determine_available_memory()

            def _row(self, name: str) -> Any:
                return rows[len(self.requests[name].tokens) % len(rows)]

            def _row_of(self, tokens: list[int]) -> Any:
                return rows[len(tokens) % len(rows)]

        config = Path(self._folder.name) / "config.json"
        config.write_text(json.dumps(host_engine.model_config()))
        register()
        self.llm = LLM(
            model=self._folder.name,
            load_format="dummy",
            skip_tokenizer_init=True,
            max_model_len=512,
            max_num_seqs=most,
            max_num_batched_tokens=16 * most,
            max_logprobs=20,
            enable_prefix_caching=False,
            disable_log_stats=True,
            distributed_executor_backend=Executor,
            **speculates,
            additional_config={
                "croupier": {
                    "samplers": samplers,
                    "private": True,
                    "stand_in": False,
                    "shm_dir": f"/dev/shm/croupier-host-time-{os.getpid()}",
                }
            },
        )
        self._masks = np.full((most, (host_engine.VOCAB + 31) // 32), -1, dtype=np.int32)
        self.times: dict[str, list[float]] = defaultdict(list)
        self._time_hooks()

    def _time_hooks(self) -> None:
        from croupier import Session
        from croupier.vllm.plane import Plane

        owners = {"Plane": Plane, "Session": Session}
        for part in _PARTS:
            owner, name = part.split(".")
            setattr(owners[owner], name, self._timed(part, getattr(owners[owner], name)))

    def _timed(self, part: str, function: Any) -> Any:
        kept = self.times[part]

        @functools.wraps(function)
        def timed(*given: Any) -> Any:
            begun = time.perf_counter()
            result = function(*given)
            kept.append(time.perf_counter() - begun)
            return result

        return timed

    def use_grammar(self, used: bool) -> None:
        """Whether each request has a mask, which allows everything."""
        from vllm.v1.core.sched.output import GrammarOutput

        def bitmask(scheduled: Any) -> Any:
            names = list(scheduled.num_scheduled_tokens)
            return GrammarOutput(names, self._masks[: len(names)]) if used else None

        self.llm.llm_engine.engine_core.engine_core.scheduler.get_grammar_bitmask = bitmask

    def close(self) -> None:
        self.llm.llm_engine.engine_core.shutdown()
        self._folder.cleanup()


def run(engine: Engine, kind: str, batch: int, steps: int) -> dict[str, list[float]]:
    """The seconds of each part in each step with all requests, the first ones left out."""
    from vllm import SamplingParams

    for times in engine.times.values():
        times.clear()
    engine.use_grammar(kind == "grammar")
    asked = parameters_of(kind, batch, steps)
    core = engine.llm.llm_engine
    waiting = deque(enumerate(asked))
    live = 0
    while waiting or live:
        while waiting and live < batch:
            place, given = waiting.popleft()
            sampling = SamplingParams(ignore_eos=True, detokenize=False, **given)
            core.add_request(str(place), {"prompt_token_ids": [place % 400, 7, 9, 11]}, sampling)
            live += 1
        live -= sum(output.finished for output in core.step())
    ended = batch if kind == "changing" else 2
    return {part: times[_SETTLE:-ended] for part, times in engine.times.items()}


def medians(rounds: list[dict[str, list[float]]]) -> dict[str, float]:
    """Microseconds: of each part its median over the steps of all rounds, and the sum of the three hooks."""
    found = {
        part: round(statistics.median(one for each in rounds for one in each[part]) * 1e6, 1)
        for part in _PARTS
    }
    return {"sum": round(sum(found[hook] for hook in _HOOKS), 1)} | found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--before", type=Path, help="another version, which runs in turn with this one")
    parser.add_argument("--batches", default="64,256")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--drafts", type=int, default=0, help="speculate with so many drafts")
    parser.add_argument("--samplers", type=int, default=1, help="a step's submission wakes those that sleep")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    batches = [int(text) for text in arguments.batches.split(",")]
    places = {"after": ""} | ({"before": str(arguments.before.resolve())} if arguments.before else {})
    given = max(batches), arguments.samplers, arguments.drafts
    sides = {name: Side(name, Engine, Engine.close, place, *given) for name, place in places.items()}
    table = []
    try:
        for side in sides.values():
            side.answer()
        for kind in arguments.kinds.split(","):
            for batch in batches:
                rounds: dict[str, list[Any]] = defaultdict(list)
                for _ in range(arguments.rounds):
                    for name, side in sides.items():
                        rounds[name].append(side.ask(run, kind, batch, arguments.steps))
                row = {"kind": kind, "batch": batch} | {name: medians(rounds[name]) for name in sides}
                if "before" in row:
                    row["ratio"] = round(row["before"]["sum"] / row["after"]["sum"], 2)
                table.append(row)
                print(json.dumps(row), flush=True)
                write_json(arguments.folder / "host_time.json", table)
    finally:
        for side in sides.values():
            side.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
