"""The requests of a measurement: each kind of control, prompts of several lengths, some that stop early."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import Any

from engine import Request

from croupier import Params

KINDS: dict[str, dict[str, Any]] = {
    "greedy": {"temperature": 0},
    "temperature": {"temperature": 0.8},
    "top-p and penalties": {
        "temperature": 0.8,
        "top_p": 0.95,
        "repetition_penalty": 1.1,
        "frequency_penalty": 0.1,
        "presence_penalty": 0.1,
    },
    "DRY": {"temperature": 0.7, "dry_multiplier": 0.8, "dry_allowed_length": 1},
    "min-p": {"temperature": 1.1, "min_p": 0.05},
    "mirostat": {"mirostat": 2, "mirostat_tau": 4.0},
    "greedy with a repetition penalty": {"temperature": 0, "repetition_penalty": 1.2, "penalty_last_n": 32},
    "adaptive-p": {"adaptive_target": 0.4, "min_p": 0.02},
    "typical-p and XTC": {"typical_p": 0.9, "xtc_probability": 0.3, "xtc_threshold": 0.1},
    "top-k and dynamic temperature": {"top_k": 40, "temperature": 0.9, "dynatemp_range": 0.4},
}
STOP_IDS = 4


def requests(
    count: int,
    *,
    vocab: int,
    tokens: int,
    prompt: tuple[int, int] = (8, 40),
    seed: int = 1,
    flat_tokens: int = 100,
) -> list[Request]:
    """Of all kinds in turn, with at most `tokens` tokens each. All are verified.

    A bias on its stop ids ends a request after about `flat_tokens` tokens that are drawn from rows without
    a clear best token.
    """
    made = []
    for uid in range(1, count + 1):
        drawn = random.Random(f"{seed} {uid}")
        kind = list(KINDS.values())[(uid - 1) % len(KINDS)]
        length = drawn.randint(*prompt)
        stops = drawn.sample(range(vocab), STOP_IDS)
        asked = {
            "params": Params(seed=uid, max_tokens=tokens, **kind),
            "stop_ids": stops,
            "bias": dict.fromkeys(stops, math.log(vocab / STOP_IDS / flat_tokens)),
        }
        made.append(Request(uid, [drawn.randrange(vocab) for _ in range(length)], asked, verified=True))
    return made


def unverified(request: Request) -> Request:
    return replace(request, verified=False)
