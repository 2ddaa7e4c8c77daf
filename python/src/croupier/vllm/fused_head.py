"""`'head': 'fused'`: the writer makes the product with the LM head, where a model's logits are that product.

What a model makes of its hidden states is measured, in vLLM's profiling run: nobody reads it off a class.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from vllm.model_executor.layers.linear import UnquantizedLinearMethod
from vllm.model_executor.layers.logits_processor import LogitsProcessor
from vllm.model_executor.layers.vocab_parallel_embedding import UnquantizedEmbeddingMethod

from . import shards

HOPPER = (9, 0)
DTYPES = (torch.bfloat16, torch.float16)
_PLAIN = (UnquantizedEmbeddingMethod, UnquantizedLinearMethod)


class UnfitHeadError(ValueError):
    """Says what of the model is in the way."""


@dataclass
class _Product:
    """One call of an LM head."""

    layer: Any
    hidden: torch.Tensor
    bias: torch.Tensor | None
    logits: torch.Tensor


def head_of(model: Any, hidden: torch.Tensor, capability: tuple[int, int] | None, gathers: bool) -> Any:
    """The layer whose product of its weight and hidden states like these is this rank's logits.

    `gathers`: what ranks compute alone are not logits yet. Such a model is not asked for them, for it may
    index a rank's part by ids of the whole vocabulary.
    """
    if capability != HOPPER:
        raise UnfitHeadError(
            f"its GPU has compute capability {capability and '.'.join(map(str, capability))}; 9.0 (H100, "
            "H200, GH200) would be right"
        )
    if gathers:
        raise UnfitHeadError("its ranks gather logits before they are right")
    # Other numbers than a warm-up's, which may be all zero: then a scale would not show.
    probe = torch.randn(hidden.shape, generator=torch.Generator().manual_seed(1)).to(hidden)
    products: list[_Product] = []
    with _noting(products):
        logits = shards.own_logits(model, probe)
    if len(products) != 1:
        raise UnfitHeadError(
            f"its logits come from {len(products)} products of an LM head; one would be right"
        )
    _check_product(products[0], probe)
    _check_logits(products[0], logits)
    return products[0].layer


@contextlib.contextmanager
def _noting(products: list[_Product]) -> Iterator[None]:
    native = LogitsProcessor._apply_head

    def apply_head(self: Any, lm_head: Any, hidden: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        logits = native(self, lm_head, hidden, bias)
        products.append(_Product(lm_head, hidden.clone(), bias, logits.clone()))
        return logits

    LogitsProcessor._apply_head = apply_head
    try:
        yield
    finally:
        LogitsProcessor._apply_head = native


def _check_product(product: _Product, probe: torch.Tensor) -> None:
    method = product.layer.quant_method
    if not isinstance(method, _PLAIN):
        raise UnfitHeadError(f"its LM head is quantised ({type(method).__name__})")
    if product.bias is not None:
        raise UnfitHeadError("its LM head has a bias")
    if not _equal(product.hidden, probe):
        raise UnfitHeadError("it changes hidden states before its LM head")
    weight, kinds = product.layer.weight, {product.hidden.dtype, product.logits.dtype}
    if {weight.dtype} != kinds or weight.dtype not in DTYPES:
        names = ", ".join(sorted(str(each).removeprefix("torch.") for each in {weight.dtype} | kinds))
        raise UnfitHeadError(
            f"its LM head, hidden states and logits are {names}; all bfloat16, or all float16, would be right"
        )
    _check_layout(weight)
    # A layer may be of a plain class and scale or pack its weight. Another kernel rounds otherwise.
    product_of_weight = torch.nn.functional.linear(probe, weight)
    if not _close(product.logits, product_of_weight):
        raise UnfitHeadError("its LM head's logits are not the product with its weight")


def _check_layout(weight: torch.Tensor) -> None:
    if weight.stride(-1) != 1:
        raise UnfitHeadError("its LM head's weight is stored by columns; by rows would be right")
    if weight.stride(0) % 8 or weight.shape[-1] % 8:
        raise UnfitHeadError(
            f"its LM head's rows have {weight.shape[-1]} elements, {weight.stride(0)} apart; multiples of 8 "
            "would be right"
        )
    if behind := weight.data_ptr() % 16:
        raise UnfitHeadError(
            f"its LM head begins {behind} bytes behind a multiple of 16; at one would be right"
        )


def _check_logits(product: _Product, logits: torch.Tensor) -> None:
    # vLLM cuts its padding off.
    if not _equal(product.logits[..., : logits.shape[-1]], logits):
        raise UnfitHeadError("it scales, caps or masks its logits")


def _close(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.shape == other.shape and bool((one - other).abs().max() <= 0.01 * other.abs().max())


def _equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    return bool(((one == other) | (one.isnan() & other.isnan())).all())
