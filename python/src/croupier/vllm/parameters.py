"""vLLM's SamplingParams as Croupier's parameters: a pure table, without vLLM and without the daemon."""

from __future__ import annotations

from typing import Any

from croupier.serving.parameters import (
    MAX_SESSION_LOGPROBS,
    SAME_NAMES,
    SEED_BITS,
    Extra,
    Limits,
    Request,
    breakers_from,
    check_limits,
)

from .options import Options

_FIELDS = (*SAME_NAMES, "min_tokens")
_EXTRA_ARGS = Extra(
    name="extra_args",
    fields=frozenset(_FIELDS) | {"seed", "logprobs"},
    engine=frozenset({"kv_transfer_params", "ec_transfer_params", "kv_cache_report_mode"}),
    about_logprob_mode="the engine's --logprobs-mode says it for all requests",
)


def translate(sampling: Any, limits: Limits) -> Request:
    """The table. `sampling` is vLLM's SamplingParams, or has its attributes."""
    params = {name: getattr(sampling, name) for name in _FIELDS}
    extra = _EXTRA_ARGS.own_parameters(sampling.extra_args or {})
    breakers = breakers_from(extra.pop("dry_breakers", []), limits.vocab)
    params.update(extra)
    wanted = _logprobs(sampling, limits, params)
    _refuse_what_is_missing(sampling)
    request = Request(
        params=params,
        seed=None if sampling.seed is None else sampling.seed & SEED_BITS,
        wanted_logprobs=wanted,
        bias={int(token): float(bias) for token, bias in (sampling.logit_bias or {}).items()},
        allowed_ids=list(sampling.allowed_token_ids or ()),
        bad_words=_bad_words(sampling),
        dry_breakers=breakers,
    )
    _stops(sampling, request)
    check_limits(request, limits, Options.where)
    return request


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
