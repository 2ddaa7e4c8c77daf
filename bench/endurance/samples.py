"""Samples of a daemon and its samplers: their resources, and their work since the last sample."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

from plant import Plant

TICKS = os.sysconf("SC_CLK_TCK")
SERIES = re.compile(r"^(croupier_\w+)(?:\{(.*)\})? (\S+)$")
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
ROLLUP = {"Rss": "rss_kib", "Pss": "pss_kib", "Pss_Anon": "anon_kib"}
Histogram = dict[float, float]


def process_sample(pid: int) -> dict[str, Any]:
    folder = Path("/proc") / str(pid)
    found: dict[str, Any] = {"pid": pid}
    for line in (folder / "smaps_rollup").read_text().splitlines():
        name, _, rest = line.partition(":")
        if name in ROLLUP:
            found[ROLLUP[name]] = int(rest.split()[0])
    fields = (folder / "stat").read_text().rpartition(")")[2].split()
    found["cpu_s"] = (int(fields[11]) + int(fields[12])) / TICKS
    found["threads"] = int(fields[17])
    found["fds"] = len(os.listdir(folder / "fd"))
    return found


def bytes_in(folder: Path) -> int:
    total = 0
    for each in folder.rglob("*"):
        try:
            total += each.stat().st_blocks * 512
        except FileNotFoundError:
            continue
    return total


class Metrics:
    """One response of /metrics."""

    def __init__(self, text: str) -> None:
        self.values: dict[str, list[tuple[dict[str, str], float]]] = defaultdict(list)
        for line in text.splitlines():
            if found := SERIES.match(line):
                labels = dict(LABEL.findall(found[2] or ""))
                self.values[found[1]].append((labels, float(found[3])))

    def total(self, name: str, **wanted: str) -> float:
        return sum(value for labels, value in self.values[name] if _has(labels, wanted))

    def histogram(self, name: str, **wanted: str) -> dict[str, Histogram]:
        """Cumulative counts by upper bound, for each series with the labels."""
        found: dict[str, Histogram] = defaultdict(dict)
        for labels, value in self.values[name + "_bucket"]:
            if _has(labels, wanted):
                series = ",".join(f"{key}={of}" for key, of in labels.items() if key != "le")
                found[series][float(labels["le"])] = value
        return found


def _has(labels: dict[str, str], wanted: dict[str, str]) -> bool:
    return all(labels.get(key) == of for key, of in wanted.items())


def difference(before: dict[str, Histogram], after: dict[str, Histogram]) -> Histogram:
    """Sums over series. A series that decreased was restarted, so all of it counts."""
    total: Histogram = defaultdict(float)
    for series, now in after.items():
        was = before.get(series, {})
        if any(now[bound] < was.get(bound, 0.0) for bound in now):
            was = {}
        for bound, count in now.items():
            total[bound] += count - was.get(bound, 0.0)
    return total


def quantile_us(histogram: Histogram, share: float) -> float | None:
    """Interpolated within its bucket; buckets are a factor of two wide."""
    bounds = sorted(histogram)
    if not bounds or histogram[bounds[-1]] <= 0:
        return None
    wanted = share * histogram[bounds[-1]]
    below, lower = 0.0, 0.0
    for bound in bounds:
        if histogram[bound] >= wanted:
            if bound == float("inf"):
                return round(lower * 1e6, 2)
            inside = (wanted - below) / max(histogram[bound] - below, 1.0)
            return round((lower + (bound - lower) * inside) * 1e6, 2)
        below, lower = histogram[bound], bound
    return None


class Follower:
    """Samples one daemon; keeps the last histograms, because samples are differences."""

    def __init__(self, plant: Plant) -> None:
        self.plant = plant
        self._last: dict[str, dict[str, Histogram]] = {}
        self._last_columns: dict[str, float] = {}

    def sample(self, reference: str | None) -> dict[str, Any]:
        with self.plant.changing:
            found: dict[str, Any] = {"daemon": process_sample(self.plant.process.pid)}
            found["samplers"] = []
            for pid in self.plant.sampler_pids():
                try:
                    found["samplers"].append(process_sample(pid) if pid > 0 else None)
                except (FileNotFoundError, ProcessLookupError):
                    found["samplers"].append(None)
            metrics = Metrics(self.plant.fetch("/metrics"))
            found["shm_bytes"] = bytes_in(self.plant.shm)
        found["sessions"] = len(metrics.values["croupier_session_client_up"])
        found["restarts"] = int(metrics.total("croupier_sampler_restarts_total"))
        found["state_bytes"] = int(metrics.total("croupier_sampler_state_bytes"))
        found["columns"] = self._columns(metrics)
        for stage in ("step", "decide"):
            found[stage] = self._quantiles(stage, metrics.histogram("croupier_stage_seconds", stage=stage))
        if reference:
            steps = metrics.histogram("croupier_session_step_seconds", session=reference)
            found["reference_step"] = self._quantiles("reference", steps)
        return found

    def _columns(self, metrics: Metrics) -> int:
        """Decisions since the last sample."""
        now = {labels["sampler"]: value for labels, value in metrics.values["croupier_sampler_columns_total"]}
        before, self._last_columns = self._last_columns, now
        return int(
            sum(of - (before.get(key, 0) if of >= before.get(key, 0) else 0) for key, of in now.items())
        )

    def _quantiles(self, key: str, now: dict[str, Histogram]) -> dict[str, Any]:
        interval = difference(self._last.get(key, {}), now)
        self._last[key] = now
        return {
            "count": int(interval.get(float("inf"), 0)),
            "p50_us": quantile_us(interval, 0.5),
            "p99_us": quantile_us(interval, 0.99),
        }
