"""Why a request has no token, as an engine's clients read it."""

from __future__ import annotations

from croupier import DecisionError

_REFUSED = "Croupier refused this request: "
_FAILED = "Croupier could not decide a token of this request: "
# What the request itself asks for, rather than a fault of the model or of the daemon.
ASKED_FOR = (
    DecisionError.NO_TOKEN_LEFT,
    DecisionError.BAD_PARAMETER,
    DecisionError.BAD_TOKEN,
    DecisionError.BAD_SEQUENCE,
    DecisionError.BAD_MASK,
)


def refused(reason: str) -> str:
    """What the request asks for cannot be done."""
    return _REFUSED + reason


def failed(reason: str) -> str:
    """The request is right: the model's logits or the daemon are not."""
    return _FAILED + reason


def is_refused(reason: str) -> bool:
    return reason.startswith(_REFUSED)


def is_failed(reason: str) -> bool:
    return reason.startswith(_FAILED)
