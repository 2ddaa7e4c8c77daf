"""vLLM's SamplingParams as Croupier's parameters: a pure table, without vLLM and without the daemon.

What cannot be done is refused with a ValueError that names the parameter and what would be right: a token
is never drawn otherwise than the request says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from croupier import PARAMETER_NAMES

# What vLLM itself carries in extra_args.
VLLM_NAMES = frozenset({"kv_transfer_params", "ec_transfer_params", "kv_cache_report_mode"})
SAME_NAMES = (
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "repetition_penalty",
    "frequency_penalty",
    "presence_penalty",
    "min_tokens",
)
# What the engine decides, or this module from the request's other fields. Loops are repetition_detection,
# which the engine does itself.
_ENGINE_NAMES = frozenset(
    {
        "seed",
        "eos_token_id",
        "max_tokens",
        "flags",
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
# Croupier's own controls, by extra_args: the parameters that vLLM has no field for.
OWN_NAMES = frozenset(PARAMETER_NAMES) - frozenset(SAME_NAMES) - _ENGINE_NAMES - _FLAG_NAMES
MAX_SESSION_LOGPROBS = 64
_SEED_BITS = (1 << 64) - 1


@dataclass(frozen=True)
class Limits:
    """What the session is opened for."""

    max_bias: int = 1024
    max_stop_ids: int = 128
    max_list_tokens: int = 4096
    max_logprobs: int = 20
    logprobs_mode: str = "raw_logprobs"
    transport: str = "rows"


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


def translate(sampling: Any, limits: Limits) -> Request:
    """The table. `sampling` is vLLM's SamplingParams, or has its attributes."""
    params = {name: getattr(sampling, name) for name in SAME_NAMES}
    extra = _own_parameters(sampling.extra_args or {})
    breakers = extra.pop("dry_breakers", [])
    params.update(extra)
    wanted = _logprobs(sampling, limits, params)
    _refuse_what_is_missing(sampling)
    request = Request(
        params=params,
        seed=None if sampling.seed is None else sampling.seed & _SEED_BITS,
        wanted_logprobs=wanted,
        bias={int(token): float(bias) for token, bias in (sampling.logit_bias or {}).items()},
        allowed_ids=list(sampling.allowed_token_ids or ()),
        bad_words=_bad_words(sampling),
        dry_breakers=[list(words) for words in breakers],
    )
    _stops(sampling, request)
    _check_limits(request, limits)
    return request


def _own_parameters(extra: Mapping[str, Any]) -> dict[str, Any]:
    own = {}
    for name, value in extra.items():
        if name in OWN_NAMES or name == "dry_breakers":
            own[name] = value
        elif name in SAME_NAMES or name in ("seed", "logprobs"):
            raise ValueError(f"extra_args has {name!r}, which is a field of the request itself: set it there")
        elif name == "logprob_mode":
            raise ValueError(
                "extra_args has 'logprob_mode': the engine's --logprobs-mode says it for all requests"
            )
        elif name not in VLLM_NAMES:
            known = ", ".join(sorted(OWN_NAMES | {"dry_breakers"}))
            raise ValueError(f"extra_args has {name!r}, which nobody would look at; Croupier knows {known}")
    return own


def _logprobs(sampling: Any, limits: Limits, params: dict[str, Any]) -> int | None:
    wanted = sampling.logprobs
    if getattr(sampling, "logprob_token_ids", None):
        raise ValueError("logprob_token_ids is not supported with Croupier; logprobs, up to the best 64, is")
    if wanted is None:
        params["no_logprob"] = True
        return None
    most = min(limits.max_logprobs, MAX_SESSION_LOGPROBS)
    if not 0 <= wanted <= most:
        raise ValueError(
            f"logprobs is {wanted}; with Croupier 0 to {most} would be right (--max-logprobs, at most 64)"
        )
    if limits.logprobs_mode not in ("raw_logprobs", "processed_logprobs"):
        raise ValueError(
            f"logprobs with --logprobs-mode {limits.logprobs_mode} is not supported with Croupier; "
            "raw_logprobs or processed_logprobs would be right"
        )
    # A rank comes only with a list, and vLLM shows the drawn token's rank whatever it asks for.
    params["logprobs"] = max(1, wanted)
    params["rank_counts_ties"] = True
    params["logprob_mode"] = "raw" if limits.logprobs_mode == "raw_logprobs" else "processed"
    return wanted


def _bad_words(sampling: Any) -> list[list[int]]:
    ids = sampling.bad_words_token_ids
    if sampling.bad_words and ids is None:
        raise ValueError(
            "bad_words needs a tokenizer, and this engine was started without one (skip_tokenizer_init)"
        )
    return [list(word) for word in ids or ()]


def _stops(sampling: Any, request: Request) -> None:
    """The engine ends sequences by ids, not the daemon, whose stops would make later steps in flight void.

    Only min_tokens needs the ids, to ban them: those that the engine stops at, and EOS ids that it ignores.
    """
    if sampling.min_tokens:
        request.params["stops_only_ban"] = True
        request.stop_ids = sorted(sampling.all_stop_token_ids)


def _refuse_what_is_missing(sampling: Any) -> None:
    if getattr(sampling, "thinking_token_budget", None) is not None:
        raise ValueError("thinking_token_budget is not supported with Croupier; leave it out")
    if getattr(sampling, "trace_decode_token_ids", None) is not None:
        raise ValueError(
            "trace_decode_token_ids is not supported with Croupier, which draws every token; leave it out"
        )


def _check_limits(request: Request, limits: Limits) -> None:
    if request.params.get("rng") == "shvs" and limits.transport == "lean":
        raise ValueError(
            "rng is 'shvs', which needs whole rows; "
            "additional_config['croupier'] with 'transport': 'rows' would be right"
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
