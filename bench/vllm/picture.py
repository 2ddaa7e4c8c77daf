"""Pictures of what arrivals.py found, one panel or group for each of its files.

    picture.py times|loads|peaks|use PICTURE.svg FILE.json...

times: how the requests' means of the time between two tokens spread when requests come all at once. loads:
P99 of that time against tokens a second, for each load and all at once. peaks: tokens a second then.
use: how busy GPUs and cores are meanwhile.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from panels import NAMES, Panel, picture_of

Results = dict[str, Any]


def title_of(found: Results) -> str:
    """The shape and the layout."""
    given = found["arguments"]
    size, tp, pp = given["size"].upper(), int(given["tp"]), int(given["pp"])
    stages = f"PP {pp}" if pp > 1 else ""
    ranks = f"TP {tp}" if tp > 1 or not stages else ""
    return f"{size}, {' × '.join(part for part in (ranks, stages) if part)}"


def peak_of(found: Results) -> dict[str, Any]:
    """By sides, of the first kind."""
    return next(iter(found["peaks"].values()), {})


def sides_of(all_found: list[Results]) -> list[str]:
    there = {side for found in all_found for side in peak_of(found)}
    return [side for side in NAMES if side in there] + sorted(there - set(NAMES))


def times(all_found: list[Results]) -> str:
    panels = []
    for place, found in enumerate(all_found):
        sides = peak_of(found)
        most = max(side["tpot_ms"]["p99"] for side in sides.values())
        panel = Panel(
            place, title_of(found), "ms a token, mean of a request", "share of requests", (most, 1.0)
        )
        for row, (name, side) in enumerate(sides.items()):
            spread = side["tpot_quantiles_ms"]
            last = len(spread) - 1
            panel.line([(value, at / last) for at, value in enumerate(spread)], name)
            panel.dot((side["tpot_ms"]["p95"], 0.95), name)
            panel.note(row, f"P95 {side['tpot_ms']['p95']:.1f} ms", name)
        panels.append(panel)
    return picture_of(panels, sides_of(all_found), "dot: P95")


def loads(all_found: list[Results]) -> str:
    panels = []
    for place, found in enumerate(all_found):
        points: dict[str, list[tuple[float, float]]] = {}
        for sides in [*(load["sides"] for load in found["loads"]), peak_of(found)]:
            for name, side in sides.items():
                rate = side["steady_tokens_per_second"] / 1000
                points.setdefault(name, []).append((rate, side["tpot_ms"]["p99"]))
        every = [point for line in points.values() for point in line]
        most = max(x for x, _ in every), max(y for _, y in every)
        panel = Panel(place, title_of(found), "thousand tokens a second", "P99, ms a token", most)
        for name, line in points.items():
            panel.line(sorted(line), name)
            for point in line:
                panel.dot(point, name)
        panels.append(panel)
    return picture_of(panels, sides_of(all_found), "last dot: all requests at once")


def peaks(all_found: list[Results]) -> str:
    rates = [
        {name: side["steady_tokens_per_second"] for name, side in peak_of(found).items()}
        for found in all_found
    ]
    most = max(rate for each in rates for rate in each.values()) / 1000
    panel = Panel(0, "all requests at once, all controls", "", "thousand tokens a second", (0, most), wide=3)
    for place, (found, sides) in enumerate(zip(all_found, rates, strict=True)):
        native = sides.get("native", 0.0)
        bars = [
            (name, sides[name] / 1000, f"{sides[name] / native:.2f}" if native else "")
            for name in sides_of([found])
        ]
        panel.group(place, len(all_found), title_of(found), bars)
    return picture_of([panel], sides_of(all_found), "above a bar: over vLLM")


def use(all_found: list[Results]) -> str:
    gpus = Panel(0, "GPUs (utilisation, median)", "", "percent", (0, 100.0), wide=2)
    cores = Panel(2, "the host's cores", "", "percent", (0, max(_cores_of(all_found))), wide=2)
    for place, found in enumerate(all_found):
        sides = {name: peak_of(found)[name]["host"] for name in sides_of([found])}
        busy = [
            (name, host["gpu_percent"][1], f"{host['gpu_percent'][1]:.0f}")
            for name, host in sides.items()
            if "gpu_percent" in host
        ]
        shares = [
            (name, share, f"{share:.1f}") for name, share in zip(sides, _cores_of([found]), strict=True)
        ]
        gpus.group(place, len(all_found), title_of(found), busy)
        cores.group(place, len(all_found), title_of(found), shares)
    return picture_of([gpus, cores], sides_of(all_found))


def _cores_of(all_found: list[Results]) -> list[float]:
    """In percent of the host."""
    return [
        100 * peak_of(found)[name]["host"]["host_busy_cores"] / found["environment"]["cores"]
        for found in all_found
        for name in sides_of([found])
    ]


PICTURES: dict[str, Callable[[list[Results]], str]] = {
    "times": times,
    "loads": loads,
    "peaks": peaks,
    "use": use,
}


def main() -> int:
    if len(sys.argv) < 4 or sys.argv[1] not in PICTURES:
        print(__doc__)
        return 2
    all_found = [json.loads(Path(name).read_text(encoding="utf-8")) for name in sys.argv[3:]]
    Path(sys.argv[2]).write_text(PICTURES[sys.argv[1]](all_found), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
