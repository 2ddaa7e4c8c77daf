"""A daemon that engines of one user start and share: who begins it, who ends it, who may have it."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from croupier import Params, Session, Writer
from croupier.serving import place, private_daemon
from croupier.serving.place import Byte, Place, default_directory
from croupier.serving.private_daemon import Names, PrivateDaemon, configuration, names_in
from croupier.serving.processes import readable
from croupier.vllm.options import Options
from private_daemons import PROMPT, is_gone, options_of, pid_of
from support import PATIENCE, eventually


def kill_daemon(tmp_path: Path) -> None:
    ended = os.pidfd_open(pid_of(tmp_path))
    os.kill(pid_of(tmp_path), signal.SIGKILL)
    readable([ended], None)
    os.close(ended)


@contextlib.contextmanager
def engine_process(tmp_path: Path, before: str = "") -> Iterator[subprocess.Popen]:
    """An engine of its own, which ends when it is killed, and prints a line when it has its daemon."""
    does = f"""
import os, pathlib, signal, sys, time
from croupier.serving.keeper import Keeper
from croupier.vllm.options import Options
from croupier.serving.private_daemon import PrivateDaemon
{before}
options = Options(samplers=1, shm_dir={options_of(tmp_path).shm_dir!r}, stand_in=False)
daemon = PrivateDaemon.join(options, pathlib.Path({str(tmp_path)!r}))
keeper = Keeper("segment", options, daemon, print)
print("joined", flush=True)
time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", does], stdout=subprocess.PIPE) as engine:
        try:
            yield engine
        finally:
            engine.kill()


def tree_of(pid: int) -> list[int]:
    """What vLLM kills with an engine core that takes too long to end: psutil's children(recursive=True)."""
    children = Path(f"/proc/{pid}/task").glob("*/children")
    own = [int(child) for listed in children for child in listed.read_text().split()]
    return [found for child in own for found in (child, *tree_of(child))]


@pytest.fixture
def no_more_children() -> Callable[[], bool]:
    """Other tests may have left this process some."""
    before = set(tree_of(os.getpid()))
    return lambda: set(tree_of(os.getpid())) <= before


def state_of(pid: int) -> str:
    """The kernel's letter for it; none if there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return ""


def test_a_daemon_is_started_again_as_the_first_engine_asked_for_it(tmp_path: Path) -> None:
    first, second = options_of(tmp_path), options_of(tmp_path, "-second")
    engines = [PrivateDaemon.join(first, tmp_path), PrivateDaemon.join(second, tmp_path)]
    asked = (tmp_path / "croupierd.yaml").read_bytes()
    assert asked.decode() == configuration(first, tmp_path, names_in(tmp_path))
    kill_daemon(tmp_path)
    watch = engines[1].watch()
    assert watch is not None
    os.close(watch)
    kill_daemon(tmp_path)
    third = PrivateDaemon.join(second, tmp_path)
    assert (tmp_path / "croupierd.yaml").read_bytes() == asked
    assert Path(first.shm_dir).exists()
    for engine in (engines[0], engines[1], third):
        engine.leave()
    assert not Path(second.shm_dir).exists()
    # Nobody is left: the next one is the first again, though the daemon has not ended yet.
    last = PrivateDaemon.join(second, tmp_path)
    assert not Path(first.shm_dir).exists()
    assert (tmp_path / "croupierd.yaml").read_text() == configuration(second, tmp_path, names_in(tmp_path))
    last.leave()
    eventually(lambda: is_gone(tmp_path, second.shm_dir))


def test_an_engine_that_is_killed_with_all_its_children_leaves_others_their_daemon(
    tmp_path: Path,
) -> None:
    with engine_process(tmp_path) as first:
        assert first.stdout.readline() == b"joined\n"
        pid = pid_of(tmp_path)
        second = PrivateDaemon.join(options_of(tmp_path), tmp_path)
        assert pid_of(tmp_path) == pid
        with Session(
            endpoint=second.endpoint, name="second", vocab=64, dtype="fp32", max_length=16
        ) as session:
            writer = Writer(session.segment_path)
            session.add(1, [1], params=Params(temperature=0.0))

            def decided() -> list[int]:
                step = session.submit([1])
                assert writer.begin(step)
                writer.enqueue(np.eye(64, dtype=np.float32)[[7]])
                return session.wait(PATIENCE).tokens.tolist()

            assert decided() == [7]
            for child in tree_of(first.pid):
                os.kill(child, signal.SIGKILL)
            first.kill()
            first.wait()
            for _ in range(5):
                assert decided() == [7]
            writer.detach()
        watch = second.watch()
        assert pid_of(tmp_path) == pid
        assert not readable([watch], 0)
        second.leave()
        assert readable([watch], PROMPT)
        os.close(watch)
        eventually(lambda: state_of(pid) == "")
        assert is_gone(tmp_path, options_of(tmp_path).shm_dir)


def test_engines_that_come_and_go_at_once_leave_nothing(tmp_path: Path) -> None:
    does = f"""
import pathlib, random, time
from croupier.vllm.options import Options
from croupier.serving.private_daemon import PrivateDaemon
options = Options(samplers=1, shm_dir={options_of(tmp_path).shm_dir!r})
for _ in range(3):
    daemon = PrivateDaemon.join(options, pathlib.Path({str(tmp_path)!r}))
    time.sleep(random.uniform(0, 4))
    daemon.leave()
    time.sleep(random.uniform(0, 4))
"""
    engines = [subprocess.Popen([sys.executable, "-c", does]) for _ in range(4)]
    assert [engine.wait(120) for engine in engines] == [0] * len(engines)
    eventually(lambda: is_gone(tmp_path, options_of(tmp_path).shm_dir))


def test_names_that_others_could_take_beforehand_are_not_used(tmp_path: Path, monkeypatch: Any) -> None:
    assert len({Names.fresh(Options()).shm_dir for _ in range(3)}) == 3
    # Of a croupierd that the user starts, which would take it for its own.
    assert not Names.fresh(Options()).shm_dir.startswith(f"/dev/shm/croupier-{os.geteuid()}")
    monkeypatch.setattr(place, "_FALLBACK", tmp_path)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "gone-at-logout"))
    user = os.geteuid()
    assert default_directory() == tmp_path / f"croupier-private-{user}"
    # A folder of one's own in which others may write, as `su` may leave another user's.
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "open"))
    assert default_directory() == tmp_path / f"croupier-private-{user}"
    if user != 0:
        pytest.skip("only root can make a folder another user's")
    for taken in (f"croupier-private-{user}", f"croupier-private-{user}-1"):
        (tmp_path / taken).mkdir()
        os.chown(tmp_path / taken, 65534, 65534)
    (tmp_path / "theirs").mkdir(0o700)
    os.chown(tmp_path / "theirs", 65534, 65534)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "theirs"))
    engine = PrivateDaemon.join(options_of(tmp_path))
    assert default_directory() == tmp_path / f"croupier-private-{user}-2"
    assert pid_of(default_directory())
    engine.leave()
    eventually(lambda: is_gone(tmp_path / f"croupier-private-{user}-2", options_of(tmp_path).shm_dir))


def test_a_port_for_metrics_is_served_and_told(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    asked = replace(options_of(tmp_path), metrics_port=port)
    engine = PrivateDaemon.join(asked, tmp_path)
    assert engine.metrics_url == f"http://127.0.0.1:{port}/metrics"
    with urllib.request.urlopen(engine.metrics_url) as page:
        assert b"croupier_" in page.read()
    engine.leave()


def test_a_daemon_that_a_killed_engine_left_serves_only_who_asks_for_such_a_one(
    tmp_path: Path, monkeypatch: Any
) -> None:
    def left() -> int:
        with engine_process(tmp_path) as engine:
            assert engine.stdout.readline() == b"joined\n"
        return pid_of(tmp_path)

    pid = left()
    engine = PrivateDaemon.join(options_of(tmp_path), tmp_path)
    assert pid_of(tmp_path) == pid
    engine.leave()
    # Another place for segments; and another program, as after an installation of another version: the one
    # that serves nobody ends, and another one is started.
    pid, other = left(), options_of(tmp_path, "-other")
    engine = PrivateDaemon.join(other, tmp_path)
    assert pid_of(tmp_path) != pid
    assert (tmp_path / "croupierd.yaml").read_text() == configuration(other, tmp_path, names_in(tmp_path))
    assert Path(other.shm_dir).exists()
    assert not Path(options_of(tmp_path).shm_dir).exists()
    # Nobody's who is not alone.
    pid = pid_of(tmp_path)
    second = PrivateDaemon.join(options_of(tmp_path), tmp_path)
    assert pid_of(tmp_path) == pid
    engine.leave()
    second.leave()
    pid, program = left(), tmp_path / "croupierd"
    program.write_text(f'#!/bin/sh\nexec {private_daemon.find_croupierd()} "$@"\n')
    program.chmod(0o700)
    monkeypatch.setattr(private_daemon, "find_croupierd", lambda: str(program))
    engine = PrivateDaemon.join(options_of(tmp_path), tmp_path)
    assert pid_of(tmp_path) != pid
    engine.leave()
    eventually(lambda: is_gone(tmp_path, options_of(tmp_path).shm_dir))


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({}, 48),
        ({"cgroup": "0::/\n", "cpu.max": "max 100000\n"}, 48),
        ({"cgroup": "0::/\n", "cpu.max": "1600000 100000\n"}, 12),
        ({"cgroup": "0::/a/b\n", "a/cpu.max": "1000000 100000\n", "a/b/cpu.max": "max 100000\n"}, 7),
        # The host's path, as within a container.
        ({"cgroup": "0::/not/here\n", "cpu.max": "50000 100000\n"}, 1),
        (
            {
                "cgroup": "3:cpu,cpuacct:/\n",
                "cpu/cpu.cfs_quota_us": "400000",
                "cpu/cpu.cfs_period_us": "100000",
            },
            3,
        ),
        ({"cgroup": "3:cpu:/\n", "cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 48),
    ],
)
def test_three_quarters_of_the_cores_that_the_control_group_may_use_are_samplers(
    tmp_path: Path, monkeypatch: Any, files: dict[str, str], cores: int
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)))
    monkeypatch.setattr(private_daemon, "_CGROUPS", tmp_path)
    monkeypatch.setattr(private_daemon, "_OWN_CGROUPS", tmp_path / "cgroup")
    assert private_daemon.samplers_of(Options()) == cores
    assert private_daemon.samplers_of(Options(samplers=7)) == 7


def test_a_large_host_has_no_more_samplers_than_a_daemon_takes(monkeypatch: Any) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(768)))
    monkeypatch.setattr(private_daemon, "_OWN_CGROUPS", Path("/nonexistent"))
    assert private_daemon.samplers_of(Options()) == 256


@pytest.mark.parametrize(
    ("cores", "engines", "samplers"),
    [(2, 1, 1), (4, 1, 3), (8, 1, 4), (16, 1, 5), (128, 1, 12), (192, 4, 48), (32, 4, 10)],
)
def test_lean_steps_have_a_third_of_the_cores_and_a_dozen_samplers_an_engine_at_the_most(
    monkeypatch: Any, cores: int, engines: int, samplers: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)))
    monkeypatch.setattr(private_daemon, "_OWN_CGROUPS", Path("/nonexistent"))
    assert private_daemon.lean_samplers_of(Options(), engines) == samplers
    assert private_daemon.lean_samplers_of(Options(samplers=20), engines) == 20


def test_an_engine_that_dies_while_it_starts_a_daemon_is_in_nobodys_way(tmp_path: Path) -> None:
    dies = "os.kill(os.getpid(), signal.SIGKILL)"
    for before in (
        f"from croupier.serving.processes import Detached; Detached.go = lambda *_: {dies}",
        f"PrivateDaemon._await_ready = lambda *_: {dies}",
    ):
        with engine_process(tmp_path, before) as engine:
            assert engine.wait(PATIENCE) == -signal.SIGKILL
        PrivateDaemon.join(options_of(tmp_path), tmp_path).leave()
        eventually(lambda: is_gone(tmp_path, options_of(tmp_path).shm_dir))


def test_a_daemon_has_what_it_would_have_from_a_service_manager(
    tmp_path: Path, no_more_children: Any
) -> None:
    # As nohup leaves it.
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        engine = PrivateDaemon.join(options_of(tmp_path), tmp_path)
    finally:
        signal.signal(signal.SIGHUP, before)
    pid = pid_of(tmp_path)
    status = dict(
        line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line
    )
    assert int(status["PPid"]) != os.getpid()
    assert os.getsid(pid) == pid
    # Its own: a reader of its log may go, and a file may reach its limit.
    ignored = {bit + 1 for bit in range(64) if int(status["SigIgn"], 16) >> bit & 1}
    assert ignored == {signal.SIGPIPE, signal.SIGXFSZ}
    opened = {link.name: os.readlink(link) for link in Path(f"/proc/{pid}/fd").iterdir()}
    assert opened["0"] == "/dev/null"
    assert opened["1"] == opened["2"] == str(tmp_path / "croupierd.log")
    assert [name for name in opened.values() if name.startswith(str(tmp_path))].count(
        str(tmp_path / "engines.lock")
    ) == 1
    assert no_more_children()
    engine.leave()


@pytest.mark.parametrize(
    ("does", "said"),
    [
        ("echo no room >&2; exit 3", r"ended at its start with status 3:\nno room"),
        ("kill -SEGV $$", r"ended at its start with status 139"),
        (None, r"Permission denied"),
    ],
    ids=["exit", "signal", "no program"],
)
def test_a_daemon_that_does_not_start_is_told_with_its_last_words(
    tmp_path: Path, monkeypatch: Any, no_more_children: Any, does: str | None, said: str
) -> None:
    program = tmp_path / "croupierd"
    program.write_text(f"#!/bin/sh\n{does}\n")
    program.chmod(0o700 if does else 0o600)
    monkeypatch.setattr(private_daemon, "find_croupierd", lambda: str(program))
    with pytest.raises(RuntimeError, match=said):
        PrivateDaemon.join(options_of(tmp_path), tmp_path)
    assert no_more_children()
    monkeypatch.undo()
    PrivateDaemon.join(options_of(tmp_path), tmp_path).leave()


def test_an_interrupted_start_leaves_nothing(tmp_path: Path, monkeypatch: Any, no_more_children: Any) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    for where in ("_configure", "_await_ready"):
        monkeypatch.setattr(PrivateDaemon, where, interrupted)
        with pytest.raises(KeyboardInterrupt):
            PrivateDaemon.join(options_of(tmp_path), tmp_path)
        monkeypatch.undo()
        assert no_more_children()
        engine = PrivateDaemon.join(options_of(tmp_path), tmp_path)
        engine.leave()
        eventually(lambda: is_gone(tmp_path, options_of(tmp_path).shm_dir))


def test_an_engine_that_has_left_starts_no_daemon(tmp_path: Path) -> None:
    engine = PrivateDaemon.join(options_of(tmp_path), tmp_path)
    engine.leave()
    assert engine.watch() is None
    eventually(lambda: is_gone(tmp_path, options_of(tmp_path).shm_dir))
    assert engine.watch() is None


def test_who_has_no_turn_looks_after_the_daemon_later(tmp_path: Path) -> None:
    engine = PrivateDaemon.join(options_of(tmp_path), tmp_path)
    with engine._place.turn():
        assert engine.watch() is None
    engine.leave()


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("link", "is a link"),
        ("dangling", "is a link"),
        ("file", "is no directory"),
        ("open", r"is writable by others \(mode 0770\)"),
        ("theirs", rf"is user {os.geteuid()}'s"),
    ],
)
def test_a_directory_that_is_not_this_users_alone_is_refused(
    tmp_path: Path, monkeypatch: Any, kind: str, said: str
) -> None:
    directory, target = tmp_path / "croupier-private", tmp_path / "target"
    if kind in ("link", "dangling"):
        directory.symlink_to(target)
        if kind == "link":
            target.mkdir(mode=0o700)
    elif kind == "file":
        directory.touch()
    else:
        directory.mkdir()
        directory.chmod(0o770 if kind == "open" else 0o700)
    if kind == "theirs":
        user = os.geteuid() + 1
        monkeypatch.setattr(os, "geteuid", lambda: user)
    with pytest.raises(PermissionError, match=rf"croupier-private {said}; .* would be right"):
        PrivateDaemon.join(options_of(tmp_path), directory)
    assert not target.exists() or not list(target.iterdir())


def test_a_daemon_of_another_container_is_used_and_not_watched(tmp_path: Path, monkeypatch: Any) -> None:
    with engine_process(tmp_path) as here:
        assert here.stdout.readline() == b"joined\n"
        holder = Place.holder

        def seen_from_there(self: Place, byte: Byte) -> int | None:
            """The number is nobody's there, or another process's: the kernel gives none."""
            return None if holder(self, byte) is None else 0

        monkeypatch.setattr(Place, "holder", seen_from_there)
        there = PrivateDaemon.join(options_of(tmp_path), tmp_path)
        assert there.watch() is None
    monkeypatch.undo()
    assert pid_of(tmp_path)
    there.leave()
    eventually(lambda: is_gone(tmp_path, options_of(tmp_path).shm_dir))
