"""An engine core ends when its server is killed; other child processes go on."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import Any

import pytest

from croupier.serving.processes import readable
from croupier.vllm import orphan
from croupier.vllm.orphan import end_with_server
from support import PATIENCE

SPAWN = multiprocessing.get_context("spawn")


def core(told: Connection, deaf: bool) -> None:
    if deaf:
        orphan._PATIENCE = 0.1
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    end_with_server(lambda *_: None)
    told.send(os.getpid())
    threading.Event().wait(60)


def server(told: Connection, name: str, how: str, deaf: bool) -> None:
    multiprocessing.get_context(how).Process(target=core, args=(told, deaf), name=name).start()
    threading.Event().wait(60)


@pytest.fixture
def pids() -> Iterator[list[int]]:
    made: list[int] = []
    yield made
    for pid in made:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(pid, signal.SIGKILL)
        os.close(pid)


def begin(pids: list[int], name: str, how: str = "spawn", deaf: bool = False) -> tuple[Any, int]:
    """A server, and a descriptor of its engine core that is readable when that has ended."""
    hears, told = SPAWN.Pipe(duplex=False)
    made = SPAWN.Process(target=server, args=(told, name, how, deaf))
    made.start()
    assert hears.poll(PATIENCE)
    pids.append(os.pidfd_open(hears.recv()))
    return made, pids[-1]


@pytest.mark.parametrize("how", ["spawn", "fork"])
@pytest.mark.parametrize("deaf", [False, True])
@pytest.mark.parametrize("name", ["EngineCore", "EngineCore_DP1"])
def test_an_engine_core_ends_when_its_server_is_killed(
    pids: list[int], name: str, how: str, deaf: bool
) -> None:
    made, ended = begin(pids, name, how, deaf)
    assert not readable([ended], 0)
    made.kill()
    made.join()
    assert readable([ended], PATIENCE)


def test_a_process_of_another_name_outlives_who_made_it(pids: list[int]) -> None:
    made, ended = begin(pids, "a worker of the user's")
    made.kill()
    made.join()
    assert not readable([ended], 1.0)


def test_an_engine_core_in_the_callers_own_process_watches_nobody() -> None:
    before = threading.active_count()
    end_with_server(lambda *_: None)
    assert threading.active_count() == before
