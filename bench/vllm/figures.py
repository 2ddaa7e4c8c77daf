"""Figures of speculation.py: of runs and windows, of two sides, of streams; and how a cell is printed."""

from __future__ import annotations

import statistics
from collections import Counter
from typing import Any


def acceptance(windows: list[list[int]]) -> dict[str, Any]:
    """Of how many windows had how many drafts, and accepted how many of these.

    `by_position` has of each draft's place how many were accepted and how many there were.
    """
    total, drafts, accepted, squares = 0, 0, 0, 0
    most = max((offered for offered, _, _ in windows), default=0)
    places = [[0, 0] for _ in range(most)]
    for offered, taken, count in windows:
        total += count
        drafts += offered * count
        accepted += taken * count
        squares += taken * taken * count
        for place in range(offered):
            places[place][0] += count if place < taken else 0
            places[place][1] += count
    mean = accepted / total if total else 0.0
    return {
        "windows": total,
        "drafts": drafts,
        "accepted": accepted,
        "rate": round(accepted / drafts, 4) if drafts else None,
        "a_window": round(mean, 4),
        "variance": round(squares / total - mean * mean, 6) if total else 0.0,
        "by_position": places,
    }


def sigmas(one: dict[str, Any], other: dict[str, Any]) -> float | None:
    """How far apart the drafts accepted a window are; None where all windows are alike, or there are none."""
    if not one["windows"] or not other["windows"]:
        return None
    variance = one["variance"] / one["windows"] + other["variance"] / other["windows"]
    return round((one["a_window"] - other["a_window"]) / variance**0.5, 2) if variance > 0 else None


def summed(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Of one side's runs of a cell."""
    steps = [step for run in runs for step in run["steps_us"]]
    windows: Counter[tuple[int, int]] = Counter()
    for run in runs:
        for offered, taken, count in run["windows"]:
            windows[offered, taken] += count
    rates = [run["tokens"] / run["seconds"] for run in runs]
    found = {
        "median_us": round(statistics.median(steps), 1),
        "mean_us": round(statistics.fmean(steps), 1),
        "best_mean_us": round(min(statistics.fmean(run["steps_us"]) for run in runs), 1),
        "tokens_per_second": round(
            sum(run["tokens"] for run in runs) / sum(run["seconds"] for run in runs), 1
        ),
        "best_tokens_per_second": round(max(rates), 1),
        "acceptance": acceptance([[*key, count] for key, count in sorted(windows.items())]),
    }
    return found | ({"daemon": runs[-1]["daemon"]} if "daemon" in runs[-1] else {})


def compared(cell: dict[str, Any]) -> dict[str, Any]:
    """Above 1, Croupier is faster. `croupier_nearest` was asked for what native was, if that is less."""
    native = cell["native"]
    found: dict[str, Any] = {}
    for name in ("croupier", "croupier_nearest"):
        if name in cell:
            ours = cell[name]
            for figure in ("median_us", "mean_us", "best_mean_us"):
                found[f"native_over_{name}_{figure}"] = round(native[figure] / ours[figure], 3)
            tokens = ours["tokens_per_second"] / native["tokens_per_second"]
            found[f"{name}_over_native_tokens"] = round(tokens, 3)
    alike = cell.get("croupier_nearest", cell["croupier"])
    return found | {"acceptance_sigmas": sigmas(alike["acceptance"], native["acceptance"])}


def differences(drafted_streams: list[list[int]], plain: list[list[int]]) -> dict[str, Any]:
    firsts = []
    for one, other in zip(drafted_streams, plain, strict=False):
        at = next((i for i, pair in enumerate(zip(one, other, strict=True)) if pair[0] != pair[1]), None)
        if at is not None:
            firsts.append(at)
    requests = min(len(drafted_streams), len(plain))
    return {"requests": requests, "equal": requests - len(firsts), "first_differences": sorted(firsts)}


HEAD = (
    f"{'method':12} {'batch':>5} {'kind':15} {'native':>9} {'croupier':>9} {'ratio':>6} "
    f"{'tokens':>6} {'accepted by native':>18} {'by croupier':>11} {'sigmas':>6}"
)


def line_of(cell: dict[str, Any]) -> str:
    """Medians of microseconds a step; ratios of these and of tokens a second: above 1, Croupier is faster."""

    def of(side: str, *names: str) -> Any:
        found = cell.get(side, {})
        for name in names:
            found = found.get(name, {})
        return "-" if found == {} or found is None else found

    def ratio(name: str) -> Any:
        found = cell.get("compared", {}).get(name)
        return "-" if found is None else found

    found = (
        f"{cell['method']:12} {cell['batch']:5} {cell['kind']:15} "
        f"{of('native', 'median_us'):>9} {of('croupier', 'median_us'):>9} "
        f"{ratio('native_over_croupier_median_us'):>6} {ratio('croupier_over_native_tokens'):>6} "
        f"{of('native', 'acceptance', 'rate'):>18} {of('croupier', 'acceptance', 'rate'):>11} "
        f"{ratio('acceptance_sigmas'):>6}"
    )
    return found + (f"  native without {', '.join(cell['without'])}" if cell.get("without") else "")
