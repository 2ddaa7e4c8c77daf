"""A batch between its start and its result, as every rank of the engine knows it."""

from __future__ import annotations

from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from croupier.serving.reasons import failed, refused


@dataclass(frozen=True)
class Fault:
    """Why a request ends without a token. Its Req has it as `croupier_fault`, on all ranks."""

    reason: str
    is_refused: bool
    """The request asks for what cannot be done."""


def fault_of(req: Any) -> Fault | None:
    return getattr(req, "croupier_fault", None)


@dataclass(frozen=True)
class Masks:
    """A step's, as the session takes them: words whose set bits are allowed ids."""

    bits: Any
    first: list[int | None]
    """Of each column: its first row's; None: it has none."""


@dataclass(eq=False)
class Batch:
    reqs: list[Any]
    """SGLang's, in its order."""
    places: list[int]
    """Of the requests that draw: the step's columns."""
    coming: frozenset[int] = frozenset()
    """Of the requests whose prompt it completes: the objects' ids."""
    step: int | None = None
    """None: nothing was submitted."""
    is_drafted: bool = False
    """Its columns are windows of drafts."""
    window: int = 1
    """The rows of each column; each row has a decision."""
    sequences: list[Any] = field(default_factory=list)
    """Of the columns, where the session is."""
    masks: list[Any] | None = None
    """Of the rows, where they are verified."""
    rows: Any = None
    """Their logits, where they are verified."""
    tokens: Any = None
    """The rows' decisions, on the rank's device; -1 where there is no token."""
    answer: Any = None
    """The session's, once it has come."""
    faults: dict[int, Fault] = field(default_factory=dict)
    """By the request's place: why it ends, once that is known."""

    @property
    def is_whole(self) -> bool:
        return len(self.places) == len(self.reqs)

    def drop(self, is_gone: Any) -> None:
        """Leaves out the columns of some requests: they ended, or failed, after the batch was started."""
        kept = [column for column, place in enumerate(self.places) if not is_gone(self.reqs[place])]
        if len(kept) < len(self.places):
            self.places = [self.places[column] for column in kept]


def end_with_errors(reqs: list[Any], faults: dict[int, Fault]) -> None:
    """Has the scheduler end requests with their next token, and the server answer with the reasons."""
    if not faults:
        return
    from sglang.srt.managers.schedule_batch import FINISH_ABORT

    for place, fault in faults.items():
        if fault.is_refused:
            end = FINISH_ABORT(refused(fault.reason), HTTPStatus.BAD_REQUEST, "BadRequestError")
        else:
            status = HTTPStatus.INTERNAL_SERVER_ERROR
            end = FINISH_ABORT(failed(fault.reason), status, "InternalServerError")
        reqs[place].to_finish = end
