"""A fused head for comparison: a Triton kernel that multiplies, adds Gumbel noise, and keeps the best of each
tile of ids. One temperature and one seed for all, no other control, and no logits. Only for measuring.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def _draw_tile(
    hidden, weight, best_score, best_id, columns, vocab, elements, tiles, temperature, seed,
    TILE_IDS: tl.constexpr, TILE_COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    tile = tl.program_id(0)
    ids = tile * TILE_IDS + tl.arange(0, TILE_IDS)
    own = tl.program_id(1) * TILE_COLUMNS + tl.arange(0, TILE_COLUMNS)
    sums = tl.zeros((TILE_IDS, TILE_COLUMNS), dtype=tl.float32)
    for first in range(0, elements, DEPTH):
        depth = first + tl.arange(0, DEPTH)
        rows = tl.load(
            weight + ids[:, None].to(tl.int64) * elements + depth[None, :],
            mask=(ids[:, None] < vocab) & (depth[None, :] < elements),
            other=0.0,
        )
        states = tl.load(
            hidden + own[None, :].to(tl.int64) * elements + depth[:, None],
            mask=(own[None, :] < columns) & (depth[:, None] < elements),
            other=0.0,
        )
        sums = tl.dot(rows, states, sums)
    logits = sums.to(tl.bfloat16).to(tl.float32) / temperature
    uniform = tl.rand(seed, own[None, :] * vocab + ids[:, None])
    noise = -tl.log(-tl.log(tl.maximum(uniform, 1e-10)))
    scores = tl.where(ids[:, None] < vocab, logits + noise, -float("inf"))
    place = own * tiles + tile
    tl.store(best_score + place, tl.max(scores, axis=0), mask=own < columns)
    tl.store(best_id + place, tile * TILE_IDS + tl.argmax(scores, axis=0), mask=own < columns)


@triton.jit
def _draw_row(best_score, best_id, tokens, tiles, TILES: tl.constexpr):
    column = tl.program_id(0)
    at = tl.arange(0, TILES)
    scores = tl.load(best_score + column * tiles + at, mask=at < tiles, other=-float("inf"))
    tl.store(tokens + column, tl.load(best_id + column * tiles + tl.argmax(scores, axis=0)))


def fused_gumbel(hidden: torch.Tensor, weight: torch.Tensor, temperature: float, seed: int) -> torch.Tensor:
    columns, elements = hidden.shape
    vocab = len(weight)
    tile_ids = 128
    tile_columns = min(max(triton.next_power_of_2(columns), 16), 128)
    tiles = triton.cdiv(vocab, tile_ids)
    best_score = torch.empty(columns, tiles, dtype=torch.float32, device=hidden.device)
    best_id = torch.empty(columns, tiles, dtype=torch.int32, device=hidden.device)
    tokens = torch.empty(columns, dtype=torch.int32, device=hidden.device)
    _draw_tile[(tiles, triton.cdiv(columns, tile_columns))](
        hidden, weight, best_score, best_id, columns, vocab, elements, tiles, temperature, seed,
        TILE_IDS=tile_ids, TILE_COLUMNS=tile_columns, DEPTH=64 if tile_columns > 64 else 128,
        num_stages=4 if tile_columns <= 64 else 3, num_warps=8,
    )  # fmt: skip
    _draw_row[(columns,)](
        best_score,
        best_id,
        tokens,
        tiles,
        TILES=triton.next_power_of_2(tiles),
        num_warps=4,
    )
    return tokens
