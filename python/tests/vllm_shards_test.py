"""A rank's part of the logits: what it computes alone where that is right, else a part of gathered rows."""

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
from vllm.model_executor.models.gemma4_mm import Gemma4ForConditionalGeneration  # noqa: E402
from vllm.model_executor.models.moondream3 import Moondream3ForCausalLM  # noqa: E402
from vllm.utils import torch_utils  # noqa: E402

from croupier.vllm import shards  # noqa: E402
from croupier.vllm.executor import geometry_of, must_gather  # noqa: E402

HIDDEN = 16


@pytest.fixture(autouse=True)
def _pageable(monkeypatch: pytest.MonkeyPatch) -> None:
    # vLLM was told of a GPU, which there is not.
    monkeypatch.setattr(torch_utils, "PIN_MEMORY", False, raising=False)


class Ranks:
    """The ranks of one model, one after another in this process, with vLLM's own LogitsProcessor. What it
    gathers is made of all ranks' parts of the LM head."""

    def __init__(self, ranks: int, vocab: int, monkeypatch: Any, **options: Any) -> None:
        padded = -(-vocab // (64 * ranks)) * 64 * ranks
        generator = torch.Generator().manual_seed(5)
        self.heads = torch.randn(padded, HIDDEN, generator=generator).chunk(ranks)
        self.hidden = torch.randn(2, HIDDEN, generator=generator)
        self.ranks, self.vocab = ranks, vocab
        with set_current_vllm_config(VllmConfig()):
            self.processor = LogitsProcessor(vocab, **options)
        monkeypatch.setattr(
            LogitsProcessor,
            "_gather_logits",
            lambda _, own: torch.cat([self.given @ head.T for head in self.heads], dim=-1),
        )

    def model(self, rank: int) -> Any:
        def apply(_: Any, hidden: Any, bias: Any = None) -> Any:
            self.given = hidden
            return hidden @ self.heads[rank].T

        lm_head = SimpleNamespace(quant_method=SimpleNamespace(apply=apply), tp_size=self.ranks)
        return SimpleNamespace(
            lm_head=lm_head,
            logits_processor=self.processor,
            compute_logits=lambda hidden: self.processor(lm_head, hidden),
        )

    def described(self, wrap: Callable[[Any], Any], always: bool = False) -> list[dict[str, Any]]:
        return [
            shards.describe(wrap(self.model(rank)), self.hidden, rank, self.ranks, always)
            for rank in range(self.ranks)
        ]


def gemma4(*suppressed: int) -> Callable[[Any], Any]:
    def wrap(model: Any) -> Any:
        outer = SimpleNamespace(language_model=model, _suppress_token_ids=list(suppressed))
        outer.compute_logits = lambda hidden: Gemma4ForConditionalGeneration.compute_logits(outer, hidden)
        return outer

    return wrap


def moondream3(answer: int) -> Callable[[Any], Any]:
    def wrap(model: Any) -> Any:
        model._answer_id = answer
        model.compute_logits = lambda hidden: Moondream3ForCausalLM.compute_logits(model, hidden)
        return model

    return wrap


def chameleon(*image_tokens: int) -> Callable[[Any], Any]:
    def wrap(model: Any) -> Any:
        # vLLM 0.33 has it no more.
        models = pytest.importorskip("vllm.model_executor.models.chameleon")
        model.model = SimpleNamespace(vocabulary_mapping=SimpleNamespace(image_tokens=list(image_tokens)))
        model.compute_logits = lambda hidden: models.ChameleonForConditionalGeneration.compute_logits(
            model, hidden
        )
        return model

    return wrap


def plain(model: Any) -> Any:
    return model


@pytest.mark.parametrize("options", [{}, {"soft_cap": 30.0}, {"scale": 0.25}], ids=["", "soft cap", "scale"])
@pytest.mark.parametrize(("ranks", "vocab"), [(2, 500), (2, 512), (3, 500), (8, 70)])
def test_a_model_that_masks_nothing_is_cut_without_gathering(
    ranks: int, vocab: int, options: dict[str, Any], monkeypatch: Any
) -> None:
    model = Ranks(ranks, vocab, monkeypatch, **options)
    described = model.described(plain)
    assert not must_gather(described)
    geometry = geometry_of(described, vocab)
    assert geometry["padded_vocab"] == sum(len(head) for head in model.heads)
    row = model.model(0).compute_logits(model.hidden)
    parts = [shards.own_logits(model.model(rank), model.hidden) for rank in range(ranks)]
    assert torch.equal(torch.cat(parts, dim=-1)[:, :vocab], row)


@pytest.mark.parametrize(
    "masking",
    [
        # As 258882 and 258883 of 262,144 are in the last part, behind every part's end.
        gemma4(490, 491),
        gemma4(0),
        gemma4(165),
        gemma4(256),
        moondream3(3),
        moondream3(499),
        chameleon(*range(4, 200)),
        chameleon(300),
    ],
    ids=[
        "last part",
        "first id",
        "in all parts",
        "a part's first",
        "moondream3",
        "",
        "chameleon",
        "one image id",
    ],
)
@pytest.mark.parametrize(("ranks", "vocab"), [(2, 500), (2, 512), (3, 500)])
def test_a_model_that_masks_ids_is_gathered_and_each_rank_has_its_part(
    ranks: int, vocab: int, masking: Callable[[Any], Any], monkeypatch: Any
) -> None:
    model = Ranks(ranks, vocab, monkeypatch)
    described = model.described(masking)
    assert must_gather(described)
    geometry = geometry_of(described, vocab)
    row = masking(model.model(0)).compute_logits(model.hidden)
    parts = [shards.part_of(row, rank, ranks) for rank in range(ranks)]
    assert {part.shape for part in parts} == {(2, geometry["padded_vocab"] // ranks)}
    assert all(part.is_contiguous() for part in parts)
    assert torch.equal(torch.cat(parts, dim=-1)[:, :vocab], row)


def test_a_mask_of_an_id_that_was_hidden_before_is_found_by_where_it_writes(monkeypatch: Any) -> None:
    """All parts compare as equal, and alone the first one would be written behind its end."""
    model = Ranks(2, 512, monkeypatch)
    model.hidden = model.hidden.abs()
    model.heads[1][490 - 256] = float("-inf")
    assert model.described(gemma4(490))[0]["gathers"]


def test_one_rank_that_differs_lets_all_gather(monkeypatch: Any) -> None:
    model = Ranks(2, 512, monkeypatch)
    described = model.described(moondream3(3))
    assert [rank["gathers"] for rank in described] == [False, True]
    assert must_gather(described)


def test_logits_that_are_nan_with_the_weights_of_no_model_are_the_same(monkeypatch: Any) -> None:
    model = Ranks(2, 512, monkeypatch)
    model.hidden[:] = float("nan")
    assert not must_gather(model.described(plain))


def test_an_adapter_of_the_head_is_added_to_gathered_rows_alone(monkeypatch: Any) -> None:
    assert must_gather(Ranks(2, 512, monkeypatch).described(plain, always=True))


def test_logits_that_no_processor_of_vllms_makes_are_gathered(monkeypatch: Any) -> None:
    model = Ranks(2, 500, monkeypatch)
    whole = torch.cat(model.heads)[:500]
    described = model.described(lambda _: SimpleNamespace(compute_logits=lambda hidden: hidden @ whole.T))
    assert must_gather(described)
    assert geometry_of(described, 500) == {"vocab": 500, "tp": 2, "dtype": "fp32", "padded_vocab": 500}


def test_rows_of_another_length_than_the_vocabulary_are_refused(monkeypatch: Any) -> None:
    described = Ranks(2, 500, monkeypatch).described(plain)
    with pytest.raises(ValueError, match="has 500 logits, in 2 parts of 256, for a vocabulary of 501"):
        geometry_of(described, 501)


def test_a_class_that_gathers_in_its_own_way_is_known() -> None:
    class Own(LogitsProcessor):
        def _gather_logits(self, logits: Any) -> Any:
            return super()._gather_logits(logits)

    class Model(torch.nn.Module):
        def __init__(self, kind: type) -> None:
            super().__init__()
            with set_current_vllm_config(VllmConfig()):
                self.logits_processor = kind(64)

    assert shards._gathers_in_its_own_way(Model(Own))
    assert not shards._gathers_in_its_own_way(Model(LogitsProcessor))
    assert not shards._gathers_in_its_own_way(SimpleNamespace())
