"""The plugin in vLLM's own engine core, with batches in flight, against a real daemon."""

from __future__ import annotations

import json
import os
import re
import select
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("vllm")
host_engine = pytest.importorskip("host_engine", exc_type=ImportError)

from vllm import LLM, SamplingParams  # noqa: E402
from vllm.v1.core.sched.output import GrammarOutput  # noqa: E402
from vllm.v1.core.sched.request_queue import SchedulingPolicy  # noqa: E402
from vllm_requirements_test import engine as requirements_engine  # noqa: E402

from croupier.serving.place import daemon_pid  # noqa: E402
from croupier.vllm import register  # noqa: E402


class Engine:
    def __init__(
        self,
        folder: Path,
        croupier: dict[str, Any] | None = None,
        stages: int = 1,
        executor: type = host_engine.HostExecutorWithSession,
        **changes: Any,
    ) -> None:
        (folder / "config.json").write_text(json.dumps(host_engine.model_config()))
        options = {
            "samplers": 1,
            "verify_every": 1,
            "private": True,
            "shm_dir": f"/dev/shm/croupier-test-{os.getpid()}",
            **(croupier or {}),
        }
        register()
        given = {
            "max_model_len": 256,
            "max_num_seqs": 8,
            "max_num_batched_tokens": 64,
            "enable_prefix_caching": False,
            "skip_tokenizer_init": True,
        }
        self.llm = LLM(
            model=str(folder),
            load_format="dummy",
            pipeline_parallel_size=stages,
            distributed_executor_backend=executor,
            additional_config={"croupier": options},
            **{**given, **changes},
        )

    @property
    def executor(self) -> Any:
        return self.llm.llm_engine.engine_core.engine_core.model_executor

    @property
    def scheduler(self) -> Any:
        return self.llm.llm_engine.engine_core.engine_core.scheduler

    @property
    def verifier(self) -> Any:
        return self.executor.croupier_plane._verifier

    def generate(self, prompts: list[list[int]], parameters: list[dict[str, Any]]) -> list[Any]:
        asked = [SamplingParams(**{"max_tokens": 12, "detokenize": False, **given}) for given in parameters]
        given = [{"prompt_token_ids": prompt} for prompt in prompts]
        return [output.outputs[0] for output in self.llm.generate(given, asked, use_tqdm=False)]

    def close(self) -> None:
        self.llm.llm_engine.engine_core.shutdown()


KINDS = {
    "ahead": {},
    "one batch": {"ahead": False},
    "two stages": {"stages": 2},
    "two stages and a spare": {"stages": 2, "croupier": {"spare_batches": 1}},
    "three stages": {"stages": 3},
}


@pytest.fixture(params=KINDS.values(), ids=KINDS)
def engine(request: Any, tmp_path: Path, monkeypatch: Any) -> Iterator[Engine]:
    kind = {"ahead": True, **request.param}
    monkeypatch.setattr(host_engine.HostPlatform, "schedules_ahead", kind.pop("ahead"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    engine = Engine(tmp_path, **kind)
    yield engine
    engine.close()


def greedy(prompt: list[int], count: int) -> list[int]:
    tokens = list(prompt)
    for _ in range(count):
        tokens.append(int(np.argmax(host_engine.row_after(tokens))))
    return tokens[len(prompt) :]


def test_greedy_tokens_are_the_maxima_and_all_decisions_are_the_references(engine: Engine) -> None:
    # More and longer prompts than fit a batch: parts of prompts stand beside sequences that draw.
    prompts = [list(range(1, 3 + 9 * place)) for place in range(12)]
    outputs = engine.generate(prompts, [{"temperature": 0.0, "ignore_eos": True}] * len(prompts))
    for prompt, output in zip(prompts, outputs, strict=True):
        assert list(output.token_ids) == greedy(prompt, 12)
    assert engine.verifier.verified == 12 * len(prompts)
    assert engine.verifier.differing == []


def test_all_controls_together_give_the_references_tokens(engine: Engine) -> None:
    mixture = [
        {"temperature": 0.9, "top_k": 50, "top_p": 0.9, "min_p": 0.01, "seed": 3, "logprobs": 4},
        {"temperature": 0.7, "repetition_penalty": 1.2, "frequency_penalty": 0.3, "presence_penalty": 0.2},
        {"temperature": 0.8, "extra_args": {"dry_multiplier": 0.8, "xtc_probability": 0.5}},
        {"temperature": 1.0, "logit_bias": {7: 4.0}, "allowed_token_ids": list(range(5, 90))},
        {"temperature": 0.5, "min_tokens": 6, "stop_token_ids": list(range(10, 60)), "max_tokens": 20},
        {"temperature": 1.0, "logprobs": 0},
    ]
    prompts = [list(range(place, 20 + place)) for place in range(18)]
    outputs = engine.generate(prompts, mixture * 3)
    assert engine.verifier.verified >= sum(len(output.token_ids) for output in outputs)
    assert engine.verifier.differing == []
    for output in outputs[4::6]:
        assert len(output.token_ids) >= 6
    for output in outputs[3::6]:
        assert set(output.token_ids) <= set(range(5, 90))
    first = outputs[0].logprobs[0]
    assert len(first) in (4, 5)
    assert first[outputs[0].token_ids[0]].logprob <= 0
    assert {found.rank for found in first.values()} >= {1, 2, 3, 4}


def test_seeded_tokens_depend_on_the_request_alone(engine: Engine) -> None:
    asked = {"temperature": 1.0, "seed": 11, "ignore_eos": True}
    alone = engine.generate([[5, 6, 7]], [asked])[0]
    among = engine.generate([[9, 9], [5, 6, 7], [4] * 30], [{}, asked, {"seed": 1}])[1]
    assert list(alone.token_ids) == list(among.token_ids)


def test_preempted_requests_go_on_with_the_same_tokens(engine: Engine) -> None:
    prompts = [[place, place + 1] for place in range(10, 18)]
    outputs = engine.generate(prompts, [{"temperature": 0.0, "ignore_eos": True, "max_tokens": 150}] * 8)
    preemptions = engine.executor.preemptions
    assert preemptions > 0
    for prompt, output in zip(prompts, outputs, strict=True):
        assert list(output.token_ids) == greedy(prompt, 150)
    assert engine.verifier.differing == []


def preempt_often(
    scheduler: Any, monkeypatch: Any, when: Callable[[Any], bool] = lambda victim: True
) -> list[int]:
    """Room fails each few steps, once; gives how many tokens each preempted request waits for."""
    manager, allocate, waits_for = scheduler.kv_cache_manager, scheduler.kv_cache_manager.allocate_slots, []
    last = [0]

    def allocate_slots(request: Any, *args: Any, **kwargs: Any) -> Any:
        running = scheduler.running
        if scheduler.current_step >= last[0] + 5 and request in running:
            by_priority = scheduler.policy == SchedulingPolicy.PRIORITY
            victim = max(running, key=lambda one: one.arrival_time) if by_priority else running[-1]
            if victim is not request and when(victim):
                last[0] = scheduler.current_step
                waits_for.append(victim.num_output_placeholders)
                return None
        return allocate(request, *args, **kwargs)

    monkeypatch.setattr(manager, "allocate_slots", allocate_slots)
    return waits_for


def test_a_request_preempted_with_its_token_under_way_waits_for_it(engine: Engine, monkeypatch: Any) -> None:
    waits_for = preempt_often(engine.scheduler, monkeypatch)
    prompts = [[place, place + 1] for place in range(40, 45)]
    asked = [{"temperature": 0.0, "ignore_eos": True, "max_tokens": 20 + 3 * place} for place in range(5)]
    outputs = engine.generate(prompts, asked)
    assert engine.executor.preemptions == len(waits_for) > 3
    if engine.scheduler.vllm_config.max_concurrent_batches > 2:
        assert max(waits_for) > 0
    for prompt, given, output in zip(prompts, asked, outputs, strict=True):
        assert list(output.token_ids) == greedy(prompt, given["max_tokens"])
    assert engine.verifier.differing == []


def test_a_row_that_nobody_can_decide_ends_its_own_request(engine: Engine) -> None:
    engine.executor.nan_at = 23
    prompts = [[1, 2, 3], list(range(20))]
    outputs = engine.generate(prompts, [{"temperature": 0.0, "ignore_eos": True, "max_tokens": 8}] * 2)
    assert list(outputs[0].token_ids) == greedy(prompts[0], 8)
    assert outputs[1].finish_reason == "error"
    assert re.match("Croupier could not decide a token of this request: step .*NaN", outputs[1].stop_reason)
    assert list(outputs[1].token_ids) == greedy(prompts[1], 3)
    engine.executor.nan_at = -1
    again = engine.generate(prompts, [{"temperature": 0.0, "ignore_eos": True}] * 2)
    assert list(again[1].token_ids) == greedy(prompts[1], 12)


def test_a_bad_first_row_ends_one_request_though_its_prompt_has_logprobs(engine: Engine) -> None:
    core = engine.llm.llm_engine
    prompts = {"good": [1, 2, 3], "bad": list(range(20))}
    engine.executor.nan_at = 20
    finished = {}
    for name, prompt in prompts.items():
        asked = SamplingParams(max_tokens=8, temperature=0.0, ignore_eos=True, detokenize=False)
        core.add_request(name, {"prompt_token_ids": prompt}, asked)
    while core.has_unfinished_requests():
        engine.executor.prompts_told = {key for key in engine.executor.requests if key.startswith("bad")}
        for output in core.step():
            if output.finished:
                finished[output.request_id] = output.outputs[0]
    engine.executor.nan_at, engine.executor.prompts_told = -1, set()
    assert list(finished["good"].token_ids) == greedy(prompts["good"], 8)
    assert finished["bad"].finish_reason == "error"


def greedy_without(prompt: list[int], count: int, banned: list[int], least: int) -> list[int]:
    """The maxima, where the banned ids cannot be drawn before there are `least` tokens."""
    tokens = list(prompt)
    for position in range(count):
        row = host_engine.row_after(tokens).copy()
        if position < least:
            row[banned] = -np.inf
        tokens.append(int(np.argmax(row)))
    return tokens[len(prompt) :]


@pytest.mark.parametrize("ignore_eos", [False, True])
def test_min_tokens_bans_all_eos_ids_and_ignored_ones_end_nothing(engine: Engine, ignore_eos: bool) -> None:
    """Of a model with three: one would be the first token, and two come after min_tokens."""
    asked = {"temperature": 0.0, "max_tokens": 20, "min_tokens": 9, "ignore_eos": ignore_eos, "logprobs": 2}
    for place in range(70, 78):
        prompt = [place, 60, 61]
        first = greedy(prompt, 1)
        without = greedy_without(prompt, 20, first, 9)
        eos = [*first, without[10], without[13]]
        engine.llm.llm_engine.input_processor.generation_config_fields = {"eos_token_id": eos}
        [output] = engine.generate([prompt], [asked])
        expected = greedy_without(prompt, 20, eos, 9)
        assert not set(expected[:9]) & set(eos)
        assert expected[10] in eos
        end = next(n for n, token in enumerate(expected, 1) if token in eos)
        assert list(output.token_ids) == expected[: 20 if ignore_eos else end]
        assert len(output.logprobs) == len(output.token_ids)
    assert engine.verifier.differing == []


def test_an_engine_core_looks_for_itself_at_what_it_is() -> None:
    """A front end that is not vLLM's Python has not looked."""
    executor = host_engine.HostExecutorWithSession.__new__(host_engine.HostExecutorWithSession)
    executor.vllm_config = requirements_engine(runner_type="pooling")
    executor.parallel_config = executor.vllm_config.parallel_config
    with pytest.raises(ValueError, match="its runner type is 'pooling'"):
        executor._init_executor()


def test_a_rank_is_the_number_of_tokens_at_or_above_as_vllm_counts(engine: Engine, monkeypatch: Any) -> None:
    row_after = host_engine.row_after

    def tied(tokens: list[int]) -> np.ndarray:
        return np.round(row_after(tokens))

    monkeypatch.setattr(host_engine, "row_after", tied)
    # Of the best vLLM shows each one's place among them instead, also for the drawn token.
    asked = {"temperature": 2.0, "seed": 4, "logprobs": 0, "ignore_eos": True}
    [output] = engine.generate([[5, 6, 7]], [asked])
    history: list[int] = [5, 6, 7]
    ranks: list[int] = []
    for token, logprobs in zip(output.token_ids, output.logprobs, strict=True):
        row = tied(history)
        # v1/worker/gpu/sample/logprob.py: n += tl.sum((logits >= x).to(tl.int32))
        ranks.append(logprobs[token].rank)
        assert ranks[-1] == int((row >= row[token]).sum())
        # Equal ones are among them.
        assert ranks[-1] > 1 + int((row > row[token]).sum())
        history.append(token)
    assert len(ranks) == 12


def test_a_reset_of_the_prefix_cache_draws_the_dropped_tokens_again(engine: Engine) -> None:
    core = engine.llm.llm_engine
    prompts = [[place, place + 1] for place in range(30, 34)]
    for place, prompt in enumerate(prompts):
        asked = SamplingParams(max_tokens=30, temperature=0.0, ignore_eos=True, detokenize=False)
        core.add_request(str(place), {"prompt_token_ids": prompt}, asked)
    finished = {}
    for turn in range(400):
        if turn in (6, 7, 15, 20, 22, 23, 25, 26):
            engine.scheduler.reset_prefix_cache(reset_running_requests=True)
        for output in core.step():
            if output.finished:
                finished[output.request_id] = list(output.outputs[0].token_ids)
        if not core.has_unfinished_requests():
            break
    assert finished == {str(place): greedy(prompt, 30) for place, prompt in enumerate(prompts)}
    assert engine.verifier.differing == []


def drop(request: Any) -> None:
    request._all_token_ids.pop()
    request._output_token_ids.pop()
    request.num_computed_tokens -= 1


def repeat(request: Any) -> None:
    request.append_output_token_ids(request.output_token_ids[-1])


@pytest.mark.parametrize("change", [drop, repeat])
def test_an_engine_whose_vllm_drops_or_repeats_a_token_ends(
    engine: Engine, monkeypatch: Any, change: Callable[[Any], None]
) -> None:
    scheduler = engine.scheduler
    schedule, changed = scheduler.schedule, []

    def schedule_another(*args: Any) -> Any:
        victims = [request for request in scheduler.running if request.num_output_tokens == 5]
        if victims and not changed:
            changed.append(victims[-1].request_id)
            change(victims[-1])
        return schedule(*args)

    monkeypatch.setattr(scheduler, "schedule", schedule_another)
    with pytest.raises(RuntimeError, match=r"request .*: vLLM counts \d+ .* the session \d+") as ended:
        engine.generate([[1, 2, 3], [4, 5]], [{"temperature": 0.0, "ignore_eos": True}] * 2)
    assert changed[0] in str(ended.value)


def test_a_grammars_rows_are_those_of_their_requests(engine: Engine, monkeypatch: Any) -> None:
    scheduler = engine.scheduler
    allowed = np.zeros((1, (host_engine.VOCAB + 31) // 32), dtype=np.int32)
    allowed[0, 3] = 0b1010

    def bitmask(scheduled: Any) -> Any:
        names = [name for name in scheduled.num_scheduled_tokens if name.startswith("1")]
        return GrammarOutput(names, np.repeat(allowed, len(names), axis=0)) if names else None

    monkeypatch.setattr(scheduler, "get_grammar_bitmask", bitmask)
    core = engine.llm.llm_engine
    for name in ("0", "1", "2"):
        asked = SamplingParams(max_tokens=9, temperature=0.0, ignore_eos=True, detokenize=False)
        core.add_request(name, {"prompt_token_ids": [50, 51]}, asked)
    finished = {}
    while core.has_unfinished_requests():
        for output in core.step():
            if output.finished:
                finished[output.request_id] = list(output.outputs[0].token_ids)
    assert finished["0"] == finished["2"] == greedy([50, 51], 9)
    assert set(finished["1"]) <= {97, 99}
    assert engine.verifier.differing == []


def test_a_grammars_row_is_made_when_the_token_before_is_known(engine: Engine, monkeypatch: Any) -> None:
    scheduler = engine.scheduler
    schedule = scheduler.schedule

    def schedule_with_grammar(*args: Any) -> Any:
        scheduled = schedule(*args)
        drawing = [scheduler.requests[name] for name in scheduled.num_scheduled_tokens if name[0] == "1"]
        # As AsyncScheduler says it of a request with a grammar; one placeholder is this step's own.
        scheduled.pending_structured_output_tokens = any(r.num_output_placeholders > 1 for r in drawing)
        return scheduled

    def bitmask(scheduled: Any) -> Any:
        names = [name for name in scheduled.num_scheduled_tokens if name[0] == "1"]
        rows = np.zeros((len(names), (host_engine.VOCAB + 31) // 32), dtype=np.int32)
        for row, name in zip(rows, names, strict=True):
            following = scheduler.requests[name].all_token_ids[-1] + 1
            row[following // 32] = 1 << following % 32
        return GrammarOutput(names, rows) if names else None

    monkeypatch.setattr(scheduler, "schedule", schedule_with_grammar)
    monkeypatch.setattr(scheduler, "get_grammar_bitmask", bitmask)
    core = engine.llm.llm_engine
    for name in ("0", "1", "2", "1b"):
        asked = SamplingParams(max_tokens=9, temperature=0.0, ignore_eos=True, detokenize=False)
        core.add_request(name, {"prompt_token_ids": [50, 64]}, asked)
    finished = {}
    while core.has_unfinished_requests():
        for output in core.step():
            if output.finished:
                finished[output.request_id] = list(output.outputs[0].token_ids)
    assert finished["0"] == finished["2"] == greedy([50, 64], 9)
    assert finished["1"] == finished["1b"] == list(range(65, 74))
    assert engine.verifier.differing == []


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"extra_args": {"top_n_sgma": 1.0}}, "top_n_sgma"),
        ({"extra_args": {"typical_p": 2.0}}, "typical_p is 2.0"),
        ({"repetition_penalty": 200.0}, "repetition_penalty is 200"),
        ({"logprob_token_ids": [1]}, "logprob_token_ids"),
        ({"extra_args": {"mirostat": 2, "adaptive_target": 0.5}}, "adaptive_target"),
    ],
)
def test_a_request_that_cannot_be_done_fails_alone(engine: Engine, given: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        engine.generate([[1, 2]], [given])
    assert len(engine.generate([[1, 2]], [{"ignore_eos": True}])[0].token_ids) == 12


def test_the_last_engine_ends_its_daemon(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    engine = Engine(tmp_path)
    ended = os.pidfd_open(daemon_pid(tmp_path / "croupier-private"))
    engine.close()
    assert select.select([ended], [], [], 10)[0]
    os.close(ended)
    assert not Path(f"/dev/shm/croupier-test-{os.getpid()}").exists()
    assert not (tmp_path / "croupier-private").exists()


@pytest.mark.parametrize("stages", [1, 2])
def test_lean_steps_have_the_tokens_of_whole_rows(tmp_path: Path, monkeypatch: Any, stages: int) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    engine = Engine(tmp_path, croupier={"transport": "lean"}, stages=stages)
    prompts = [list(range(1, 3 + 9 * place)) for place in range(6)]
    greedily = {"temperature": 0.0, "ignore_eos": True}
    outputs = engine.generate(prompts, [greedily] * 5 + [{"temperature": 0.9, "top_p": 0.9, "seed": 3}])
    for prompt, output in zip(prompts[:5], outputs, strict=False):
        assert list(output.token_ids) == greedy(prompt, 12)
    assert engine.verifier.verified > 0
    assert engine.verifier.differing == []
    engine.close()
