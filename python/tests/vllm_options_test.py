"""What the options' dictionary may say, how it is refused, and what its options do."""

from __future__ import annotations

import inspect
import json
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from croupier.serving.options import TRANSPORTS
from croupier.serving.verify import Verifier
from croupier.vllm.options import Options


@pytest.mark.parametrize(
    ("given", "device", "used"),
    [
        ("", "cuda", "lean"),
        ("", "cpu", "rows"),
        ("rows", "cuda", "rows"),
        ("lean", "cpu", "lean"),
    ],
)
def test_the_usual_transport_is_lean_where_rows_lie_in_a_gpu(given: str, device: str, used: str) -> None:
    assert Options(transport=given).transport_from(device) == used


def test_a_hotness_order_has_rows_and_is_refused_beside_lean() -> None:
    assert Options(hotness_file="some.hot").transport_from("cuda") == "rows"
    with pytest.raises(ValueError, match="'hotness_file'.* needs 'transport': 'rows'"):
        Options.parse({"hotness_file": "some.hot", "transport": "lean"})


def test_a_host_without_memory_left_is_no_obstacle_to_a_daemon_of_ones_own(monkeypatch: Any) -> None:
    pytest.importorskip("vllm")
    from croupier import Error
    from croupier.serving import opening
    from croupier.vllm import executor

    class Private:
        endpoint, metrics_url = "ipc://own", ""

        @classmethod
        def join(cls, _: Options) -> Private:
            return cls()

    def session(endpoint: str, **_: Any) -> str:
        if endpoint == "ipc://host":
            raise Error(0, "no_memory", "sessions.max_total_bytes is used up")
        return endpoint

    monkeypatch.setattr(opening, "Session", session)
    monkeypatch.setattr(opening, "system_endpoint", lambda: "ipc://host")
    monkeypatch.setattr(opening, "PrivateDaemon", Private)
    engine = executor.WithSession()
    assert engine._opened(Options(), Options(), transport="rows") == ("ipc://own", None)


@pytest.mark.parametrize("error", ["No space left on device", "sessions.max_total_bytes is used up"])
def test_a_container_is_named_where_its_shared_memory_is_full_and_nowhere_else(
    error: str, monkeypatch: Any
) -> None:
    from croupier import Error
    from croupier.serving import opening

    def session(**_: Any) -> None:
        raise Error(0, "no_memory", error)

    monkeypatch.setattr(opening, "Session", session)
    options = Options(endpoint="ipc://own")
    with pytest.raises(Exception, match=error) as refused:
        opening.Opening(options, options, logging.getLogger(), "fewer").open(lambda at: at(), max_batch=8)
    assert ("--shm-size" in str(refused.value)) == ("No space" in error)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_transport_is_taken_by_its_name(transport: str) -> None:
    assert Options.parse({"transport": transport}).transport == transport


@pytest.mark.parametrize(
    ("given", "right"),
    [
        ("fast", "rows, lean"),
        ("Lean", "rows, lean"),
        ("", "rows, lean"),
        ("auto", "rows, lean"),
        (2, "a str"),
    ],
)
def test_another_transport_is_refused_by_name(given: Any, right: str) -> None:
    with pytest.raises(ValueError, match=rf"\['transport'\] is {given!r}; {right} would be right"):
        Options.parse({"transport": given})
    assert Options.parse({}).transport == ""


def test_a_port_is_refused_where_there_is_none() -> None:
    for name in ("metrics_port", "relay_port"):
        assert getattr(Options.parse({name: 65535}), name) == 65535
    with pytest.raises(ValueError, match=r"\['relay_port'\] is 65536; up to 65535 would be right"):
        Options.parse({"relay_port": 65536})


def test_no_port_for_metrics_is_none_and_0_is_refused() -> None:
    assert Options.parse({}).metrics_port is None
    assert Options.parse({"metrics_port": None}).metrics_port is None
    assert Options.parse({}).relay_port == Options.parse({"relay_port": 0}).relay_port == 0
    for name, given, right in (
        ("metrics_port", 0, "1 to 65535 would be right, or None"),
        ("metrics_port", -1, "1 to 65535 would be right, or None"),
        ("metrics_port", 65536, "1 to 65535 would be right, or None"),
        ("metrics_port", "9464", "1 to 65535 would be right, or None"),
        ("relay_port", None, "a int would be right"),
    ):
        with pytest.raises(ValueError, match=rf"\['{name}'\] is {given!r}; {right}"):
            Options.parse({name: given})


def test_what_the_plugin_says_is_shown_in_vllms_log() -> None:
    vllm = pytest.importorskip("vllm.logger")
    pytest.importorskip("host_engine", exc_type=ImportError)
    from croupier.vllm import executor

    if hasattr(vllm, "configure_logging"):
        # As the engine's arguments do; an older vLLM does so when it is imported.
        from vllm.config.logging import LoggingConfig

        vllm.configure_logging(LoggingConfig())
    logger, handlers = executor.logger, []
    while logger is not None:
        # pytest has its own, when a test runs alone.
        own = [one for one in logger.handlers if not type(one).__module__.startswith("_pytest")]
        handlers += [handler.name for handler in own]
        logger = logger.parent if logger.propagate else None
    assert handlers == ["vllm"]
    assert executor.logger.isEnabledFor(logging.INFO)


@pytest.fixture
def warnings(monkeypatch: Any) -> list[str]:
    """Of an executor whose host has a daemon that takes every session."""
    pytest.importorskip("vllm")
    pytest.importorskip("host_engine", exc_type=ImportError)
    from croupier.serving import opening
    from croupier.vllm import executor

    said: list[str] = []
    monkeypatch.setattr(executor.logger, "warning", lambda text, *given: said.append(text % given))
    monkeypatch.setattr(opening, "system_endpoint", lambda: "ipc://host")
    monkeypatch.setattr(opening, "Session", lambda **asked: asked["endpoint"])
    daemon = SimpleNamespace(endpoint="ipc://private", metrics_url="")
    monkeypatch.setattr(opening, "PrivateDaemon", SimpleNamespace(join=lambda _: daemon))
    return said


@pytest.mark.parametrize(
    ("given", "endpoint", "told"),
    [
        ({"shm_dir": "/x"}, "ipc://host", ["'shm_dir' (/x) is not used"]),
        ({"samplers": 3}, "ipc://host", ["'samplers' (3) is the stand-in's alone"]),
        ({"samplers": 3, "stand_in": False}, "ipc://host", ["'samplers' (3) is not used"]),
        (
            {"samplers": 3, "shm_dir": "/x", "endpoint": "ipc://given"},
            "ipc://given",
            ["'shm_dir' (/x)", "'samplers' (3)"],
        ),
        ({"samplers": 3, "shm_dir": "/x", "private": True}, "ipc://private", []),
        ({}, "ipc://host", []),
    ],
)
def test_what_a_daemon_of_the_host_ignores_is_said_once(
    warnings: list[str], given: dict[str, Any], endpoint: str, told: list[str]
) -> None:
    from croupier.vllm.executor import WithSession

    options = Options.parse(given)
    assert WithSession()._opened(options, options) == (endpoint, None)
    assert len(warnings) == bool(told)
    assert all(text in warnings[0] and endpoint in warnings[0] for text in told)


def test_verify_mode_keeps_the_first_differences_and_counts_all(tmp_path: Path) -> None:
    said: list[str] = []
    verifier = Verifier(64, 16, str(tmp_path / "report"), said.append)
    for step in range(250):
        verifier._tell(step, "r", SimpleNamespace(output_index=step, token=1), SimpleNamespace(token=2))
    assert len(verifier.differing) == 100
    assert len(said) == 20
    verifier._save()
    report = json.loads((tmp_path / "report").read_text())
    assert report["differ"] == 250
    assert [found["step"] for found in report["differing"]] == list(range(100))


def test_verify_mode_replaces_the_report_of_another_run_before_its_first_step(tmp_path: Path) -> None:
    report = tmp_path / "report"
    report.write_text('{"verified": 9000, "skipped": 0, "differ": 0, "differing": []}')
    Verifier(64, 16, str(report), print)
    assert json.loads(report.read_text()) == {"verified": 0, "skipped": 0, "differ": 0, "differing": []}
    assert list(tmp_path.iterdir()) == [report]


def test_verify_mode_s_report_has_what_differs_before_the_engine_ends(tmp_path: Path) -> None:
    report = tmp_path / "report"
    verifier = Verifier(64, 16, str(report), lambda said: None)
    request = SimpleNamespace(params={"temperature": 0.0}, seed=1, lists=dict)
    sequence = SimpleNamespace(request=request, prompt=[1], uid=7)
    rows = np.zeros((1, 64), dtype=np.float32)
    rows[0, 5] = 9.0
    answer = SimpleNamespace(decisions=[SimpleNamespace(error=0, output_index=0, token=6)])
    verifier.look(3, ["r"], [sequence], None, rows, answer, SimpleNamespace(output=lambda uid: [6]))
    found = json.loads(report.read_text())
    assert (found["verified"], found["differ"]) == (1, 1)
    assert found["differing"] == [{"step": 3, "request": "r", "output_index": 0, "daemon": 6, "here": 5}]


def test_a_verify_report_that_cannot_be_written_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match="verify_report is '.*none/report', which cannot be written .*folder that"
    ):
        Verifier(64, 16, str(tmp_path / "none" / "report"), print)


def test_an_option_compiles_no_model_anew() -> None:
    """vLLM's hash of a configuration names what was compiled for it; all of additional_config is in it."""
    pytest.importorskip("vllm")
    pytest.importorskip("host_engine", exc_type=ImportError)
    from vllm.config import VllmConfig

    from croupier.vllm import register

    register()

    def hash_of(additional: dict[str, Any]) -> str:
        config = VllmConfig(additional_config=additional)
        found = config.compute_hash()
        assert config.additional_config == additional
        return found

    # 0.33 asks for it without its own version where it tunes kernels for several ranks.
    if "include_version" in inspect.signature(VllmConfig.compute_hash).parameters:
        plain = VllmConfig().compute_hash(include_version=False)
        given = VllmConfig(additional_config={"croupier": {"timeout": 5}})
        assert given.compute_hash(include_version=False) == plain
    native = hash_of({})
    assert hash_of({"croupier": {}}) == native
    assert hash_of({"croupier": {"timeout": 5, "samplers": 3}}) == native
    other = hash_of({"mine": 1})
    assert other != native
    assert hash_of({"mine": 1, "croupier": {"timeout": 5}}) == other


def test_a_memory_plan_is_of_engines_that_reserve_as_much(monkeypatch: pytest.MonkeyPatch) -> None:
    """vLLM finds it by that hash, and the writer's memory is part of the plan."""
    pytest.importorskip("vllm")
    pytest.importorskip("host_engine", exc_type=ImportError)
    from vllm.config import VllmConfig
    from vllm.platforms import current_platform
    from vllm.v1.worker import startup_plan

    from croupier.vllm import gpu_memory, register

    register()
    for name in ("get_device_capability", "get_device_name", "get_device_total_memory"):
        monkeypatch.setattr(type(current_platform), name, lambda *_, **__: None, raising=False)
    monkeypatch.setattr(startup_plan, "compute_plan_fingerprint", startup_plan.compute_plan_fingerprint)
    gpu_memory.keep_plans_apart(startup_plan)
    gpu_memory.keep_plans_apart(startup_plan)
    monkeypatch.delattr(startup_plan, "croupier_apart")

    def plan_of(additional: dict[str, Any]) -> str:
        return startup_plan.compute_plan_fingerprint(VllmConfig(additional_config=additional), 0, 1)

    rows = plan_of({"croupier": {"transport": "rows"}})
    assert len({plan_of({}), rows, plan_of({"croupier": {"transport": "lean"}})}) == 3
    assert plan_of({"croupier": {"transport": "rows", "timeout": 5}}) == rows
    monkeypatch.setattr(gpu_memory.speculation, "rows_of", lambda _config: 8192)
    assert plan_of({"croupier": {"transport": "rows"}}) != rows
