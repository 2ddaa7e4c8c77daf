"""Which engines are refused at their start; vLLM's configuration is stood for by what is looked at."""

from types import SimpleNamespace
from typing import Any

import pytest

from croupier.vllm import compat, requirements, speculation
from croupier.vllm.requirements import check_engine, faults


def engine(**other: Any) -> SimpleNamespace:
    model = {
        "runner_type": "generate",
        "logits_processors": None,
        "hf_config": None,
        "hf_text_config": None,
        "return_sampling_mask": False,
        "get_vocab_size": lambda: 152064,
    }
    parallel = {
        "pipeline_parallel_size": 1,
        "prefill_context_parallel_size": 1,
        "data_parallel_size": 1,
        "tensor_parallel_size": 2,
        "nnodes_within_dp": 1,
        "local_world_size": 2,
        "enable_elastic_ep": False,
    }
    scheduler = {"async_scheduling": True, "max_num_seqs": 256, "max_num_batched_tokens": 8192}
    whole = {
        "use_v2_model_runner": True,
        "num_speculative_tokens": 0,
        "max_concurrent_batches": 2,
        "speculative_config": None,
        "lora_config": None,
        "kv_transfer_config": None,
        "watermark_config": None,
        "is_mm_encoder_only": False,
        "device_config": SimpleNamespace(device_type="cuda"),
        "additional_config": {"croupier": {}},
    }
    for part in (model, parallel, scheduler, whole):
        part.update({key: value for key, value in other.items() if key in part})
    return SimpleNamespace(
        model_config=SimpleNamespace(**model),
        parallel_config=SimpleNamespace(**parallel),
        scheduler_config=SimpleNamespace(**scheduler),
        **whole,
    )


RECOMPUTES, FAILS = (SimpleNamespace(kv_load_failure_policy=policy) for policy in ("recompute", "fail"))
SPARE = {"croupier": {"spare_batches": 1}}
FUSED = {"croupier": {"head": "fused"}}
HASHED = SimpleNamespace(num_hash_layers=3)


@pytest.mark.parametrize(
    "other",
    [
        {},
        {"async_scheduling": False},
        {"kv_transfer_config": FAILS},
        {"lora_config": object()},
        {"pipeline_parallel_size": 2},
        {"data_parallel_size": 2, "additional_config": {"croupier": {"untested": True}}},
        {"pipeline_parallel_size": 2, "additional_config": SPARE},
        {"additional_config": FUSED},
        {"hf_config": HASHED, "hf_text_config": HASHED},
        {"pipeline_parallel_size": 2, "hf_config": SimpleNamespace(num_hash_layers=0)},
        {"pipeline_parallel_size": 2, "hf_config": SimpleNamespace(num_hash_layers=None)},
    ],
)
def test_an_engine_of_the_usual_kind_is_served(other: dict[str, Any]) -> None:
    assert faults(engine(**other)) == []


@pytest.mark.parametrize(
    ("other", "text"),
    [
        ({"use_v2_model_runner": False}, "set VLLM_USE_V2_MODEL_RUNNER=1"),
        ({"runner_type": "pooling"}, "'generate' would be right"),
        (
            {"lora_config": object(), "additional_config": FUSED},
            "'head' is 'fused' and its LM head may have LoRA",
        ),
        (
            {"device_config": SimpleNamespace(device_type="cpu"), "additional_config": FUSED},
            "'head' is 'fused' and its workers are on cpu",
        ),
        ({"logits_processors": ["mine"]}, "custom logits processors"),
        ({"pipeline_parallel_size": 2, "async_scheduling": False}, "asynchronous scheduling is off"),
        ({"pipeline_parallel_size": 2, "hf_config": HASHED}, "has 3 layers that choose experts"),
        ({"pipeline_parallel_size": 2, "hf_text_config": HASHED}, "num_hash_layers"),
        ({"additional_config": SPARE}, "spare_batches is set and pipeline_parallel_size is 1"),
        ({"prefill_context_parallel_size": 2}, "prefill_context_parallel_size is above 1"),
        ({"kv_transfer_config": RECOMPUTES}, "kv_load_failure_policy is 'recompute'"),
        (
            {"nnodes_within_dp": 2, "tensor_parallel_size": 4},
            "4 tensor-parallel ranks are on several hosts, 2",
        ),
        ({"enable_elastic_ep": True}, "enable_elastic_ep is set"),
        ({"data_parallel_size": 2}, "data_parallel_size is 2, with which it was never run"),
    ],
)
def test_what_stands_in_the_way_is_named(
    other: dict[str, Any], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requirements, "installed_release", lambda: "0.26.0")
    with pytest.raises(ValueError, match="Croupier cannot sample for this engine") as refused:
        check_engine(engine(**other))
    assert text in str(refused.value)


def test_a_fused_head_and_a_batch_invariant_engine_exclude_each_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("VLLM_BATCH_INVARIANT", "1")
    assert faults(engine()) == []
    [fault] = faults(engine(additional_config=FUSED))
    assert "'head' is 'fused' and VLLM_BATCH_INVARIANT is set" in fault


def speculating(method: str = "eagle3", rejection: str = "standard", drafts: int = 3, **other: Any) -> Any:
    config = SimpleNamespace(method=method, rejection_sample_method=rejection)
    return engine(speculative_config=config, num_speculative_tokens=drafts, **other)


@pytest.fixture
def newest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compat, "current", lambda: compat.RELEASES[-1])


def test_on_several_hosts_a_step_s_masks_must_fit_into_a_record(newest: None) -> None:
    assert faults(engine(nnodes_within_dp=2, max_num_seqs=3475)) == []
    [fault] = faults(engine(nnodes_within_dp=2, max_num_seqs=3476))
    assert "a step of 3476 grammar masks for a vocabulary of 152064 is too long for a record" in fault
    assert "max_num_seqs up to 3475 would be right" in fault
    assert faults(engine(max_num_seqs=3476)) == []


@pytest.mark.parametrize("method", ["ngram", "ngram_gpu", "draft_model", "mtp", "eagle", "eagle3", "dspark"])
def test_an_engine_that_speculates_is_served(method: str, newest: None) -> None:
    assert faults(speculating(method)) == []
    assert faults(speculating(method, drafts=31)) == []
    assert faults(speculating(method, tensor_parallel_size=8, async_scheduling=False)) == []


@pytest.mark.parametrize(
    ("other", "text"),
    [
        ({"rejection": "synthetic"}, "its rejection_sample_method is 'synthetic'"),
        ({"rejection": "block"}, "'standard' would be right"),
        ({"method": "extract_hidden_states"}, "which drafts no tokens"),
        ({"pipeline_parallel_size": 2}, "speculative decoding is on and pipeline_parallel_size is above 1"),
        ({"drafts": 32}, "num_speculative_tokens is 32, with 2 batches in flight; up to 31 would be right"),
        ({"max_num_seqs": 5000, "max_num_batched_tokens": 20000}, "more than 16384 rows a step"),
    ],
)
def test_what_speculation_is_refused_for_is_named(other: dict[str, Any], text: str, newest: None) -> None:
    assert [fault for fault in faults(speculating(**other)) if text in fault]


def test_drafts_are_refused_with_releases_that_croupier_does_not_speculate_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(compat, "current", lambda: compat.RELEASES[0])
    assert [fault for fault in faults(speculating()) if "which Croupier supports with vLLM 0.33" in fault]


def test_drafters_draft_their_most_likely_tokens() -> None:
    engine = speculating()
    assert speculation.draft_greedily(engine) == ""
    engine.speculative_config.draft_sample_method = "greedy"
    assert speculation.draft_greedily(engine) == ""
    engine.speculative_config.draft_sample_method = "probabilistic"
    assert "'probabilistic'; with Croupier it is 'greedy'" in speculation.draft_greedily(engine)
    assert engine.speculative_config.draft_sample_method == "greedy"


def test_a_step_has_room_for_the_rows_that_may_be_scheduled() -> None:
    assert speculation.rows_of(engine()) == 256
    assert speculation.rows_of(speculating(drafts=3)) == 1024
    # Each row is a scheduled token.
    assert speculation.rows_of(speculating(drafts=3, max_num_batched_tokens=700)) == 700
    assert speculation.rows_of(engine(max_num_batched_tokens=100)) == 256


def test_a_step_has_room_for_a_mask_of_each_request_or_more() -> None:
    assert speculation.masks_of(engine()) == 256
    assert speculation.masks_of(speculating(drafts=3)) == 1024
    # Many of them take more memory than they are worth.
    assert speculation.masks_of(speculating(drafts=31)) == 2048
    assert speculation.masks_of(speculating(drafts=3, max_num_seqs=3000)) == 3000


def test_a_runner_of_version_1_is_explained_by_what_version_2_lacks() -> None:
    config = engine(use_v2_model_runner=False)
    config._get_v2_model_runner_unsupported_features = lambda: ["dual batch overlap", "EC transfer"]
    assert faults(config) == [
        "it has model runner V1, because V2 lacks dual batch overlap, EC transfer; "
        "an engine without these would be right"
    ]


@pytest.mark.parametrize("ranks", [1, 2])
def test_stages_may_be_on_several_hosts_with_vllm_0_33(ranks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    apart = engine(nnodes_within_dp=2, pipeline_parallel_size=2, tensor_parallel_size=ranks)
    monkeypatch.setattr(compat, "current", lambda: compat.RELEASES[1])
    assert faults(apart) == []
    monkeypatch.setattr(compat, "current", lambda: compat.RELEASES[0])
    assert [fault for fault in faults(apart) if "vLLM 0.33, or one host, would be right" in fault]


def test_logits_processors_of_other_packages_are_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = [SimpleNamespace(name="mine", value="package:Mine")]
    monkeypatch.setattr(requirements.importlib.metadata, "entry_points", lambda group: theirs)
    [fault] = faults(engine())
    assert "mine (package:Mine)" in fault
    assert "vllm.logits_processors" in fault


@pytest.mark.parametrize(
    "release", ["0.24.0", "0.25.9", "0.27.0", "0.32.9", "0.34.0", "0.260.1", "1.0", "0.1.dev5+gabc"]
)
def test_an_unsupported_release_of_vllm_is_refused_by_its_number(
    release: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requirements, "installed_release", lambda: release)
    with pytest.raises(ValueError, match="does not support vLLM") as refused:
        check_engine(engine())
    assert release in str(refused.value)
    assert "It supports vLLM 0.26 and 0.33" in str(refused.value)
    assert "vllm==0.33.*" in str(refused.value)
    assert '"untested": true' in str(refused.value)
    check_engine(engine(additional_config={"croupier": {"untested": True}}))


@pytest.mark.parametrize(
    "release", ["0.26", "0.26.0", "0.26.3", "0.26.0.post1", "0.26.1rc1+cu130", "0.33.0", "0.33.1+cu130"]
)
def test_the_supported_releases_start(release: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requirements, "installed_release", lambda: release)
    check_engine(engine())


@pytest.mark.parametrize(
    ("other", "text"),
    [
        ({"watermark_config": object()}, "watermark_config is set"),
        ({"return_sampling_mask": True}, "return_sampling_mask is set"),
        ({"is_mm_encoder_only": True}, "mm_encoder_only is set"),
    ],
)
def test_what_0_33_brought_and_croupier_lacks_is_refused_by_name(
    other: dict[str, Any], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compat, "current", lambda: compat.supported("0.33.0"))
    [fault] = faults(engine(**other))
    assert text in fault
    monkeypatch.setattr(compat, "current", lambda: compat.supported("0.26.0"))
    assert faults(engine(**other)) == []


@pytest.mark.parametrize(
    ("release", "name"),
    [
        ("0.26.0", "0.26"),
        ("0.33.0", "0.33"),
        ("0.25.9", "0.26"),
        ("0.29.1", "0.26"),
        ("0.34.0", "0.33"),
        ("1.0", "0.33"),
        ("of an unknown release", "0.33"),
    ],
)
def test_an_untested_release_is_taken_for_the_newest_supported_one_before_it(release: str, name: str) -> None:
    assert compat.nearest(release).name == name


def test_the_installed_release_is_asked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(compat, "installed_release", lambda: asked.append(1) or "0.33.0")
    compat.current.cache_clear()
    try:
        assert compat.current() is compat.current()
    finally:
        compat.current.cache_clear()
    assert asked == [1]


def test_the_log_says_whose_random_numbers_rng_vllm_has() -> None:
    texts = [compat.nearest(release).about_rng for release in ("0.26.0", "0.33.0")]
    assert texts == [
        "extra_args {'rng': 'vllm'} draws with the random numbers of vLLM 0.33; "
        "no rng has those of this vLLM (0.26)",
        "extra_args {'rng': 'vllm'} draws with the random numbers of this vLLM (0.33)",
    ]
