"""What requests ask for: the kinds of requests that the scripts beside this file time and compare."""

from __future__ import annotations

from typing import Any

PENALTIES = {"repetition_penalty": 1.1, "frequency_penalty": 0.1, "presence_penalty": 0.1}
KINDS: dict[str, dict[str, Any]] = {
    "greedy": {"temperature": 0.0},
    "temperature": {"temperature": 0.8},
    "topk_topp": {"temperature": 0.8, "top_k": 50, "top_p": 0.95},
    "min_p": {"temperature": 0.8, "min_p": 0.02},
    "penalties": {"temperature": 0.8, **PENALTIES},
    "full": {"temperature": 0.8, "top_k": 50, "top_p": 0.95, "min_p": 0.02, **PENALTIES},
    "seeded": {"temperature": 0.8, "top_k": 50, "top_p": 0.95, "sampling_seed": 1},
    # Without filters, for which the log-probs of both sides are the same.
    "logprobs20": {"temperature": 0.8},
}
MIXED = ("greedy", "temperature", "topk_topp", "min_p", "penalties", "full")


def names() -> list[str]:
    """Without seeds, which SGLang ignores unless it is told not to."""
    return [*(name for name in KINDS if name != "seeded"), "mixed"]


def of_requests(name: str, count: int, tokens: int) -> list[dict[str, Any]]:
    """The sampling parameters of each request of a batch."""
    each = [KINDS[MIXED[at % len(MIXED)] if name == "mixed" else name] for at in range(count)]
    return [{**one, "max_new_tokens": tokens, "ignore_eos": True} for one in each]


def logprobs_of(name: str, count: int) -> dict[str, Any]:
    """Further arguments of Engine.generate()."""
    if name != "logprobs20":
        return {}
    return {"return_logprob": [True] * count, "top_logprobs_num": [20] * count}
