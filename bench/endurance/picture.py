#!/usr/bin/env python3
"""Plots an hour of run.py: memory, latency, load and every kill, with the slopes and their errors.

    picture.py OUT.json PICTURE.svg

It prints the slopes too. The daemon keeps fifteen minutes of its seconds and a sampler meets every vocabulary
first within half an hour, so memory is fitted from minute 30 on as well as from minute 5 on.
"""

from __future__ import annotations

import json
import math
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from slope import Points, Slope, fit

WARM_S = 300.0
SETTLED_S = 1800.0
LEFT, WIDE, RIGHT, TOP, GAP = 104, 640, 26, 64, 48
INK, GRID = "#334155", "#e2e8f0"
DAEMON, SAMPLER, P50, P99, LOAD = "#0f766e", "#1d4ed8", "#b45309", "#94a3b8", "#64748b"
KILLS = {
    "client": ("schedulers", "#7c3aed"),
    "writer": ("writers", "#0f766e"),
    "samplers": ("samplers", "#1d4ed8"),
    "sampler": ("its sampler 1", "#0ea5e9"),
    "hand-over": ("hand-overs", "#b45309"),
    "daemon": ("daemons", "#dc2626"),
}
Read = Callable[[dict[str, Any]], float | None]


def series(result: dict[str, Any], read: Read) -> Points:
    points = []
    for sample in result["samples"]:
        try:
            value = read(sample)
        except (KeyError, TypeError, IndexError):
            continue
        if value is not None:
            points.append((float(sample["at"]), float(value)))
    return points


class Panel:
    """One diagram: a title, an axis of values and a time grid."""

    def __init__(self, y: float, height: float, seconds: float, title: str, most: float, least: float = 0.0):
        self.y, self.height, self.seconds = y, height, seconds
        self.most, self.least = most, least
        self.logarithmic = least > 0
        self.body = [f'<text x="{LEFT}" y="{y - 10}" font-weight="bold" fill="{INK}">{title}</text>']
        for value in self._ticks():
            at = self.at(value)
            self.body.append(line(LEFT, at, LEFT + WIDE, at, GRID))
            self.body.append(text(LEFT - 6, at + 4, f"{value:g}", "end"))

    def _ticks(self) -> list[float]:
        if self.logarithmic:
            decades = range(round(math.log10(self.least)), round(math.log10(self.most)) + 1)
            return [10.0**power for power in decades]
        step = 10 ** math.floor(math.log10(self.most))
        step = next(each for each in (step / 5, step / 2, step, 2 * step) if self.most / each <= 5)
        return [step * number for number in range(int(self.most / step) + 1)]

    def x(self, second: float) -> float:
        return LEFT + WIDE * min(second / self.seconds, 1.0)

    def at(self, value: float) -> float:
        value = min(max(value, self.least), self.most)
        if self.logarithmic:
            share = math.log(value / self.least) / math.log(self.most / self.least)
        else:
            share = value / self.most
        return self.y + self.height * (1 - share)

    def draw(self, points: Points, colour: str, width: float = 1.3) -> None:
        path = " ".join(f"{self.x(second):.1f},{self.at(value):.1f}" for second, value in points)
        self.body.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width}"/>')

    def draw_fit(self, slope: Slope | None, scale: float, colour: str = "#0f172a") -> None:
        if slope is None:
            return
        ends = [(second, slope.at(second) * scale) for second in (slope.start_s, slope.end_s)]
        (x1, y1), (x2, y2) = ((self.x(second), self.at(value)) for second, value in ends)
        self.body.append(line(x1, y1, x2, y2, colour, 'stroke-dasharray="5 3" stroke-width="1.6"'))

    def note(self, row: int, words: str, colour: str) -> None:
        x = LEFT + WIDE - 4
        self.body.append(text(x, self.y + 14 + row * 14, words, "end", colour))


def line(x1: float, y1: float, x2: float, y2: float, colour: str, more: str = "") -> str:
    ends = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line {ends} stroke="{colour}" {more}/>'


def text(x: float, y: float, words: str, anchor: str = "start", colour: str = INK) -> str:
    # A light outline keeps text over curves readable.
    edge = 'paint-order="stroke" stroke="white" stroke-width="3"'
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}" {edge}>{words}</text>'


def round_up(value: float) -> float:
    power = 10 ** math.floor(math.log10(max(value, 1e-9)))
    return next(each * power for each in (1, 1.5, 2, 3, 4, 5, 6, 8, 10) if each * power >= value)


def daemon_of(sample: dict[str, Any]) -> dict[str, Any]:
    return dict(sample["steady"]["daemon"])


def sampler_of(sample: dict[str, Any]) -> dict[str, Any]:
    return dict(sample["steady"]["samplers"][0])


def memory(
    result: dict[str, Any],
    y: float,
    seconds: float,
    name: str,
    of: Callable[..., dict[str, Any]],
    colour: str,
) -> Panel:
    """PSS and private memory; the rest of the PSS depends on other processes that map the same files."""
    whole = series(result, lambda sample: of(sample)["pss_kib"])
    own = series(result, lambda sample: of(sample)["anon_kib"])
    most = round_up(max(value for _, value in whole) / 1024 * 1.6)
    panel = Panel(y, 120, seconds, f"{name}: PSS in MiB, and lighter what of it is anonymous", most)
    panel.draw([(second, value / 1024) for second, value in own], colour + "80")
    panel.draw([(second, value / 1024) for second, value in whole], colour)
    fits = (
        (whole, WARM_S, "PSS from minute 5"),
        (whole, SETTLED_S, "PSS from minute 30"),
        (own, SETTLED_S, "anonymous from minute 30"),
    )
    for row, (points, start, words) in enumerate(fits):
        if slope := fit(points, start):
            panel.draw_fit(slope, 1 / 1024)
            said = f"{words}: {slope.text('KiB')}"
            panel.note(row, said, INK)
            print(f"{name}, {said}")
    return panel


def latency(result: dict[str, Any], y: float, seconds: float) -> Panel:
    half = series(result, lambda sample: sample["steady"]["reference_step"]["p50_us"])
    tail = series(result, lambda sample: sample["steady"]["reference_step"]["p99_us"])
    title = (
        "The same steps all the time, from logits complete to last commit, in us: p50 and p99 of ten seconds"
    )
    panel = Panel(y, 150, seconds, title, 1e6, 10.0)
    panel.draw(tail, P99, 1.0)
    panel.draw(half, P50)
    if slope := fit(half, WARM_S):
        panel.draw_fit(slope, 1.0)
        said = f"p50 from minute 5: median {statistics.median(v for _, v in half):.0f} us, {slope.text('us')}"
        panel.note(0, said, INK)
        print(said)
    panel.body.append(text(LEFT + 6, y + 14, "p99", colour=P99))
    panel.body.append(text(LEFT + 36, y + 14, "p50", colour=P50))
    return panel


def load(result: dict[str, Any], y: float, seconds: float) -> Panel:
    points = series(result, lambda sample: sample["load"])
    cores = result["environment"]["cores"]
    most = round_up(max(value for _, value in points))
    title = f"Load average of the machine, which has {cores} cores and others' work on them"
    panel = Panel(y, 60, seconds, title, most)
    panel.draw(points, LOAD)
    return panel


def kills(result: dict[str, Any], y: float, seconds: float) -> tuple[list[str], float]:
    """A tick if the time of a kill is known, a bar over the round if sim chose it."""
    body = [f'<text x="{LEFT}" y="{y - 10}" font-weight="bold" fill="{INK}">Killed</text>']
    totals = result["totals"]["kills_by_kind"]
    for kind, (name, colour) in KILLS.items():
        for kill in (each for each in result["kills"] if each["what"] == kind):
            x = LEFT + WIDE * min(kill["at"] / seconds, 1.0)
            body.append(line(x, y, x, y + 9, colour, 'stroke-width="1.6"'))
        for one in result["rounds"]:
            if one.get("kills") and f"--chaos {kind} " in one["options"]:
                x1, x2 = (LEFT + WIDE * min(one[key] / seconds, 1.0) for key in ("began", "ended"))
                size = f'x="{x1:.1f}" y="{y:.1f}" width="{max(x2 - x1, 1):.1f}" height="9"'
                body.append(f'<rect {size} fill="{colour}" opacity="{min(0.2 * one["kills"], 0.9):.1f}"/>')
        body.append(text(LEFT - 6, y + 9, f"{name} {totals.get(kind, 0)}", "end", colour))
        y += 15
    return body, y


def headline(result: dict[str, Any]) -> list[str]:
    totals = result["totals"]
    wrong = ", ".join(f"{totals[key]} {key}" for key in ("mismatched", "lost", "duplicated"))
    minutes = totals["seconds"] / 60
    deaths = sum(totals["kills_by_kind"].values())
    first = f"{minutes:.0f} minutes, {totals['rounds']} rounds, {deaths} kills and hand-overs"
    second = f"{totals['verified']:,} of {totals['tokens']:,} tokens verified: {wrong}"
    left = f"{totals['left_in_shm_at_the_end']} files and {totals['processes_at_the_end']} processes left"
    third = f"{totals['rounds_not_sound']} rounds not sound; {left}"
    return [first, second, third]


def picture(result: dict[str, Any]) -> str:
    seconds = max(sample["at"] for sample in result["samples"]) or 1.0
    y = float(TOP + 20)
    panels = [memory(result, y, seconds, "The daemon that lives all the time", daemon_of, DAEMON)]
    y += panels[-1].height + GAP
    panels.append(memory(result, y, seconds, "Its sampler that lives all the time", sampler_of, SAMPLER))
    y += panels[-1].height + GAP
    panels.append(latency(result, y, seconds))
    y += panels[-1].height + GAP
    panels.append(load(result, y, seconds))
    y += panels[-1].height + GAP
    body = [part for panel in panels for part in panel.body]
    marks, y = kills(result, y, seconds)
    body += marks
    for minute in range(0, int(seconds / 60) + 1, 10):
        x = LEFT + WIDE * minute * 60 / seconds
        body.insert(0, line(x, TOP + 20, x, y, GRID))
        body.append(text(x, y + 14, f"{minute} min" if minute else "0", "middle"))
    for row, words in enumerate(headline(result)):
        body.append(text(12, 18 + row * 16, words))
    width, height = LEFT + WIDE + RIGHT, round(y) + 24
    box = f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11"'
    white = f'<rect width="{width}" height="{height}" fill="white"/>'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {box}>{white}{"".join(body)}</svg>\n'


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    Path(sys.argv[2]).write_text(picture(json.loads(Path(sys.argv[1]).read_text())), encoding="utf-8")
