"""Stop strings in vLLM's own engine core: its scheduler ends requests with the decision that completes one.

What the front end tells clients is compared with an engine whose front end alone looks for stop strings.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("vllm")
host_engine = pytest.importorskip("host_engine", exc_type=ImportError)

from vllm import SamplingParams  # noqa: E402
from vllm_engine_test import Engine, greedy, preempt_often  # noqa: E402
from vllm_texts_test import EURO, tokenizer_of  # noqa: E402

from croupier.vllm import compat, executor  # noqa: E402
from croupier.vllm.texts import Texts  # noqa: E402

# Ids that may be drawn: all but the last, which is special.
SPECIAL = host_engine.VOCAB - 1


def tokens() -> list[bytes]:
    """Of one to three letters, and parts of characters; so many that texts of 60 tokens meet most pairs."""
    draw = random.Random(7)
    found = {EURO, EURO[:1], EURO[:2], EURO[1:], EURO[2:], b" " + EURO[:1]}
    while len(found) < SPECIAL:
        found.add("".join(draw.choices("abcdefgh .\né", k=draw.randint(1, 4))).encode())
    return draw.sample(sorted(found), len(found))


def write_tokenizer(folder: Path) -> None:
    tokenizer_of(tokens(), [("<|end|>", True)]).save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"}))


KINDS = {"ahead": {}, "one batch": {"ahead": False}, "two stages": {"stages": 2}}


@pytest.fixture(params=KINDS.values(), ids=KINDS)
def engine(request: Any, tmp_path: Path, monkeypatch: Any) -> Iterator[Engine]:
    kind = {"ahead": True, **request.param}
    monkeypatch.setattr(host_engine.HostPlatform, "schedules_ahead", kind.pop("ahead"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    write_tokenizer(tmp_path)
    engine = Engine(tmp_path, skip_tokenizer_init=False, **kind)
    yield engine
    engine.close()


def asked(count: int) -> list[dict[str, Any]]:
    """Stop strings of all kinds, also such as only the front end looks for."""
    draw = random.Random(8)
    found = []
    for _ in range(count):
        stops = [
            "".join(draw.choices("abcdefgh .\né\u20ac", k=draw.choice([1, 2, 2, 3, 5]))) for _ in range(3)
        ]
        found.append(
            {
                "stop": stops[: draw.randint(1, 3)],
                "temperature": draw.choice([0.0, 0.9]),
                "seed": draw.randrange(100),
                "max_tokens": draw.choice([1, 5, 60]),
                "min_tokens": draw.choice([0, 0, 5]),
                "include_stop_str_in_output": draw.random() < 0.3,
                "skip_special_tokens": draw.random() < 0.7,
                "logprobs": draw.choice([None, 2]),
                "ignore_eos": draw.random() < 0.8,
                "detokenize": True,
            }
        )
        found[-1]["min_tokens"] = min(found[-1]["min_tokens"], found[-1]["max_tokens"])
    return found


def told(outputs: list[Any]) -> list[Any]:
    return [
        (each.text, list(each.token_ids), each.finish_reason, each.stop_reason, len(each.logprobs or ()))
        for each in outputs
    ]


def surplus(engine: Engine, outputs: list[Any]) -> int:
    """Tokens that were drawn for requests that had ended."""
    # Behind all batches that are under way.
    engine.executor.thread.submit(lambda: None).result()
    return sum(engine.executor.drawn.values()) - sum(len(each.token_ids) for each in outputs)


def test_clients_are_told_what_the_front_end_alone_tells_them(engine: Engine, monkeypatch: Any) -> None:
    prompts = [[place, place + 1, 3 * place] for place in range(60)]
    outputs = engine.generate(prompts, asked(60))
    ours = surplus(engine, outputs)
    engine.executor.drawn.clear()
    plane = engine.executor.croupier_plane
    monkeypatch.setattr(plane._sequences, "texts", None)
    alone = engine.generate(prompts, asked(60))
    assert told(outputs) == told(alone)
    stopped = [each for each in outputs if isinstance(each.stop_reason, str)]
    assert len(stopped) > 12
    assert engine.verifier.differing == []
    # A step is under way when a request ends, where they are scheduled ahead.
    assert ours <= surplus(engine, alone)


def searched(engine: Engine, monkeypatch: Any) -> list[list[str]]:
    """Of each request the stop strings that the session looks for."""
    found = []
    stops_of = Texts.stops_of

    def noted(self: Texts, *given: Any) -> list[str]:
        found.append(stops_of(self, *given))
        return found[-1]

    monkeypatch.setattr(Texts, "stops_of", noted)
    return found


def test_the_scheduler_ends_a_request_whatever_the_front_end_does(engine: Engine, monkeypatch: Any) -> None:
    aborted: list[str] = []
    monkeypatch.setattr(engine.llm.llm_engine.engine_core, "abort_requests", aborted.extend)
    found = searched(engine, monkeypatch)
    given = {
        "temperature": 0.0,
        "ignore_eos": True,
        "max_tokens": 80,
        "detokenize": True,
        "stop": ["ab", "cd", "e"],
    }
    outputs = engine.generate([[place, 5] for place in range(8)], [given] * 8)
    assert found == [["ab", "cd", "e"]] * 8
    assert [each.finish_reason for each in outputs] == ["stop"] * 8
    assert aborted == []
    # Its next step is under way where steps are scheduled before a token is known, as at an EOS.
    ahead = engine.scheduler.vllm_config.scheduler_config.async_scheduling
    assert surplus(engine, outputs) == (8 if ahead else 0)


def test_a_request_that_was_preempted_ends_with_its_stop_string(engine: Engine, monkeypatch: Any) -> None:
    waits_for = preempt_often(engine.scheduler, monkeypatch)
    prompts = [[place, place + 1] for place in range(40, 48)]
    outputs = engine.generate(prompts, asked(8))
    assert waits_for
    monkeypatch.setattr(engine.executor.croupier_plane._sequences, "texts", None)
    assert told(outputs) == told(engine.generate(prompts, asked(8)))


def test_a_reset_of_the_prefix_cache_ends_no_request_with_another_token(
    engine: Engine, monkeypatch: Any
) -> None:
    def run(turns: tuple[int, ...]) -> dict[str, Any]:
        core, finished = engine.llm.llm_engine, {}
        for place, given in enumerate(asked(6)):
            core.add_request(str(place), {"prompt_token_ids": [place, 9]}, SamplingParams(**given))
        turn = 0
        while core.has_unfinished_requests():
            turn += 1
            if turn in turns:
                engine.scheduler.reset_prefix_cache(reset_running_requests=True)
            for output in core.step():
                if output.finished:
                    finished[output.request_id] = told(output.outputs)
        return finished

    found = run((3, 4, 6, 7, 8, 12))
    monkeypatch.setattr(engine.executor.croupier_plane._sequences, "texts", None)
    assert found == run(())


@pytest.mark.skipif(not compat.current().speculates, reason="Croupier does not speculate with this vLLM")
@pytest.mark.parametrize("ahead", [True, False])
def test_a_stop_string_within_a_window_ends_it_there(tmp_path: Path, monkeypatch: Any, ahead: bool) -> None:
    from host_speculation import NGRAM, SpeculatingExecutor, mixed

    monkeypatch.setattr(host_engine.HostPlatform, "schedules_ahead", ahead)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    write_tokenizer(tmp_path)
    kind = {"executor": SpeculatingExecutor, "speculative_config": NGRAM, "skip_tokenizer_init": False}
    engine = Engine(tmp_path, **kind)
    engine.executor.drafter = mixed(lambda tokens: tokens + greedy(tokens, 3))
    aborted: list[str] = []
    monkeypatch.setattr(engine.llm.llm_engine.engine_core, "abort_requests", aborted.extend)
    try:
        given = [{**each, "temperature": 0.0, "max_tokens": 60} for each in asked(60)]
        prompts = [[place, place + 1, 3 * place] for place in range(60)]
        found = searched(engine, monkeypatch)
        outputs = engine.generate(prompts, given)
        monkeypatch.undo()
        monkeypatch.setattr(engine.executor.croupier_plane._sequences, "texts", None)
        assert told(outputs) == told(engine.generate(prompts, given))
        assert len(aborted) <= sum(not stops for stops in found)
        assert any(tokens > 1 for _, tokens in engine.executor.windows)
    finally:
        engine.close()


def test_a_request_whose_client_sends_more_input_is_the_front_ends(engine: Engine, monkeypatch: Any) -> None:
    found = searched(engine, monkeypatch)
    schedule = engine.scheduler.__class__.schedule
    marked = []

    def resumable(self: Any, *given: Any) -> Any:
        for request in self.waiting:
            request.resumable = True
        scheduled = schedule(self, *given)
        marked.extend(getattr(new, "croupier_resumable", False) for new in scheduled.scheduled_new_reqs)
        for request in self.requests.values():
            request.resumable = False
        return scheduled

    monkeypatch.setattr(engine.scheduler.__class__, "schedule", resumable)
    given = {"temperature": 0.0, "max_tokens": 8, "detokenize": True, "stop": ["ab"]}
    engine.generate([[1, 2]], [given])
    assert marked == [True]
    assert found == []


def test_an_engine_whose_tokenizer_the_session_does_not_take_goes_on_without(
    tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    write_tokenizer(tmp_path)
    said: list[str] = []
    monkeypatch.setattr(executor.logger, "warning", lambda text, *given: said.append(text % given))
    to_str = "{}"
    monkeypatch.setattr(Texts, "__init__", lambda self, backend: vars(self).update(_backend=Broken(to_str)))
    engine = Engine(tmp_path, skip_tokenizer_init=False)
    try:
        assert engine.executor.croupier_plane._sequences.texts is None
        told_why = [text for text in said if "stop strings" in text]
        assert len(told_why) == 1
        assert "has no model.vocab" in told_why[0]
        given = {
            "temperature": 0.0,
            "max_tokens": 60,
            "detokenize": True,
            "stop": ["ab", "e"],
            "ignore_eos": True,
        }
        [output] = engine.generate([[1, 2]], [given])
        assert output.finish_reason == "stop"
    finally:
        engine.close()


class Broken:
    def __init__(self, text: str) -> None:
        self._text = text

    def to_str(self) -> str:
        return self._text
