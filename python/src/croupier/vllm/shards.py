"""A rank's part of the logits: without the gathering that vLLM does where that is the same, else with it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from vllm.model_executor.layers.logits_processor import LogitsProcessor

DTYPES = {torch.bfloat16: "bf16", torch.float16: "fp16", torch.float32: "fp32"}


@contextlib.contextmanager
def _gathering_by(gather: Callable[[Any, torch.Tensor], torch.Tensor]) -> Iterator[None]:
    native = LogitsProcessor._gather_logits
    LogitsProcessor._gather_logits = gather
    try:
        yield
    finally:
        LogitsProcessor._gather_logits = native


def own_logits(model: Any, hidden: torch.Tensor) -> torch.Tensor:
    """Each rank's own part of the vocabulary, with its padding: nothing is gathered."""
    with _gathering_by(lambda self, logits: logits):
        return model.compute_logits(hidden)


def part_of(row: torch.Tensor, rank: int, ranks: int) -> torch.Tensor:
    """A rank's part of gathered rows; the last one is padded to the others' length.

    A copy, so that the gathered rows are not kept for the sake of a part of them.
    """
    ids = -(-row.shape[-1] // ranks)
    part = row[..., rank * ids : (rank + 1) * ids]
    if part.shape[-1] < ids:
        return torch.nn.functional.pad(part, (0, ids - part.shape[-1]))
    return part.contiguous()


def describe(model: Any, hidden: torch.Tensor, rank: int, ranks: int, always_gathers: bool) -> dict[str, Any]:
    """What this rank's logits are, measured; with several ranks all of them call it.

    `ids` counts those of its own part, `row` those of the gathered row. `gathers` says that a part of the
    gathered row is not what the rank computes alone.
    """
    if ranks == 1:
        row = model.compute_logits(hidden)
        return _described(rank, row, row, False)
    row, own = _row_and_own(model, hidden)
    if own is None or _gathers_in_its_own_way(model):
        # Not from vLLM's LogitsProcessor: nobody knows what the rank would compute alone.
        return _described(rank, row, part_of(row, rank, ranks), True)
    gathers = always_gathers or not _is_alone_the_same(model, hidden, row, own, rank, ranks)
    return _described(rank, row, own, gathers)


def _gathers_in_its_own_way(model: Any) -> bool:
    """Whether a class of the model overrides how logits are gathered, which `_gathering_by` does not replace.

    Such a class may gather small batches itself and leave large ones to vLLM, as DeepSeek V4.1's does.
    """
    modules = model.modules() if isinstance(model, torch.nn.Module) else ()
    native = LogitsProcessor._gather_logits
    return any(
        isinstance(module, LogitsProcessor) and type(module)._gather_logits is not native
        for module in modules
    )


def _row_and_own(model: Any, hidden: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The gathered row, and this rank's part as it was before soft caps, scales and masks."""
    native = LogitsProcessor._gather_logits
    own: list[torch.Tensor] = []

    def gather(self: Any, logits: torch.Tensor) -> torch.Tensor:
        own.append(logits.clone())
        return native(self, logits)

    with _gathering_by(gather):
        row = model.compute_logits(hidden)
    if row is None:
        raise ValueError(
            "this platform gathers logits on one rank alone, and with Croupier all ranks need them; "
            "tensor_parallel_size=1 would be right"
        )
    return row, own[0] if len(own) == 1 else None


def _is_alone_the_same(
    model: Any, hidden: torch.Tensor, row: torch.Tensor, own: torch.Tensor, rank: int, ranks: int
) -> bool:
    """Whether what the model does to a row after it was gathered is right for a rank's part of it.

    A model that masks ids in compute_logits() indexes the row by ids of the whole vocabulary: beside a part,
    which begins at another id and ends before them, that would be other ids, or a fault of the GPU. So here
    the part stands at the beginning of a row of the full length, behind which nothing may change either.
    """
    ids = own.shape[-1]

    def alone(self: Any, logits: torch.Tensor) -> torch.Tensor:
        long = torch.ones(*own.shape[:-1], ids * ranks, dtype=own.dtype, device=own.device)
        long[..., :ids] = own
        return long

    with _gathering_by(alone):
        long = model.compute_logits(hidden)
    mine, behind = long[..., :ids], long[..., ids:]
    expected = row[..., rank * ids : (rank + 1) * ids]
    mine = mine[..., : expected.shape[-1]]
    same = (mine == expected) | (mine.isnan() & expected.isnan())
    return bool(same.all()) and bool((behind == behind[..., :1]).all())


def _described(rank: int, row: torch.Tensor, own: torch.Tensor, gathers: bool) -> dict[str, Any]:
    return {
        "rank": rank,
        "ids": own.shape[-1],
        "row": row.shape[-1],
        "dtype": DTYPES.get(row.dtype, str(row.dtype)),
        "gathers": gathers,
    }
