"""Two samplers' times between tokens as a picture: one panel a load, one line a side, no library needed.

picture.py arrivals.json picture.svg
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

WIDTH, HEIGHT = 300, 240
LEFT, TOP, BOTTOM, GAP = 62, 34, 46, 14
COLOURS = {"native": "#b45309", "croupier": "#1d4ed8"}
NAMES = {"native": "vLLM's sampler", "croupier": "Croupier"}


def picture(results: dict[str, Any]) -> str:
    """`results` is arrivals.json: of each load and side the quantiles of the times between two tokens."""
    loads = results["loads"]
    panels = [_panel(load, place * (WIDTH + GAP)) for place, load in enumerate(loads)]
    width, height = len(loads) * (WIDTH + GAP), HEIGHT + 24
    body = "".join(panels) + _legend(sorted({side for load in loads for side in load["sides"]}))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
        f'font-size="11"><rect width="{width}" height="{height}" fill="white"/>{body}</svg>\n'
    )


def _panel(load: dict[str, Any], left: float) -> str:
    sides = load["sides"]
    # The last percent is a tail of prompts that came in between: it would press the rest into a corner.
    most = _round_up(max((_at(side["itl_quantiles_ms"], 0.99) for side in sides.values()), default=1.0))
    x0, x1, y0, y1 = left + LEFT, left + WIDTH, HEIGHT - BOTTOM, TOP

    def x(value: float) -> float:
        return x0 + (x1 - x0) * min(value / most, 1.0)

    def y(part: float) -> float:
        return y0 + (y1 - y0) * part

    parts = [
        f'<text x="{(x0 + x1) / 2:.0f}" y="{TOP - 12}" text-anchor="middle">'
        f"load {load['fraction']:g}: {load['requests_per_second']:.1f} requests a second</text>",
        f'<path d="M{x0:.1f} {y1:.1f}V{y0:.1f}H{x1:.1f}" fill="none" stroke="black"/>',
        f'<text x="{(x0 + x1) / 2:.0f}" y="{HEIGHT - 12}" text-anchor="middle">ms between two tokens</text>',
    ]
    middle = f'{left + 14:.0f}" y="{(y0 + y1) / 2:.0f}'
    parts.append(
        f'<text x="{middle}" text-anchor="middle"'
        f' transform="rotate(-90 {left + 14:.0f} {(y0 + y1) / 2:.0f})">'
        "share of the times</text>"
    )
    for part in (0.0, 0.25, 0.5, 0.75, 0.95):
        parts.append(f'<path d="M{x0:.1f} {y(part):.1f}H{x1:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{x0 - 6:.1f}" y="{y(part) + 4:.1f}" text-anchor="end">{part:g}</text>')
    for tick in range(5):
        value = most * tick / 4
        parts.append(f'<text x="{x(value):.1f}" y="{y0 + 15:.1f}" text-anchor="middle">{value:.3g}</text>')
    for name, side in sides.items():
        quantiles = side["itl_quantiles_ms"]
        steps = [(x(value), y(place / max(len(quantiles) - 1, 1))) for place, value in enumerate(quantiles)]
        line = " ".join(f"{a:.1f},{b:.1f}" for a, b in steps)
        colour = COLOURS.get(name, "black")
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.6"/>')
        at = x(_at(quantiles, 0.95))
        parts.append(f'<circle cx="{at:.1f}" cy="{y(0.95):.1f}" r="3" fill="{colour}"/>')
    return "".join(parts)


def _round_up(value: float) -> float:
    """To four steps of a length that reads well."""
    for step in (s * 10.0**power for power in range(-2, 5) for s in (1, 1.5, 2, 2.5, 5)):
        if 4 * step >= value:
            return 4 * step
    return value


def _at(quantiles: list[float], part: float) -> float:
    return quantiles[round(part * (len(quantiles) - 1))] if quantiles else 0.0


def _legend(sides: list[str]) -> str:
    parts, left, middle = [], LEFT, HEIGHT + 8
    for side in sides:
        colour = COLOURS.get(side, "black")
        parts.append(f'<path d="M{left} {middle}h18" stroke="{colour}" stroke-width="2"/>')
        parts.append(f'<text x="{left + 24}" y="{middle + 4}">{NAMES.get(side, side)}</text>')
        left += 140
    parts.append(f'<text x="{left}" y="{middle + 4}">the dot: P95</text>')
    return "".join(parts)


def main() -> int:
    if len(sys.argv) != 3:
        print(__doc__)
        return 2
    results = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    Path(sys.argv[2]).write_text(picture(results), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
