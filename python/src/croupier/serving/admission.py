"""Ranges of parameters, checked before a request reaches a session."""

from __future__ import annotations

import numpy as np

from croupier import Error, Params, decide

from .parameters import Request

_PROBE = np.zeros(64, dtype=np.float32)


def check_ranges(request: Request) -> None:
    """Raises a ValueError that names the parameter and what would be right."""
    # The engine checks the ids of its own fields, and breakers_from() those of DRY breakers. Ranges are the
    # library's, and a decision about a small row checks all of them.
    params = {**request.params, "seed": request.seed or 0, "eos_token_id": -1}
    try:
        # It keeps its Decider, which takes a hundred times as long to make as this decision.
        decide(_PROBE, params=Params(**params))
    except Error as error:
        raise ValueError(f"Croupier cannot sample as this request asks: {error.text}") from error
