#!/usr/bin/env python3
"""A cost model of a decoding step: microseconds against tensor-parallel ranks, stages and requests.

    cost_model.py FILE.json... [--test FILE.json...] [--kind full] [--predict 8x1,4x2]

Files are decode.py's summaries and arrivals.py's layouts, of one shape on one kind of GPU. For each side
(vLLM, Croupier) a step is

    weights / TP + work x requests / (TP x PP) + all_reduce x (TP > 1) + step x PP + request x requests

with factors of zero or more that fit FILEs best, in relative errors. --test are files that are only
predicted: their errors are what to expect of a prediction. --predict are layouts TPxPP for --batches.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

_NAMES = ("weights", "work", "all_reduce", "step", "request")


class Point(NamedTuple):
    tp: int
    pp: int
    batch: int
    us: float


def features(tp: int, pp: int, batch: int) -> list[float]:
    return [1 / tp, batch / (tp * pp), float(tp > 1), float(pp), float(batch)]


def points_of(found: dict[str, Any], kind: str) -> dict[str, list[Point]]:
    """By sides; a time of 0 is none."""
    tp, pp = int(found["arguments"]["tp"]), int(found["arguments"]["pp"])
    points: dict[str, list[Point]] = {}
    for outer, cells in found.get("steps", {}).items():
        for inner, cell in cells.items():
            side, name = (inner, outer) if "/" in outer else (outer, inner)
            batch, _, of = name.partition("/")
            if of == kind:
                us = cell["best"] if "best" in cell else cell["us_a_step"]
                points.setdefault(side, []).append(Point(tp, pp, int(batch), us))
    for name, sides in found.get("equal", {}).items():
        batch, _, of = name.partition("/")
        for side, runs in sides.items():
            times = [run["us_per_step"] for run in runs if run["us_per_step"]]
            if of == kind and times:
                points.setdefault(side, []).append(Point(tp, pp, int(batch), min(times)))
    return points


def fitted(points: list[Point]) -> list[float]:
    """Least squares of relative errors with factors of zero or more, one factor at a time."""
    rows = np.array([features(point.tp, point.pp, point.batch) for point in points])
    rows /= np.array([[point.us] for point in points])
    factors = np.zeros(rows.shape[1])
    for _ in range(20000):
        before = factors.copy()
        for place in range(len(factors)):
            column = rows[:, place]
            rest = 1.0 - rows @ factors + column * factors[place]
            square = column @ column
            factors[place] = max(0.0, float(column @ rest / square)) if square else 0.0
        if np.allclose(before, factors, rtol=1e-9, atol=1e-12):
            break
    return [float(factor) for factor in factors]


def predicted(factors: list[float], tp: int, pp: int, batch: int) -> float:
    return float(np.dot(factors, features(tp, pp, batch)))


def read(files: list[Path], kind: str) -> dict[str, list[Point]]:
    points: dict[str, list[Point]] = {}
    for file in files:
        for side, of in points_of(json.loads(file.read_text(encoding="utf-8")), kind).items():
            points.setdefault(side, []).extend(of)
    return points


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--test", type=Path, nargs="*", default=[])
    parser.add_argument("--kind", default="full", help="of requests (kinds.py)")
    parser.add_argument("--predict", default="8x1,4x2,1x8")
    parser.add_argument("--batches", default="64,256,1024")
    arguments = parser.parse_args()
    measured, unseen = read(arguments.files, arguments.kind), read(arguments.test, arguments.kind)
    for side in ("native", "croupier"):
        factors = fitted(measured[side])
        print(side, {name: round(factor, 2) for name, factor in zip(_NAMES, factors, strict=True)})
        for what, points in (("fitted", measured[side]), ("tested", unseen.get(side, []))):
            for tp, pp, batch, us in points:
                expected = predicted(factors, tp, pp, batch)
                told = f"{us:6.0f} us, by the model {expected:6.0f}, error {expected / us - 1:+.0%}"
                print(f"  {what:9} TP {tp} PP {pp} {batch:5} requests: {told}")
        for layout in arguments.predict.split(","):
            tp, pp = (int(part) for part in layout.split("x"))
            for batch in map(int, arguments.batches.split(",")):
                us = predicted(factors, tp, pp, batch)
                print(f"  predicted TP {tp} PP {pp} {batch:5} requests: {us:6.0f} us")
    return 0


if __name__ == "__main__":
    sys.exit(main())
