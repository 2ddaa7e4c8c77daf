"""The columns of a step. Those of requests that just continue are reused by the next step."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import filterfalse
from typing import Any

from .sequences import Sequence


def _starts_with(whole: list[Any], prefix: list[Any]) -> bool:
    # A slice changes the reference count of each of its objects, most of which are in no cache.
    return (whole if len(whole) == len(prefix) else whole[: len(prefix)]) == prefix


@dataclass(eq=False)
class Columns:
    """A step's columns, in order. Steps in flight refer to them: only `expected` changes."""

    names: list[str] = field(default_factory=list)
    sequences: list[Sequence] = field(default_factory=list)
    uids: list[int] = field(default_factory=list)
    expected: list[int] = field(default_factory=list)
    """num_computed_tokens of each request in its next step. While the plane keeps these columns for reuse, a
    sequence's due count is one more than this, and Sequence.due is out of date."""
    places: list[int] | None = None
    """As Order has them."""
    width: int = 0
    """Of a row of log-probs: the drawn token and the best that any request wants; 0: none wants any."""

    def is_prefix_of(self, scheduled: Any, names: list[str]) -> bool:
        """Whether a batch of these names starts with these requests, in order, each with one more token."""
        cached, count = scheduled.scheduled_cached_reqs, len(self.names)
        if (
            count == 0
            or not _starts_with(cached.num_computed_tokens, self.expected)
            or not _starts_with(cached.req_ids, self.names)
            or not _starts_with(names, self.names)
        ):
            return False
        others = sum(scheduled.num_scheduled_tokens[name] for name in names[count:])
        return scheduled.total_num_scheduled_tokens - others == count

    def of_rows(self) -> tuple[list[str], list[Sequence]]:
        """The request and the sequence of each decision of the step."""
        return self.names, self.sequences

    def advance(self) -> None:
        self.expected = [count + 1 for count in self.expected]

    def copy(self) -> Columns:
        lists = self.names.copy(), self.sequences.copy(), self.uids.copy(), self.expected.copy()
        return Columns(*lists, width=self.width)

    def add(self, name: str, sequence: Sequence, counted: int) -> None:
        self.names.append(name)
        self.sequences.append(sequence)
        self.uids.append(sequence.uid)
        self.expected.append(counted)
        if sequence.width > self.width:
            self.width = sequence.width

    def without(self, gone: set[str]) -> Columns:
        """The other columns; updates Sequence.due of those that are removed."""
        if gone.isdisjoint(self.names):
            return self
        places = [place for place, name in enumerate(self.names) if name in gone]
        left = self.copy()
        for place in reversed(places):
            self._settle(place)
            for each in (left.names, left.sequences, left.uids, left.expected):
                del each[place]
        if self.width and any(self.sequences[place].width == self.width for place in places):
            left.width = max((sequence.width for sequence in left.sequences), default=0)
        return left

    def without_paused(self, scheduled: dict[str, int]) -> Columns:
        """The columns of the scheduled requests; all columns if none is scheduled (another pipeline batch).

        With asynchronous scheduling a request is not scheduled while its last token is in flight.
        """
        paused = set(filterfalse(scheduled.__contains__, self.names))
        return self if len(paused) == len(self.names) else self.without(paused)

    def settle(self) -> None:
        """Updates Sequence.due of all, before the plane drops these columns."""
        for place in range(len(self.sequences)):
            self._settle(place)

    def _settle(self, place: int) -> None:
        self.sequences[place].due = self.expected[place] + 1
