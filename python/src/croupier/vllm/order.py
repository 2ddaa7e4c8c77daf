"""What the engine core tells the workers about a step."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass
class Order:
    """A step's number and its columns.

    It travels in the place of vLLM's grammar output, with the call of sample_tokens. That call follows the
    execute_model of its own batch in every worker, with no other batch between: the engine core makes both
    calls from one thread, workers take calls in order, and a worker keeps one batch between the two. So the
    number and the columns cannot be those of another batch, however many batches are in flight.
    """

    step: int | None
    """None: no request of the batch has a token to come."""
    places: list[int] | None = None
    """Of the columns, among the batch's requests in the order of num_scheduled_tokens; None: all of them."""
    rows: list[int] | None = None
    """Where the engine speculates: how many rows each column's window has."""
    left_out: list[int] | None = None
    """Likewise: how many of its prompt's ids the session does not have; None: it has all of each."""

    def names(self, scheduled: Iterable[str]) -> list[str]:
        """The request of each column; `scheduled` is the batch's num_scheduled_tokens."""
        names = list(scheduled)
        return names if self.places is None else [names[place] for place in self.places]
