#!/usr/bin/env python3
"""Prints tables of what run.py has written, also of a run that did not end.

summary.py RESULT.json...
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Lines = list[dict[str, Any]]
CASE = ("groups", "width", "verified_share")


def medians(lines: Lines) -> Lines:
    """Of the runs of each shape and share. Rollbacks are given in shares of the windows, and what is decoded
    again in shares of all tokens.
    """
    found = []
    for case in sorted({tuple(line[name] for name in CASE) for line in lines}):
        runs = [line for line in lines if tuple(line[name] for name in CASE) == case]
        found.append(
            {
                **dict(zip(CASE, case, strict=True)),
                **{name: spread([line[name] for line in runs]) for name in ("of_plain", "of_plain_by_cpu")},
                "rollbacks": median_ratio(runs, "rollbacks", "windows"),
                "discarded": median_ratio(runs, "discarded", "tokens"),
            }
        )
    return found


def spread(values: list[float]) -> list[float]:
    return [min(values), round(statistics.median(values), 3), max(values)]


def median_ratio(runs: Lines, part: str, whole: str) -> float:
    return round(statistics.median(line[part] / max(1, line[whole]) for line in runs), 4)


def print_table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> None:
    for row in (head, *rows):
        first, *others = row
        print(f"{first:46}" + "".join(f"{cell:>24}" for cell in others))
    print()


def print_rows(lines: Lines) -> None:
    head = ("pass", "different rows", "other greedy token", "largest difference")
    print_table(
        head,
        [
            (
                line["pass"],
                percent(line["different"]),
                percent(line["other_greedy_token"]),
                f"{line['largest_difference']:.3f}",
            )
            for line in lines
        ],
    )


def print_batchings(lines: Lines) -> None:
    for verified in (True, False):
        kind = "verified" if verified else "not verified"
        head = (kind, "different requests", "different tokens", "windows rolled back", "tokens decoded again")
        print_table(
            head,
            [
                (
                    line["batching"],
                    percent(line["different_requests"]),
                    percent(line["different_tokens"]),
                    percent(median_ratio([line], "rollbacks", "windows")),
                    percent(median_ratio([line], "discarded", "tokens")),
                )
                for line in lines
                if line["verified"] == verified
            ],
        )


def print_throughput(lines: Lines) -> None:
    """A cell: throughput by that without verification, windows rolled back, tokens decoded again."""
    found = medians(lines)
    shares = sorted({each["verified_share"] for each in found})
    print("Throughput divided by that without verification; windows rolled back; tokens decoded again")
    rows = []
    for shape in sorted({(each["groups"], each["width"]) for each in found}):
        cells = {each["verified_share"]: each for each in found if (each["groups"], each["width"]) == shape}
        rows.append(
            [f"{shape[0]} x {shape[1]}", *(cell(cells[share]) if share in cells else "" for share in shares)]
        )
    print_table(("sequences x rows", *(f"{share:.0%} verified" for share in shares)), rows)


def cell(case: dict[str, Any]) -> str:
    return f"{case['of_plain'][1]:.3f} {percent(case['rollbacks'])} {percent(case['discarded'])}"


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def main() -> int:
    printers = {"rows": print_rows, "batchings": print_batchings, "throughput": print_throughput}
    for path in map(Path, sys.argv[1:]):
        found = json.loads(path.read_text())
        for part, show in printers.items():
            if found.get(part):
                show(found[part])
    return 0


if __name__ == "__main__":
    sys.exit(main())
