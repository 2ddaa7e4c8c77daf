"""bench/vllm/speculation.py without a GPU: runs over vLLM's own engine core, drafters, figures."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("vllm")
host_engine = pytest.importorskip("host_engine", exc_type=ImportError)

import torch  # noqa: E402
from host_speculation import DRAFTS, NGRAM, SpeculatingExecutor, mixed  # noqa: E402
from transformers import Qwen2Config, Qwen2ForCausalLM  # noqa: E402
from vllm.engine.arg_utils import EngineArgs  # noqa: E402
from vllm_engine_test import Engine  # noqa: E402

from croupier.vllm import compat, requirements  # noqa: E402

sys.path.append(str(Path(__file__).parents[2] / "bench" / "vllm"))
import drafted  # noqa: E402
import drafters  # noqa: E402
import engines  # noqa: E402
import figures  # noqa: E402
import shapes  # noqa: E402
import speculation  # noqa: E402

if not compat.current().speculates:
    pytest.skip("Croupier does not speculate with this vLLM", allow_module_level=True)


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: Any) -> Iterator[Engine]:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    small = {"speculative_config": NGRAM, "max_num_batched_tokens": 256, "max_logprobs": 20}
    engine = Engine(tmp_path, executor=SpeculatingExecutor, **small)
    yield engine
    engine.close()


@pytest.fixture
def _few_ids(monkeypatch: Any) -> None:
    """The model of host_engine has fewer than a bench's prompts."""
    monkeypatch.setattr(
        drafted, "prompt_of", lambda method: lambda place, length: [place + at for at in range(length)]
    )
    monkeypatch.setattr(
        engines.Run.__init__, "__defaults__", (4, lambda place, length: [place + at for at in range(length)])
    )
    monkeypatch.setattr(drafted, "PROMPT", 4)


@pytest.mark.usefixtures("_few_ids")
@pytest.mark.parametrize("kind", speculation.KINDS)
def test_steps_are_timed_while_all_requests_are_under_way(engine: Engine, kind: str) -> None:
    steps, window = 12, 1 + DRAFTS
    engine.executor.drafter = mixed(lambda tokens: [*tokens, 7, 7, 7, 7])
    asked = drafted.batch_for("croupier", kind, 5)
    for _ in range(2):
        found = drafted.time_kind(engine.llm, asked, steps, window, "draft_model")
        assert len(found["steps_us"]) == steps
        assert min(found["steps_us"]) > 0
        assert sum(found["steps_us"]) == pytest.approx(found["seconds"] * 1e6, rel=0.01)
        got = figures.acceptance(found["windows"])
        # Each window brings the drafts that it accepts, and a token.
        assert got["windows"] == 5 * steps
        assert found["tokens"] == got["windows"] + got["accepted"]
    assert not engine.llm.llm_engine.has_unfinished_requests()
    assert not engine.scheduler.running


@pytest.mark.usefixtures("_few_ids")
def test_a_request_that_ends_in_the_timed_steps_is_an_error(engine: Engine, monkeypatch: Any) -> None:
    monkeypatch.setattr(drafted, "_SPARE", -14)
    with pytest.raises(RuntimeError, match="have ended"):
        drafted.time_kind(engine.llm, drafted.batch_for("croupier", "greedy", 3), 20, 1, "draft_model")
    monkeypatch.undo()


@pytest.mark.usefixtures("_few_ids")
def test_streams_are_those_of_each_request(engine: Engine) -> None:
    found = drafted.streams(engine.llm, "croupier", "draft_model", 6, 9)
    assert set(found) == set(drafted.STREAMS)
    assert all(len(stream) == 9 for lists in found.values() for stream in lists)
    again = drafted.streams(engine.llm, "croupier", "draft_model", 3, 9)
    assert again["full"] == found["full"][:3]


@pytest.mark.usefixtures("_few_ids")
def test_what_an_engine_refuses_is_told(engine: Engine, monkeypatch: Any) -> None:
    assert drafted.refusal(engine.llm, "greedy") == ""
    monkeypatch.setattr(drafted.kinds, "batch_of", lambda kind, count: [{}, {"top_p": 7.0}])
    assert "top_p" in drafted.refusal(engine.llm, "any")


def test_natives_nearest_kind_has_nothing_that_it_refuses() -> None:
    found = drafted.batch_for("native", "full", 2)
    assert (
        found
        == [{name: value for name, value in drafted.kinds.FULL.items() if name != "min_p"} | {"seed": 7}] * 2
    )
    assert "min_p" in drafted.batch_for("croupier", "full", 1)[0]


@pytest.mark.parametrize("method", drafters.METHODS)
def test_vllm_takes_the_drafters_and_croupier_the_engine(method: str, tmp_path: Path) -> None:
    asked = speculation.parsed([str(tmp_path), "--batches", "64,1"])
    shapes.make_model(tmp_path / "model", asked.size, asked.layers)
    speculative = drafters.make_drafter(tmp_path, method, asked)
    given = drafters.speculating(asked, "croupier", {}, speculative)
    assert given["compilation_config"]["cudagraph_capture_sizes"] == [1, 4, 64, 256]
    config = EngineArgs(**given).create_engine_config()
    assert config.speculative_config.method == method
    assert config.num_speculative_tokens == asked.drafts
    assert requirements.faults(config) == []


def tiny(layers: int) -> Any:
    shape = {"vocab_size": 64, "hidden_size": 16, "intermediate_size": 32}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "tie_word_embeddings": False}
    return Qwen2ForCausalLM(Qwen2Config(num_hidden_layers=layers, **shape, **heads))


def worker_of(target: Any, drafter: Any) -> Any:
    runner = SimpleNamespace(model=target, speculator=SimpleNamespace(model=drafter))
    return SimpleNamespace(model_runner=runner, device=torch.device("cpu"))


def test_a_draft_model_is_the_targets_first_layers_with_noise_in_its_head(tmp_path: Path) -> None:
    asked = speculation.parsed([str(tmp_path)])
    target, drafter = tiny(3), tiny(1)
    worker = worker_of(target, drafter)
    before = target.model.layers[1].mlp.down_proj.weight.clone()
    drafters.shape_target(worker, asked)
    assert torch.allclose(target.model.layers[1].mlp.down_proj.weight, asked.rest * before)
    drafters.fill_drafter(worker, "draft_model", asked)
    theirs = dict(target.named_parameters())
    for name, parameter in drafter.named_parameters():
        if "lm_head" not in name and "norm" not in name:
            assert torch.equal(parameter, theirs[name])
    apart = (drafter.lm_head.weight - target.lm_head.weight).std().item()
    assert apart == pytest.approx(asked.noise * asked.deviation / 16**0.5, rel=0.1)


def test_what_an_eagle_head_shares_with_the_target_stays(tmp_path: Path) -> None:
    target, drafter = tiny(2), tiny(1)
    drafter.lm_head, drafter.model.embed_tokens = target.lm_head, target.model.embed_tokens
    head, own = target.lm_head.weight.clone(), drafter.model.layers[0].mlp.up_proj.weight.clone()
    drafters.fill_drafter(worker_of(target, drafter), "eagle3", speculation.parsed([str(tmp_path)]))
    assert torch.equal(target.lm_head.weight, head)
    assert not torch.equal(drafter.model.layers[0].mlp.up_proj.weight, own)


def test_a_target_with_loops_expects_the_next_id_of_a_loop() -> None:
    target = tiny(1)
    target.model.embed_tokens.weight.data.normal_()
    target.lm_head.weight.data.zero_()
    drafters.add_loops(worker_of(target, None), 10.0)
    embedded = target.model.embed_tokens.weight
    best = (embedded @ target.lm_head.weight.T).argmax(dim=1).tolist()
    following = [at // 4 * 4 + (at + 1) % 4 for at in range(64)]
    assert sum(one == other for one, other in zip(best, following, strict=True)) > 56
    prompt = drafters.prompt_of("ngram")(3, 8)
    assert prompt[:4] == prompt[4:]
    assert [id % 4 for id in prompt[:4]] == [0, 1, 2, 3]


def test_acceptance_is_counted_by_the_drafts_place() -> None:
    found = figures.acceptance([[3, 0, 2], [3, 2, 1], [3, 3, 1], [1, 1, 1]])
    assert (found["windows"], found["drafts"], found["accepted"]) == (5, 13, 6)
    assert found["by_position"] == [[3, 5], [2, 4], [1, 4]]
    same = figures.acceptance([[3, 1, 10]])
    assert figures.sigmas(same, same) is None
    one, other = figures.acceptance([[1, 0, 50], [1, 1, 50]]), figures.acceptance([[1, 0, 60], [1, 1, 40]])
    assert figures.sigmas(one, other) == pytest.approx(0.1 / (0.0025 + 0.0024) ** 0.5, abs=0.01)


def test_native_is_compared_with_both_kinds_where_it_refuses_one() -> None:
    def side(step: float, accepted: int) -> dict[str, Any]:
        windows = [[3, 0, 100 - accepted], [3, 1, accepted]]
        run = {
            "steps_us": [step] * 2,
            "seconds": 2 * step / 1e6,
            "tokens": 100 + accepted,
            "windows": windows,
        }
        return figures.summed([run, run])

    cell = {"native": side(30.0, 40), "croupier": side(20.0, 60)}
    found = figures.compared(cell)
    assert found["native_over_croupier_median_us"] == 1.5
    assert found["croupier_over_native_tokens"] == pytest.approx(1.5 * 160 / 140, abs=0.001)
    assert found["acceptance_sigmas"] > 3
    found = figures.compared({**cell, "croupier_nearest": side(24.0, 40)})
    assert found["native_over_croupier_nearest_mean_us"] == 1.25
    assert found["acceptance_sigmas"] == 0
    assert "1.5" in figures.line_of(
        {"method": "ngram", "batch": 8, "kind": "full", **cell, "compared": found}
    )


def test_streams_are_compared_by_their_first_difference() -> None:
    found = figures.differences([[1, 2, 3], [4, 5, 6], [7, 8, 9]], [[1, 2, 3], [4, 0, 6], [0, 8, 9]])
    assert found == {"requests": 3, "equal": 1, "first_differences": [0, 1]}


def test_bad_arguments_are_refused_before_an_engine_starts(tmp_path: Path) -> None:
    for bad in (["--methods", "medusa"], ["--kinds", "greedy,warm"], ["--batches", "8,many"], ["--tp", "2"]):
        with pytest.raises(SystemExit):
            speculation.parsed([str(tmp_path), *bad])
