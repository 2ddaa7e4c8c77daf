"""Where an engine's process spends the time of its steps: stages, functions, and threads by /proc."""

from __future__ import annotations

import contextlib
import cProfile
import functools
import importlib
import os
import pstats
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kinds
from engines import SETTLE, Run

_TICKS = os.sysconf("SC_CLK_TCK")
_MOST_FUNCTIONS = 60
# Those of vLLM and of Croupier's plugin that take turns in a step; some are parts of others.
_STAGES = (
    ("vllm.v1.core.sched.scheduler", "Scheduler", "update_from_output"),
    ("vllm.v1.core.sched.scheduler", "Scheduler", "schedule"),
    ("vllm.v1.core.sched.scheduler", "Scheduler", "get_grammar_bitmask"),
    ("vllm.v1.engine.core", "EngineCore", "step_with_batch_queue"),
    ("vllm.v1.engine.output_processor", "OutputProcessor", "process_outputs"),
    ("vllm.v1.worker.gpu.model_runner", "GPUModelRunner", "execute_model"),
    ("vllm.v1.worker.gpu.model_runner", "GPUModelRunner", "sample_tokens"),
    ("torch.cuda", "Event", "synchronize"),
    ("croupier.vllm.runner", "CroupierModelRunner", "_verified"),
    ("croupier.vllm.plane", "Plane", "schedule"),
    ("croupier.vllm.plane", "Plane", "submit"),
    ("croupier.vllm.plane", "Plane", "collect"),
    ("croupier", "Session", "submit"),
    ("croupier", "Session", "wait"),
)


@contextlib.contextmanager
def timed_stages(seconds: dict[str, float]) -> Iterator[None]:
    """Adds the time that passes within each; without cProfile's weight on everything else."""
    changed = []
    for module, owner, name in _STAGES:
        kind = getattr(importlib.import_module(module), owner)
        function = getattr(kind, name)

        def timed(*args: Any, _function: Any = function, _key: str = f"{owner}.{name}", **more: Any) -> Any:
            begun = time.perf_counter()
            try:
                return _function(*args, **more)
            finally:
                seconds[_key] = seconds.get(_key, 0.0) + time.perf_counter() - begun

        setattr(kind, name, functools.wraps(function)(timed))
        changed.append((kind, name, function))
    try:
        yield
    finally:
        for kind, name, function in changed:
            setattr(kind, name, function)


def _cpu_of_threads() -> dict[str, float]:
    """Seconds of CPU, of threads of one name together."""
    found: dict[str, float] = {}
    for task in Path("/proc/self/task").iterdir():
        try:
            name, _, rest = (task / "stat").read_text().partition("(")[2].rpartition(")")
        except OSError:
            continue
        fields = rest.split()
        found[name] = found.get(name, 0.0) + (int(fields[11]) + int(fields[12])) / _TICKS
    return found


def _cpu_of_host() -> float:
    """Seconds of CPU that anything on the host has had."""
    user, nice, system = (int(text) for text in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:4])
    return (user + nice + system) / _TICKS


def functions(profile: cProfile.Profile, steps: int) -> list[dict[str, Any]]:
    stats = pstats.Stats(profile)
    found = []
    for (path, line, name), (_, calls, own, whole, _) in stats.stats.items():  # type: ignore[attr-defined]
        place = "/".join(path.split("/")[-2:]) if line else "built in"
        found.append(
            {
                "function": f"{place}:{line} {name}" if line else name,
                "calls": round(calls / steps, 1),
                "own_us": round(own / steps * 1e6, 1),
                "with_others_us": round(whole / steps * 1e6, 1),
            }
        )
    found.sort(key=lambda each: -each["own_us"])
    return found[:_MOST_FUNCTIONS]


def of_kind(llm: Any, kind: str, batch: int, steps: int, length: int) -> dict[str, Any]:
    """A run without cProfile, for the threads and the host, and one with it, which takes longer.

    All is of one step. Only the thread that steps is seen by cProfile: with more than one rank, or the engine
    core in a process of its own, that is the front end.
    """
    requests = kinds.batch_of(kind, batch)
    run = Run(llm, requests, SETTLE + steps, length)
    threads, host, begun = _cpu_of_threads(), _cpu_of_host(), time.perf_counter()
    stages: dict[str, float] = {}
    with timed_stages(stages):
        run.outputs()
    passed = time.perf_counter() - begun
    after = _cpu_of_threads()
    own = {name: round((cpu - threads.get(name, 0.0)) / steps * 1e6) for name, cpu in after.items()}
    cores = round((_cpu_of_host() - host) / passed, 2)
    us = run.us_per_step()
    profile = cProfile.Profile()
    run = Run(llm, requests, SETTLE + steps, length)
    profile.runcall(run.outputs)
    return {
        "us_per_step": us,
        "stages_us": {name: round(of / (SETTLE + steps) * 1e6) for name, of in stages.items()},
        "us_per_step_profiled": run.us_per_step(),
        "busy_cores_of_host": cores,
        "cpu_us_of_threads": {name: us for name, us in sorted(own.items(), key=lambda each: -each[1]) if us},
        "functions": functions(profile, SETTLE + steps),
    }
