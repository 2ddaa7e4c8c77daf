"""vLLM's own beam search over the log-probs of the plugin, against those of a softmax of whole rows."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("vllm")
host_engine = pytest.importorskip("host_engine", exc_type=ImportError)

from vllm.logprobs import Logprob  # noqa: E402
from vllm.sampling_params import BeamSearchParams  # noqa: E402
from vllm_engine_test import Engine  # noqa: E402

PLAIN_ROW = host_engine.row_after


def row_after(tokens: list[int]) -> np.ndarray:
    """Rows after which a beam often ends."""
    row = PLAIN_ROW(tokens)
    row[host_engine.EOS] += 7
    return row


def native(prompts: Any, params: Any, *_: object, **__: object) -> list[Any]:
    """What vLLM's engine answers to the requests of its beam search."""
    answers = []
    for prompt, asked in zip(prompts, params, strict=True):
        row = row_after(list(prompt["prompt_token_ids"]))
        logprobs = row - np.logaddexp.reduce(row.astype(np.float64))
        best = np.argsort(-row, kind="stable")[: asked.logprobs].tolist()
        found = {token: Logprob(float(logprobs[token]), place + 1) for place, token in enumerate(best)}
        answers.append(SimpleNamespace(outputs=[SimpleNamespace(logprobs=[found], finish_reason="length")]))
    return answers


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: Any) -> Any:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(host_engine, "row_after", row_after)
    engine = Engine(tmp_path)
    tokenizer = SimpleNamespace(eos_token_id=host_engine.EOS, decode=lambda tokens, **_: str(tokens))
    monkeypatch.setattr(engine.llm.renderer, "get_tokenizer", lambda: tokenizer)
    yield engine
    engine.close()


@pytest.mark.parametrize("width", [1, 4, 10])
@pytest.mark.parametrize("penalty", [0.5, 1.0])
def test_beams_are_those_that_vllm_finds_by_itself(
    engine: Engine, monkeypatch: Any, width: int, penalty: float
) -> None:
    asked = BeamSearchParams(beam_width=width, max_tokens=8, length_penalty=penalty)
    prompts = [{"prompt_token_ids": [place + 1, 7, 9 * place]} for place in range(6)]
    found = engine.llm.beam_search(prompts, asked)
    assert engine.verifier.verified > 0
    assert engine.verifier.differing == []
    monkeypatch.setattr(engine.llm, "_render_and_run_requests", native)
    expected = engine.llm.beam_search(prompts, asked)
    ended = 0
    for ours, theirs in zip(found, expected, strict=True):
        assert len(ours.sequences) == len(theirs.sequences) == width
        for one, other in zip(ours.sequences, theirs.sequences, strict=True):
            assert one.tokens == other.tokens
            assert one.finish_reason == other.finish_reason
            assert one.cum_logprob == pytest.approx(other.cum_logprob, abs=1e-4)
            ended += one.tokens[-1] == host_engine.EOS
    assert ended > 0


def test_more_beams_than_log_probs_are_refused(engine: Engine) -> None:
    # vLLM asks for two log-probs a beam, and --max-logprobs is 20.
    with pytest.raises(Exception, match=r"logprobs of 22, .*: 20"):
        engine.llm.beam_search([{"prompt_token_ids": [1, 2]}], BeamSearchParams(beam_width=11, max_tokens=2))
