"""The examples over other libraries' models draw what decide() draws. They need those libraries."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

import croupier

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
VOCAB = 211  # prime: no row ends with a whole block
PROMPT = [3, 1, 4, 1, 5]


def example(name: str) -> ModuleType:
    found = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def every_control(seed: int) -> croupier.Params:
    return croupier.Params(
        seed=seed,
        temperature=0.9,
        top_k=50,
        top_p=0.95,
        min_p=0.01,
        typical_p=0.97,
        frequency_penalty=0.2,
        presence_penalty=0.1,
        dry_multiplier=0.8,
        xtc_probability=0.3,
        max_tokens=24,
    )


@pytest.fixture(scope="module")
def model() -> "transformers.PreTrainedModel":  # noqa: F821
    # Here: where its libraries are not there, only the tests of the model are skipped.
    from small_llama import small_llama

    return small_llama(VOCAB)


def test_the_loop_over_transformers_is_greedy_generate_without_a_temperature(model: object) -> None:
    import torch

    params = croupier.Params(temperature=0, max_tokens=24)
    output = example("transformers_loop").generate(model, PROMPT, params)
    generated = model.generate(
        torch.tensor([PROMPT]),
        attention_mask=torch.ones(1, 5, dtype=torch.long),
        do_sample=False,
        max_new_tokens=24,
    )
    assert output == generated[0, 5:].tolist()


def test_the_loop_over_transformers_draws_by_its_seed_and_stops(model: object) -> None:
    generate = example("transformers_loop").generate
    first, again, other = (generate(model, PROMPT, every_control(seed)) for seed in (1, 1, 2))
    assert first == again != other
    assert len(first) == 24
    stopped = generate(model, PROMPT, every_control(1), stop_ids=[first[9]])
    assert stopped == first[: first.index(first[9]) + 1]


def test_the_loop_over_transformers_takes_bf16_and_mirostat_and_names_a_bad_row(model: object) -> None:
    import torch

    generate = example("transformers_loop").generate
    halved = type(model)(model.config).to(torch.bfloat16).eval()
    params = croupier.Params(seed=3, mirostat=2, max_tokens=24)
    assert generate(halved, PROMPT, params) == generate(halved, PROMPT, params)
    with torch.no_grad():
        halved.lm_head.weight.fill_(float("nan"))
    with pytest.raises(ValueError, match="token 0: .*NaN"):
        generate(halved, PROMPT, params)


def test_the_sampler_for_mlx_draws_what_decide_draws() -> None:
    mx = pytest.importorskip("mlx.core")
    params = every_control(7)
    sampler = example("mlx_sampler").Sampler(PROMPT, params)
    output = []
    for key in range(20):
        logits = mx.random.normal((1, VOCAB), scale=4, key=mx.random.key(key))
        logprobs = logits - mx.logsumexp(logits, keepdims=True)
        [token] = sampler(logprobs).tolist()
        row = memoryview(logprobs[0])
        assert token == croupier.decide(row, PROMPT, output, params=params).token
        output.append(token)


def test_the_sampler_for_mlx_keeps_the_surprise_that_mirostat_aims_at() -> None:
    mx = pytest.importorskip("mlx.core")
    sampler = example("mlx_sampler").Sampler(PROMPT, croupier.Params(seed=7, mirostat=2))
    levels = []
    for key in range(20):
        sampler(mx.random.normal((1, VOCAB), scale=4, key=mx.random.key(key)))
        levels.append(sampler.feedback[0])
    assert len(set(levels)) == 20
    with pytest.raises(ValueError, match="token 20: .*NaN"):
        sampler(mx.full((1, VOCAB), float("nan")))


def test_generate_step_of_mlx_lm_takes_the_sampler() -> None:
    mx = pytest.importorskip("mlx.core")
    pytest.importorskip("mlx_lm")
    from mlx_lm.generate import generate_step
    from mlx_lm.models import llama

    mx.random.seed(5)
    arguments = llama.ModelArgs(
        model_type="llama",
        hidden_size=32,
        num_hidden_layers=2,
        intermediate_size=64,
        num_attention_heads=4,
        num_key_value_heads=2,
        rms_norm_eps=1e-5,
        vocab_size=VOCAB,
    )
    model = llama.Model(arguments)
    runs = []
    for seed in (1, 1, 2):
        sampler = example("mlx_sampler").Sampler(PROMPT, every_control(seed))
        steps = generate_step(mx.array(PROMPT), model, max_tokens=12, sampler=sampler)
        runs.append([int(token) for token, _ in steps])
        assert sampler.output[:12] == runs[-1]
    assert runs[0] == runs[1] != runs[2]
