#!/usr/bin/env python3
"""Draws the parts of a lean step's time as SVG bars, one per batch and kind of request.

    lean_picture.py KERNELS.json STEPS.json PICTURE.svg

KERNELS is of `croupier bench lean --json`, STEPS of bench/gpu/lean_steps.sh, both of one GPU. Each part of a
bar is a difference of two medians: an empty kernel and back; the rows' bytes at the memory's rate; the rest
of the kernel, which is choosing blocks and their way over the link; and the decisions, up to the whole step.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

# Memory bandwidth of an H200 for copies, in bytes per microsecond.
MEMORY_RATE = 4.3e6
PARTS = {
    "launch, and the tokens' way back": "#64748b",
    "reading the rows from the GPU's memory": "#0f766e",
    "choosing blocks, and their way over PCIe": "#1d4ed8",
    "deciding": "#b45309",
}
KINDS = {"fixed": "full", "fixed-temperature": "temperature", "fixed-top-p": "top-p + penalties"}
LEFT, RIGHT, TOP, BAR, GAP, GROUP, WIDE = 190, 60, 46, 13, 3, 12, 620


def transport_of(kernels: dict[str, Any], kind: str, columns: int) -> dict[str, Any]:
    """The measured case that is nearest to the blocks sent for such requests."""
    drawn = kind == "fixed-temperature"
    wanted = {"columns": columns, "sums": False, "drawn": drawn}
    if not drawn:
        wanted |= {"by_maximum": 32, "by_race": 0 if kind == "fixed" else 32}
    return next(each for each in kernels["results"] if all(each.get(key) == of for key, of in wanted.items()))


def parts_of(kernels: dict[str, Any], step: dict[str, Any], kind: str, columns: int) -> list[float]:
    transport = transport_of(kernels, kind, columns)
    empty = transport["empty_to_tokens_us"]["p50"]
    reading = transport["bytes_of_rows"] / MEMORY_RATE
    whole = step["hbm_to_hbm_us"]["p50"]
    # The two measurements have different rows, so a part may exceed the whole step.
    to_tokens = min(transport["to_tokens_us"]["p50"], whole)
    return [empty, reading, to_tokens - empty - reading, whole - to_tokens]


def picture(kernels: dict[str, Any], steps: dict[str, Any]) -> str:
    batches = sorted({int(name.split("-")[-2]) for name in steps["runs"] if name.startswith("fixed-")})
    bars = [
        (columns, kind, parts_of(kernels, steps["runs"][f"{kind}-{columns}-lean"], kind, columns))
        for columns in batches
        for kind in KINDS
    ]
    scale = WIDE / max(sum(parts) for _, _, parts in bars)
    body, y = [], float(TOP)
    for place, (columns, kind, parts) in enumerate(bars):
        if place % len(KINDS) == 0:
            y += GROUP
            middle = y + (BAR + GAP) * (len(KINDS) / 2) + 3
            body.append(f'<text x="8" y="{middle:.0f}">{columns} column{"s" if columns > 1 else ""}</text>')
        body.append(
            f'<text x="{LEFT - 6}" y="{y + BAR - 3}" text-anchor="end" font-size="10">{KINDS[kind]}</text>'
        )
        x = float(LEFT)
        for part, colour in zip(parts, PARTS.values(), strict=True):
            body.append(
                f'<rect x="{x:.1f}" y="{y:.1f}" width="{part * scale:.1f}" height="{BAR}" fill="{colour}"/>'
            )
            x += part * scale
        body.append(f'<text x="{x + 4:.1f}" y="{y + BAR - 3:.1f}">{sum(parts):.0f} us</text>')
        y += BAR + GAP
    legend = []
    for place, (name, colour) in enumerate(PARTS.items()):
        x, line = 8 + place % 2 * 300, 8 + place // 2 * 18
        legend.append(f'<rect x="{x}" y="{line}" width="12" height="12" fill="{colour}"/>')
        legend.append(f'<text x="{x + 18}" y="{line + 10}">{name}</text>')
    width, height = LEFT + WIDE + RIGHT, round(y) + 10
    box = f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11"'
    white = f'<rect width="{width}" height="{height}" fill="white"/>'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {box}>{white}{"".join(legend + body)}</svg>\n'


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    loaded = [json.loads(Path(name).read_text()) for name in sys.argv[1:3]]
    Path(sys.argv[3]).write_text(picture(*loaded), encoding="utf-8")
