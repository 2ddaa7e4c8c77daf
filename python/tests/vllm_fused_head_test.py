"""`'head': 'fused'`: which models it is for, and what their writers are given."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("vllm")
pytest.importorskip("host_engine", exc_type=ImportError)

from vllm.config import VllmConfig, set_current_vllm_config  # noqa: E402
from vllm.model_executor.layers.logits_processor import LogitsProcessor  # noqa: E402
from vllm.model_executor.layers.vocab_parallel_embedding import UnquantizedEmbeddingMethod  # noqa: E402

from croupier.vllm.executor import check_heads  # noqa: E402
from croupier.vllm.fused_head import HOPPER, UnfitHeadError, head_of  # noqa: E402
from croupier.vllm.options import Options  # noqa: E402

VOCAB, PADDED, WIDTH = 500, 512, 16


class Plain(UnquantizedEmbeddingMethod):
    """vLLM's own is another on a CPU, which packs weights anew."""

    def apply(self, layer: Any, hidden: Any, bias: Any = None) -> Any:
        return torch.nn.functional.linear(hidden, layer.weight, bias)


class Scaled(Plain):
    def apply(self, layer: Any, hidden: Any, bias: Any = None) -> Any:
        return 1.015 * super().apply(layer, hidden, bias)


class Packed:
    def apply(self, layer: Any, hidden: Any, bias: Any = None) -> Any:
        return torch.nn.functional.linear(hidden, layer.weight, bias)


class Model:
    """With vLLM's own LogitsProcessor, whose options are given, over one rank's part of a head."""

    def __init__(
        self, ranks: int = 1, width: int = WIDTH, dtype: Any = torch.bfloat16, **options: Any
    ) -> None:
        self.bias = None
        with set_current_vllm_config(VllmConfig()):
            self.processor = LogitsProcessor(VOCAB, **options)
        self.processor.head_dtype = dtype
        weight = torch.randn(PADDED // ranks, width, generator=torch.Generator().manual_seed(2)).to(dtype)
        self.head = SimpleNamespace(quant_method=Plain(), tp_size=ranks, weight=weight)

    def compute_logits(self, hidden: Any) -> Any:
        return self.processor(self.head, hidden, self.bias)


def hidden_of(model: Model) -> Any:
    return torch.zeros(2, model.head.weight.shape[-1], dtype=model.head.weight.dtype)


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_model_whose_logits_are_the_product_gives_its_head(ranks: int, dtype: Any) -> None:
    model = Model(ranks, dtype=dtype)
    assert head_of(model, hidden_of(model), HOPPER, gathers=False) is model.head
    # Nothing of vLLM stays replaced.
    assert LogitsProcessor._apply_head.__module__ == LogitsProcessor.__module__


def quantised(model: Model) -> None:
    model.head.quant_method = Packed()


def scaled(model: Model) -> None:
    model.head.quant_method = Scaled()


def by_columns(model: Model) -> None:
    model.head.weight = model.head.weight.T.contiguous().T


def shifted(model: Model) -> None:
    weight = model.head.weight
    room = torch.empty(weight.numel() + 1, dtype=weight.dtype)
    model.head.weight = room[1:].view(weight.shape).copy_(weight)


def biased(model: Model) -> None:
    model.bias = torch.zeros(PADDED, dtype=torch.bfloat16)


def single(model: Model) -> None:
    model.processor.head_dtype = torch.float32


def changed(change: Callable[[Any], Any], hidden_too: bool = False) -> Callable[[Model], None]:
    def wrap(model: Model) -> None:
        compute = model.compute_logits
        model.compute_logits = (
            (lambda hidden: compute(change(hidden)))
            if hidden_too
            else (lambda hidden: change(compute(hidden)))
        )

    return wrap


def masks(logits: Any) -> Any:
    logits[..., 300] = float("-inf")
    return logits


def twice(model: Model) -> None:
    compute = model.compute_logits
    model.compute_logits = lambda hidden: torch.maximum(compute(hidden), compute(hidden))


def own_product(model: Model) -> None:
    model.compute_logits = lambda hidden: hidden @ model.head.weight.T


@pytest.mark.parametrize(
    ("options", "change", "why"),
    [
        ({"scale": 0.5}, None, "scales, caps or masks"),
        ({"soft_cap": 30.0}, None, "scales, caps or masks"),
        ({}, changed(masks), "scales, caps or masks"),
        ({}, changed(lambda logits: logits.float()), "scales, caps or masks"),
        ({}, changed(lambda hidden: hidden / 8, hidden_too=True), "changes hidden states"),
        ({}, quantised, r"quantised \(Packed\)"),
        ({}, scaled, "are not the product with its weight"),
        ({}, by_columns, "stored by columns; by rows"),
        ({}, shifted, "begins 2 bytes behind a multiple of 16"),
        ({}, biased, "has a bias"),
        ({}, single, "bfloat16, float32; all bfloat16"),
        ({"dtype": torch.float32}, None, "are float32; all bfloat16"),
        ({"width": 12}, None, "12 elements, 12 apart; multiples of 8"),
        ({}, twice, "from 2 products"),
        ({}, own_product, "from 0 products"),
    ],
)
def test_any_other_model_is_refused_by_what_it_does(
    options: dict[str, Any], change: Callable[[Model], None] | None, why: str
) -> None:
    model = Model(**options)
    if change is not None:
        change(model)
    with pytest.raises(UnfitHeadError, match=why) as refused:
        head_of(model, hidden_of(model), HOPPER, gathers=False)
    with pytest.raises(ValueError, match=f"'head' is 'fused'.*{why}.*without the option"):
        check_heads([{"rank": 0}, {"rank": 1, "unfit_head": str(refused.value)}])
    assert LogitsProcessor._apply_head.__module__ == LogitsProcessor.__module__


def test_a_model_whose_ranks_gather_is_refused_before_it_is_asked_for_a_part() -> None:
    model = Model(ranks=2)
    # Its index is of the whole vocabulary, and behind the rank's part.
    changed(masks)(model)
    with pytest.raises(UnfitHeadError, match="ranks gather logits"):
        head_of(model, hidden_of(model), HOPPER, gathers=True)


@pytest.mark.parametrize(("capability", "named"), [((8, 0), "8.0"), ((10, 0), "10.0"), (None, "None")])
def test_another_gpu_is_refused_by_name(capability: Any, named: str) -> None:
    model = Model()
    with pytest.raises(UnfitHeadError, match=f"compute capability {named}; 9.0"):
        head_of(model, hidden_of(model), capability, gathers=False)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"head": "split"}, "'head'.* is 'split'; fused would be right"),
        ({"head": "fused", "transport": "rows"}, "'head'.* needs 'transport': 'lean'"),
        ({"head": "fused", "verify_every": 2}, "'head'.* cannot be together with 'verify_every'"),
        ({"head": "fused", "hotness_file": "order"}, "'head'.* cannot be together with 'hotness_file'"),
    ],
)
def test_options_that_do_not_go_together_are_refused(given: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Options.parse(given)
    assert Options.parse({"head": "fused", "transport": "lean"}).head == "fused"
