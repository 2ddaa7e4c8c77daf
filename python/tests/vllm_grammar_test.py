"""Structured outputs: vLLM's manager with llguidance and a real tokenizer, the plugin, and a real daemon."""

from __future__ import annotations

import gzip
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("vllm")
llguidance = pytest.importorskip("llguidance")
if not hasattr(llguidance, "LLMatcher"):
    pytest.skip("this llguidance is a module that stands for it", allow_module_level=True)
host_engine = pytest.importorskip("host_engine", exc_type=ImportError)

from vllm import LLM, SamplingParams  # noqa: E402
from vllm.config import StructuredOutputsConfig  # noqa: E402
from vllm.sampling_params import StructuredOutputsParams  # noqa: E402

from croupier.vllm import compat, register  # noqa: E402

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "bench" / "vllm"))
import kinds  # noqa: E402

# The model's vocabulary is larger than the tokenizer's, as Qwen's is: ids beyond are nobody's.
VOCAB = 152064


def tokenizer_file() -> Path:
    given = os.environ.get("CROUPIER_TEST_TOKENIZER")
    path = Path(given) if given else ROOT.parent / "shared" / "traces" / "tokenizer.json.gz"
    if not path.exists():
        pytest.skip("there is no tokenizer: CROUPIER_TEST_TOKENIZER=…/tokenizer.json.gz would name one")
    return path


def tokenizer_folder(place: Path) -> Path:
    file, folder = tokenizer_file(), place / "tokenizer"
    folder.mkdir()
    whole = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
    (folder / "tokenizer.json").write_bytes(whole)
    about = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(about))
    return folder


class Engine:
    def __init__(
        self, folder: Path, executor: type = host_engine.HostExecutorWithSession, **changes: Any
    ) -> None:
        (folder / "config.json").write_text(json.dumps(host_engine.model_config(VOCAB)))
        options = {"samplers": 1, "verify_every": 1, "shm_dir": f"/dev/shm/croupier-test-{os.getpid()}"}
        register()
        self.llm = LLM(
            model=str(folder),
            tokenizer=str(tokenizer_folder(folder)),
            load_format="dummy",
            max_model_len=256,
            max_num_seqs=8,
            max_num_batched_tokens=64,
            enable_prefix_caching=False,
            structured_outputs_config=StructuredOutputsConfig(backend="guidance"),
            distributed_executor_backend=executor,
            additional_config={"croupier": options},
            **changes,
        )
        self.core = self.llm.llm_engine.engine_core.engine_core
        self.masks: list[dict[str, np.ndarray]] = []

    def keep_masks(self) -> None:
        bitmask = self.core.scheduler.get_grammar_bitmask

        def kept(scheduled: Any) -> Any:
            found = bitmask(scheduled)
            if found is not None:
                rows = zip(found.structured_output_request_ids, found.grammar_bitmask.copy(), strict=True)
                self.masks.append(dict(rows))
            return found

        self.core.scheduler.get_grammar_bitmask = kept

    def run(self, asked: dict[str, dict[str, Any]]) -> dict[str, Any]:
        for name, given in asked.items():
            sampling = SamplingParams(**{"max_tokens": 60, **given})
            self.llm.llm_engine.add_request(name, {"prompt_token_ids": [50, 51]}, sampling)
        found = {}
        while self.llm.llm_engine.has_unfinished_requests():
            for output in self.llm.llm_engine.step():
                if output.finished:
                    found[output.request_id] = output.outputs[0]
        return found

    def masks_of(self, name: str) -> list[np.ndarray]:
        """Of one request, step by step; the engine adds to a request's name."""
        rows = ((own, row) for masks in self.masks for own, row in masks.items())
        return [row for own, row in rows if own == name or own.startswith(f"{name}-")]


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: Any) -> Iterator[Engine]:
    monkeypatch.setattr(host_engine, "VOCAB", VOCAB)
    monkeypatch.setattr(host_engine.HostPlatform, "schedules_ahead", True)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    tokenizer_file()
    engine = Engine(tmp_path)
    engine.keep_masks()
    yield engine
    engine.llm.llm_engine.engine_core.shutdown()


def allows(mask: np.ndarray, token: int) -> bool:
    return bool(int(mask[token // 32]) >> token % 32 & 1)


def asked_for_all() -> dict[str, dict[str, Any]]:
    ways = {"greedy": {"temperature": 0.0}, "seeded": {**kinds.FULL, "seed": 5}}
    return {
        f"{grammar}/{way}": {**controls, "structured_outputs": StructuredOutputsParams(**given)}
        for grammar, given in kinds.GRAMMARS.items()
        for way, controls in ways.items()
    }


def test_each_token_is_one_that_the_grammar_allows_and_texts_are_the_grammars(engine: Engine) -> None:
    asked = asked_for_all()
    # And one without a grammar among them, whose row has no mask.
    outputs = engine.run({**asked, "free": {"temperature": 0.0, "ignore_eos": True, "max_tokens": 20}})
    assert len(outputs["free"].token_ids) == 20
    finished = 0
    for name in asked:
        tokens, masks = list(outputs[name].token_ids), engine.masks_of(name)
        assert len(masks) >= len(tokens)
        assert all(len(mask) == (VOCAB + 31) // 32 for mask in masks)
        assert all(allows(mask, token) for mask, token in zip(masks, tokens, strict=False))
        if outputs[name].finish_reason == "stop":
            finished += 1
            assert kinds.is_text_of(name.split("/")[0], outputs[name].text), outputs[name].text
    assert finished >= len(asked) - 2
    assert engine.core.model_executor.croupier_plane._verifier.verified > 0
    assert engine.core.model_executor.croupier_plane._verifier.differing == []


def test_ids_that_the_tokenizer_has_not_are_never_allowed(engine: Engine) -> None:
    known = len(engine.llm.get_tokenizer())
    assert known < VOCAB
    asked = {"temperature": 1.5, "seed": 1, "structured_outputs": StructuredOutputsParams(regex=".{40}")}
    tokens = list(engine.run({"any": asked})["any"].token_ids)
    assert max(tokens) < known
    assert all(
        not allows(mask, token) for mask in engine.masks_of("any")[:3] for token in range(known, VOCAB)
    )


@pytest.mark.parametrize("ahead", [True, False], ids=["ahead", "one batch"])
def test_texts_of_grammars_are_those_without_drafts(
    tmp_path: Path, monkeypatch: Any, engine: Engine, ahead: bool
) -> None:
    if not compat.current().speculates:
        pytest.skip("Croupier does not speculate with this vLLM")
    from host_speculation import NGRAM, SpeculatingExecutor, mixed

    asked = asked_for_all() | {"free": {"temperature": 0.0, "ignore_eos": True, "max_tokens": 20}}
    expected = {name: list(output.token_ids) for name, output in engine.run(asked).items()}
    monkeypatch.setattr(host_engine.HostPlatform, "schedules_ahead", ahead)
    (tmp_path / "drafts").mkdir()
    drafting = Engine(tmp_path / "drafts", executor=SpeculatingExecutor, speculative_config=NGRAM)
    drafting.core.model_executor.drafter = mixed(
        lambda tokens: stream_that_begins(tokens, expected), beyond=False
    )
    outputs = drafting.run(asked)
    assert {name: list(output.token_ids) for name, output in outputs.items()} == expected
    verifier = drafting.core.model_executor.croupier_plane._verifier
    assert verifier.verified > 0
    assert verifier.differing == []
    assert {tokens for _, tokens in drafting.core.model_executor.windows} == {1, 2, 3, 4}
    drafting.llm.llm_engine.engine_core.shutdown()


def stream_that_begins(tokens: list[int], streams: dict[str, list[int]]) -> list[int]:
    """All have one prompt, of two tokens."""
    known = (tokens[:2] + stream for stream in streams.values())
    return next((stream for stream in known if stream[: len(tokens)] == tokens), tokens)
