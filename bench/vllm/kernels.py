"""Where a step's time on the GPU goes, kernel by kernel, in engines that differ in Croupier's options.

    kernels.py FOLDER --size 7b --layers 28 --batches 1,64 --engines '{"rows": {"transport": "rows"}}'

Each engine decodes the same greedy requests, first untouched (microseconds a step), then under torch's
profiler. `native` is an engine without Croupier. FOLDER/kernels.json has of each engine and batch what one
step has on each rank's GPU: how long each kernel takes and how often it runs, and how long the model's stream
has nothing to do, by the kernels before and behind. FOLDER/events-ENGINE-BATCH.json has some steps in the
middle whole, rank by rank: [begin, duration, name, stream], in microseconds of one clock.
"""

from __future__ import annotations

import argparse
import bisect
import copy
import json
import os
import statistics
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import kinds
import workers
from engines import (
    SETTLE,
    Run,
    add_engine_options,
    croupier_options,
    folder_model,
    groups_of,
    make_apart,
    prompt_length,
)
from shapes import make_model
from sides import Budget, Side, SideFailedError, end_by_signal, end_llm, environment, last_line, write_json

PROFILED = 24
LISTED = 12
KEPT_US = 40_000
ENVIRONMENT = "environment"


def make_engine(variables: dict[str, str], *given: Any) -> Any:
    os.environ.update(variables)
    return make_apart(*given)


def step_time(llm: Any, kind: str, batch: int, steps: int, length: int) -> dict[str, Any]:
    """Of one run, with the GPU's clocks and power as they are in its middle."""
    asked = "clocks.sm,clocks.mem,power.draw,clocks_event_reasons.active"
    watch = subprocess.Popen(
        ["nvidia-smi", f"--query-gpu={asked}", "--format=csv,noheader,nounits", "--loop-ms=50"],
        stdout=subprocess.PIPE,
        text=True,
    )
    run = Run(llm, kinds.batch_of(kind, batch), SETTLE + steps, length)
    run.outputs()
    watch.terminate()
    lines = watch.communicate()[0].splitlines()
    return {"us": run.us_per_step(), "gpu": lines[len(lines) // 2] if lines else ""}


def profiled(
    llm: Any, kind: str, batch: int, groups: int, length: int, events_file: Path
) -> list[dict[str, Any]]:
    """Rank by rank."""
    requests = kinds.batch_of(kind, batch)
    Run(llm, requests, SETTLE + 4, length).outputs()
    llm.collective_rpc(workers.begin_profile)
    Run(llm, requests, SETTLE + PROFILED, length).outputs()
    ranks = llm.collective_rpc(workers.end_profile)
    middle = statistics.median(begin for events in ranks for begin, *_ in events)
    kept = [[event for event in events if abs(event[0] - middle) < KEPT_US / 2] for events in ranks]
    events_file.write_text(json.dumps(kept), encoding="utf-8")
    return [steps_of(sorted(map(tuple, events)), groups) for events in ranks]


def steps_of(events: list[tuple[float, float, str, int]], groups: int) -> dict[str, Any]:
    # Not the one that is busy for longest: that may be a wait for another rank.
    model, _ = Counter(stream for *_, stream in events).most_common(1)[0]
    on_model = [event for event in events if event[3] == model]
    marks = step_begins(on_model, groups)
    periods = [after - before for before, after in zip(marks, marks[1:], strict=False)]
    if len(periods) < 4:
        return {"error": f"{len(marks)} steps were found in {len(on_model)} kernels"}
    first, last = marks[len(marks) // 4], marks[-2]
    count = sum(first <= mark < last for mark in marks)
    kernels: dict[str, list[float]] = defaultdict(list)
    gaps: dict[str, list[float]] = defaultdict(list)
    elsewhere: dict[str, list[float]] = defaultdict(list)
    offsets: dict[str, list[float]] = defaultdict(list)
    for start, duration, name, stream in events:
        if first <= start < last and stream != model:
            elsewhere[f"{name[:60]} on {stream}"].append(duration)
            offsets[name[:60]].append(start - marks[bisect.bisect_right(marks, start) - 1])
    inside = [event for event in on_model if first <= event[0] < last]
    for event, following in zip(inside, inside[1:], strict=False):
        kernels[event[2][:80]].append(event[1])
        gaps[f"{event[2][:50]} -> {following[2][:50]}"].append(following[0] - event[0] - event[1])
    return {
        "steps": count,
        "period_us": round(statistics.median(periods), 1),
        "kernels_us": round(sum(map(sum, kernels.values())) / count, 1),
        "gaps_us": round(sum(map(sum, gaps.values())) / count, 1),
        "kernels": ranked(kernels, count),
        "gaps": ranked(gaps, count),
        "other_streams": ranked(elsewhere, count),
        "other_streams_begin_us": {name: round(statistics.median(at), 1) for name, at in offsets.items()},
    }


def step_begins(events: list[tuple[float, float, str, int]], groups: int) -> list[float]:
    """The begins of what comes once a step, of each group of requests, and most evenly."""
    starts: dict[str, list[float]] = defaultdict(list)
    for start, _, name, _ in events:
        starts[name].append(start)
    least, most = PROFILED * groups, (PROFILED + SETTLE + 2) * groups
    able = {name: found for name, found in starts.items() if least <= len(found) <= most}
    if not able:
        return []
    # What runs once a layer comes as often in a prompt's one step.
    longest = max(found[-1] - found[0] for found in able.values())
    whole = [found for found in able.values() if found[-1] - found[0] > longest * 0.8]
    return min(whole, key=lambda found: statistics.pstdev(spans(found)))


def spans(starts: list[float]) -> list[float]:
    return [after - before for before, after in zip(starts, starts[1:], strict=False)]


def ranked(found: dict[str, list[float]], count: int) -> dict[str, dict[str, float]]:
    most = sorted(found.items(), key=lambda item: -sum(item[1]))[:LISTED]
    return {
        name: {
            "us_a_step": round(sum(each) / count, 1),
            "times_a_step": round(len(each) / count, 2),
            "median_us": round(statistics.median(each), 2),
        }
        for name, each in most
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--batches", default="1,64")
    parser.add_argument("--kind", default="greedy", help="what the requests ask for (kinds.py)")
    parser.add_argument("--steps", type=int, default=60, help="of an untouched run")
    parser.add_argument("--runs", type=int, default=3, help="untouched runs, the engines in turns")
    parser.add_argument(
        "--engines",
        type=json.loads,
        default={"native": None, "rows": {"transport": "rows"}, "lean": {"transport": "lean"}},
        help="JSON: the plugin's options of each engine, null for none; the key `environment` has variables",
    )
    parser.add_argument("--untouched", action="store_true", help="without the profiler's runs")
    parser.add_argument("--budget", type=float, default=0, help="seconds; then nothing new begins")
    add_engine_options(parser)
    arguments = parser.parse_args()
    arguments.beside = {}
    end_by_signal()
    budget = Budget(arguments.budget)
    arguments.folder.mkdir(parents=True, exist_ok=True)
    make_model(arguments.folder / "model", arguments.size, arguments.layers)
    batches = [int(text) for text in arguments.batches.split(",")]
    found: dict[str, Any] = {"environment": environment()}
    sides: dict[str, Side] = {}

    def kind_of(name: str) -> str:
        return "native" if arguments.engines[name] is None else "beside"

    def own_arguments(name: str) -> argparse.Namespace:
        own = copy.copy(arguments)
        own.beside = arguments.engines[name] or {}
        return own

    def asked(name: str, batch: int, count: int) -> tuple[str, int, int, int]:
        length = prompt_length(own_arguments(name), kind_of(name), max(batches), batch)
        return arguments.kind, batch, count, length

    try:
        for name, options in arguments.engines.items():
            options = dict(options) if options is not None else None
            variables = options.pop(ENVIRONMENT, {}) if options else {}
            given = croupier_options(arguments, **options) if options is not None else None
            model = folder_model(arguments.folder)
            apart = variables, arguments.folder / f"runtime-{name}"
            own = own_arguments(name), kind_of(name), model, batches, given
            sides[name] = Side(name, make_engine, end_llm, *apart, *own)
        for name in list(sides):
            try:
                print(f"{name:12} started in {sides[name].answer()} s", flush=True)
            except SideFailedError as error:
                print(f"{name}: {last_line(error)}", file=sys.stderr, flush=True)
                sides.pop(name).kill()
        for batch in batches:
            for turn in range(arguments.runs):
                for name, side in list(sides.items())[:: 1 if turn % 2 else -1]:
                    if budget.over():
                        continue
                    said = side.ask(step_time, *asked(name, batch, arguments.steps))
                    found.setdefault(name, {}).setdefault(str(batch), {"runs": []})["runs"].append(said)
                    print(f"{name:12} {batch:4} {said}", flush=True)
        for batch in () if arguments.untouched else batches:
            for name, side in sides.items():
                if budget.over():
                    continue
                file = arguments.folder / f"events-{name}-{batch}.json"
                groups = groups_of(own_arguments(name), kind_of(name))
                said = side.ask(profiled, *asked(name, batch, groups), file)
                found[name][str(batch)]["ranks"] = said
                for rank, of in enumerate(said):
                    parts = {key: of.get(key) for key in ("period_us", "kernels_us", "gaps_us", "error")}
                    print(f"{name:12} {batch:4} rank {rank} profiled {parts}", flush=True)
                write_json(arguments.folder / "kernels.json", found)
    finally:
        for side in sides.values():
            side.close()
    write_json(arguments.folder / "kernels.json", found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
