#!/usr/bin/env python3
"""Draws the fused head's time, and cuBLAS's, as multiples of the time to read the head's weights once.

    roofline.py KERNELS.json PICTURE.svg

KERNELS has the lines of head_bench --records. A line at 1 is the floor: no product that reads the weights is
sooner. Products of many columns are bound by the tensor cores instead; their floor is 2 V d B operations at
TENSOR_RATE.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

# Dense bf16 products of an H100, measured: operations in a microsecond.
TENSOR_RATE = 7.9e8
SERIES = {
    "cublas": ("torch's product (cuBLAS)", "#64748b"),
    "fused, logits": ("fused, all logits written", "#1d4ed8"),
    "fused, drawn": ("fused, plain requests", "#0f766e"),
}
LEFT, TOP, WIDE, HIGH, GAP, BELOW = 44, 44, 250, 120, 46, 46
MOST = 1.5


def time_of(records: list[dict[str, Any]], shape: tuple[int, int], columns: int, what: str) -> float:
    times = [
        each["us"]
        for each in records
        if (each["V"], each["d"]) == shape
        and each["B"] == columns
        and each["what"].startswith(what)
        # "cublas" alone is what cuBLAS proposes first; of tiles the fastest counts.
        and (what != "cublas" or each["what"] == what)
        and "sums" not in each["what"]
    ]
    return min(times)


def read_rate(records: list[dict[str, Any]]) -> float:
    """Bytes in a microsecond."""
    return max(each["gb_per_s"] for each in records if each["what"] == "read") * 1e3


def panel(records: list[dict[str, Any]], shape: tuple[int, int], left: float, top: float) -> list[str]:
    batches = sorted({each["B"] for each in records if (each["V"], each["d"]) == shape and each["B"] > 0})
    read = 2 * shape[0] * shape[1] / read_rate(records)
    body = [f'<text x="{left}" y="{top - 8}" font-weight="bold">{shape[0]:,} ids, d = {shape[1]:,}</text>']

    def at(place: int, times: float) -> tuple[float, float]:
        x = left + place * WIDE / (len(batches) - 1)
        return x, top + HIGH * (MOST - min(times, MOST)) / (MOST - 0.9)

    for level in (1.0, 1.1, 1.2, 1.3, 1.4, 1.5):
        y = at(0, level)[1]
        body.append(f'<path d="M{left} {y:.1f}h{WIDE}" stroke="#e2e8f0"/>')
        body.append(f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end" font-size="10">{level}</text>')
    floors = [max(1.0, 2 * shape[0] * shape[1] * columns / TENSOR_RATE / read) for columns in batches]
    for times, colour, dashes in [
        *(([time_of(records, shape, columns, what) / read for columns in batches], colour, "")
          for what, (_, colour) in SERIES.items()),
        (floors, "black", ' stroke-dasharray="4 3"'),
    ]:  # fmt: skip
        points = " ".join(
            f"{x:.1f},{y:.1f}" for x, y in (at(place, each) for place, each in enumerate(times))
        )
        body.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"{dashes}/>')
    for place, columns in enumerate(batches):
        x = at(place, 1)[0]
        body.append(
            f'<text x="{x:.1f}" y="{top + HIGH + 14}" text-anchor="middle" font-size="10">{columns}</text>'
        )
    return body


def picture(records: list[dict[str, Any]]) -> str:
    shapes = sorted({(each["V"], each["d"]) for each in records}, key=lambda of: (-of[0], of[1]))
    body = []
    for place, shape in enumerate(shapes):
        left = LEFT + place % 3 * (WIDE + GAP)
        body += panel(records, shape, left, TOP + place // 3 * (HIGH + BELOW))
    names = [
        *SERIES.values(),
        ("floor: reading the weights, or the tensor cores", "black"),
    ]
    for place, (name, colour) in enumerate(names):
        x = 8 + place * 215
        body.append(f'<rect x="{x}" y="8" width="12" height="12" fill="{colour}"/>')
        body.append(f'<text x="{x + 18}" y="18">{name}</text>')
    rows = (len(shapes) + 2) // 3
    width, height = LEFT + 3 * (WIDE + GAP), TOP + rows * (HIGH + BELOW)
    box = f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11"'
    white = f'<rect width="{width}" height="{height}" fill="white"/>'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {box}>{white}{"".join(body)}</svg>\n'


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    Path(sys.argv[2]).write_text(picture(json.loads(Path(sys.argv[1]).read_text())), encoding="utf-8")
