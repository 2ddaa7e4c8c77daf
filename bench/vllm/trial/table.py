"""The table at a trial's end, and what it needs before: modules that are real, and time that is left."""

from __future__ import annotations

import importlib
import textwrap
from collections.abc import Iterable
from typing import Any

from .checks import Row

# What a server imports and a bare vLLM pack may only have a stand-in for, or not at all.
NEEDED = (
    "uvloop", "uvicorn", "fastapi", "starlette", "prometheus_fastapi_instrumentator", "python_multipart",
    "watchfiles", "model_hosting_container_standards", "jmespath", "ijson", "supervisor", "openai",
    "openai_harmony", "pydantic", "zmq", "msgspec", "llguidance", "xgrammar", "safetensors", "tokenizers",
    "transformers",
)  # fmt: skip
NEEDED_SINCE_0_33 = ("orjson", "anthropic")
WIDTH = 100


def needed_by(release: str) -> tuple[str, ...]:
    numbers = [int(part) for part in release.split(".")[:2] if part.isdigit()]
    return NEEDED + NEEDED_SINCE_0_33 if numbers >= [0, 33] else NEEDED


def missing_modules(names: Iterable[str] = NEEDED) -> list[str]:
    """Modules that cannot be imported, or that are only stubs without a file."""
    found = []
    for name in names:
        try:
            module = importlib.import_module(name)
        except Exception as error:
            found.append(f"{name} ({type(error).__name__}: {error})"[:200])
            continue
        if getattr(module, "__file__", None) is None and not list(getattr(module, "__path__", [])):
            found.append(f"{name} (a stand-in)")
    return found


def table(rows: list[Row]) -> str:
    lines = []
    for row in rows:
        verdict = row.verdict
        lines.append(f"{verdict.how:<10} {row.check}  ({row.seconds} s)")
        for name, said in (("native", verdict.native), ("croupier", verdict.croupier)):
            if said:
                lines += _wrapped(f"{name:<9}", said)
        for note in verdict.notes:
            lines += _wrapped("-", note)
    counts: dict[str, int] = {}
    for row in rows:
        counts[row.verdict.how] = counts.get(row.verdict.how, 0) + 1
    lines.append(", ".join(f"{count} {how}" for how, count in sorted(counts.items())))
    return "\n".join(lines)


def _wrapped(head: str, text: str) -> list[str]:
    return textwrap.wrap(
        f"{head} {text}", WIDTH, initial_indent=" " * 11, subsequent_indent=" " * 13, break_on_hyphens=False
    )


def as_json(rows: list[Row], facts: dict[str, Any]) -> dict[str, Any]:
    return {**facts, "good": all(row.verdict.good for row in rows), "checks": [row.shown() for row in rows]}
