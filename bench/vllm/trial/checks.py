"""What a check is, and what all of them share: prompts, and the two sides."""

from __future__ import annotations

import random
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .client import Client, at_once
from .compare import FAILED, Judge, Verdict
from .model import EOS, Model

# For all of one check on one side.
PATIENCE = 150.0


@dataclass
class Side:
    """One server, as a check sees it."""

    name: str
    client: Client
    model: Model

    @property
    def croupier(self) -> bool:
        return self.name == "croupier"


@dataclass(frozen=True)
class Check:
    """observe() is called for each side; compare() gets both findings and a judge that asks native."""

    name: str
    observe: Callable[[Side], Any]
    compare: Callable[[Any, Any, Judge], Verdict]


@dataclass
class Row:
    """Of the table at the end."""

    check: str
    verdict: Verdict
    seconds: float
    found: dict[str, Any] = field(default_factory=dict)

    def shown(self) -> dict[str, Any]:
        verdict = self.verdict
        return {
            "check": self.check,
            "native": verdict.native,
            "croupier": verdict.croupier,
            "how": verdict.how,
            "notes": verdict.notes,
            "seconds": self.seconds,
            "found": self.found,
        }


def run(check: Check, native: Side, croupier: Side) -> Row:
    """Both sides at the same time. Whatever goes wrong is this check's finding, and ends no other one."""
    begun = time.monotonic()
    found = at_once([lambda: check.observe(native), lambda: check.observe(croupier)], PATIENCE)
    said = dict(zip(("native", "croupier"), found, strict=True))
    errors = {name: one for name, one in said.items() if isinstance(one, Exception)}
    if errors:
        texts = {name: f"{type(one).__name__}: {one}"[:400] for name, one in errors.items()}
        verdict = Verdict(FAILED, *(texts.get(name, "done") for name in said))
        said = {name: texts.get(name, "done") for name in said}
    else:
        try:
            verdict = check.compare(*found, Judge(native.client))
        except Exception as error:
            last = traceback.format_exc().strip().splitlines()[-3:]
            verdict = Verdict(FAILED, "done", "done", [f"not compared: {error!r}", *last])
    return Row(check.name, verdict, round(time.monotonic() - begun, 1), said)


def prompts(model: Model, count: int, length: int, seed: int) -> list[list[int]]:
    """Ids that have a text, the same on both sides; none of them ends a text."""
    chance = random.Random(f"{seed} {length}")
    return [[chance.randrange(max(EOS) + 1, model.words) for _ in range(length)] for _ in range(count)]


def everybody(side: Side, bodies: list[tuple[str, dict[str, Any]]]) -> list[Any]:
    """The answers of requests that are sent at once; an error is raised."""
    asked = [lambda path=path, body=body: side.client.post(path, body) for path, body in bodies]
    found = at_once(asked, PATIENCE)
    for one in found:
        if isinstance(one, Exception):
            raise one
    return found
