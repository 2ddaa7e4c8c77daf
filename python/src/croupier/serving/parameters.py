"""A request as the session takes it, and what all engines' tables of parameters have in common.

What cannot be done is refused with a ValueError that names the parameter and what would be right: a token
is never drawn otherwise than the request says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from croupier import PARAMETER_NAMES

# Fields of a request that have the same name and meaning in all engines and in Croupier.
SAME_NAMES = (
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "repetition_penalty",
    "frequency_penalty",
    "presence_penalty",
)
# What the engine decides, or this module from the request's other fields. Loops are repetition_detection,
# which the engine does itself.
_ENGINE_NAMES = frozenset(
    {
        "seed",
        "eos_token_id",
        "max_tokens",
        "child",
        "logprobs",
        "logprob_mode",
        "support",
        "loop_count",
        "loop_max_period",
        "loop_min_period",
    }
)
_FLAG_NAMES = frozenset(
    {
        "ignore_eos",
        "no_logprob",
        "stops_only_ban",
        "rank_counts_ties",
        "include_stop",
        "keep_special",
        "stop_at_json",
    }
)
# Croupier's own controls: the parameters that no engine has a field for.
OWN_NAMES = frozenset(PARAMETER_NAMES) - frozenset(SAME_NAMES) - {"min_tokens"} - _ENGINE_NAMES - _FLAG_NAMES
MAX_SESSION_LOGPROBS = 64
SEED_BITS = (1 << 64) - 1


@dataclass(frozen=True)
class Limits:
    """What the session is opened for."""

    max_bias: int = 1024
    max_stop_ids: int = 128
    max_list_tokens: int = 4096
    max_logprobs: int = 20
    logprobs_mode: str = "raw_logprobs"
    transport: str = "rows"
    vocab: int = 1 << 31
    """Of the model; the default stands for any."""


@dataclass
class Request:
    """One request, as croupier.Session.add takes it; the seed is None where the engine draws one."""

    params: dict[str, Any]
    seed: int | None
    wanted_logprobs: int | None
    bias: dict[int, float] = field(default_factory=dict)
    stop_ids: list[int] = field(default_factory=list)
    allowed_ids: list[int] = field(default_factory=list)
    bad_words: list[list[int]] = field(default_factory=list)
    dry_breakers: list[list[int]] = field(default_factory=list)
    stop_strings: list[str] = field(default_factory=list)
    """Those that the session looks for (texts.py): the engine ends the request with them."""

    @property
    def list_words(self) -> int:
        """Of the session's lists, without stop strings."""
        return len(self.allowed_ids) + sum(1 + len(word) for word in self.bad_words + self.dry_breakers)

    def lists(self) -> dict[str, Any]:
        return {
            "bias": self.bias or None,
            "stop_ids": self.stop_ids,
            "allowed_ids": self.allowed_ids,
            "bad_words": self.bad_words,
            "dry_breakers": self.dry_breakers,
        }


@dataclass(frozen=True)
class Extra:
    """Where an engine's requests carry what the engine itself has no field for."""

    name: str
    """Of the field."""
    fields: frozenset[str]
    """The request's own, which are not to be given there."""
    engine: frozenset[str]
    """What the engine itself looks for there."""
    about_logprob_mode: str
    """What says instead how log-probs are taken."""

    def own_parameters(self, given: Mapping[str, Any]) -> dict[str, Any]:
        own = {}
        for name, value in given.items():
            if name in OWN_NAMES or name == "dry_breakers":
                own[name] = value
            elif name in self.fields:
                raise ValueError(
                    f"{self.name} has {name!r}, which is a field of the request itself: set it there"
                )
            elif name == "logprob_mode":
                raise ValueError(f"{self.name} has 'logprob_mode': {self.about_logprob_mode}")
            elif name not in self.engine:
                known = ", ".join(sorted(OWN_NAMES | {"dry_breakers"}))
                raise ValueError(
                    f"{self.name} has {name!r}, which nobody would look at; Croupier knows {known}"
                )
        return own


def breakers_from(given: Any, vocab: int) -> list[list[int]]:
    """The DRY breakers of a request. No engine checks the ids of its clients' extra parameters."""
    kinds = (list, tuple)
    if not isinstance(given, kinds) or not all(isinstance(words, kinds) and words for words in given):
        raise ValueError(
            f"dry_breakers is {given!r}; a list of lists of token ids would be right, none of them empty"
        )
    for at, words in enumerate(given):
        for place, token in enumerate(words):
            if type(token) is not int or not 0 <= token < vocab:
                raise ValueError(
                    f"dry_breakers[{at}][{place}] is {token!r}; a token id of 0 to {vocab - 1} would be right"
                )
    return [list(words) for words in given]


def check_limits(request: Request, limits: Limits, options: str) -> None:
    """`options`: how the engine's messages call them."""
    if request.params.get("rng") == "shvs" and limits.transport == "lean":
        raise ValueError(
            f"rng is 'shvs', which needs whole rows; {options} with 'transport': 'rows' would be right"
        )
    for name, count, most in (
        ("logit_bias", len(request.bias), limits.max_bias),
        ("stop_token_ids", len(request.stop_ids), limits.max_stop_ids),
        ("allowed_token_ids, bad_words and dry_breakers", request.list_words, limits.max_list_tokens),
    ):
        if count > most:
            option = {"logit_bias": "max_bias", "stop_token_ids": "max_stop_ids"}.get(name, "max_list_tokens")
            raise ValueError(
                f"{name} has {count} entries; {most} is what the engine's option {option!r} allows"
            )
