"""SGLang's engine with and without Croupier on the CPU: the same tokens where they are determined."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sglang")

from sglang_engines import prompts  # noqa: E402

GREEDY = {"temperature": 0.0, "ignore_eos": True}
SEEDED = {"temperature": 0.9, "top_p": 0.9, "ignore_eos": True}
# So few that long outputs are retracted, and prompts come in parts.
SCARCE = {"max_total_tokens": 700, "chunked_prefill_size": 48, "schedule_conservativeness": 0.1}


SCHEMA = json.dumps(
    {"type": "object", "properties": {"a": {"type": "integer", "maximum": 9}}, "required": ["a"]}
)


def ask(
    folder: Path,
    options: dict[str, Any] | None,
    calls: list[dict[str, Any]],
    probe: str = "sglang_probe.py",
    **flags: Any,
) -> list[Any]:
    """The answers of an engine of its own; an error's text in place of a refused call's."""
    asked = json.dumps({"options": options, "flags": flags, "calls": calls})
    program = str(Path(__file__).with_name(probe))
    ran = subprocess.run(
        [sys.executable, program, str(folder)], input=asked, capture_output=True, text=True, timeout=900
    )
    found = [line for line in ran.stdout.splitlines() if line.startswith("ANSWERS ")]
    assert found, ran.stdout[-3000:] + ran.stderr[-6000:]
    return json.loads(found[0].removeprefix("ANSWERS "))


def ids(answers: list[dict[str, Any]]) -> list[list[int]]:
    return [answer["output_ids"] for answer in answers]


def call(asked: Any, count: int = 12, tokens: int = 24, length: int = 6, **more: Any) -> dict[str, Any]:
    each = [asked] * count if isinstance(asked, dict) else asked
    given = [{"max_new_tokens": tokens, **one} for one in each]
    return {"input_ids": prompts(len(given), length), "sampling_params": given, **more}


DETERMINED = {
    "greedy": call(GREEDY),
    "frequency and presence": call({**GREEDY, "frequency_penalty": 1.5, "presence_penalty": 0.4}),
    "repetition": call({**GREEDY, "repetition_penalty": 1.7}),
    "bias": call({**GREEDY, "logit_bias": {"77": 9.0, "78": -20.0}}),
    "stop": call({"temperature": 0.0, "stop_token_ids": list(range(0, 512, 9))}),
    "log-probs": call(GREEDY, return_logprob=True, top_logprobs_num=3, logprob_start_len=0),
}
OWN = {
    "seeded": call([{**SEEDED, "sampling_seed": 100 + at} for at in range(12)]),
    "seeded, alone": call([{**SEEDED, "sampling_seed": 100}]),
    "own controls": call({**GREEDY, "custom_params": {"dry_multiplier": 2.0, "dry_allowed_length": 1}}, 2),
    "unknown": call({"custom_params": {"nonsense": 1}}, 1),
    "filtered log-probs": call(SEEDED, 1, return_logprob=True),
    "raw log-probs": call({**SEEDED, "custom_params": {"logprob_mode": "raw"}}, 1, return_logprob=True),
    "large bias": call({"logit_bias": {"3": 200.0}}, 1),
    "breaker": call({"custom_params": {"dry_multiplier": 0.8, "dry_breakers": [[999999999]]}}, 1),
    "token_ids_logprob": call(GREEDY, 1, return_logprob=True, token_ids_logprob=[3]),
}


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """By side and name. Nearly all tests share two engines, as each takes a minute to start."""
    folder = tmp_path_factory.mktemp("engines")
    # With overlap SGLang penalises each token a step late, and the prompt's last one too.
    native = ask(folder, None, list(DETERMINED.values()), disable_overlap_schedule=True)
    ours = ask(
        folder,
        {"verify_every": 1, "verify_report": str(folder / "report")},
        [*DETERMINED.values(), *OWN.values()],
    )
    return {
        "native": dict(zip(DETERMINED, native, strict=True)),
        "croupier": dict(zip([*DETERMINED, *OWN], ours, strict=True)),
        "report": json.loads((folder / "report").read_text()),
    }


@pytest.mark.parametrize("name", DETERMINED)
def test_tokens_that_no_draw_decides_are_sglangs(answers: dict[str, Any], name: str) -> None:
    assert ids(answers["croupier"][name]) == ids(answers["native"][name])


def test_logprobs_are_sglangs(answers: dict[str, Any]) -> None:
    for ours, native in zip(answers["croupier"]["log-probs"], answers["native"]["log-probs"], strict=True):
        ours, native = ours["meta_info"], native["meta_info"]
        for name in ("output_token_logprobs", "input_token_logprobs"):
            assert [token for _, token, _ in ours[name]] == [token for _, token, _ in native[name]]
            values = [value for value, _, _ in native[name]]
            assert [value for value, _, _ in ours[name]] == pytest.approx(values, abs=1e-3)
        for own, theirs in zip(ours["output_top_logprobs"], native["output_top_logprobs"], strict=True):
            assert sorted(value for value, _, _ in own) == pytest.approx(
                sorted(value for value, _, _ in theirs), abs=1e-3
            )


def test_a_seeded_request_draws_the_same_tokens_in_any_batch(
    answers: dict[str, Any],
) -> None:
    assert ids(answers["croupier"]["seeded"])[0] == ids(answers["croupier"]["seeded, alone"])[0]
    assert len({tuple(each) for each in ids(answers["croupier"]["seeded"])}) == 12


def test_the_reference_makes_each_decision_again(answers: dict[str, Any]) -> None:
    report = answers["report"]
    assert report["differ"] == 0
    assert report["verified"] > 1500


def test_a_control_of_croupiers_own_acts(answers: dict[str, Any]) -> None:
    output = ids(answers["croupier"]["own controls"])[0]
    pairs = list(zip(output, output[1:], strict=False))
    assert len(set(pairs)) == len(pairs)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("unknown", "custom_params has 'nonsense', which nobody would look at"),
        ("filtered log-probs", "custom_params' 'logprob_mode' would be right"),
        ("large bias", "logit_bias of 3 is 200.0; -100 to 100 would be right"),
        ("breaker", "dry_breakers[0][0] is 999999999; a token id of 0 to 511 would be right"),
        ("token_ids_logprob", "token_ids_logprob is not supported"),
    ],
)
def test_what_cannot_be_done_is_refused_by_name(answers: dict[str, Any], name: str, said: str) -> None:
    assert said in answers["croupier"][name]


def test_a_refused_mode_of_logprobs_may_be_chosen(answers: dict[str, Any]) -> None:
    assert len(answers["croupier"]["raw log-probs"][0]["meta_info"]["output_token_logprobs"]) == 24


def test_retracted_requests_and_prompts_in_parts_change_no_token(tmp_path: Path) -> None:
    # Of requests that ignore EOS SGLang knows the length, and it retracts none.
    asked = [{"temperature": 0.9, "top_p": 0.9, "sampling_seed": 100 + at} for at in range(14)]
    many = [call({"temperature": 0.0}, 14, 60, 90), call(asked, tokens=60, length=40)]
    plenty = ask(tmp_path, {}, many)
    scarce = ask(tmp_path, {}, many, **SCARCE)
    assert sum(one["meta_info"]["num_retractions"] for batch in scarce for one in batch) > 0
    assert [ids(batch) for batch in scarce] == [ids(batch) for batch in plenty]


def test_grammars_and_min_new_tokens_give_sglangs_tokens(tmp_path: Path) -> None:
    calls = [
        call({"temperature": 0.0, "regex": "(ab|cd){3,6}[x-z]"}, 6),
        call([{"temperature": 0.0, "json_schema": SCHEMA}, {"temperature": 0.0}] * 3, tokens=60),
        call({"temperature": 0.0, "min_new_tokens": 10, "stop_token_ids": list(range(0, 512, 9))}),
        call({"temperature": 0.9, "sampling_seed": 7, "regex": "[a-f]{2,9}=[0-9]{3}"}, 6),
    ]
    flags = {"skip_tokenizer_init": False, "grammar_backend": "llguidance"}
    ours = ask(tmp_path, {"verify_every": 1, "verify_report": str(tmp_path / "report")}, calls, **flags)
    native = ask(tmp_path, None, calls[:-1], **flags, disable_overlap_schedule=True)
    assert [ids(batch) for batch in ours[:-1]] == [ids(batch) for batch in native]
    for answer in ours[0]:
        assert re.fullmatch("(ab|cd){3,6}[x-z]", answer["text"])
    for answer in ours[3]:
        assert re.fullmatch("[a-f]{2,9}=[0-9]{3}", answer["text"])
    report = json.loads((tmp_path / "report").read_text())
    assert report["differ"] == 0
    assert report["verified"] > 100


@pytest.mark.parametrize(
    ("options", "flags", "said"),
    [
        ({"timeout": 0}, {}, "CROUPIER_SGLANG['timeout'] is 0"),
        ({}, {"grammar_backend": "outlines"}, "grammar_backend is 'outlines'"),
        ({}, {"tp_size": 2}, "tensor parallelism was never run on GPUs"),
    ],
)
def test_an_engine_that_cannot_be_sampled_for_does_not_start(
    tmp_path: Path, options: dict[str, Any], flags: dict[str, Any], said: str
) -> None:
    with pytest.raises(AssertionError) as ended:
        ask(tmp_path, options, [], **flags)
    assert said in str(ended.value)
