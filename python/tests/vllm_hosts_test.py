"""An engine on two hosts by vLLM's own launch (--nnodes 2): network namespaces with a /dev/shm each."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("vllm")

sys.path.append(str(Path(__file__).parents[2] / "bench" / "vllm"))
from two_hosts import ADDRESSES, CannotError, TwoHosts  # noqa: E402

from croupier.serving.place import daemon_pid  # noqa: E402
from croupier.vllm import compat  # noqa: E402

TESTS = Path(__file__).parent
# An engine's processes import all of vLLM, one after another.
PATIENCE = 300.0
ENVIRONMENT = {
    "PYTHONPATH": os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")]),
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_WORKER_MULTIPROC_METHOD": "fork",
}

if not compat.current().spans_hosts:
    pytest.skip("Croupier refuses several hosts with this vLLM", allow_module_level=True)


def until(true: Callable[[], Any], patience: float = PATIENCE) -> None:
    deadline = time.monotonic() + patience
    while not true():
        assert time.monotonic() < deadline, "it has not come to be in time"
        time.sleep(0.02)


class Engine:
    """Its two main processes; rounds of the same requests, in host_stages.py's words."""

    def __init__(self, hosts: TwoHosts, folder: Path, options: dict[str, Any]) -> None:
        self.folder = folder
        self.turn = 0
        self.hosts = hosts
        self.processes = []
        for host in (0, 1):
            words = [str(host), str(folder), ADDRESSES[0], json.dumps(options)]
            with self.log_file(host).open("w") as log:
                command = [sys.executable, str(TESTS / "host_stages.py"), *words]
                self.processes.append(
                    hosts.start(
                        host, command, env=ENVIRONMENT, stdout=log, stderr=log, start_new_session=True
                    )
                )

    def log_file(self, host: int) -> Path:
        return self.folder / f"log-{host}"

    def begin(self) -> None:
        (self.folder / f"go-{self.turn}").touch()
        begun = self.folder / f"begun-{self.turn}"
        until(lambda: begun.exists() or self.has_ended())

    def is_decoding(self) -> bool:
        return not (self.folder / f"tokens-{self.turn}.json").exists()

    def tokens(self) -> list[list[int]]:
        found = self.folder / f"tokens-{self.turn}.json"
        until(lambda: found.exists() or self.has_ended())
        assert found.exists(), self.log_file(0).read_text()[-4000:] + self.log_file(1).read_text()[-4000:]
        self.turn += 1
        return json.loads(found.read_text())

    def has_ended(self) -> bool:
        return any(process.poll() is not None for process in self.processes)

    @property
    def private(self) -> Path:
        """Of the last stage's host."""
        return self.folder / "runtime-1" / "croupier-private"

    def end(self) -> None:
        for process in self.processes:
            for how in (signal.SIGTERM, signal.SIGKILL):
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, how)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(20)
                    break


def make_model(folder: Path) -> None:
    from host_engine import model_config

    (folder / "model").mkdir()
    (folder / "model" / "config.json").write_text(json.dumps(model_config()))


@contextlib.contextmanager
def engine_on_two_hosts(folder: Path, **options: Any) -> Iterator[Engine]:
    folder.mkdir()
    make_model(folder)
    with contextlib.ExitStack() as ends:
        try:
            hosts = ends.enter_context(TwoHosts(folder))
        except CannotError as error:
            pytest.skip(str(error))
        engine = Engine(hosts, folder, options)
        ends.callback(engine.end)
        yield engine


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> list[list[int]]:
    """The tokens of an engine on one host."""
    from host_engine import HostExecutorWithSession
    from host_stages import engine_options, tokens_of
    from vllm import LLM

    folder = tmp_path_factory.mktemp("one")
    make_model(folder)
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    os.environ["XDG_RUNTIME_DIR"] = str(folder)
    try:
        given = engine_options(folder, {"private": True})
        llm = LLM(**(given | {"distributed_executor_backend": HostExecutorWithSession}))
        try:
            return tokens_of(llm)
        finally:
            llm.llm_engine.engine_core.shutdown()
    finally:
        if runtime is None:
            del os.environ["XDG_RUNTIME_DIR"]
        else:
            os.environ["XDG_RUNTIME_DIR"] = runtime


def test_an_engine_on_two_hosts_draws_the_tokens_of_one_whatever_happens_between_and_on_them(
    tmp_path: Path, expected: list[list[int]]
) -> None:
    with engine_on_two_hosts(tmp_path / "two", private=True) as engine:
        engine.begin()
        assert engine.tokens() == expected
        # The link is cut for two seconds.
        engine.begin()
        engine.hosts.cut(2.0)
        assert engine.is_decoding()
        assert engine.tokens() == expected
        # The daemon on the last stage's host is killed.
        engine.begin()
        killed = daemon_pid(engine.private)
        assert killed
        os.kill(killed, signal.SIGKILL)
        assert engine.tokens() == expected
        until(lambda: daemon_pid(engine.private) not in (None, killed), 30)
        engine.begin()
        assert engine.tokens() == expected
        # When the scheduler's host has ended, its relay and the daemon end on the other one.
        (engine.folder / "end").touch()
        until(lambda: engine.processes[0].poll() is not None)
        assert engine.processes[0].returncode == 0
        until(lambda: daemon_pid(engine.private) is None, 60)
        log = engine.log_file(1).read_text()
        assert log.count("relay_left") == 1
        assert "is started again" in log


def test_a_scheduler_that_is_killed_leaves_no_relay_and_no_daemon_on_the_other_host(tmp_path: Path) -> None:
    with engine_on_two_hosts(tmp_path / "two", private=True) as engine:
        engine.begin()
        until(lambda: daemon_pid(engine.private) is not None or engine.has_ended())
        os.killpg(engine.processes[0].pid, signal.SIGKILL)
        until(lambda: daemon_pid(engine.private) is None, 60)
        assert "relay_left" in engine.log_file(1).read_text()
