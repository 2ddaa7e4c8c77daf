"""bench/vllm/arrivals.py without a GPU: over vLLM's asynchronous engine, with the core in its own process."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("vllm")
host_engine = pytest.importorskip("host_engine", exc_type=ImportError)

sys.path.append(str(Path(__file__).parents[2] / "bench" / "vllm"))
import arrivals  # noqa: E402
import async_engine  # noqa: E402
from shapes import spread_head, spread_inputs  # noqa: E402
from traffic import requests_of  # noqa: E402
from workers import memory_of  # noqa: E402


class Executor(host_engine.HostExecutorWithSession):
    """Functions for the worker have nothing to do."""

    def collective_rpc(self, method: Any, timeout: Any = None, args: tuple = (), *given: Any) -> Any:
        if method in (spread_head, spread_inputs, memory_of):
            return [None]
        return super().collective_rpc(method, timeout, args, *given)


class HereSide:
    """As sides.Side, without a process of its own."""

    def __init__(self, name: str, make: Any, end: Any, *given: Any) -> None:
        self.pid = os.getpid()
        self._engine, self._end = make(*given), end

    def answer(self, patience: float) -> float:
        return 0.5

    def ask(self, function: Any, *given: Any, patience: float = 0.0) -> Any:
        return function(self._engine, *given)

    def begin_close(self) -> None:
        pass

    def close(self, patience: float) -> None:
        self._end(self._engine)


def test_steps_peaks_and_loads_are_measured(tmp_path_factory: Any, monkeypatch: Any) -> None:
    # A socket's path has to be short.
    folder = tmp_path_factory.mktemp("a")
    engine_arguments = async_engine.engine_arguments

    def small(*given: Any) -> dict[str, Any]:
        found = {**engine_arguments(*given), "max_model_len": 256, "distributed_executor_backend": Executor}
        found |= {"tensor_parallel_size": 1}
        return {name: value for name, value in found.items() if name != "compilation_config"}

    def short_requests(*given: Any) -> list[dict[str, Any]]:
        return [{**one, "tokens": 4 + one["tokens"] // 16} for one in requests_of(*given)]

    def make_model(folder: Path, *_: Any) -> str:
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(host_engine.model_config()))
        return str(folder)

    monkeypatch.setattr(async_engine, "engine_arguments", small)
    monkeypatch.setattr(async_engine, "prompt_tokens", lambda place, length: [place % 99] * min(length, 16))
    monkeypatch.setattr(arrivals, "make_model", make_model)
    monkeypatch.setattr(arrivals, "requests_of", short_requests)
    monkeypatch.setattr(arrivals, "Side", HereSide)
    monkeypatch.setenv("VLLM_ALLOW_INSECURE_SERIALIZATION", "1")
    monkeypatch.setenv("VLLM_WORKER_MULTIPROC_METHOD", "spawn")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    monkeypatch.setenv("PYTHONPATH", f"{Path(__file__).parent}:{Path(arrivals.__file__).parent}")
    given = (
        "--kinds greedy,full --batches 6,2 --runs 1 --steps 60 --peaks full,mixed --loads 0.5 --seconds 0.5"
    )
    options = '{"croupier": {"samplers": 1, "private": true, "timeout": 20}}'
    command = [
        "arrivals.py",
        str(folder),
        "--layouts",
        "1x1:croupier",
        "--concurrent",
        "6",
        "--options",
        options,
    ]
    monkeypatch.setattr(sys, "argv", [*command, *given.split()])
    assert arrivals.main() == 0
    found = json.loads((folder / "1x1.json").read_text())
    assert set(found["equal"]) == {"6/greedy", "2/greedy", "6/full"}
    [step] = found["equal"]["6/full"]["croupier"]
    assert step["us_per_step"] > 0
    assert (step["short"], step["failed"]) == (0, [])
    for kind in ("full", "mixed"):
        peak = found["peaks"][kind]["croupier"]
        assert (peak["requests"], peak["short"], peak["failed"]) == (18, 0, [])
        assert peak["host"]["daemon_processes"] >= 1
    [load] = found["loads"]
    assert load["sides"]["croupier"]["requests"] > 0
    assert found["memory"]["croupier"]["host"]["daemon_pss_mib"] > 0
    assert found["skipped"] == 0
