"""The table from vLLM's SamplingParams to Croupier's, with objects that only look like them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from croupier.vllm.parameters import Limits, translate


def sampling(**changes: Any) -> SimpleNamespace:
    fields = {
        "temperature": 1.0,
        "top_p": 1.0,
        "top_k": 0,
        "min_p": 0.0,
        "repetition_penalty": 1.0,
        "frequency_penalty": 0.0,
        "presence_penalty": 0.0,
        "min_tokens": 0,
        "max_tokens": 16,
        "seed": None,
        "logprobs": None,
        "prompt_logprobs": None,
        "logprob_token_ids": None,
        "logit_bias": None,
        "allowed_token_ids": None,
        "bad_words": [],
        "bad_words_token_ids": None,
        "stop_token_ids": [],
        "eos_token_id": None,
        "all_stop_token_ids": set(),
        "extra_args": None,
        "thinking_token_budget": None,
        "trace_decode_token_ids": None,
    }
    assert changes.keys() <= fields.keys()
    return SimpleNamespace(**{**fields, **changes})


def params_of(**changes: Any) -> dict[str, Any]:
    return translate(sampling(**changes), Limits()).params


def test_what_has_the_same_name_is_handed_on() -> None:
    given = {
        "temperature": 0.8,
        "top_p": 0.95,
        "top_k": 50,
        "min_p": 0.02,
        "repetition_penalty": 1.1,
        "frequency_penalty": 0.1,
        "presence_penalty": 0.2,
    }
    assert params_of(**given).items() >= given.items()


def test_the_daemon_ends_no_sequence_that_the_engine_goes_on_with() -> None:
    request = translate(sampling(eos_token_id=7, stop_token_ids=[8], all_stop_token_ids={7, 8}), Limits())
    assert request.stop_ids == []
    assert "eos_token_id" not in request.params
    assert "max_tokens" not in request.params


def test_min_tokens_bans_what_the_engine_stops_at_and_the_daemon_stops_at_nothing() -> None:
    request = translate(
        sampling(min_tokens=3, eos_token_id=7, stop_token_ids=[9, 8], all_stop_token_ids={7, 8, 9}), Limits()
    )
    assert request.params["min_tokens"] == 3
    assert request.params["stops_only_ban"] is True
    assert request.stop_ids == [7, 8, 9]


@pytest.mark.parametrize("ignored", [{7}, {7, 8}, {7, 8, 9}])
def test_min_tokens_bans_every_eos_that_is_ignored(ignored: set[int]) -> None:
    request = translate(sampling(min_tokens=3, all_stop_token_ids=ignored), Limits())
    assert request.stop_ids == sorted(ignored)
    assert request.params["stops_only_ban"] is True


@pytest.mark.parametrize(("given", "bits"), [(5, 5), (-1, (1 << 64) - 1), (None, None)])
def test_a_seed_is_its_bits(given: int | None, bits: int | None) -> None:
    assert translate(sampling(seed=given), Limits()).seed == bits


def test_logprobs_that_nobody_asks_for_are_not_computed() -> None:
    assert params_of()["no_logprob"] is True


@pytest.mark.parametrize(("wanted", "asked"), [(0, 1), (1, 1), (20, 20)])
def test_a_rank_comes_with_every_logprob(wanted: int, asked: int) -> None:
    request = translate(sampling(logprobs=wanted), Limits())
    assert request.wanted_logprobs == wanted
    assert request.params["logprobs"] == asked
    assert request.params["logprob_mode"] == "raw"
    assert request.params["rank_counts_ties"] is True


def test_the_engine_says_which_logprobs() -> None:
    limits = Limits(logprobs_mode="processed_logprobs")
    assert translate(sampling(logprobs=2), limits).params["logprob_mode"] == "processed"
    with pytest.raises(ValueError, match="logprobs-mode raw_logits is not supported"):
        translate(sampling(logprobs=2), Limits(logprobs_mode="raw_logits"))


@pytest.mark.parametrize("wanted", [-1, 21])
def test_more_logprobs_than_the_session_has_room_for_are_refused(wanted: int) -> None:
    with pytest.raises(ValueError, match=f"logprobs is {wanted}; .* 0 to 20"):
        params_of(logprobs=wanted)


def test_lists_of_ids_are_handed_on() -> None:
    request = translate(
        sampling(
            logit_bias={"3": 1.5},
            allowed_token_ids=[1, 2, 3],
            bad_words=["a b"],
            bad_words_token_ids=[[4, 5]],
            extra_args={"dry_breakers": [[6], [7, 8]]},
        ),
        Limits(),
    )
    assert request.lists() == {
        "bias": {3: 1.5},
        "stop_ids": [],
        "allowed_ids": [1, 2, 3],
        "bad_words": [[4, 5]],
        "dry_breakers": [[6], [7, 8]],
    }


def test_bad_words_without_a_tokenizer_are_refused() -> None:
    with pytest.raises(ValueError, match="bad_words needs a tokenizer"):
        params_of(bad_words=["word"])


def test_croupiers_own_controls_come_by_extra_args() -> None:
    own = {"dry_multiplier": 0.8, "xtc_probability": 0.5, "order": ["temperature"], "mirostat": 2}
    assert params_of(extra_args={**own, "kv_transfer_params": {}}).items() >= own.items()
    assert "kv_transfer_params" not in params_of(extra_args={"kv_transfer_params": {}})


@pytest.mark.parametrize(
    ("extra", "text"),
    [
        ({"top_n_sgma": 1}, "'top_n_sgma', which nobody would look at; .*top_n_sigma"),
        ({"top_k": 5}, "'top_k', which is a field of the request"),
        ({"logprob_mode": "raw"}, "--logprobs-mode"),
    ],
)
def test_an_extra_argument_that_would_be_ignored_is_refused(extra: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        params_of(extra_args=extra)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"logprob_token_ids": [1]}, "logprob_token_ids"),
        ({"thinking_token_budget": 5}, "thinking_token_budget"),
        ({"trace_decode_token_ids": [1]}, "trace_decode_token_ids"),
        ({"logit_bias": dict.fromkeys(range(9), 1.0)}, "logit_bias has 9 entries; 8 .*'max_bias'"),
        ({"allowed_token_ids": list(range(9))}, "has 9 entries; 8 .*'max_list_tokens'"),
        ({"min_tokens": 1, "all_stop_token_ids": set(range(9))}, "stop_token_ids has 9 .*'max_stop_ids'"),
        ({"extra_args": {"dry_breakers": [[1], [100]]}}, r"dry_breakers\[1\]\[0\] is 100; .* 0 to 99"),
        ({"extra_args": {"dry_breakers": 5}}, "dry_breakers is 5; a list of lists"),
    ],
)
def test_what_cannot_be_done_is_refused_by_name(given: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        translate(sampling(**given), Limits(max_bias=8, max_stop_ids=8, max_list_tokens=8, vocab=100))


@pytest.mark.parametrize("ignore_eos", [False, True])
def test_all_eos_ids_of_a_model_are_banned_as_vllm_bans_them(ignore_eos: bool) -> None:
    vllm_params = pytest.importorskip("vllm.sampling_params")
    given = vllm_params.SamplingParams(min_tokens=4, ignore_eos=ignore_eos, stop_token_ids=[3])
    given.update_from_generation_config({"eos_token_id": [7, 8, 9]}, 7)
    request = translate(given, Limits())
    assert request.stop_ids == sorted(given.all_stop_token_ids) == [3, 7, 8, 9]
    assert request.params["stops_only_ban"] is True


def test_vllms_own_objects_are_understood() -> None:
    """With vLLM: the attributes above are those that it has, with the values that it gives them."""
    vllm_params = pytest.importorskip("vllm.sampling_params")
    given = vllm_params.SamplingParams(
        temperature=0.0, top_k=5, seed=-1, stop_token_ids=[3], min_tokens=2, logprobs=0, logit_bias={1: 2.0}
    )
    given.update_from_generation_config({"eos_token_id": [7, 8]}, 7)
    request = translate(given, Limits())
    assert request.params["top_k"] == 0  # Greedy: vLLM resets the filters.
    assert request.seed is None
    assert request.stop_ids == [3, 7, 8]
    assert request.bias == {1: 2.0}
    # vLLM 0.26 has no trace_decode_token_ids.
    for name in vars(sampling()).keys() - {"trace_decode_token_ids"}:
        assert hasattr(given, name), name


def test_rng_shvs_needs_whole_rows() -> None:
    asked = sampling(extra_args={"rng": "shvs"})
    assert translate(asked, Limits()).params["rng"] == "shvs"
    with pytest.raises(ValueError, match="rng is 'shvs', which needs whole rows"):
        translate(asked, Limits(transport="lean"))
