"""What requests ask for: the kinds of requests that the scripts beside this file time and compare."""

from __future__ import annotations

import itertools
import json
import re
from typing import Any

FULL = {
    "temperature": 0.8,
    "top_k": 50,
    "top_p": 0.95,
    "min_p": 0.02,
    "repetition_penalty": 1.1,
    "frequency_penalty": 0.1,
    "presence_penalty": 0.1,
}
PENALTIES = {"repetition_penalty": 1.1, "frequency_penalty": 0.1, "presence_penalty": 0.1}
GREEDY = {"temperature": 0.0}
LOGPROBS = {"temperature": 0.8, "top_p": 0.95, "logprobs": 20}

# Grammars by name, and what a finished text must be. A text is only finished where the grammar leaves nothing
# but the end of the text: lengths are bounded, so that a model of random weights gets there.
PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "tags": {"type": "array", "items": {"enum": ["red", "green", "blue"]}, "maxItems": 3},
        "alive": {"type": "boolean"},
    },
    "required": ["name", "age", "tags", "alive"],
    "additionalProperties": False,
}
DATE = r"(19|20)[0-9]{2}-(0[1-9]|1[0-2])-[0-3][0-9] [A-Z][a-z]{2,8}"
GRAMMARS: dict[str, dict[str, Any]] = {
    "json": {"json": PERSON, "disable_any_whitespace": True},
    "regex": {"regex": DATE},
    "choice": {"choice": ["positive", "negative", "neither of the two"]},
}
# It never ends within a measurement, so that each timed step has a mask of it.
ENDLESS = {"regex": r"(\{\"name\": \"[a-z]{1,12}\", \"age\": [1-9][0-9]?\}, ){500}"}


def kinds() -> dict[str, dict[str, Any]]:
    """What both sides can do: every request of a batch asks for the same."""
    return {
        "greedy": GREEDY,
        "temperature": {"temperature": 0.8},
        "topk_topp": {"temperature": 0.8, "top_k": 50, "top_p": 0.95},
        "penalties": {"temperature": 0.8, **PENALTIES},
        "topp_penalties": {"temperature": 0.8, "top_p": 0.95, **PENALTIES},
        "full": {**FULL, "seed": 7},
        "full_unseeded": FULL,
        "logprobs20": LOGPROBS,
    }


def grammar_kinds() -> dict[str, dict[str, Any]]:
    """Every request under a grammar, as an engine of structured outputs has them."""
    return {
        "grammar": {"temperature": 0.8, "structured_outputs": ENDLESS},
        "grammar_full": {**FULL, "seed": 7, "structured_outputs": ENDLESS},
    }


def training_kinds() -> dict[str, dict[str, Any]]:
    """What a trainer asks for of what an engine draws; with --logprobs-mode processed_logprobs as it drew."""
    return {"logprob": {"temperature": 0.8, "logprobs": 1}}


def long_kinds() -> dict[str, dict[str, Any]]:
    """What needs hundreds of a row's tokens, or changes hundreds."""
    return {
        "topk200": {"temperature": 1.0, "top_k": 200},
        "topk500": {"temperature": 1.0, "top_k": 500},
        "allowed1000": {"temperature": 1.0, "allowed_token_ids": list(range(1000, 151_000, 150))},
        "biases300": {
            "temperature": 1.0,
            "seed": 7,
            "logit_bias": {1000 + 500 * place: 2.0 if place % 2 == 0 else -2.0 for place in range(300)},
        },
        "min_p": {"temperature": 1.2, "min_p": 0.05},
        "repetition": {"temperature": 0.0, "repetition_penalty": 1.1},
        "min_tokens": {"temperature": 0.7, "top_p": 0.9, "min_tokens": 40, "stop_token_ids": [5, 6, 7, 8, 9]},
    }


def own_kinds() -> dict[str, dict[str, Any]]:
    """What vLLM's sampler has not."""
    return {
        "typical": {"temperature": 1.0, "extra_args": {"typical_p": 0.9}},
        "mirostat2": {"temperature": 1.0, "extra_args": {"mirostat": 2}},
        "dynatemp_min_p": {"temperature": 1.0, "min_p": 0.02, "extra_args": {"dynatemp_range": 0.5}},
        "dry_xtc": {
            "temperature": 0.8,
            "seed": 7,
            "extra_args": {"dry_multiplier": 0.8, "xtc_probability": 0.5, "xtc_threshold": 0.1},
        },
        "top_n_sigma": {"temperature": 1.0, "seed": 7, "extra_args": {"top_n_sigma": 1.0}},
    }


MIXED = ("mixed", "mixed_grammar", "nine")
NEED_TOKENIZER = ("mixed_grammar", *grammar_kinds())


def mixed_batch(count: int, grammar: bool) -> list[dict[str, Any]]:
    """Of twenty requests ten are seeded and full, five want 20 log-probs, two have a grammar.

    The other three are of the plain kinds. They stand among each other, so that a small batch has of each
    too. Without a grammar its two requests have top-k and top-p alone.
    """
    seeded = {**FULL, "seed": 7}
    masked: dict[str, Any] = {"temperature": 0.8, "top_k": 50, "top_p": 0.95}
    if grammar:
        masked = {**masked, "structured_outputs": ENDLESS}
    others = [GREEDY, {"temperature": 0.8, **PENALTIES}, {"temperature": 0.8}]
    # fmt: off
    pattern = [
        seeded, LOGPROBS, seeded, masked, seeded, others[0], seeded, LOGPROBS, seeded, others[1],
        seeded, LOGPROBS, seeded, masked, seeded, LOGPROBS, seeded, others[2], seeded, LOGPROBS,
    ]
    # fmt: on
    return [pattern[place % len(pattern)] for place in range(count)]


def batch_of(kind: str, count: int) -> list[dict[str, Any]]:
    if kind == "nine":
        each = itertools.cycle([*kinds().values(), *long_kinds().values()])
        return list(itertools.islice(each, count))
    if kind in MIXED:
        return mixed_batch(count, kind == "mixed_grammar")
    return [{**kinds(), **long_kinds(), **grammar_kinds(), **training_kinds(), **own_kinds()}[kind]] * count


def mixtures() -> list[dict[str, Any]]:
    """One request after another takes the next of these: verify mode's batch."""
    return [
        *kinds().values(),
        *own_kinds().values(),
        {"temperature": 0.9, "seed": 3, "logit_bias": {11: 5.0, 17: -100.0}, "logprobs": 5},
        {"temperature": 0.7, "seed": 4, "allowed_token_ids": list(range(100, 900, 3))},
        {"temperature": 1.0, "seed": 5, "min_tokens": 4, "stop_token_ids": [5, 6, 7]},
    ]


def seeded_mixtures() -> list[dict[str, Any]]:
    """As mixtures(), and each with a seed: what two runs must draw alike."""
    return [{"seed": place, **given} for place, given in enumerate(mixtures())]


def is_text_of(grammar: str, text: str) -> bool:
    """Whether a finished text is what the grammar of that name asks for."""
    if grammar == "regex":
        return re.fullmatch(DATE, text) is not None
    if grammar == "choice":
        return text in GRAMMARS["choice"]["choice"]
    try:
        found = json.loads(text)
    except json.JSONDecodeError:
        return False
    return (
        isinstance(found, dict)
        and set(found) == set(PERSON["required"])
        and isinstance(found["name"], str)
        and len(found["name"]) <= 12
        and type(found["age"]) is int
        and 0 <= found["age"] <= 120
        and isinstance(found["alive"], bool)
        and set(found["tags"]) <= {"red", "green", "blue"}
        and len(found["tags"]) <= 3
    )
