"""Requests that cannot be sampled as they ask are refused in the front end, where only they fail."""

from __future__ import annotations

import functools
from typing import Any

from croupier.serving.admission import check_ranges
from croupier.serving.parameters import Limits

from .options import Options
from .parameters import translate
from .requirements import check_engine
from .sequences import NO_PROMPT_IDS


def limits_of(options: Options, vllm_config: Any) -> Limits:
    model = vllm_config.model_config
    most = model.max_logprobs
    return Limits(
        max_bias=options.max_bias,
        max_stop_ids=options.max_stop_ids,
        max_list_tokens=options.max_list_tokens,
        max_logprobs=64 if most == -1 else min(64, most),
        logprobs_mode=model.logprobs_mode,
        transport=options.transport_from(vllm_config.device_config.device_type),
        vocab=model.get_vocab_size(),
    )


def check_request(sampling: Any, limits: Limits) -> None:
    """Raises a ValueError that names the parameter and what would be right."""
    check_ranges(translate(sampling, limits))


def install(input_processor: type) -> None:
    """Puts the checks before vLLM's InputProcessor; a second call does nothing."""
    if hasattr(input_processor, "croupier_limits"):
        return
    input_processor.croupier_limits = None
    begin, process = input_processor.__init__, input_processor.process_inputs

    @functools.wraps(begin)
    def checked_begin(self: Any, vllm_config: Any, *args: Any, **kwargs: Any) -> None:
        options = Options.of(vllm_config)
        if options is not None:
            check_engine(vllm_config)
            self.croupier_limits = limits_of(options, vllm_config)
        begin(self, vllm_config, *args, **kwargs)
        if options is not None:
            # vLLM looks at it to refuse min_p and logit_bias, which its rejection sampler lacks.
            self.speculative_config = None

    @functools.wraps(process)
    def checked_process(self: Any, *args: Any, **kwargs: Any) -> Any:
        request = process(self, *args, **kwargs)
        if self.croupier_limits is not None and request.sampling_params is not None:
            # A prompt of both kinds has ids that stand for embeddings, and penalties would count them.
            if request.prompt_token_ids is None or request.prompt_embeds is not None:
                raise ValueError(NO_PROMPT_IDS)
            # Now it has the model's defaults, the EOS ids and the bad words' ids.
            check_request(request.sampling_params, self.croupier_limits)
        return request

    input_processor.__init__ = checked_begin
    input_processor.process_inputs = checked_process
