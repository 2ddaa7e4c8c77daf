"""`vllm serve` as a process: started, waited for, ended; and what it leaves on its host."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .client import Client, ServerGoneError

SHARED_MEMORY = Path("/dev/shm")
# In the environment of a server and of all that it starts.
MARK = "CROUPIER_TRIAL"
# Of vLLM's variables those that a server is given; this repository's other scripts set more of them.
_KEPT = ("VLLM_USE_V2_MODEL_RUNNER", "VLLM_USE_FLASHINFER_SAMPLER", "VLLM_HOST_IP", "VLLM_CPU_KVCACHE_SPACE")


class ServerFailedError(RuntimeError):
    """It ended before it answered, or has not answered in time; with the end of its log."""


def croupier_flags(**options: Any) -> list[str]:
    return ["--additional-config", json.dumps({"croupier": options})]


def environment() -> dict[str, str]:
    """A user's environment with the variables for the plugin and for a host without a network."""
    given = {
        name: value for name, value in os.environ.items() if not name.startswith("VLLM_") or name in _KEPT
    }
    return {
        "VLLM_USE_V2_MODEL_RUNNER": "1",
        **given,
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "PYTHONUNBUFFERED": "1",
        # vLLM gives its processes titles, which else lie over the environment that MARK is looked for in.
        "SPT_NOENV": "1",
    }


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Server:
    """One `vllm serve`. Its log is FOLDER/NAME.log; all that it starts has MARK in its environment."""

    def __init__(
        self, name: str, folder: Path, model: str, more: list[str], variables: dict[str, str] | None = None
    ) -> None:
        self.name, self.log = name, folder / f"{name}.log"
        self.mark = f"{name}-{secrets.token_hex(6)}"
        self.port = free_port()
        self.client = Client(self.port, model)
        self._begun = time.monotonic()
        self.seconds_to_ready = 0.0
        self.before = Host.now()
        command = [sys.executable, "-m", "vllm.entrypoints.cli.main", "serve", model]
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [*command, "--host", "127.0.0.1", "--port", str(self.port), *more],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**environment(), **(variables or {}), MARK: self.mark},
                start_new_session=True,
            )

    def await_ready(self, patience: float) -> float:
        """Seconds from its start to the first answer of /health."""
        deadline = time.monotonic() + patience
        quick = Client(self.port, self.client.model, patience=5)
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise ServerFailedError(f"{self.name} ended with {self.process.returncode}: {self.tail()}")
            with contextlib.suppress(ServerGoneError):
                if quick.get("/health").status == 200:
                    self.seconds_to_ready = round(time.monotonic() - self._begun, 1)
                    return self.seconds_to_ready
            time.sleep(0.2)
        raise ServerFailedError(f"{self.name} is not ready after {patience:.0f} s: {self.tail()}")

    def tail(self, count: int = 1500) -> str:
        """The first line of its log with an error, and the log's end."""
        text = self.log.read_text(errors="replace")
        errors = [line for line in text.splitlines() if "Error" in line and "raise " not in line]
        return (errors[-1][-500:] + " | " if errors else "") + text[-count:]

    def processes(self) -> dict[int, str]:
        """All that has this server's mark or belongs to its session, by their ids, with what they are."""
        return below(self.mark, self.process.pid)

    def signal(self, number: int) -> None:
        """To the server alone, as a supervisor or a shell does it."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process.pid, number)

    def sweep(self) -> list[str]:
        """Ends by SIGKILL what is left of it, and says what that was."""
        left = self.processes()
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(10)
        return sorted(left.values())

    def close(self, patience: float = 10.0) -> None:
        """The way out that is no check: SIGTERM, then SIGKILL of what is left."""
        self.signal(signal.SIGTERM)
        await_true(lambda: not self.processes(), patience)
        self.sweep()


def await_true(true: Callable[[], bool], patience: float, every: float = 0.1) -> float | None:
    """Seconds until it is true; None where it is not in time."""
    begun = time.monotonic()
    while True:
        if true():
            return round(time.monotonic() - begun, 2)
        if time.monotonic() - begun > patience:
            return None
        time.sleep(every)


def below(mark: str, session: int) -> dict[int, str]:
    """Processes that live and have the mark, or are of that session, with their commands."""
    wanted = f"{MARK}={mark}".encode()
    found = {}
    for pid in _pids():
        fields = _read(pid, "stat").rpartition(b")")[2].split()
        ours = len(fields) > 3 and int(fields[3]) == session
        if (ours or wanted in _read(pid, "environ")) and lives(pid):
            found[pid] = command_of(pid)
    return found


def croupiers() -> dict[int, str]:
    """All processes of Croupier's programs on this host: a daemon may have no mark."""
    return {
        pid: command_of(pid)
        for pid in _pids()
        if lives(pid) and _read(pid, "comm").startswith(b"croupier") and pid != os.getpid()
    }


def lives(pid: int) -> bool:
    fields = _read(pid, "stat").rpartition(b")")[2].split()
    return bool(fields) and fields[0] not in (b"Z", b"X")


def command_of(pid: int) -> str:
    words = _read(pid, "cmdline").split(b"\0")
    return b" ".join(words).decode(errors="replace").strip()[:160] or f"[{pid}]"


def _pids() -> list[int]:
    return [int(place.name) for place in Path("/proc").iterdir() if place.name.isdigit()]


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


@dataclass(frozen=True)
class Host:
    """What is on a host at one moment: shared memory's files, folders of private daemons, programs."""

    files: frozenset[str]
    folders: frozenset[str]
    programs: frozenset[int]

    @classmethod
    def now(cls) -> Host:
        places = [Path(os.environ.get("XDG_RUNTIME_DIR") or "/nowhere"), Path("/tmp")]
        return cls(
            frozenset(str(path) for path in SHARED_MEMORY.rglob("*")),
            frozenset(str(path) for place in places for path in place.glob("croupier-private*")),
            frozenset(croupiers()),
        )

    def left_since(self, before: Host, others: dict[int, str]) -> dict[str, list[str]]:
        """What is new since then, except processes of other servers and files that they have open."""
        programs = self.programs - before.programs - set(others)
        return {
            "dev_shm": sorted(
                path
                for path in (self.files - before.files) - files_of(others)
                if maker_of(path) not in others
            ),
            "croupiers": sorted(command_of(pid) for pid in programs),
            "folders": sorted(self.folders - before.folders),
        }


def maker_of(path: str) -> int | None:
    """The process that created a Python semaphore, by its name, which is no longer open."""
    named = re.match(r"sem\.(?:loky|mp)-(\d+)-", Path(path).name)
    return int(named[1]) if named else None


def files_of(pids: dict[int, str]) -> set[str]:
    """Files in shared memory that these processes have open or mapped, and the folders that they lie in."""
    found: set[str] = set()
    for pid in pids:
        maps = _read(pid, "maps").decode(errors="replace")
        paths = [line.split(None, 5)[5].strip() for line in maps.splitlines() if "/dev/shm/" in line]
        for link in _descriptors(pid):
            with contextlib.suppress(OSError):
                paths.append(os.readlink(link))
        for path in paths:
            if path.startswith(f"{SHARED_MEMORY}/"):
                found |= {path, *(str(parent) for parent in Path(path).parents)}
    return found


def _descriptors(pid: int) -> list[Path]:
    try:
        return list(Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return []


def gpu_used_mib() -> int | None:
    """Of all GPUs together; None where there is none."""
    try:
        found = subprocess.run(
            ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"],
            capture_output=True,
            text=True,
            check=True,
            timeout=20,
        )
        return sum(int(line) for line in found.stdout.split())
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
