"""How a row of logits depends on the pass that computed it: on its place there, and on the batch."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import torch
from model import Decoder
from passes import FixedShape, Member
from torch import Tensor

TOKENS = 64
TRIALS = 4


def compare_rows(model: Decoder, shape: FixedShape, batches: list[int]) -> Iterator[dict[str, Any]]:
    """One sequence's rows, compared with those of a replay in the first place of its pass.

    Replayed in other places, no row may differ: verification depends on it. Of decoded rows some do.
    """
    drawn = random.Random(1)
    tokens = [drawn.randrange(model.size.vocab) for _ in range(min(TOKENS, model.context))]
    exact = _replayed(model, shape, tokens, list(range(0, len(tokens), shape.width)), place=0)
    for place in range(shape.groups):
        found = [_replayed(model, shape, tokens, _starts(drawn, shape, tokens), place) for _ in range(TRIALS)]
        differences = _differences(torch.cat(found), exact.repeat(TRIALS, 1))
        yield {"pass": f"replayed in place {place}", "expected": 0, **differences}
    for batch in batches:
        yield {
            "pass": f"decoded in a batch of {batch}",
            **_differences(_decoded(model, tokens, batch), exact),
        }


def _starts(drawn: random.Random, shape: FixedShape, tokens: list[int]) -> list[int]:
    """Windows of random lengths, of which none is longer than the shape is wide."""
    starts = [0]
    while starts[-1] + shape.width < len(tokens):
        starts.append(starts[-1] + drawn.randint(1, shape.width))
    return starts


def _replayed(model: Decoder, shape: FixedShape, tokens: list[int], starts: list[int], place: int) -> Tensor:
    slot = min(place, model.slots - 1)
    rows = []
    for start, end in zip(starts, [*starts[1:], len(tokens)], strict=True):
        # Padding, which is written to no sequence's slot.
        others = [Member(model.slots, [number] * (number % shape.width), number) for number in range(place)]
        found = model.replay(shape, [*others, Member(slot, tokens[start:end], start)])
        rows.append(found[place * shape.width :][: end - start])
    return torch.cat(rows)


def _decoded(model: Decoder, tokens: list[int], batch: int) -> Tensor:
    """The last of the batch; the others are the same sequence, turned, in slots of their own."""
    rows = []
    for position in range(len(tokens)):
        fed = [tokens[(position + batch - 1 - number) % len(tokens)] for number in range(batch)]
        rows.append(model.decode(fed, [position] * batch, list(range(batch)))[-1:])
    return torch.cat(rows)


def _differences(rows: Tensor, exact: Tensor) -> dict[str, Any]:
    count = len(rows)
    return {
        "rows": count,
        "different": int((rows != exact).any(1).sum()) / count,
        "largest_difference": float((rows.float() - exact.float()).abs().max()),
        "other_greedy_token": int((rows.argmax(1) != exact.argmax(1)).sum()) / count,
    }
