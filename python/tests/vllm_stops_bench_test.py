"""bench/vllm/stops.py without a GPU: over vLLM's asynchronous engine, with the core in its own process."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("vllm")
host_engine = pytest.importorskip("host_engine", exc_type=ImportError)

sys.path.append(str(Path(__file__).parents[2] / "bench" / "vllm"))
import stops  # noqa: E402
from async_engine import end_engine  # noqa: E402
from engines import add_engine_options  # noqa: E402
from shapes import spread_head, spread_inputs  # noqa: E402


class Executor(host_engine.HostExecutorWithSession):
    """Functions for the worker are given the executor, which is what computes here."""

    def collective_rpc(self, method: Any, timeout: Any = None, args: tuple = (), *given: Any) -> Any:
        if callable(method):
            return [None if method in (spread_head, spread_inputs) else method(self, *args)]
        return super().collective_rpc(method, timeout, args, *given)


def asked(folder: Path) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_engine_options(parser)
    arguments = parser.parse_args(["--samplers", "1"])
    return argparse.Namespace(**vars(arguments), folder=folder, requests=7, tokens=40)


def test_texts_are_vllms_own_and_few_steps_are_in_vain(tmp_path_factory: Any, monkeypatch: Any) -> None:
    # A socket's path has to be short.
    folder = tmp_path_factory.mktemp("s")
    arguments = asked(folder)
    stops.make_tokenizer(folder / "model", host_engine.VOCAB)
    stops.write_json(folder / "model" / "config.json", host_engine.model_config())
    engine_arguments = stops.engine_arguments

    def small(*given: Any) -> dict[str, Any]:
        found = {**engine_arguments(*given), "max_model_len": 256, "distributed_executor_backend": Executor}
        return {name: value for name, value in found.items() if name != "compilation_config"}

    monkeypatch.setattr(stops, "engine_arguments", small)
    monkeypatch.setattr(stops, "prompt_tokens", lambda place: [place + at for at in range(stops.PROMPT)])
    # Of so few tokens texts meet a letter sooner than two.
    monkeypatch.setattr(stops, "stops_of", lambda place: [stops.LETTERS[place], "qu"])
    monkeypatch.setenv("VLLM_ALLOW_INSECURE_SERIALIZATION", "1")
    monkeypatch.setenv("VLLM_WORKER_MULTIPROC_METHOD", "spawn")
    tests = f"{Path(__file__).parent}:{Path(stops.__file__).parent}"
    monkeypatch.setenv("PYTHONPATH", tests)
    engine = stops.make_engine(arguments, "croupier", {"samplers": 1, "private": True})
    try:
        for kind in stops.KINDS:
            found = stops.summed(answered := stops.ask_all(engine, kind, 7, 40))
            assert found["ended_by_a_stop_string"] > 3
            assert stops.alone(engine.llm.get_tokenizer(), answered["answers"], kind, 40) == 7
            # The next step of a request is under way when it ends.
            assert 0 < found["steps_for_ended_requests"] <= 7
    finally:
        end_engine(engine)
