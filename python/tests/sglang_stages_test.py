"""SGLang's engine on a CPU with two pipeline stages: Croupier draws the tokens that it draws with one."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sglang")

from sglang_deaths_test import eventually  # noqa: E402
from sglang_engine_test import GREEDY, SCARCE, SCHEMA, SEEDED, ask, call, ids  # noqa: E402
from sglang_speculation_test import CALLS, EXACT, MIXED, same_logprobs  # noqa: E402

# A layer for each stage; with a tokenizer, for the grammars.
FLAGS = {
    **EXACT,
    "plugins": ["weights"],
    "json_model_override_args": json.dumps({"num_hidden_layers": 2}),
    "skip_tokenizer_init": False,
    "grammar_backend": "llguidance",
}
STAGES = {**FLAGS, "pp_size": 2}
# Room for some of the long ones, each stage's batches in parts, and one batch more than stages in flight.
FEW = {**SCARCE, "max_total_tokens": 1100, "pp_async_batch_depth": 1}
UNTESTED = {"untested": True, "verify_every": 1}
PARTS = [{**GREEDY, "max_new_tokens": 20}, *[{**SEEDED, "sampling_seed": seed} for seed in range(13)]]
ASKED = {
    **CALLS,
    "regex": call({"temperature": 0.9, "sampling_seed": 7, "regex": "[a-f]{2,9}=[0-9]{3}"}, 6),
    "some grammars": call([{"temperature": 0.0, "json_schema": SCHEMA}, {"temperature": 0.0}] * 3, tokens=60),
    "min_new_tokens": call(
        {"temperature": 0.0, "min_new_tokens": 10, "stop_token_ids": list(range(0, 512, 9))}
    ),
    "long": call({"temperature": 0.0}, 14, 60, 90),
    "long and seeded": call([{**one, "ignore_eos": False} for one in PARTS], tokens=60, length=40),
    "parts with log-probs": call(
        {**GREEDY, "custom_params": {"logprob_mode": "raw"}},
        4,
        length=120,
        return_logprob=True,
        top_logprobs_num=2,
        logprob_start_len=0,
    ),
}


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    answers = ask(tmp_path_factory.mktemp("plain"), {}, list(ASKED.values()), **FLAGS)
    return dict(zip(ASKED, answers, strict=True))


def test_tokens_are_those_of_one_stage(tmp_path: Path, plain: dict[str, Any]) -> None:
    report = tmp_path / "report"
    answers = ask(tmp_path, {**UNTESTED, "verify_report": str(report)}, list(ASKED.values()), **STAGES, **FEW)
    found = dict(zip(ASKED, answers, strict=True))
    assert "dry_breakers[0][0] is 9999" in found.pop("refused")
    for kind, answer in found.items():
        assert ids(answer) == ids(plain[kind]), kind
        for ours, with_one in zip(answer, plain[kind], strict=True):
            assert ours["meta_info"]["finish_reason"] == with_one["meta_info"]["finish_reason"]
            same_logprobs(ours["meta_info"], with_one["meta_info"])
    for answer in found["regex"]:
        assert re.fullmatch("[a-f]{2,9}=[0-9]{3}", answer["text"])
    retracted = sum(one["meta_info"]["num_retractions"] for batch in found.values() for one in batch)
    assert retracted > 0
    counts = json.loads(report.read_text())
    assert counts["differ"] == 0
    assert counts["verified"] > 500


def test_streams_go_on_when_others_end_and_when_the_daemon_dies(tmp_path: Path) -> None:
    # The second one's logits are no numbers, and no other one draws that token.
    asked = call([{**one, "logit_bias": {**one.get("logit_bias", {}), "9": -100.0}} for one in MIXED])
    asked["input_ids"][1][3] = 9
    # So many that it is aborted, or the daemon killed, before its last one.
    asked["sampling_params"][0]["max_new_tokens"] = 100
    shm_dir = f"/dev/shm/croupier-test-{os.getpid()}-{tmp_path.name}"
    undisturbed, killed = ask(
        tmp_path,
        {**UNTESTED, "shm_dir": shm_dir},
        [{**asked, "abort": 60}, {**asked, "kill": 150}],
        probe="sglang_stages_probe.py",
        **{**STAGES, "plugins": ["weights", "nan_token"]},
    )
    aborted = undisturbed[0]["meta_info"]["finish_reason"]
    assert aborted["type"] == "abort"
    assert "Croupier" not in aborted["message"]
    assert killed[0]["output_ids"][: len(undisturbed[0]["output_ids"])] == undisturbed[0]["output_ids"]
    for answers in (undisturbed, killed):
        ended = answers[1]["meta_info"]["finish_reason"]
        assert (ended["type"], ended["status_code"]) == ("abort", 500)
        assert "Croupier could not decide a token of this request" in ended["message"]
    assert ids(killed[2:]) == ids(undisturbed[2:])
    # A private daemon ends some seconds after its engine.
    left = [Path(shm_dir), tmp_path / "croupier-private"]
    eventually(lambda: not any(folder.exists() for folder in left), "no file of the engine is left")
