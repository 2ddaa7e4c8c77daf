"""The columns of a step, prepared once for as long as the same requests go on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .sequences import Sequence


@dataclass
class Columns:
    """A step's columns, in order."""

    names: list[str]
    places: list[int] | None
    """As Order has them."""
    sequences: list[Sequence]
    uids: list[int]
    width: int
    """Of a row of log-probs: the drawn token and the best that any request wants; 0: none wants any."""
    expected: list[int] | None
    """What vLLM counts as computed of each request when a batch goes on with them; None: none can."""

    @classmethod
    def of(cls, scheduled: Any, names: list[str], places: list[int], sequences: list[Sequence]) -> Columns:
        """Of the requests that draw in this batch: `names` and `sequences`, at `places` of it."""
        cached, expected = scheduled.scheduled_cached_reqs, None
        if names == cached.req_ids and scheduled.total_num_scheduled_tokens == len(names):
            expected = [count + 1 for count in cached.num_computed_tokens]
        all_draw = len(names) == len(scheduled.num_scheduled_tokens)
        uids = [sequence.uid for sequence in sequences]
        wanted = [sequence.request.wanted_logprobs for sequence in sequences]
        width = max((1 + count for count in wanted if count is not None), default=0)
        return cls(names, None if all_draw else places, sequences, uids, width, expected)

    def go_on(self, scheduled: Any) -> bool:
        """Whether the batch has the same requests in the same order, each with the token after its last.

        Then all counts that were right for the last batch are one more, in vLLM as in the session, provided
        that no sequence of these has ended, was truncated or is another one by now.
        """
        cached = scheduled.scheduled_cached_reqs
        if (
            self.expected != cached.num_computed_tokens
            or cached.req_ids != self.names
            or list(scheduled.num_scheduled_tokens) != self.names
            or scheduled.total_num_scheduled_tokens != len(self.names)
        ):
            return False
        self.expected = [count + 1 for count in self.expected]
        return True
