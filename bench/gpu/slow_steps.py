"""The slowest steps of traces: columns that asked for more of their rows, and those that another sampler took
because their own was late.

slow_steps.py FOLDER OUT.json COMMAND      FOLDER has N.trace and N.sim of each number of columns N
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import collect

SAMPLERS = 1  # the process of a trace that has the columns
SHOWN = 5


def share(of: list[float], part: float) -> float:
    return round(sorted(of)[min(len(of) - 1, int(len(of) * part))], 1) if of else 0.0


def quantiles(of: list[float]) -> dict[str, float]:
    return {"count": len(of), "p50": share(of, 0.5), "p90": share(of, 0.9), "p99": share(of, 0.99)}


def end_of(event: dict[str, Any]) -> float:
    return float(event["ts"]) + float(event["dur"])


def asked(event: dict[str, Any]) -> bool:
    return any("asked for more" in note for note in event["args"].get("notes", []))


class Step:
    """`before`: the sampler of each column in the previous step."""

    def __init__(self, columns: list[dict[str, Any]], before: dict[int, int]) -> None:
        self.columns = sorted(columns, key=lambda each: float(each["ts"]))
        self.begin = float(self.columns[0]["ts"])
        self.us = max(map(end_of, columns)) - self.begin
        self.tries: dict[int, list[dict[str, Any]]] = defaultdict(list)
        for each in self.columns:
            self.tries[each["args"]["column"]].append(each)
        self.retried = [tries for tries in self.tries.values() if any(map(asked, tries))]
        self.moved = sum(tries[-1]["tid"] != before.get(of, tries[-1]["tid"]) for of, tries in self.tries.items())
        before |= {of: tries[-1]["tid"] for of, tries in self.tries.items()}

    def shown(self) -> dict[str, Any]:
        def story(tries: list[dict[str, Any]]) -> str:
            return ", ".join(f"{float(e['ts']) - self.begin:.0f} to {end_of(e) - self.begin:.0f}" for e in tries)

        longest = max(float(e["dur"]) for e in self.columns if not asked(e))
        retried = [story(tries) for tries in self.retried]
        return {"us": round(self.us, 1), "longest_other_us": round(longest, 1), "moved": self.moved, "asked": retried}


def read(path: Path) -> list[Step]:
    events = json.loads(path.read_text())["traceEvents"]
    columns = defaultdict(list)
    for event in events:
        if event.get("ph") == "X" and event["pid"] == SAMPLERS and "step" in event.get("args", {}):
            columns[event["args"]["step"]].append(event)
    before: dict[int, int] = {}
    return [Step(columns[number], before) for number in sorted(columns)]


def story_of(path: Path) -> dict[str, Any]:
    steps = sorted(read(path), key=lambda step: step.us)
    retried = [tries for step in steps for tries in step.retried]
    waits = [float(b["ts"]) - end_of(a) for tries in retried for a, b in zip(tries, tries[1:])]
    engine = json.loads(path.with_suffix(".sim").read_text())
    return {
        "columns": int(path.stem),
        "gpu_us": engine["hbm_to_hbm_us"],
        "block_requests": engine["block_requests"],
        "decided_us": quantiles([step.us for step in steps]),
        "decided_us_where_none_asked": quantiles([step.us for step in steps if not step.retried]),
        "decided_us_where_columns_moved": quantiles([step.us for step in steps if step.moved]),
        "tries_of_columns_that_asked": quantiles([float(len(tries)) for tries in retried]),
        "first_try_us": quantiles([float(tries[0]["dur"]) for tries in retried]),
        "wait_us": quantiles(waits),
        "later_try_us": quantiles([float(e["dur"]) for tries in retried for e in tries[1:]]),
        "slowest": [step.shown() for step in steps[-SHOWN:]],
    }


def main() -> None:
    folder, out, command = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    results = [story_of(path) for path in sorted(folder.glob("*.trace"), key=lambda path: int(path.stem))]
    for each in results:
        print(json.dumps(each))
    out.write_text(
        json.dumps({"command": command, "environment": collect.environment(), "results": results}, indent=1)
        + "\n"
    )


if __name__ == "__main__":
    main()
