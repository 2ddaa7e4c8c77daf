"""What a step's windows are computed from, and what came of them, as vLLM's runner has both: on its device.

vLLM may know only there how many of a request's drafts are verified. So nothing here waits for the device.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch


def sent(numbers: torch.Tensor, device: torch.device) -> torch.Tensor:
    """To the device."""
    # From pinned memory: another copy would wait for the stream, and so for the tokens before these.
    return numbers.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else numbers


@dataclass
class Layout:
    """Which rows of the session's step belong to which request of the runner's batch."""

    request: torch.Tensor
    """Of each row: its request's place in the batch."""
    number: torch.Tensor
    """Of each row: its number in the window."""
    first: torch.Tensor
    """Of each request: its first row."""
    count: torch.Tensor
    """Of each request: its rows; 0: it draws no token."""
    left_out: torch.Tensor
    """Of each request: how many of its prompt's ids the session does not have."""

    @classmethod
    def of(
        cls,
        places: list[int],
        windows: list[int],
        requests: int,
        device: torch.device,
        left_out: list[int] | None = None,
    ) -> Layout:
        """`windows` has the rows of each, `places` its request's place in the batch, `left_out` as Order."""
        rows = np.asarray(windows, dtype=np.int64)
        starts = np.cumsum(rows) - rows
        total = int(rows.sum())
        sizes = [total, total, requests, requests, requests]
        numbers = np.zeros(sum(sizes), dtype=np.int64)
        request, number, first, count, left = np.split(numbers, np.cumsum(sizes[:-1]))
        request[:] = np.repeat(places, rows)
        number[:] = np.arange(total) - np.repeat(starts, rows)
        first[places], count[places] = starts, rows
        if left_out is not None:
            left[places] = left_out
        return cls(*sent(torch.from_numpy(numbers), device).split(sizes))


@dataclass
class Rows:
    """What the writer is given of each row of the step, by the names that it has there."""

    row_of: torch.Tensor
    inputs: torch.Tensor
    positions: torch.Tensor
    """In the session's prompt and output."""


def rows_of(layout: Layout, batch: Any, prefill_len: torch.Tensor) -> Rows:
    """`batch` is vLLM's InputBatch; `prefill_len` has each request state's."""
    starts = batch.cu_num_logits.long()
    row = starts[layout.request] + layout.number
    # Of a request with fewer drafts than were scheduled, the last rows are not there.
    exists = row < starts[layout.request + 1]
    fed = batch.logits_indices[row.clamp(max=len(batch.logits_indices) - 1)]
    position = batch.positions[fed]
    # Behind a prompt that is not computed yet vLLM schedules drafts that stand for none.
    head = position - layout.number
    is_draft = (layout.number == 0) | (head >= prefill_len[batch.idx_mapping[layout.request]])
    return Rows(
        torch.where(exists, row, -1).int(),
        torch.where(exists & is_draft, batch.input_ids[fed], -1).int(),
        torch.where(exists, position - layout.left_out[layout.request], -1).int(),
    )


def sampled_of(
    layout: Layout, tokens: torch.Tensor, batch: Any, width: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The requests' tokens, up to `width` each, how many these are, and how many rows are rejected."""
    number = torch.arange(width, device=tokens.device)
    row = (layout.first.view(-1, 1) + number).clamp(max=len(tokens) - 1)
    token = torch.where(number < layout.count.view(-1, 1), tokens[row].long(), -1)
    draws = layout.count > 0
    # A window without a decision has one token, 0: the engine core knows why, and the GPU indexes with it.
    sampled = (token >= 0).cumprod(dim=1).sum(dim=1).clamp(min=1)
    rejected = batch.cu_num_logits.diff() - sampled
    return (
        token.clamp(min=0),
        torch.where(draws, sampled, 0).int(),
        torch.where(draws, rejected, 0).int(),
    )


def warm_up(functions: Any, width: int, prefill_len: torch.Tensor) -> None:
    """Has kernels compiled before there are requests: `functions` has rows_of() and sampled_of()."""
    device = prefill_len.device
    numbers = torch.zeros(1, dtype=torch.int32, device=device)
    batch = SimpleNamespace(
        cu_num_logits=torch.arange(2, dtype=torch.int32, device=device),
        logits_indices=numbers.long(),
        input_ids=numbers,
        positions=numbers.long(),
        idx_mapping=numbers.long(),
    )
    layout = Layout.of([0], [1], 1, device)
    functions.rows_of(layout, batch, prefill_len)
    functions.sampled_of(layout, numbers, batch, width)
