"""Requests that cannot be sampled as they ask are refused: in the front end, and by each scheduler again."""

from __future__ import annotations

from typing import Any

from croupier.serving.admission import check_ranges
from croupier.serving.parameters import MAX_SESSION_LOGPROBS, Limits, Request

from .options import Options
from .parameters import Asked, translate


class Admission:
    """Of one engine. Equal in all its processes, so that all ranks refuse the same requests."""

    def __init__(self, options: Options, server_args: Any, vocab: int) -> None:
        self.limits = Limits(
            max_bias=options.max_bias,
            max_stop_ids=options.max_stop_ids,
            max_list_tokens=options.max_list_tokens,
            max_logprobs=MAX_SESSION_LOGPROBS,
            transport=options.transport_from(server_args.device),
            vocab=vocab,
        )
        self._deterministic = bool(server_args.enable_deterministic_inference)

    def request_of(self, asked: Asked) -> Request:
        """Raises a ValueError that names the parameter and what would be right."""
        request = translate(asked, self.limits, self._deterministic)
        check_ranges(request)
        return request
