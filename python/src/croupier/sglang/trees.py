"""Drafts as the step's windows, and what came of them as SGLang has it: on the rank's device.

SGLang lays each request's drafts as a tree of so many nodes, in an order in which no node stands before its
parent; the first has the token that the request has last. Nothing of SGLang is imported here, and nothing
waits for the device.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True, eq=False)
class Layout:
    """The step's columns, each a window with a row for each node of one request's tree."""

    places: torch.Tensor
    """Of each column: its request's place in SGLang's batch."""
    left_out: torch.Tensor
    """Of each column: how many of its prompt's ids the session does not have."""
    requests: int
    """Of SGLang's batch."""

    @property
    def is_whole(self) -> bool:
        """Every request has a column, in SGLang's order."""
        return len(self.places) == self.requests


@dataclass
class Rows:
    """What the writer is given of each row of the step, by the names that it has there."""

    row_of: torch.Tensor | None
    inputs: torch.Tensor
    positions: torch.Tensor
    parents: torch.Tensor | None

    def pointers(self) -> dict[str, int]:
        return {name: array.data_ptr() for name, array in vars(self).items() if array is not None}


def rows_of(layout: Layout, verified: Any, is_chain: bool) -> Rows:
    """`verified` is SGLang's EagleVerifyInput or NgramVerifyInput."""
    width = verified.draft_token_num
    inputs, positions = verified.draft_token.view(-1, width), verified.positions.view(-1, width)
    parents = None if is_chain else parents_of(verified.retrieve_next_token, verified.retrieve_next_sibling)
    row_of = None
    if not layout.is_whole:
        number = torch.arange(width, device=inputs.device)
        row_of = _numbers(layout.places.view(-1, 1) * width + number)
        inputs, positions = inputs[layout.places], positions[layout.places]
        parents = None if parents is None else parents[layout.places]
    if parents is not None:
        head = torch.arange(len(parents), device=parents.device).view(-1, 1) * width
        parents = _numbers(parents + head)
    positions = positions - layout.left_out.view(-1, 1)
    return Rows(row_of, _numbers(inputs), _numbers(positions), parents)


def parents_of(next_token: torch.Tensor, next_sibling: torch.Tensor) -> torch.Tensor:
    """The parent of each node; the first node's is itself.

    `next_token` has each node's first child, `next_sibling` the next node with the same parent; -1: none.
    """
    requests, nodes = next_token.shape
    own = torch.arange(nodes, device=next_token.device).expand(requests, nodes)

    def before(links: torch.Tensor) -> torch.Tensor:
        """Of each node: the one that links to it; itself where none does."""
        found = torch.arange(nodes + 1, device=links.device).repeat(requests, 1)
        # What links to none goes behind the last node.
        return found.scatter(1, torch.where(links < 0, nodes, links), own)[:, :nodes]

    # To the first of its siblings, which alone its parent links to: twice as far each time.
    first = before(next_sibling)
    for _ in range((nodes - 1).bit_length()):
        first = first.gather(1, first)
    return before(next_token).gather(1, first)


def accepted_of(
    layout: Layout, tokens: torch.Tensor, width: int, depth: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """As SGLang's eagle_sample() returns them: each node's token, how many each request has accepted, and the
    nodes that these are of, up to `depth` a request.

    `tokens` are the decisions' of the step's rows, -1 where there is none.
    """
    decided = tokens.view(-1, width)
    if not layout.is_whole:
        decided = decided.new_full((layout.requests, width), -1).index_copy(0, layout.places, decided)
    # A request without a decision has one token, 0: the scheduler learns why, and the GPU indexes with it.
    is_accepted = (decided >= 0).index_fill(1, layout.places.new_zeros(1), True)
    count = is_accepted.sum(1, dtype=torch.int32)
    number = torch.arange(width, device=tokens.device)
    # What is rejected comes last.
    path = torch.where(is_accepted, number, number + width).sort(dim=1).values[:, :depth]
    first = torch.arange(layout.requests, device=tokens.device).view(-1, 1) * width
    index = torch.where(path < width, path + first, -1)
    if width < depth:
        index = torch.nn.functional.pad(index, (0, depth - width), value=-1)
    return decided.clamp(min=0).flatten(), count, index.to(torch.int32)


def _numbers(of_rows: torch.Tensor) -> torch.Tensor:
    return of_rows.to(torch.int32).flatten().contiguous()
