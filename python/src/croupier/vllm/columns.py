"""The columns of a step. Most of the next step's are the same: they are not looked at one by one again."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import filterfalse
from typing import Any

from .sequences import Sequence


@dataclass
class Columns:
    """A step's columns, in order. Steps in flight keep them: only `expected` changes."""

    names: list[str] = field(default_factory=list)
    sequences: list[Sequence] = field(default_factory=list)
    uids: list[int] = field(default_factory=list)
    expected: list[int] = field(default_factory=list)
    """What vLLM counts as computed of each request in its next step. While a batch may begin with these
    columns, a sequence's `due` is one more than this, whatever the sequence says."""
    places: list[int] | None = None
    """As Order has them."""
    width: int = 0
    """Of a row of log-probs: the drawn token and the best that any request wants; 0: none wants any."""

    def begin(self, scheduled: Any, names: list[str]) -> bool:
        """Whether a batch of these names begins with these requests in this order, each with the token after
        its last one."""
        cached, count = scheduled.scheduled_cached_reqs, len(self.names)
        if (
            cached.num_computed_tokens[:count] != self.expected
            or cached.req_ids[:count] != self.names
            or names[:count] != self.names
        ):
            return False
        others = sum(scheduled.num_scheduled_tokens[name] for name in names[count:])
        return scheduled.total_num_scheduled_tokens - others == count

    def go_on(self) -> None:
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
        """What is left of them; the sequences that go have their own `due` again."""
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

    def within(self, scheduled: dict[str, int]) -> Columns:
        """Without those that pause, if any others are scheduled.

        With asynchronous scheduling a request pauses once its last token is in flight, until it is finished.
        """
        pausing = set(filterfalse(scheduled.__contains__, self.names))
        return self if len(pausing) == len(self.names) else self.without(pausing)

    def settle(self) -> None:
        """Before they are forgotten: all sequences have their own `due` again."""
        for place in range(len(self.sequences)):
            self._settle(place)

    def _settle(self, place: int) -> None:
        self.sequences[place].due = self.expected[place] + 1
