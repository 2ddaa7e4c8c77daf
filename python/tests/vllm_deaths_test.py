"""Daemon, samplers and stand-in die while vLLM's engine core decodes: the text is the same."""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytest.importorskip("vllm")
host_engine = pytest.importorskip("host_engine", exc_type=ImportError)

from vllm import SamplingParams  # noqa: E402
from vllm_engine_test import Engine  # noqa: E402

from croupier.serving import place  # noqa: E402
from croupier.serving.private_daemon import (  # noqa: E402
    Names,
    PrivateDaemon,
    configuration,
    find_croupierd,
)
from croupier.vllm import compat  # noqa: E402
from croupier.vllm.options import Options  # noqa: E402

PATIENCE = 20.0
MIXTURE: list[dict[str, Any]] = [
    {"temperature": 0.9, "top_p": 0.9, "seed": 3},
    {"temperature": 0.7, "repetition_penalty": 1.2, "presence_penalty": 0.2, "seed": 4},
    {"temperature": 0.8, "seed": 5, "extra_args": {"dry_multiplier": 0.8, "xtc_probability": 0.5}},
    {"temperature": 1.0, "seed": 6, "extra_args": {"mirostat": 2}},
    {"temperature": 0.0},
]


def texts(engine: Engine, at_turn: Callable[[int], None] = lambda _: None) -> dict[str, list[int]]:
    core = engine.llm.llm_engine
    for number in range(8):
        given = {"max_tokens": 60, "ignore_eos": True, "detokenize": False, **MIXTURE[number % len(MIXTURE)]}
        core.add_request(str(number), {"prompt_token_ids": [number, number + 1]}, SamplingParams(**given))
    finished = {}
    turn = 0
    while core.has_unfinished_requests():
        at_turn(turn)
        turn += 1
        for output in core.step():
            if output.finished:
                assert output.outputs[0].finish_reason == "length"
                finished[output.request_id] = list(output.outputs[0].token_ids)
    assert len(finished) == 8
    return finished


def eventually(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def daemon_pid(folder: Path) -> int:
    # 0 while none lives.
    return place.daemon_pid(folder / "croupier-private") or 0


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.fixture
def undisturbed(tmp_path_factory: Any, monkeypatch: Any) -> Iterator[dict[str, list[int]]]:
    folder = tmp_path_factory.mktemp("undisturbed")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    engine = Engine(folder)
    yield texts(engine)
    engine.close()


class Kind(NamedTuple):
    engine: Callable[..., Engine]
    tokens: int
    """So many does a step bring a request, or fewer."""


@pytest.fixture(params=["plain", "with drafts"])
def kind(request: Any, undisturbed: dict[str, list[int]]) -> Kind:
    if request.param == "plain":
        return Kind(Engine, 1)
    if not compat.current().speculates:
        pytest.skip("Croupier does not speculate with this vLLM")
    from host_speculation import DRAFTS, NGRAM, SpeculatingExecutor, mixed

    streams = {int(name): [int(name), int(name) + 1, *stream] for name, stream in undisturbed.items()}

    def speculating(folder: Path, **given: Any) -> Engine:
        engine = Engine(folder, executor=SpeculatingExecutor, speculative_config=NGRAM, **given)
        engine.executor.drafter = mixed(lambda tokens: streams[tokens[0]])
        return engine

    return Kind(speculating, 1 + DRAFTS)


def test_a_private_daemon_that_is_killed_is_started_again(
    undisturbed: dict[str, list[int]], tmp_path: Path, monkeypatch: Any, kind: Kind
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    engine = kind.engine(tmp_path)
    killed: list[int] = []

    def kill(turn: int) -> None:
        if turn % (12 // kind.tokens) != 1 or len(killed) >= 5:
            return
        # Not while it still starts: another death, then.
        eventually(lambda: daemon_pid(tmp_path) not in (0, *killed))
        killed.append(daemon_pid(tmp_path))
        os.kill(killed[-1], signal.SIGKILL)

    assert texts(engine, kill) == undisturbed
    assert len(set(killed)) == 5
    eventually(lambda: daemon_pid(tmp_path) not in (0, *killed))
    engine.close()


def test_samplers_and_stand_in_that_are_killed_cost_no_token(
    undisturbed: dict[str, list[int]], tmp_path: Path, monkeypatch: Any, kind: Kind
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    engine = kind.engine(tmp_path)
    stand_ins = {engine.executor.croupier_keeper._process.pid}

    def kill(turn: int) -> None:
        if turn % 4 == 1:
            for sampler in children(daemon_pid(tmp_path)):
                os.kill(sampler, signal.SIGKILL)
        if turn % (20 // kind.tokens) == 2:
            before = engine.executor.croupier_keeper._process.pid
            os.kill(before, signal.SIGKILL)
            eventually(lambda: engine.executor.croupier_keeper._process.pid != before)
            stand_ins.add(engine.executor.croupier_keeper._process.pid)

    assert texts(engine, kill) == undisturbed
    assert len(stand_ins) >= 3
    engine.close()


def test_a_daemon_that_stays_dead_is_stood_in_for(
    undisturbed: dict[str, list[int]], tmp_path: Path, monkeypatch: Any, kind: Kind
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    shm = f"/dev/shm/croupier-test-{os.getpid()}-dead"
    # Not of the plugin: nobody starts it again.
    config = tmp_path / "croupierd.yaml"
    options = Options(samplers=1, shm_dir=shm)
    config.write_text(configuration(options, tmp_path, Names.fresh(options)))
    daemon = subprocess.Popen([find_croupierd(), "--config", str(config)], start_new_session=True)
    eventually(lambda: (tmp_path / "control.sock").exists())
    engine = kind.engine(tmp_path, croupier={"endpoint": f"ipc://{tmp_path}/control.sock"})

    def kill(turn: int) -> None:
        if turn == 9:
            daemon.kill()
            daemon.wait()

    assert texts(engine, kill) == undisturbed
    assert texts(engine) == undisturbed
    stand_in = engine.executor.croupier_keeper._process
    engine.close()
    assert stand_in.poll() is not None
    shutil.rmtree(shm)  # What nobody is left to remove.


def test_daemons_of_two_engines_are_started_again_once(tmp_path: Path) -> None:
    options = Options(samplers=1, shm_dir=f"/dev/shm/croupier-test-{os.getpid()}-{tmp_path.name}")
    engines = [PrivateDaemon.join(options, tmp_path) for _ in range(2)]
    killed = place.daemon_pid(tmp_path)
    ended = os.pidfd_open(killed)
    os.kill(killed, signal.SIGKILL)
    select.select([ended], [], [])
    os.close(ended)
    watches = [engine.watch() for engine in engines]
    pid = place.daemon_pid(tmp_path)
    assert pid != killed
    assert select.select(watches, [], [], 0) == ([], [], [])
    engines[0].leave()
    assert select.select(watches, [], [], 0) == ([], [], [])
    engines[1].leave()
    for watch in watches:
        assert select.select([watch], [], [], 10)[0]
        os.close(watch)
    assert not Path(options.shm_dir).exists()


def test_what_a_daemon_leaves_that_dies_last_goes_with_the_next_one(tmp_path: Path) -> None:
    options = Options(samplers=1, shm_dir=f"/dev/shm/croupier-test-{os.getpid()}-{tmp_path.name}")
    engine = PrivateDaemon.join(options, tmp_path)
    watch = engine.watch()
    os.kill(place.daemon_pid(tmp_path), signal.SIGKILL)
    select.select([watch], [], [])
    os.close(watch)
    engine.leave()
    # Nobody is left who could remove that: the next engine does.
    PrivateDaemon.join(options, tmp_path).leave()
    eventually(lambda: not Path(options.shm_dir).exists())
