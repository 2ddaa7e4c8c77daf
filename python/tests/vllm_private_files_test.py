"""A private daemon's files are removed with it, whichever process dies first."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from croupier.serving.private_daemon import PrivateDaemon, names_in
from croupier.serving.processes import readable
from croupier.vllm.options import Options
from private_daemons import PROMPT, is_gone, options_of, pid_of
from support import eventually


@pytest.mark.parametrize(
    "dies",
    ["os.kill(os.getpid(), signal.SIGKILL)", "os._exit(0)", "forks(); os.kill(os.getpid(), signal.SIGKILL)"],
)
def test_a_daemon_goes_with_all_its_files_some_seconds_after_the_last_engine(
    tmp_path: Path, dies: str
) -> None:
    directory = tmp_path / "croupier-private"
    does = f"""
import os, pathlib, signal, sys, time
from croupier.vllm.options import Options
from croupier.serving.private_daemon import PrivateDaemon, names_in
def forks():
    child = os.fork()
    if child == 0:
        time.sleep(60)
    print(child, flush=True)
daemon = PrivateDaemon.join(Options(samplers=1), pathlib.Path({str(directory)!r}))
print("joined", flush=True)
sys.stdin.readline()
{dies}
"""
    with subprocess.Popen(
        [sys.executable, "-c", does], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as engine:
        assert engine.stdout.readline() == b"joined\n"
        pid, shm_dir = pid_of(directory), names_in(directory).shm_dir
        ended = os.pidfd_open(pid)
        engine.stdin.write(b"\n")
        engine.stdin.flush()
        assert readable([ended], PROMPT)
        os.close(ended)
        if dies.startswith("forks"):
            os.kill(int(engine.stdout.readline()), signal.SIGKILL)
    assert not directory.exists()
    assert not Path(shm_dir).exists()


def test_what_a_daemon_left_that_was_killed_with_its_engine_goes_with_the_next_one(tmp_path: Path) -> None:
    directory = tmp_path / "croupier-private"
    does = f"""
import pathlib, time
from croupier.vllm.options import Options
from croupier.serving.private_daemon import PrivateDaemon, names_in
daemon = PrivateDaemon.join(Options(samplers=1), pathlib.Path({str(directory)!r}))
print("joined", flush=True)
time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", does], stdout=subprocess.PIPE) as engine:
        assert engine.stdout.readline() == b"joined\n"
        first = names_in(directory)
        pid = pid_of(directory)
        ended = os.pidfd_open(pid)
        os.kill(pid, signal.SIGSTOP)
        engine.kill()
        os.kill(pid, signal.SIGKILL)
        assert readable([ended], PROMPT)
        os.close(ended)
    assert directory.exists()
    next_one = PrivateDaemon.join(Options(samplers=1), directory)
    second = names_in(directory)
    next_one.leave()
    for names in (first, second):
        eventually(lambda names=names: is_gone(directory, names.shm_dir))
    assert not directory.exists()


def test_an_engine_outlives_its_runtime_folder_and_is_in_no_later_ones_way(tmp_path: Path) -> None:
    directory = tmp_path / "croupier-private"
    first = PrivateDaemon.join(Options(samplers=1), directory)
    before, watch = names_in(directory), first.watch()
    # As at a logout.
    shutil.rmtree(directory)
    os.close(first.watch())
    later = PrivateDaemon.join(Options(samplers=1), directory)
    after = names_in(directory)
    assert after.instance != before.instance
    assert after.shm_dir != before.shm_dir
    first.leave()
    assert readable([watch], PROMPT)
    os.close(watch)
    assert not Path(before.shm_dir).exists()
    # The first daemon has removed nothing of the later one's.
    assert pid_of(directory)
    assert (directory / "croupierd.yaml").exists()
    later.leave()
    eventually(lambda: is_gone(directory, after.shm_dir))


def test_a_daemon_that_dies_after_its_folder_says_that_it_cannot_be_started_again(tmp_path: Path) -> None:
    directory = tmp_path / "croupier-private"
    engine = PrivateDaemon.join(options_of(tmp_path), directory)
    pid = pid_of(directory)
    shutil.rmtree(directory)
    ended = os.pidfd_open(pid)
    os.kill(pid, signal.SIGKILL)
    assert readable([ended], PROMPT)
    os.close(ended)
    with pytest.raises(RuntimeError, match="was removed, as at a logout"):
        engine.watch()
    engine.leave()
    engine.leave()
    shutil.rmtree(options_of(tmp_path).shm_dir)
