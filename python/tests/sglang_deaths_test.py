"""Samplers, daemon, stand-in and SGLang's own processes die while SGLang's engine decodes on the CPU.

The streams are those of an undisturbed run, or the engine ends as SGLang does and nothing is left of it.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sglang")

from sglang_engines import prompts  # noqa: E402

from croupier.serving.place import daemon_pid  # noqa: E402
from croupier.serving.private_daemon import find_croupierd, names_in  # noqa: E402
from croupier.serving.processes import readable  # noqa: E402
from support import Daemon, die_with_parent  # noqa: E402

PROBE = Path(__file__).with_name("sglang_streams_probe.py")
# SGLang imports for a minute on a busy machine.
START_PATIENCE = 300.0
PATIENCE = 60.0
SAMPLERS = 2
REQUESTS, TOKENS = 32, 360
TOTAL = REQUESTS * TOKENS
KINDS: list[dict[str, Any]] = [
    {"temperature": 0.0},
    {"temperature": 0.9, "top_p": 0.9},
    {"temperature": 0.7, "repetition_penalty": 1.2, "presence_penalty": 0.2, "frequency_penalty": 0.1},
    {"temperature": 1.0, "min_p": 0.05},
    {"temperature": 0.8, "custom_params": {"dry_multiplier": 0.8, "xtc_probability": 0.5}},
    {"temperature": 1.0, "custom_params": {"mirostat": 2}},
    {"temperature": 1.0, "logit_bias": {"77": 3.0}},
    {"temperature": 0.9, "top_k": 40, "custom_params": {"logprob_mode": "raw"}},
]
WITH_LOGPROBS = (6, 7)
CALL = {
    "input_ids": prompts(REQUESTS),
    "sampling_params": [
        {"ignore_eos": True, "max_new_tokens": TOKENS, "sampling_seed": at, **KINDS[at % len(KINDS)]}
        for at in range(REQUESTS)
    ],
    "return_logprob": [at % len(KINDS) in WITH_LOGPROBS for at in range(REQUESTS)],
    "top_logprobs_num": [3 if at % len(KINDS) in WITH_LOGPROBS else 0 for at in range(REQUESTS)],
}
# What a stand-in says.
BEGAN, GAVE_BACK = "its daemon is gone", "a daemon is back and decides again"


def eventually(holds: Callable[[], bool], what: str) -> None:
    """Waits for a state that other processes reach without announcing it."""
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, f"after {PATIENCE:g} s it is not so: {what}"
        time.sleep(0.002)


def children(pid: int) -> set[int]:
    return {int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}


def arguments(pid: int) -> list[str]:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    return []


def kill(pid: int) -> None:
    """When it returns, the process has ended."""
    ended = os.pidfd_open(pid)
    os.kill(pid, signal.SIGKILL)
    told = readable([ended], PATIENCE)
    os.close(ended)
    assert told, f"process {pid} has not ended {PATIENCE:g} s after SIGKILL"


class PrivateDaemon:
    """Started by the engine's own process, and again by that."""

    def __init__(self, folder: Path) -> None:
        self._place = folder / "croupier-private"
        self.options: dict[str, Any] = {"private": True, "samplers": SAMPLERS}
        self._killed = 0

    @property
    def pid(self) -> int:
        return daemon_pid(self._place) or 0

    @property
    def shm_folder(self) -> Path:
        return Path(names_in(self._place).shm_dir)

    def kill(self) -> None:
        self._killed = self.pid
        kill(self._killed)

    def revive(self, _engine: Engine) -> None:
        eventually(lambda: self.pid not in (0, self._killed), "the private daemon is started again")

    def is_as_before(self, shm_folder: Path, _files: set[str]) -> bool:
        return not shm_folder.exists() and not self._place.exists()

    def end(self) -> None:
        """It ends by itself."""


class SharedDaemon:
    """Started before the engine. Only the test starts it again."""

    def __init__(self, folder: Path) -> None:
        (folder / "daemon").mkdir()
        name = "sglang-" + uuid.uuid4().hex[:12]
        self._daemon = Daemon(Path(find_croupierd()), folder / "daemon", name)
        self._daemon.start()
        self.options: dict[str, Any] = {"endpoint": self._daemon.endpoint, "samplers": SAMPLERS}
        self.shm_folder = self._daemon.shm_folder

    @property
    def pid(self) -> int:
        return self._daemon.process.pid

    def kill(self) -> None:
        self._daemon.end(signal.SIGKILL)

    def revive(self, engine: Engine) -> None:
        eventually(lambda: engine.count(BEGAN) > engine.began, "the stand-in decides")
        before = engine.count(GAVE_BACK)
        self._daemon.start()
        eventually(lambda: engine.count(GAVE_BACK) > before, "the stand-in has given the session back")

    def is_as_before(self, shm_folder: Path, files: set[str]) -> bool:
        return self._daemon.process.poll() is None and files_of(shm_folder) == files

    def end(self) -> None:
        self._daemon.end(signal.SIGTERM)
        shutil.rmtree(self.shm_folder, ignore_errors=True)


def files_of(folder: Path) -> set[str]:
    return {file.name for file in folder.glob("*")}


class Engine:
    """SGLang's, in processes of its own; its tokens are counted as they come."""

    undisturbed: list[Any]
    began = 0
    """How many stand-ins had begun to decide when the daemon or a stand-in was killed last."""

    def __init__(self, folder: Path, daemon: PrivateDaemon | SharedDaemon | None) -> None:
        self.folder, self.daemon = folder, daemon
        self._files = files_of(daemon.shm_folder) if isinstance(daemon, SharedDaemon) else set()
        with open(folder / "engine.log", "wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, PROBE, folder],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, "XDG_RUNTIME_DIR": str(folder)},
                start_new_session=True,
                preexec_fn=die_with_parent,
            )
        self._unread = b""
        self._moments = random.Random(str(folder.name))
        self._say({"options": None if daemon is None else daemon.options, "flags": {}})
        self._expect("READY", START_PATIENCE)

    def log(self) -> str:
        return (self.folder / "engine.log").read_text(errors="replace")

    def count(self, said: str) -> int:
        return self.log().count(said)

    def _say(self, what: Any) -> None:
        self.process.stdin.write(json.dumps(what).encode() + b"\n")
        self.process.stdin.flush()

    def _line(self, patience: float) -> str:
        pipe = self.process.stdout.fileno()
        while b"\n" not in self._unread:
            read = os.read(pipe, 1 << 16) if readable([pipe], patience) else b""
            assert read, f"the engine has ended or was silent for {patience:g} s:\n{self.log()[-6000:]}"
            self._unread += read
        line, _, self._unread = self._unread.partition(b"\n")
        return line.decode()

    def _expect(self, word: str, patience: float = PATIENCE) -> str:
        """What follows the word in the next line that begins with it."""
        while not (line := self._line(patience)).startswith(word):
            pass
        return line.removeprefix(word)

    def begin(self, tokens: int) -> None:
        """Streams, and returns as soon as there are so many tokens."""
        self._say(CALL)
        while int(self._expect("TOKENS ")) < tokens:
            pass

    def stream(self, *events: Callable[[], None]) -> list[Any]:
        """The answers. The events come in their order, each at a random moment while tokens flow."""
        part = 0.8 * TOTAL / max(1, len(events))
        due = [int(part * (at + self._moments.random())) for at in range(len(events))]
        waiting = list(zip(due, events, strict=True))
        self._say(CALL)
        while True:
            line = self._line(PATIENCE)
            if line.startswith("ANSWERS "):
                assert not waiting, "the streams ended before all events had come"
                return json.loads(line.removeprefix("ANSWERS "))
            if waiting and line.startswith("TOKENS ") and int(line.split()[1]) >= waiting[0][0]:
                waiting.pop(0)[1]()

    def processes(self) -> list[int]:
        """All that have its environment: those that it started, and those that these did."""
        mark, found = f"XDG_RUNTIME_DIR={self.folder}".encode(), []
        for process in Path("/proc").glob("[0-9]*"):
            # Processes end meanwhile.
            with contextlib.suppress(OSError):
                if mark in (process / "environ").read_bytes().split(b"\0"):
                    found.append(int(process.name))
        return found

    def scheduler(self) -> int:
        """SGLang writes its processes' titles over their environments."""
        own = children(self.process.pid)
        [found] = [pid for pid in own if arguments(pid)[0].startswith("sglang::scheduler")]
        return found

    def stand_in(self) -> int:
        """0 while none lives. Its samplers have its arguments, and are in its session."""
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                if "--stand-in-fd" in arguments(pid) and os.getsid(pid) == pid:
                    return pid
        return 0

    def kill_daemon(self) -> None:
        self.began = self.count(BEGAN)
        self.daemon.kill()

    def kill_stand_in(self) -> None:
        before = self.stand_in()
        kill(before)
        self.began = self.count(BEGAN)
        eventually(lambda: self.stand_in() not in (0, before), "the stand-in is started again")

    def kill_samplers(self, count: int) -> None:
        daemon = self.daemon.pid
        victims = set(self._moments.sample(sorted(children(daemon)), count))
        for victim in victims:
            kill(victim)
        eventually(
            lambda: len(children(daemon) - victims) == SAMPLERS, f"the daemon has {SAMPLERS} samplers again"
        )

    def revive(self) -> None:
        self.daemon.revive(self)

    def leaves_nothing(self, end: Callable[[], int]) -> int:
        """What `end` returns, when all is gone that the engine had."""
        shm_folder = None if self.daemon is None else self.daemon.shm_folder
        lives = [os.pidfd_open(pid) for pid in {*self.processes(), *children(self.process.pid)}]
        status = end()
        for ended in lives:
            # A private daemon and its samplers end some seconds later.
            assert readable([ended], PATIENCE), f"not ended: {[arguments(pid) for pid in self.processes()]}"
            os.close(ended)
        eventually(lambda: not self.processes(), "no process of the engine is left")
        if self.daemon is not None:
            eventually(
                lambda: self.daemon.is_as_before(shm_folder, self._files), "no file of the engine is left"
            )
        own = [line for line in Path("/proc/net/unix").read_text().splitlines() if str(self.folder) in line]
        assert not [line for line in own if str(self.folder / "daemon") not in line]
        return status

    def close(self) -> int:
        self.process.stdin.close()
        return self.process.wait(PATIENCE)


DAEMONS = {"native": lambda _: None, "private": PrivateDaemon, "shared": SharedDaemon}


@contextlib.contextmanager
def started(kind: str, folder: Path) -> Iterator[Engine]:
    daemon = DAEMONS[kind](folder)
    try:
        engine = Engine(folder, daemon)
        try:
            yield engine
        finally:
            engine.process.kill()
            engine.process.wait()
            engine.process.stdout.close()
    finally:
        if daemon is not None:
            daemon.end()


@pytest.fixture(scope="module", params=["private", "shared"])
def engine(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with started(request.param, tmp_path_factory.mktemp(request.param)) as made:
        made.undisturbed = made.stream()
        assert [len(answer["ids"]) for answer in made.undisturbed] == [TOKENS] * REQUESTS
        yield made
        assert made.leaves_nothing(made.close) == 0


def test_a_sampler_that_is_killed_costs_no_token(engine: Engine) -> None:
    assert engine.stream(*[lambda: engine.kill_samplers(1)] * 6) == engine.undisturbed


def test_all_samplers_that_are_killed_cost_no_token(engine: Engine) -> None:
    assert engine.stream(*[lambda: engine.kill_samplers(SAMPLERS)] * 4) == engine.undisturbed


def test_a_daemon_that_is_killed_costs_no_token(engine: Engine) -> None:
    assert engine.stream(*[engine.kill_daemon, engine.revive] * 3) == engine.undisturbed


def test_a_daemon_and_its_stand_in_that_are_killed_cost_no_token(engine: Engine) -> None:
    def kill_both() -> None:
        engine.kill_daemon()
        engine.kill_stand_in()

    began = engine.count(BEGAN)
    answers = engine.stream(
        engine.kill_daemon,
        engine.kill_stand_in,
        engine.revive,
        kill_both,
        engine.revive,
        engine.kill_stand_in,
    )
    assert answers == engine.undisturbed
    if isinstance(engine.daemon, SharedDaemon):
        assert engine.count(BEGAN) - began >= 3


@pytest.mark.parametrize(
    ("victim", "kind"),
    [
        ("scheduler", "native"),
        ("scheduler", "private"),
        ("scheduler", "shared"),
        ("engine", "private"),
        ("engine", "shared"),
    ],
)
def test_an_engine_that_loses_a_process_ends_as_sglangs_and_leaves_nothing(
    tmp_path: Path, victim: str, kind: str
) -> None:
    with started(kind, tmp_path) as engine:
        engine.begin(TOTAL // 3)

        def end() -> int:
            kill(engine.scheduler() if victim == "scheduler" else engine.process.pid)
            return engine.process.wait(PATIENCE)

        # SGLang ends all its processes by SIGKILL, its first one last.
        assert engine.leaves_nothing(end) == -signal.SIGKILL
