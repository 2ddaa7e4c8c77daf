"""SGLang's engine on a CPU, which speculates: Croupier draws the tokens that it draws without drafts."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sglang")

from sglang_engine_test import GREEDY, SCARCE, SCHEMA, SEEDED, ask, call, ids  # noqa: E402
from sglang_engines import CONFIG  # noqa: E402

# Rows of several tokens are rounded otherwise than those of one.
EXACT = {"dtype": "float32"}
PENALTIES = {"repetition_penalty": 1.3, "frequency_penalty": 0.4, "presence_penalty": 0.2}
KINDS = [
    GREEDY,
    {**GREEDY, **PENALTIES},
    {**SEEDED, "min_p": 0.05},
    {**SEEDED, "top_k": 20, **PENALTIES},
    {**GREEDY, "logit_bias": {"77": 9.0, "78": -20.0}},
    {**SEEDED, "custom_params": {"dry_multiplier": 2.0, "dry_allowed_length": 1}},
    {**SEEDED, "custom_params": {"mirostat": 2}},
    {"temperature": 0.3, "stop_token_ids": list(range(0, 512, 5))},
]
MIXED = [
    {**KINDS[at % len(KINDS)], "sampling_seed": 100 + at, "max_new_tokens": 20 + 3 * at} for at in range(16)
]
CALLS = {
    "greedy": call(GREEDY, tokens=40),
    "mixed": call(MIXED),
    "alone": call([MIXED[3]]),
    "log-probs": call(
        [{**kind, "sampling_seed": 9, "custom_params": {"logprob_mode": "raw"}} for kind in KINDS[:4]],
        return_logprob=True,
        top_logprobs_num=3,
    ),
    "some log-probs": call(
        [GREEDY, GREEDY], return_logprob=[True, False], top_logprobs_num=[2, 0], logprob_start_len=[0, -1]
    ),
    "refused": call([{**SEEDED, "custom_params": {"dry_multiplier": 1.0, "dry_breakers": [[9999]]}}]),
}


def draft(architecture: str, **more: Any) -> dict[str, Any]:
    return {**CONFIG, "architectures": [architecture], "model_type": "llama", **more}


TREE = {"speculative_num_steps": 3, "speculative_eagle_topk": 3, "speculative_num_draft_tokens": 8}
CHAIN = {"speculative_num_steps": 3, "speculative_eagle_topk": 1, "speculative_num_draft_tokens": 4}
# The target's own weights: what is drafted is often right.
STANDALONE = {"speculative_algorithm": "STANDALONE", "speculative_draft_model_path": "model"}
NGRAM = {"speculative_algorithm": "NGRAM", "speculative_num_draft_tokens": 6}
EAGLE = {"speculative_algorithm": "EAGLE", "speculative_draft_model_path": "draft"}
ENGINES: dict[str, dict[str, Any]] = {
    "NGRAM": {**NGRAM, "speculative_ngram_max_bfs_breadth": 3},
    "NGRAM chain, no overlap": {
        **NGRAM,
        "speculative_ngram_max_bfs_breadth": 1,
        "disable_overlap_schedule": True,
    },
    "standalone chain": {**STANDALONE, **CHAIN},
    "standalone tree, no overlap": {**STANDALONE, **TREE, "disable_overlap_schedule": True},
    "EAGLE chain": {**EAGLE, **CHAIN},
    "EAGLE tree": {**EAGLE, **TREE},
    "EAGLE3 chain": {**EAGLE, **CHAIN, "speculative_algorithm": "EAGLE3"},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("engines")


@pytest.fixture(scope="module")
def plain(folder: Path) -> dict[str, Any]:
    return dict(zip(CALLS, ask(folder, {}, list(CALLS.values()), **EXACT), strict=True))


def write_draft(folder: Path, name: str) -> None:
    third = name.startswith("EAGLE3")
    config = draft("LlamaForCausalLMEagle3" if third else "LlamaForCausalLMEagle", draft_vocab_size=512)
    if third:
        config["eagle_config"] = {"eagle_aux_hidden_state_layer_ids": [-1], "use_aux_hidden_state": True}
    (folder / "draft").mkdir(exist_ok=True)
    (folder / "draft" / "config.json").write_text(json.dumps(config))


@pytest.mark.parametrize("name", ENGINES)
def test_tokens_are_those_without_drafts(folder: Path, plain: dict[str, Any], name: str) -> None:
    write_draft(folder, name)
    report = folder / f"report {name}"
    answers = ask(
        folder,
        {"verify_every": 1, "verify_report": str(report)},
        list(CALLS.values()),
        **EXACT,
        **ENGINES[name],
    )
    found = dict(zip(CALLS, answers, strict=True))
    assert "dry_breakers[0][0] is 9999" in found.pop("refused")
    for kind, answer in found.items():
        assert ids(answer) == ids(plain[kind]), kind
    for kind in ("log-probs", "some log-probs"):
        for ours, without in zip(found[kind], plain[kind], strict=True):
            same_logprobs(ours["meta_info"], without["meta_info"])
    for ours, without in zip(found["mixed"], plain["mixed"], strict=True):
        assert ours["meta_info"]["finish_reason"] == without["meta_info"]["finish_reason"]
    counts = json.loads(report.read_text())
    assert counts["differ"] == 0
    assert counts["verified"] > 500
    accepted = sum(one["meta_info"]["spec_num_correct_drafts"] for batch in found.values() for one in batch)
    assert accepted > (-1 if "EAGLE3" in name else 20)


def same_logprobs(ours: dict[str, Any], without: dict[str, Any]) -> None:
    for key in ("output_token_logprobs", "output_top_logprobs", "input_token_logprobs"):
        assert (key in ours) == (key in without)
        flat = [_flat(given.get(key) or []) for given in (ours, without)]
        assert [token for _, token in flat[0]] == [token for _, token in flat[1]]
        assert [value for value, _ in flat[0]] == pytest.approx([value for value, _ in flat[1]], abs=1e-3)


def _flat(found: list[Any]) -> list[tuple[float, int]]:
    """Of each token, or of the best at each place."""
    rows = [row if row and isinstance(row[0], list | tuple) else [row] for row in found if row]
    return [(value or 0.0, token) for row in rows for value, token, *_ in row]


@pytest.mark.parametrize("name", ["NGRAM", "standalone tree"])
def test_grammars_hold_in_each_row(tmp_path: Path, name: str) -> None:
    calls = [
        call({"temperature": 0.0, "regex": "(ab|cd){3,6}[x-z]"}, 6),
        call([{"temperature": 0.0, "json_schema": SCHEMA}, {"temperature": 0.0}] * 3, tokens=60),
        call({"temperature": 0.0, "min_new_tokens": 10, "stop_token_ids": list(range(0, 512, 9))}),
        call({"temperature": 0.9, "sampling_seed": 7, "regex": "[a-f]{2,9}=[0-9]{3}"}, 6),
        call({"temperature": 0.9, "sampling_seed": 8, "regex": "(abcabcabc){2,9}z"}, 6, tokens=90),
    ]
    flags = {"skip_tokenizer_init": False, "grammar_backend": "llguidance", **EXACT}
    speculation = ENGINES.get(name, {**STANDALONE, **TREE})
    options = {"verify_every": 1, "verify_report": str(tmp_path / "report")}
    ours = ask(tmp_path, options, calls, **flags, **speculation)
    plain = ask(tmp_path, {}, calls, **flags)
    assert [ids(batch) for batch in ours] == [ids(batch) for batch in plain]
    for answer in ours[3]:
        assert re.fullmatch("[a-f]{2,9}=[0-9]{3}", answer["text"])
    assert sum(one["meta_info"]["spec_num_correct_drafts"] for batch in ours for one in batch) > 20
    assert json.loads((tmp_path / "report").read_text())["differ"] == 0


def test_retracted_requests_draw_the_same_tokens(tmp_path: Path) -> None:
    asked = [{"temperature": 0.9, "top_p": 0.9, "sampling_seed": 100 + at} for at in range(14)]
    many = [call({"temperature": 0.0}, 14, 60, 90), call(asked, tokens=60, length=40)]
    plain = ask(tmp_path, {}, many, **EXACT)
    scarce = ask(tmp_path, {}, many, **EXACT, **STANDALONE, **CHAIN, **SCARCE)
    assert sum(one["meta_info"]["num_retractions"] for batch in scarce for one in batch) > 0
    assert [ids(batch) for batch in scarce] == [ids(batch) for batch in plain]


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"speculative_accept_threshold_single": 0.5}, "speculative_accept_threshold_single is 0.5"),
        ({"speculative_num_draft_tokens": 40, "speculative_num_steps": 39}, "up to 32 would be right"),
    ],
)
def test_what_would_draw_other_tokens_is_refused(tmp_path: Path, flags: dict[str, Any], said: str) -> None:
    with pytest.raises(AssertionError) as ended:
        ask(tmp_path, {}, [], **{**STANDALONE, **CHAIN, **flags})
    assert said in str(ended.value)
