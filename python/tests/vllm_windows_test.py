"""Speculative decoding in vLLM's own engine core: whatever is drafted, streams are those without drafts."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("vllm")
host_engine = pytest.importorskip("host_engine", exc_type=ImportError)

from engine_life import Life  # noqa: E402
from host_speculation import DRAFTS, NGRAM, SpeculatingExecutor, mixed, right  # noqa: E402
from vllm import SamplingParams  # noqa: E402
from vllm_engine_test import Engine, greedy, preempt_often  # noqa: E402

from croupier.vllm import compat  # noqa: E402

if not compat.current().speculates:
    pytest.skip("Croupier does not speculate with this vLLM", allow_module_level=True)

GREEDY = {"temperature": 0.0, "ignore_eos": True}
MIXTURE: list[dict[str, Any]] = [
    {"temperature": 0.9, "top_k": 50, "top_p": 0.9, "min_p": 0.01, "seed": 3, "logprobs": 4},
    {"temperature": 0.7, "repetition_penalty": 1.2, "frequency_penalty": 0.3, "presence_penalty": 0.2},
    {"temperature": 0.8, "extra_args": {"dry_multiplier": 0.8, "dry_base": 1.5, "xtc_probability": 0.5}},
    {"temperature": 1.0, "logit_bias": {7: 4.0}, "allowed_token_ids": list(range(5, 90)), "seed": 8},
    {"temperature": 0.5, "min_tokens": 6, "stop_token_ids": list(range(10, 60)), "logprobs": 1},
    {"temperature": 1.0, "logprobs": 0, "bad_words_token_ids": None, "min_p": 0.1},
    {"temperature": 1.0, "seed": 6, "extra_args": {"mirostat": 2}},
    {"temperature": 1.0, "seed": 7, "extra_args": {"adaptive_target": 0.3}, "max_tokens": 29},
    {"temperature": 0.0, "frequency_penalty": 0.5, "logprobs": 5, "max_tokens": 2},
    {"temperature": 1.2, "top_p": 0.95, "seed": 9, "extra_args": {"rng": "vllm"}, "max_tokens": 1},
]
MIXTURE = [{key: value for key, value in given.items() if value is not None} for given in MIXTURE]
# Longer than a batch too, so that parts of prompts stand beside windows. The first token names the request.
PROMPTS = [[100 + number, *range(3, 5 + 9 * (number % 12))] for number in range(4 * len(MIXTURE))]
KINDS: dict[str, dict[str, Any]] = {
    "ahead": {},
    "one batch": {"ahead": False},
    "lean": {"croupier": {"transport": "lean"}},
    "fewer rows than scheduled": {"trims": True},
    "fewer drafts for more requests": {
        "speculative_config": {
            **NGRAM,
            "num_speculative_tokens_per_batch_size": [(1, 3, 3), (4, 6, 1), (7, 8, 2)],
        }
    },
}


def speculating(folder: Path, **changes: Any) -> Engine:
    return Engine(folder, executor=SpeculatingExecutor, **{"speculative_config": NGRAM, **changes})


@pytest.fixture(params=KINDS.values(), ids=KINDS)
def engine(request: Any, tmp_path: Path, monkeypatch: Any) -> Iterator[Engine]:
    kind = {"ahead": True, "trims": False, **request.param}
    monkeypatch.setattr(host_engine.HostPlatform, "schedules_ahead", kind.pop("ahead"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    trims = random.Random(5) if kind.pop("trims") else None
    engine = speculating(tmp_path, disable_log_stats=False, **kind)
    engine.executor.trims = trims
    yield engine
    engine.close()


def stream_of(output: Any) -> tuple[Any, ...]:
    """All that a user sees of a request."""
    return list(output.token_ids), output.finish_reason, output.stop_reason, output.logprobs


@cache
def without_drafts(transport: str) -> list[tuple[Any, ...]]:
    """The mixture's streams. Log-probs of the transports differ in their last bits."""
    with pytest.MonkeyPatch.context() as patched, tempfile.TemporaryDirectory() as folder:
        patched.setattr(host_engine.HostPlatform, "schedules_ahead", True)
        patched.setenv("XDG_RUNTIME_DIR", folder)
        engine = Engine(Path(folder), croupier={"transport": transport})
        outputs = engine.generate(PROMPTS, [{"max_tokens": 40, **given} for given in MIXTURE * 4])
        engine.close()
        return [stream_of(output) for output in outputs]


def of(streams: list[tuple[Any, ...]]) -> Callable[[list[int]], list[int]]:
    known = {prompt[0]: prompt + stream[0] for prompt, stream in zip(PROMPTS, streams, strict=True)}
    return lambda tokens: known[tokens[0]]


def greedily(tokens: list[int]) -> list[int]:
    return tokens + greedy(tokens, DRAFTS)


@pytest.mark.parametrize("drafter", [right, mixed, None], ids=["right", "mixed", "none"])
def test_streams_with_all_controls_are_those_without_drafts(engine: Engine, drafter: Any) -> None:
    expected = without_drafts(engine.executor.writer.info.transport)
    if drafter is not None:
        engine.executor.drafter = drafter(of(expected))
    outputs = engine.generate(PROMPTS, [{"max_tokens": 40, **given} for given in MIXTURE * 4])
    for given, output, stream in zip(MIXTURE * 4, outputs, expected, strict=True):
        assert stream_of(output) == stream, given
    assert engine.verifier.differing == []
    assert engine.verifier.verified > 0
    accepted = {tokens for _, tokens in engine.executor.windows}
    assert accepted == ({1} if drafter is None else {1, 2, 3, 4})
    if drafter is right and engine.executor.trims is None:
        assert sum(rows == tokens for rows, tokens in engine.executor.windows) > 300


def test_metrics_count_the_drafts_and_which_were_accepted(engine: Engine) -> None:
    engine.executor.drafter = mixed(greedily)
    engine.generate([[place, place + 1] for place in range(10, 18)], [{**GREEDY, "max_tokens": 30}] * 8)
    counted = {metric.name: metric for metric in engine.llm.get_metrics()}
    accepted = sum(tokens - 1 for _, tokens in engine.executor.windows)
    assert 0 < counted["vllm:spec_decode_num_accepted_tokens"].value <= accepted
    # What is decided behind a request's end reaches no client.
    assert counted["vllm:spec_decode_num_accepted_tokens"].value >= accepted - 2 * DRAFTS * 8
    assert 0 < counted["vllm:spec_decode_num_drafts"].value <= len(engine.executor.windows)
    by_place = counted["vllm:spec_decode_num_accepted_tokens_per_pos"].values
    assert by_place[0] > by_place[1] > 0
    assert sorted(by_place, reverse=True) == by_place
    assert sum(by_place) == counted["vllm:spec_decode_num_accepted_tokens"].value


def test_preempted_requests_go_on_with_the_same_tokens(engine: Engine) -> None:
    engine.executor.drafter = mixed(greedily)
    prompts = [[place, place + 1] for place in range(10, 18)]
    outputs = engine.generate(prompts, [{**GREEDY, "max_tokens": 150}] * 8)
    assert engine.executor.preemptions > 0
    for prompt, output in zip(prompts, outputs, strict=True):
        assert list(output.token_ids) == greedy(prompt, 150)
    assert engine.verifier.differing == []


def test_requests_that_are_moved_about_have_the_tokens_and_log_probs_that_they_have_alone(
    engine: Engine, monkeypatch: Any
) -> None:
    """They come, are aborted, preempted, counted back and reordered, with windows in flight."""
    engine.executor.drafter = mixed(greedily)
    waits_for = preempt_often(engine.scheduler, monkeypatch, lambda victim: victim.num_output_tokens % 3 == 0)
    life = Life(engine, seed=1)
    life.live(60)
    life.check()
    assert len(waits_for) > 3


def run(engine: Engine, asked: dict[str, tuple[list[int], dict[str, Any]]]) -> dict[str, Any]:
    core, finished = engine.llm.llm_engine, {}
    for name, (prompt, given) in asked.items():
        core.add_request(name, {"prompt_token_ids": prompt}, SamplingParams(detokenize=False, **given))
    while core.has_unfinished_requests():
        for output in core.step():
            if output.finished:
                finished[output.request_id] = output.outputs[0]
    return finished


def test_a_row_that_nobody_can_decide_ends_its_own_request_behind_the_tokens_before_it(
    engine: Engine,
) -> None:
    engine.executor.drafter = right(greedily)
    prompts = {"good": [1, 2, 3], "bad": list(range(20))}
    for nan_at in range(20, 28):
        engine.executor.nan_at = nan_at
        asked = {name: (prompt, {**GREEDY, "max_tokens": 14}) for name, prompt in prompts.items()}
        finished = run(engine, asked)
        assert list(finished["good"].token_ids) == greedy(prompts["good"], 14)
        assert finished["bad"].finish_reason == "error"
        assert "NaN" in finished["bad"].stop_reason
        assert list(finished["bad"].token_ids) == greedy(prompts["bad"], nan_at - 20)


def test_a_bad_row_behind_a_requests_end_or_of_a_rejected_draft_is_no_error(engine: Engine) -> None:
    engine.executor.nan_at = 27
    asked = {
        # Behind its end, in the same window.
        "ended": (list(range(20)), {**GREEDY, "max_tokens": 7}),
        "stopped": (list(range(20)), {"temperature": 0.0, "stop_token_ids": greedy(list(range(20)), 7)[6:]}),
    }
    engine.executor.drafter = right(greedily)
    finished = run(engine, asked)
    assert finished["ended"].finish_reason == "length"
    assert finished["stopped"].finish_reason == "stop"
    for output in finished.values():
        assert list(output.token_ids) == greedy(list(range(20)), 7)


def test_a_request_ends_at_the_models_longest_length(engine: Engine) -> None:
    engine.executor.drafter = mixed(greedily)
    prompts = [[place, *range(200 + place)] for place in range(30, 38)]
    outputs = engine.generate(prompts, [{**GREEDY, "max_tokens": 100}] * 8)
    for prompt, output in zip(prompts, outputs, strict=True):
        assert list(output.token_ids) == greedy(prompt, 256 - len(prompt))
        assert output.finish_reason == "length"


def test_a_prompt_that_is_cached_begins_with_drafts_that_stand_for_none(
    tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(host_engine.HostPlatform, "schedules_ahead", True)
    engine = speculating(tmp_path, enable_prefix_caching=True)
    engine.executor.drafter = mixed(greedily)
    # One token more than whole blocks: what is left of a cached prompt is padded with drafts.
    prompts = [[place, *range(16 * (1 + place % 2))] for place in range(60, 64)]
    for cached in (False, True):
        engine.executor.windows.clear()
        outputs = engine.generate(prompts, [GREEDY] * 4)
        for prompt, output in zip(prompts, outputs, strict=True):
            assert list(output.token_ids) == greedy(prompt, 12)
        assert ((1 + DRAFTS, 1) in engine.executor.windows[:4]) == cached
    assert engine.verifier.differing == []
    engine.close()
