"""SGLang's requests as Croupier's parameters, and what is refused by name. SGLang itself is not needed."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

import croupier
from croupier.serving.admission import check_ranges
from croupier.serving.parameters import OWN_NAMES, Limits
from croupier.sglang import register, requirements
from croupier.sglang.options import Options
from croupier.sglang.parameters import Asked, counts_prompt, translate
from croupier.sglang.requirements import check_release, faults

NEUTRAL: dict[str, Any] = {
    "temperature": 1.0,
    "top_p": 1.0,
    "top_k": 1 << 30,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
    "frequency_penalty": 0.0,
    "presence_penalty": 0.0,
    "min_new_tokens": 0,
    "stop_token_ids": None,
    "sampling_seed": None,
    "logit_bias": None,
    "custom_params": None,
}
SERVER: dict[str, Any] = {
    "grammar_backend": "xgrammar",
    "device": "cuda",
    "sampling_backend": "flashinfer",
    "tp_size": 1,
    "pp_size": 1,
    "dp_size": 1,
}


def asked(more: dict[str, Any] | None = None, **sampling: Any) -> Asked:
    return Asked(SimpleNamespace(**{**NEUTRAL, **sampling}), **(more or {}))


def params(more: dict[str, Any] | None = None, **sampling: Any) -> dict[str, Any]:
    request = translate(asked(more, **sampling), Limits(vocab=100), deterministic=False)
    check_ranges(request)
    return request.params


def all_steps() -> list[str]:
    """The names of the steps 1, 2 and so on, up to the number that is none."""
    steps: list[str] = []
    while True:
        try:
            steps = croupier.Params(order=range(1, len(steps) + 2)).order
        except croupier.Error:
            return steps


def test_a_top_k_of_one_is_greedy() -> None:
    greedy = params(top_k=1, top_p=0.5, min_p=0.1)
    assert (greedy["temperature"], greedy["top_k"], greedy["top_p"], greedy["min_p"]) == (0.0, 0, 1.0, 0.0)


def test_min_p_comes_last_as_in_sglang() -> None:
    assert "order" not in params(min_p=0.1)
    assert "order" not in params(top_k=50, top_p=0.9)
    order = params(top_p=0.9, min_p=0.1)["order"]
    assert order.index("top_p") < order.index("min_p")
    # A step that the order does not name would be off.
    assert set(order) == set(all_steps())


def test_a_seed_counts_and_deterministic_engines_have_their_own() -> None:
    assert translate(asked(sampling_seed=-1), Limits(), deterministic=False).seed == (1 << 64) - 1
    assert translate(asked(), Limits(), deterministic=False).seed is None
    assert translate(asked(), Limits(), deterministic=True).seed == 42


@pytest.mark.parametrize(
    ("sampling", "counted"),
    [
        ({}, True),
        ({"repetition_penalty": 1.2}, False),
        ({"repetition_penalty": 1.2, "custom_params": {"dry_multiplier": 0.5}}, True),
        ({"repetition_penalty": 1.2, "custom_params": {"penalty_last_n": 64}}, True),
    ],
)
def test_a_repetition_penalty_is_of_the_output_alone(sampling: dict[str, Any], counted: bool) -> None:
    assert counts_prompt(params(**sampling)) == counted


def test_min_new_tokens_bans_the_ids_at_which_sglang_stops() -> None:
    req = SimpleNamespace(
        sampling_params=SimpleNamespace(**{**NEUTRAL, "min_new_tokens": 3, "stop_token_ids": {7}}),
        return_logprob=False,
        logprob=SimpleNamespace(top_logprobs_num=0, token_ids_logprob=None),
        custom_logit_processor=None,
        return_sampling_mask=False,
        input_embeds=None,
        tokenizer=SimpleNamespace(additional_stop_token_ids={9}, eos_token_id=2),
    )
    request = translate(Asked.of_req(req), Limits(), deterministic=False)
    assert request.stop_ids == [2, 7, 9]
    assert request.params["min_tokens"] == 3
    assert request.params["stops_only_ban"]


LOGPROBS = {"returns_logprob": True, "top_logprobs": 3}


@pytest.mark.parametrize(
    ("sampling", "mode"),
    [
        ({}, "raw"),
        ({"top_k": 1}, "raw"),
        ({"top_p": 0.9}, "raw"),
        ({"temperature": 0.7}, "processed"),
        ({"temperature": 0.7, "frequency_penalty": 0.5}, "processed"),
        ({"temperature": 0.7, "top_p": 0.9}, None),
        ({"top_k": 1, "presence_penalty": 0.5}, None),
        ({"temperature": 0.7, "top_p": 0.9, "custom_params": {"logprob_mode": "processed"}}, "processed"),
        ({"custom_params": {"dry_multiplier": 0.8, "typical_p": 0.9}}, None),
    ],
)
def test_logprobs_are_sglangs_or_refused(sampling: dict[str, Any], mode: str | None) -> None:
    if mode is not None:
        assert params(LOGPROBS, **sampling)["logprob_mode"] == mode
        return
    with pytest.raises(ValueError, match="log-probs of this request would not be SGLang's"):
        params(LOGPROBS, **sampling)


# What tells whether SGLang's log-probs, which are taken before filters, are Croupier's.
OWN_FILTERS: dict[str, Any] = {
    "typical_p": 0.9,
    "top_n_sigma": 1.0,
    "xtc_probability": 0.5,
    "mirostat": 2,
    "adaptive_target": 0.3,
}
OWN_CHANGES_OF_LOGITS: dict[str, Any] = {"dry_multiplier": 0.8, "dynatemp_range": 0.5}
# Without these they do nothing, or they say how a token is drawn from the distribution.
OWN_OTHERS = {
    "adaptive_decay",
    "dry_allowed_length",
    "dry_base",
    "dry_penalty_last_n",
    "dynatemp_exponent",
    "mirostat_eta",
    "mirostat_tau",
    "order",
    "penalty_last_n",
    "rng",
    "xtc_threshold",
}


def test_every_own_control_is_known_to_filter_to_change_logits_or_to_do_neither() -> None:
    known = OWN_FILTERS.keys() | OWN_CHANGES_OF_LOGITS.keys() | OWN_OTHERS
    assert known == OWN_NAMES


@pytest.mark.parametrize("name", OWN_FILTERS)
def test_logprobs_before_an_own_filter_are_not_those_of_what_is_drawn_from(name: str) -> None:
    custom = {name: OWN_FILTERS[name]}
    assert params(LOGPROBS, custom_params=custom)["logprob_mode"] == "raw"
    with pytest.raises(ValueError, match="log-probs of this request would not be SGLang's"):
        params(LOGPROBS, temperature=0.7, custom_params=custom)


@pytest.mark.parametrize("name", OWN_CHANGES_OF_LOGITS)
def test_logprobs_after_an_own_change_of_logits_are_those_of_what_is_drawn_from(name: str) -> None:
    custom = {name: OWN_CHANGES_OF_LOGITS[name]}
    assert params(LOGPROBS, custom_params=custom)["logprob_mode"] == "processed"


@pytest.mark.parametrize(
    ("more", "sampling", "said"),
    [
        ({"token_ids_logprob": [1]}, {}, "token_ids_logprob is not supported"),
        ({"custom_logit_processor": "x"}, {}, "custom_logit_processor is not supported"),
        ({"return_sampling_mask": True}, {}, "return_sampling_mask is not supported"),
        ({"input_embeds": [[0.0]]}, {}, "input_embeds is not supported"),
        ({"returns_logprob": True, "top_logprobs": 65}, {}, "top_logprobs_num is 65"),
        ({}, {"custom_params": {"thinking_budget": 5}}, "'thinking_budget', which nobody would look at"),
        ({}, {"custom_params": {"top_p": 0.5}}, "a field of the request itself"),
        ({}, {"custom_params": {"top_n_sigma": -2.0}}, "Croupier cannot sample as this request asks"),
        ({}, {"logit_bias": {"5": 101.0}}, "logit_bias of 5 is 101.0"),
        ({}, {"logit_bias": {"5": "x"}}, "logit_bias of 5 is 'x'"),
        ({}, {"custom_params": 5}, "custom_params is 5; a dictionary"),
        ({}, {"custom_params": {"dry_breakers": 5}}, "dry_breakers is 5; a list of lists"),
        ({}, {"custom_params": {"dry_breakers": "ab"}}, "dry_breakers is 'ab'; a list of lists"),
        ({}, {"custom_params": {"dry_breakers": [5]}}, r"dry_breakers is \[5\]; a list of lists"),
        ({}, {"custom_params": {"dry_breakers": [[]]}}, "none of them empty"),
        ({}, {"custom_params": {"dry_breakers": [[1, "a"]]}}, r"dry_breakers\[0\]\[1\] is 'a'"),
        ({}, {"custom_params": {"dry_breakers": [[-1]]}}, r"dry_breakers\[0\]\[0\] is -1; .* 0 to 99"),
        ({}, {"custom_params": {"dry_breakers": [[99], [100]]}}, r"dry_breakers\[1\]\[0\] is 100"),
    ],
)
def test_what_cannot_be_done_is_refused(more: dict[str, Any], sampling: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        params(more, **sampling)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"speculative_algorithm": "DFLASH"}, "speculative_algorithm is 'DFLASH'; EAGLE, EAGLE3"),
        ({"pp_size": 2}, "pp_size is 2: pipeline parallelism was never run on GPUs"),
        ({"dp_size": 2}, "dp_size is 2: data parallelism was never run; 1 would be right"),
        ({"nnodes": 2}, "nnodes is 2"),
        ({"enable_dp_attention": True}, "enable_dp_attention is True"),
        ({"disaggregation_mode": "decode"}, "disaggregation_mode is 'decode'"),
        ({"grammar_backend": "outlines"}, "grammar_backend is 'outlines'"),
        ({"device": "npu"}, "device is 'npu'"),
        ({"tp_size": 2}, "tp_size is 2"),
    ],
)
def test_an_engine_is_refused_by_its_flag(flags: dict[str, Any], said: str) -> None:
    assert faults(SimpleNamespace(**SERVER), Options()) == []
    found = faults(SimpleNamespace(**{**SERVER, **flags}), Options())
    assert len(found) == 1
    assert said in found[0]


def test_another_release_of_sglang_is_refused_by_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requirements, "installed_release", lambda: "0.5.17.post1")
    with pytest.raises(ValueError, match=r"SGLang 0\.5\.17\.post1\. It supports 0\.5\.17, because"):
        check_release(Options())
    check_release(Options(untested=True))
    monkeypatch.setattr(requirements, "installed_release", lambda: "0.5.17")
    check_release(Options())


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"speculative_use_rejection_sampling": True}, "speculative_use_rejection_sampling is True"),
        ({"speculative_accept_threshold_acc": 0.9}, "speculative_accept_threshold_acc is 0.9"),
        ({"speculative_adaptive": True}, "speculative_adaptive is True"),
        ({"enable_multi_layer_eagle": True}, "enable_multi_layer_eagle is True"),
        ({"tp_size": 2}, "speculative decoding is on and tp_size is 2"),
        ({"pp_size": 2}, "speculative decoding is on and pp_size is 2"),
        ({"speculative_num_draft_tokens": 33}, "with 2 batches in flight; up to 32 would be right"),
        ({"max_running_requests": 5000}, "more than 16384 rows a step"),
    ],
)
def test_speculation_is_refused_by_what_would_draw_other_tokens(flags: dict[str, Any], said: str) -> None:
    speculates = {
        **SERVER,
        "speculative_algorithm": "EAGLE",
        "speculative_num_draft_tokens": 4,
        "max_running_requests": 48,
        "disable_overlap_schedule": False,
    }
    options = Options(untested=True)
    assert faults(SimpleNamespace(**speculates), options) == []
    found = faults(SimpleNamespace(**{**speculates, **flags}), options)
    assert len(found) == 1
    assert said in found[0]


def test_made_up_acceptance_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SGLANG_SIMULATE_ACC_LEN", "3")
    speculates = {"speculative_num_draft_tokens": 4, "disable_overlap_schedule": True}
    server = SimpleNamespace(**SERVER, **speculates, speculative_algorithm="NGRAM", max_running_requests=8)
    [found] = faults(server, Options())
    assert "SGLANG_SIMULATE_ACC_LEN is set" in found


@pytest.mark.parametrize("name", ["tp_size", "pp_size", "dp_size"])
def test_untested_ranks_start_where_that_is_asked_for(name: str) -> None:
    assert faults(SimpleNamespace(**{**SERVER, name: 2}), Options(untested=True)) == []


def test_stages_that_would_each_go_by_their_own_clock_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SGLANG_REQ_WAITING_TIMEOUT", "-1")
    monkeypatch.setenv("SGLANG_REQ_RUNNING_TIMEOUT", "2.5")
    flags = {**SERVER, "lora_drain_wait_threshold": 3.0}
    assert faults(SimpleNamespace(**flags), Options()) == []
    assert faults(SimpleNamespace(**{**flags, "pp_size": 2}), Options(untested=True)) == [
        "pp_size is 2 and SGLANG_REQ_RUNNING_TIMEOUT is 2.5; leave one of them out",
        "pp_size is 2 and lora_drain_wait_threshold is 3.0; leave one of them out",
    ]


def test_the_variable_is_a_dictionary_in_json() -> None:
    assert Options.from_environment({}) is None
    assert Options.from_environment({"CROUPIER_SGLANG": '{"timeout": 5}'}).timeout == 5
    for text, said in [
        ("on", "no JSON"),
        ("[]", "a dictionary"),
        ('{"timeuot": 5}', "did you mean 'timeout'"),
    ]:
        with pytest.raises(ValueError, match=said):
            Options.from_environment({"CROUPIER_SGLANG": text})


@pytest.mark.parametrize("name", ["relay_port", "head", "spare_batches"])
def test_an_option_of_vllm_alone_is_neither_taken_nor_offered(name: str) -> None:
    with pytest.raises(ValueError, match=f"CROUPIER_SGLANG has no option '{name}'; known are ") as refused:
        Options.from_environment({"CROUPIER_SGLANG": json.dumps({name: 1})})
    known = str(refused.value).split("known are ")[1].split(", ")
    assert "metrics_port" in known
    assert not {"relay_port", "head", "spare_batches"} & set(known)


def test_a_plugin_that_fails_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """SGLang would log any other exception, and sample by itself."""
    monkeypatch.setenv("CROUPIER_SGLANG", "{nonsense")
    with pytest.raises(SystemExit, match="no JSON"):
        register()
    monkeypatch.delenv("CROUPIER_SGLANG")
    register()
