"""SGLang's requests as Croupier's parameters: a pure table, without SGLang and without the daemon."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
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

# SGLang's for all tokens.
_ALL = 1 << 30
_CUSTOM = Extra(
    name="custom_params",
    fields=frozenset(SAME_NAMES) | {"min_new_tokens", "sampling_seed", "logprobs"},
    # Put there by SGLang itself when it has received the request.
    engine=frozenset({"__req__"}),
    about_logprob_mode="",
)
_PENALTIES = ("repetition_penalty", "frequency_penalty", "presence_penalty")
# As SGLang's kernels where a request has a min-p. Otherwise Croupier's default order is theirs too, but for
# FlashInfer's kernel for top-k and top-p: there a token has to be within p of all, not of the k.
_MIN_P_LAST = [
    "penalties",
    "dry",
    "top_n_sigma",
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "typical_p",
    "xtc",
]
_LARGEST_BIAS = 100.0
_DETERMINISTIC_SEED = 42


@dataclass(frozen=True)
class Asked:
    """What a request says beside its SamplingParams."""

    sampling: Any
    returns_logprob: bool = False
    top_logprobs: int = 0
    token_ids_logprob: Any = None
    custom_logit_processor: Any = None
    return_sampling_mask: bool = False
    input_embeds: Any = None
    stop_ids: frozenset[int] = frozenset()
    """What min_new_tokens bans."""

    @classmethod
    def of_input(cls, given: Any, tokenizer: Any) -> Asked:
        """A TokenizedGenerateReqInput, in the front end."""
        return cls(
            sampling=given.sampling_params,
            returns_logprob=given.return_logprob,
            top_logprobs=given.top_logprobs_num,
            token_ids_logprob=given.token_ids_logprob,
            custom_logit_processor=given.custom_logit_processor,
            return_sampling_mask=given.return_sampling_mask,
            input_embeds=given.input_embeds,
            stop_ids=_stop_ids(given.sampling_params, tokenizer),
        )

    @classmethod
    def of_req(cls, req: Any) -> Asked:
        """A Req, in a scheduler."""
        return cls(
            sampling=req.sampling_params,
            returns_logprob=req.return_logprob,
            top_logprobs=req.logprob.top_logprobs_num,
            token_ids_logprob=req.logprob.token_ids_logprob,
            custom_logit_processor=req.custom_logit_processor,
            return_sampling_mask=req.return_sampling_mask,
            input_embeds=req.input_embeds,
            stop_ids=_stop_ids(req.sampling_params, req.tokenizer),
        )


def _stop_ids(sampling: Any, tokenizer: Any) -> frozenset[int]:
    """As SGLang's BatchedMinNewTokensPenalizer has them."""
    if not sampling.min_new_tokens or tokenizer is None:
        return frozenset()
    ids = set(sampling.stop_token_ids or ()) | set(
        getattr(tokenizer, "additional_stop_token_ids", None) or ()
    )
    if tokenizer.eos_token_id is not None:
        ids.add(tokenizer.eos_token_id)
    return frozenset(ids)


def translate(asked: Asked, limits: Limits, deterministic: bool) -> Request:
    """The table. `deterministic`: the engine has --enable-deterministic-inference."""
    sampling = asked.sampling
    _refuse_what_is_missing(asked)
    params = {name: getattr(sampling, name) for name in SAME_NAMES}
    _filters(params)
    custom = _custom(sampling.custom_params)
    mode = custom.pop("logprob_mode", None)
    own = _CUSTOM.own_parameters(custom)
    breakers = breakers_from(own.pop("dry_breakers", []), limits.vocab)
    params.update(own)
    if sampling.min_new_tokens:
        params["min_tokens"] = sampling.min_new_tokens
        params["stops_only_ban"] = True
    seed = sampling.sampling_seed
    if seed is None and deterministic:
        seed = _DETERMINISTIC_SEED
    request = Request(
        params=params,
        seed=None if seed is None else seed & SEED_BITS,
        wanted_logprobs=_logprobs(asked, limits, params, mode),
        bias=_bias(sampling.logit_bias or {}),
        stop_ids=sorted(asked.stop_ids),
        dry_breakers=breakers,
    )
    check_limits(request, limits, Options.where)
    return request


def counts_prompt(params: dict[str, Any]) -> bool:
    """Whether the session has the prompt. SGLang's repetition penalty is of the output alone."""
    own = params.get("dry_multiplier", 0.0) or params.get("penalty_last_n") or params.get("rng") == "sglang"
    return params["repetition_penalty"] == 1.0 or bool(own)


def _filters(params: dict[str, Any]) -> None:
    if params["top_k"] == 1:
        # SGLang's own form of a temperature of 0.
        params.update(temperature=0.0, top_k=0, top_p=1.0, min_p=0.0)
    if params["top_k"] >= _ALL or params["top_k"] < 0:
        params["top_k"] = 0
    if params["min_p"] > 0 and (params["top_k"] or params["top_p"] < 1):
        params["order"] = _MIN_P_LAST


def _custom(given: Any) -> dict[str, Any]:
    if given is not None and not isinstance(given, dict):
        raise ValueError(f"custom_params is {given!r}; a dictionary would be right")
    return dict(given or {})


def _bias(given: Mapping[str, float]) -> dict[int, float]:
    for token, bias in given.items():
        if not isinstance(bias, int | float) or not -_LARGEST_BIAS <= bias <= _LARGEST_BIAS:
            raise ValueError(f"logit_bias of {token} is {bias!r}; -100 to 100 would be right with Croupier")
    return {int(token): float(bias) for token, bias in given.items()}


def _logprobs(asked: Asked, limits: Limits, params: dict[str, Any], mode: str | None) -> int | None:
    if mode is not None and mode not in ("raw", "processed"):
        raise ValueError(f"custom_params has logprob_mode {mode!r}; 'raw' or 'processed' would be right")
    if not asked.returns_logprob:
        params["no_logprob"] = True
        return None
    most = min(limits.max_logprobs, MAX_SESSION_LOGPROBS)
    if not 0 <= asked.top_logprobs <= most:
        raise ValueError(
            f"top_logprobs_num is {asked.top_logprobs}; with Croupier 0 to {most} would be right"
        )
    params["logprobs"] = max(1, asked.top_logprobs)
    params["logprob_mode"] = mode or _same_mode(asked, params)
    return asked.top_logprobs


def _same_mode(asked: Asked, params: dict[str, Any]) -> str:
    """The mode in which log-probs are SGLang's: of the adjusted logits, over the temperature, unfiltered."""
    sampling = asked.sampling
    neutral = {"repetition_penalty": 1.0, "frequency_penalty": 0.0, "presence_penalty": 0.0}
    adjusted = (
        any(params[name] != neutral[name] for name in _PENALTIES)
        or bool(sampling.logit_bias)
        or bool(sampling.min_new_tokens)
        or params.get("dry_multiplier", 0.0) > 0
    )
    is_greedy = params["temperature"] == 0
    is_scaled = params["temperature"] != 1 or params.get("dynatemp_range", 0.0) > 0
    scales = is_scaled and not is_greedy and not _returns_original()
    filters = params["top_k"] or params["top_p"] < 1 or params["min_p"] > 0 or _filters_by_own(params)
    if not adjusted and not scales:
        return "raw"
    if not filters and not is_greedy and not (_returns_original() and is_scaled):
        return "processed"
    raise ValueError(
        "log-probs of this request would not be SGLang's, which are of the logits after penalties and bias, "
        "over the temperature and before filters; custom_params' 'logprob_mode' would be right: 'raw' (the "
        "model's own) or 'processed' (of what is drawn from)"
    )


def _filters_by_own(params: dict[str, Any]) -> bool:
    return bool(
        params.get("typical_p", 1.0) < 1
        or params.get("top_n_sigma", -1.0) > 0
        or params.get("xtc_probability", 0.0) > 0
        or params.get("mirostat", 0)
        or params.get("adaptive_target", -1.0) >= 0
    )


def _returns_original() -> bool:
    return os.environ.get("SGLANG_RETURN_ORIGINAL_LOGPROB", "").lower() in ("1", "true", "yes")


def _refuse_what_is_missing(asked: Asked) -> None:
    for name in ("token_ids_logprob", "custom_logit_processor", "return_sampling_mask", "input_embeds"):
        value = getattr(asked, name)
        if value is not None and value is not False:
            instead = "top_logprobs_num" if name == "token_ids_logprob" else "leave it out"
            raise ValueError(f"{name} is not supported with Croupier; {instead}")
