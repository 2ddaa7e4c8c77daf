"""Tests whether a value stays constant: fits a line to five-minute medians, with the error of its slope."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass

BLOCK_S = 300.0
# Student's t for 95 %, by degrees of freedom.
T95 = (0.0, 12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13)
Points = list[tuple[float, float]]


@dataclass
class Slope:
    per_hour: float
    error: float  # half of the 95 % interval
    at_start: float
    start_s: float
    end_s: float

    def at(self, second: float) -> float:
        return self.at_start + self.per_hour * (second - self.start_s) / 3600.0

    def text(self, unit: str) -> str:
        """The slope as text, with a verdict."""
        size = f"{self.per_hour:+.0f} ± {self.error:.0f} {unit}/h"
        return f"{size}: {'no slope can be told' if abs(self.per_hour) <= self.error else 'not flat'}"


def medians(points: Points, start_s: float, block_s: float = BLOCK_S) -> Points:
    """Medians of blocks, because adjacent samples are correlated and some are outliers."""
    blocks: dict[int, Points] = {}
    for second, value in points:
        if second >= start_s:
            blocks.setdefault(int((second - start_s) / block_s), []).append((second, value))
    usual = statistics.median(len(block) for block in blocks.values()) if blocks else 0
    whole = [block for _, block in sorted(blocks.items()) if 2 * len(block) > usual]
    return [tuple(statistics.median(axis) for axis in zip(*block, strict=True)) for block in whole]  # type: ignore[misc]


def fit(points: Points, start_s: float, block_s: float = BLOCK_S) -> Slope | None:
    """Returns None if there is too little time for a slope and its error."""
    of = medians(points, start_s, block_s)
    if len(of) < 3:
        return None
    mean_x, mean_y = (statistics.fmean(axis) for axis in zip(*of, strict=True))
    square = sum((x - mean_x) ** 2 for x, _ in of)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in of) / square
    rest = sum((y - mean_y - slope * (x - mean_x)) ** 2 for x, y in of)
    freedom = len(of) - 2
    error = T95[min(freedom, len(T95) - 1)] * math.sqrt(rest / freedom / square)
    start, end = of[0][0], of[-1][0]
    return Slope(slope * 3600, error * 3600, mean_y + slope * (start - mean_x), start, end)
