"""What an engine asks of a model: passes over rows, of any shape or of a fixed one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class FixedShape:
    """A pass of always as many rows: `groups` sequences, and `width` tokens one after another of each."""

    groups: int
    width: int


@dataclass(frozen=True)
class Member:
    """One sequence's tokens in a pass of a fixed shape. The first stands at `position` of the sequence."""

    slot: int
    tokens: list[int]
    position: int


class Model(Protocol):
    """A model with room for the keys and values of `slots` sequences of at most `context` tokens.

    A pass stores the keys and values of its tokens and returns a row of logits for each of them.
    """

    slots: int
    context: int

    def decode(self, tokens: list[int], positions: list[int], slots: list[int]) -> Any:
        """The fast path: one token of each sequence. The last bits of a row may depend on the others."""

    def replay(self, shape: FixedShape, members: list[Member]) -> Any:
        """A pass that is padded to its shape: a row depends on its sequence's tokens up to it alone.

        The row of a member's token is row `member * shape.width + token`.
        """

    def numbers(self, values: list[int]) -> Any:
        """An int32 array where the rows are."""

    def stream(self) -> int:
        """The CUDA stream that computes the rows; 0 on a host."""
