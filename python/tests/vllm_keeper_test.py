"""What keeps a private daemon and a stand-in alive: deaths, children and descriptors in its way."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from croupier.serving import keeper as keeping
from croupier.serving.keeper import Keeper
from croupier.serving.place import daemon_pid
from croupier.serving.private_daemon import PrivateDaemon
from croupier.serving.processes import end_of
from croupier.vllm.options import Options
from private_daemons import is_gone, options_of, pid_of
from support import PATIENCE, eventually

# What a stand-in here does not read.
SEGMENT = os.devnull


@contextlib.contextmanager
def forked() -> Iterator[None]:
    """A child with all descriptors of this process, which lives on if the body does not wait for its end."""
    child = os.fork()
    if child == 0:
        try:
            time.sleep(60)
        finally:
            os._exit(0)
    try:
        yield
        assert os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


class HangingDaemon:
    """One whose watch() hangs, once it is told to, until the test ends."""

    lock = 0

    def __init__(self) -> None:
        self.hangs, self.is_awaited, self.test_ends = False, threading.Event(), threading.Event()

    def watch(self) -> int | None:
        if self.hangs:
            self.is_awaited.set()
            self.test_ends.wait(PATIENCE)
        return os.open("/dev/null", os.O_RDONLY)  # Always readable: the daemon has ended, each time.


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: Any) -> Callable[[str], Path]:
    """Puts a script in croupierd's place; each start of it is a line of the file that is given back."""

    def put(does: str) -> Path:
        starts, program = tmp_path / "starts", tmp_path / "croupierd"
        program.write_text(f"#!/bin/sh\necho $$ >> {starts}\n{does}\n")
        program.chmod(0o700)
        monkeypatch.setattr(keeping, "find_croupierd", lambda: str(program))
        starts.touch()
        return starts

    return put


def lines(file: Path) -> list[str]:
    return file.read_text().splitlines()


def test_a_child_of_an_engine_keeps_nothing_of_it(tmp_path: Path, stand_in: Any) -> None:
    stand_in("exec sleep 60")
    engine = PrivateDaemon.join(options_of(tmp_path), tmp_path)
    keeper = Keeper(SEGMENT, options_of(tmp_path), engine, print)
    pid = pid_of(tmp_path)
    with forked():
        keeper.close()
        engine.leave()
        eventually(lambda: is_gone(tmp_path, options_of(tmp_path).shm_dir))
        engine = PrivateDaemon.join(options_of(tmp_path), tmp_path)
        assert pid_of(tmp_path) != pid
        engine.leave()


@pytest.mark.parametrize("status", ["exit 0", "exit 1", "exit 3", "kill -KILL $$"])
def test_a_stand_in_that_ends_is_started_again_and_the_log_says_so(stand_in: Any, status: str) -> None:
    starts, said = stand_in(status), []
    keeper = Keeper(SEGMENT, Options(), None, said.append)
    eventually(lambda: len(lines(starts)) >= 3)
    keeper.close()
    assert "the stand-in" in said[0]
    assert "it is started again" in said[0]
    # Later and later.
    assert len(lines(starts)) <= 6


def test_a_stand_in_that_refuses_is_not_asked_again(stand_in: Any) -> None:
    starts, said = stand_in("exit 2"), []
    keeper = Keeper(SEGMENT, Options(), None, said.append)
    eventually(lambda: not keeper._threads[0].is_alive())
    keeper.close()
    assert len(lines(starts)) == 1
    assert len(said) == 1
    assert "not started again" in said[0]


def test_whatever_a_start_raises_it_is_tried_again(stand_in: Any, monkeypatch: Any) -> None:
    starts, said, attempts = stand_in("exit 1"), [], []
    keeper = Keeper(SEGMENT, Options(), None, said.append)

    def fails(*_: Any, **__: Any) -> None:
        attempts.append(1)
        raise ValueError("strange")

    monkeypatch.setattr(subprocess, "Popen", fails)
    eventually(lambda: len(attempts) >= 3)
    monkeypatch.undo()
    keeper.close()
    assert starts.exists()
    # What is the same each time is told once.
    assert sum("strange" in line for line in said) == 1


def test_a_stand_in_is_started_again_while_the_daemon_is_waited_for(stand_in: Any) -> None:
    starts = stand_in("exec sleep 60")
    daemon = HangingDaemon()
    keeper = Keeper(SEGMENT, Options(), daemon, print)
    daemon.hangs = True
    assert daemon.is_awaited.wait(PATIENCE)
    eventually(lambda: len(lines(starts)) == 1)
    os.kill(keeper._process.pid, signal.SIGKILL)
    eventually(lambda: len(lines(starts)) == 2)
    daemon.test_ends.set()
    keeper.close()


def test_a_close_waits_for_no_daemon_that_does_not_come(stand_in: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(keeping, "_THREADS_PATIENCE", 0.2)
    stand_in("exec sleep 60")
    daemon, said = HangingDaemon(), []
    keeper = Keeper(SEGMENT, Options(), daemon, said.append)
    daemon.hangs = True
    assert daemon.is_awaited.wait(PATIENCE)
    keeper.close()
    assert "what keeps croupierd alive still waits" in said[-1]
    assert keeper._process.returncode is not None
    daemon.test_ends.set()


def test_descriptors_beyond_a_thousand_are_waited_for(tmp_path: Path, stand_in: Any) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, before[1]), before[1]))
    taken = [os.open("/dev/null", os.O_RDONLY) for _ in range(1100)]
    try:
        starts = stand_in("exec sleep 60")
        engine = PrivateDaemon.join(options_of(tmp_path), tmp_path)
        keeper = Keeper(SEGMENT, Options(), engine, print)
        eventually(lambda: len(lines(starts)) == 1)
        killed = pid_of(tmp_path)
        os.kill(killed, signal.SIGKILL)
        os.kill(keeper._process.pid, signal.SIGKILL)
        eventually(lambda: len(lines(starts)) == 2 and daemon_pid(tmp_path) not in (None, killed))
        keeper.close()
        engine.leave()
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_child_that_cannot_be_watched_is_not_left(tmp_path: Path, stand_in: Any, monkeypatch: Any) -> None:
    stand_in("exec sleep 60")
    left: list[subprocess.Popen] = []
    begin = subprocess.Popen.__init__

    def noting(self: Any, *args: Any, **kwargs: Any) -> None:
        begin(self, *args, **kwargs)
        left.append(self)

    def fails(pid: int) -> int:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(subprocess.Popen, "__init__", noting)
    monkeypatch.setattr(os, "pidfd_open", fails)
    # As where the descriptor that came with it had no room.
    monkeypatch.setattr(socket, "recv_fds", lambda line, *_: (line.recv(64), [], socket.MSG_CTRUNC, None))
    with pytest.raises(OSError, match="Too many"):
        Keeper(SEGMENT, Options(), None, print)
    with pytest.raises(OSError, match="Too many"):
        PrivateDaemon.join(options_of(tmp_path), tmp_path)
    assert len(left) == 2
    assert all(process.returncode is not None for process in left)
    monkeypatch.undo()
    PrivateDaemon.join(options_of(tmp_path), tmp_path).leave()
    eventually(lambda: is_gone(tmp_path, options_of(tmp_path).shm_dir))


def test_a_stand_in_does_not_outlive_a_daemon_that_cannot_be_started(stand_in: Any, monkeypatch: Any) -> None:
    class Broken:
        lock = 0

        def watch(self) -> int:
            raise RuntimeError("no daemon")

    starts, processes = stand_in("exec sleep 60"), []
    monkeypatch.setattr(keeping, "end_of", lambda process: processes.append(process) or end_of(process))
    with pytest.raises(RuntimeError, match="no daemon"):
        Keeper(SEGMENT, Options(), Broken(), print)
    assert processes[0].returncode is not None
    assert starts.exists()
