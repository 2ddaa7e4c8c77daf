"""The functions of verification.py as one kernel each: the GPU launches dozens for torch's operations."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from .verification import Layout, Rows

_BLOCK = 256


# Compiled once: where a part of the layout begins depends on the step.
@triton.jit(do_not_specialize=["count"], do_not_specialize_on_alignment=["number_of", "left_out"])
def _rows_kernel(
    row_of,
    inputs,
    fed_positions,
    request_of,
    number_of,
    left_out,
    cu_num_logits,
    logits_indices,
    input_ids,
    positions,
    idx_mapping,
    prefill_len,
    count,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    is_row = row < count
    request = tl.load(request_of + row, mask=is_row, other=0)
    number = tl.load(number_of + row, mask=is_row, other=0)
    logit = tl.load(cu_num_logits + request, mask=is_row, other=0) + number
    end = tl.load(cu_num_logits + request + 1, mask=is_row, other=0)
    exists = is_row & (logit < end)
    fed = tl.load(logits_indices + logit, mask=exists, other=0)
    token = tl.load(input_ids + fed, mask=exists, other=-1)
    position = tl.load(positions + fed, mask=exists, other=-1)
    state = tl.load(idx_mapping + request, mask=is_row, other=0)
    computed = position - number >= tl.load(prefill_len + state, mask=is_row, other=0)
    is_draft = (number == 0) | computed
    tl.store(row_of + row, tl.where(exists, logit, -1).to(tl.int32), mask=is_row)
    tl.store(inputs + row, tl.where(is_draft, token, -1), mask=is_row)
    position -= tl.load(left_out + request, mask=exists, other=0)
    tl.store(fed_positions + row, position.to(tl.int32), mask=is_row)


def rows_of(layout: Layout, batch: Any, prefill_len: torch.Tensor) -> Rows:
    count = len(layout.request)
    row_of = torch.empty(count, dtype=torch.int32, device=layout.request.device)
    inputs, positions = torch.empty_like(row_of), torch.empty_like(row_of)
    _rows_kernel[(triton.cdiv(count, _BLOCK),)](
        row_of,
        inputs,
        positions,
        layout.request,
        layout.number,
        layout.left_out,
        batch.cu_num_logits,
        batch.logits_indices,
        batch.input_ids,
        batch.positions,
        batch.idx_mapping,
        prefill_len,
        count,
        BLOCK=_BLOCK,
    )
    return Rows(row_of, inputs, positions)


@triton.jit(do_not_specialize_on_alignment=["first_of", "count_of"])
def _sampled_kernel(
    sampled,
    sampled_counts,
    rejected_counts,
    tokens,
    first_of,
    count_of,
    cu_num_logits,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
):
    request = tl.program_id(0)
    first, count = tl.load(first_of + request), tl.load(count_of + request)
    rows = tl.load(cu_num_logits + request + 1) - tl.load(cu_num_logits + request)
    number = tl.arange(0, BLOCK)
    token = tl.load(tokens + first + number, mask=number < count, other=-1)
    accepted = tl.min(tl.where(token < 0, number, BLOCK), axis=0)
    draws = count > 0
    accepted = tl.where(draws, tl.maximum(accepted, 1), 0)
    tl.store(sampled + request * WIDTH + number, tl.maximum(token, 0).to(tl.int64), mask=number < WIDTH)
    tl.store(sampled_counts + request, accepted)
    tl.store(rejected_counts + request, tl.where(draws, rows - accepted, 0))


def sampled_of(
    layout: Layout, tokens: torch.Tensor, batch: Any, width: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    requests, device = len(layout.count), tokens.device
    sampled = torch.empty(requests, width, dtype=torch.int64, device=device)
    counts = torch.empty(requests, dtype=torch.int32, device=device)
    rejected = torch.empty_like(counts)
    _sampled_kernel[(requests,)](
        sampled,
        counts,
        rejected,
        tokens,
        layout.first,
        layout.count,
        batch.cu_num_logits,
        WIDTH=width,
        BLOCK=triton.next_power_of_2(width),
        num_warps=1,
    )
    return sampled, counts, rejected
