"""Requests as users send them, and what the times of their tokens come to. No engine is needed."""

from __future__ import annotations

import random
from typing import Any

from engines import SETTLE

QUANTILES = 201


def requests_of(count: int, rate: float, seed: int) -> list[dict[str, Any]]:
    """Arrivals, in seconds from the beginning, prompts and lengths; a rate of 0 is all at once."""
    chance = random.Random(seed)
    at, found = 0.0, []
    for place in range(count):
        at += chance.expovariate(rate) if rate else 0.0
        prompt = min(256, max(16, round(chance.lognormvariate(4.2, 0.6))))
        tokens = min(512, max(16, round(chance.lognormvariate(4.85, 0.6))))
        found.append({"place": place, "at": at, "prompt": prompt, "tokens": tokens})
    return found


def equal_requests(count: int, prompt: int, steps: int) -> list[dict[str, Any]]:
    """All at once and equally long: most of their steps have all of them, and no prompts."""
    return [{"place": place, "at": 0.0, "prompt": prompt, "tokens": SETTLE + steps} for place in range(count)]


def mean_tokens() -> float:
    return sum(one["tokens"] for one in requests_of(20000, 0.0, 1)) / 20000


def quantile(ordered: list[float], part: float) -> float:
    return ordered[min(len(ordered) - 1, round(part * (len(ordered) - 1)))] if ordered else 0.0


def percentiles(values: list[float]) -> dict[str, float]:
    ordered = sorted(values)
    return {
        name: round(quantile(ordered, part), 3) for name, part in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))
    }


def quantiles(values: list[float]) -> list[float]:
    ordered = sorted(values)
    return [round(quantile(ordered, place / (QUANTILES - 1)), 3) for place in range(QUANTILES)]


def tokens_a_second(times: list[tuple[float, int]]) -> float:
    """In the middle of the run: neither its first prompts nor its last, lonely requests."""
    ordered = sorted(times)
    total, seen, kept = sum(count for _, count in ordered), 0, []
    for now, count in ordered:
        seen += count
        if 0.15 * total <= seen <= 0.75 * total:
            kept.append((now, count))
    if len(kept) < 2 or kept[-1][0] == kept[0][0]:
        return 0.0
    return sum(count for _, count in kept[1:]) / (kept[-1][0] - kept[0][0])


def step_of(requests: list[list[float]]) -> float:
    """Microseconds of a step of equal requests: from the first one with all of them to the last one with all.

    0 where these are not half of the steps: then requests began late, or tokens came in bursts.
    """
    begun = max((times[0] for times in requests), default=0.0)
    ended = min((times[-1] for times in requests), default=0.0)
    gaps = [
        later - now
        for times in requests
        for now, later in zip(times, times[1:], strict=False)
        if begun <= now and later <= ended
    ]
    steps = sum(len(times) - 1 for times in requests)
    return round(sum(gaps) / len(gaps) * 1e6, 1) if gaps and 2 * len(gaps) >= steps else 0.0


def summed(begun: float, answers: list[Any], came: dict[str, list[tuple[float, int]]]) -> dict[str, Any]:
    """Of one run: `came` has times by the engine's own names, which begin with ours."""
    failed = [str(answer) for answer in answers if isinstance(answer, BaseException)]
    answers = [answer for answer in answers if not isinstance(answer, BaseException)]
    named = {name.rsplit("-", 1)[0] if name.count("-") > 1 else name: times for name, times in came.items()}
    first, between, means, kept = [], [], [], []
    for answer in answers:
        times = [now for now, _ in named.get(answer["name"], [])]
        if not times:
            continue
        kept.append(times)
        first.append((times[0] - begun - answer["at"]) * 1e3)
        gaps = [(later - now) * 1e3 for now, later in zip(times, times[1:], strict=False)]
        between += gaps
        means.append(sum(gaps) / len(gaps) if gaps else 0.0)
    all_times = [pair for times in named.values() for pair in times]
    tokens = sum(count for _, count in all_times)
    seconds = max((now for now, _ in all_times), default=begun) - begun
    return {
        "requests": len(answers),
        "failed": failed[:5],
        "tokens": tokens,
        "short": sum(answer["drawn"] != answer["tokens"] for answer in answers),
        "seconds": round(seconds, 2),
        "tokens_per_second": round(tokens / seconds, 1) if seconds > 0 else 0.0,
        "steady_tokens_per_second": round(tokens_a_second(all_times), 1),
        "us_per_step": step_of(kept),
        "ttft_ms": percentiles(first),
        "itl_ms": percentiles(between),
        "tpot_ms": percentiles(means),
        "itl_quantiles_ms": quantiles(between),
        "tpot_quantiles_ms": quantiles(means),
    }
