"""A croupierd for the engines of one user on one host: the first one starts it, the last one ends it.

Who uses it holds a shared lock on one file, the daemon itself holds another one through a descriptor that it
inherits: the kernel drops both with their processes, whatever ends them.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import time
import zlib
from pathlib import Path
from typing import IO

import croupier

from .options import Options

_START_PATIENCE = 30.0
_STOP_PATIENCE = 30.0
_LOG_TAIL = 2000
# Of the package's unit and its configuration.
_SYSTEM_SOCKET = "/run/croupier/control.sock"


class PrivateDaemon:
    """join() in each engine, leave() when it ends."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._users: IO[bytes] | None = None
        self._process: subprocess.Popen | None = None
        self._shm_dir = ""

    @property
    def endpoint(self) -> str:
        return f"ipc://{self._directory}/control.sock"

    @classmethod
    def join(cls, options: Options, directory: Path | None = None) -> PrivateDaemon:
        daemon = cls(directory or default_directory())
        daemon._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if daemon._directory.stat().st_uid != os.geteuid():
            raise PermissionError(
                f"{daemon._directory} is another user's; remove it, or give the option 'endpoint'"
            )
        with daemon._turn():
            users = daemon._open("users.lock")
            fcntl.flock(users, fcntl.LOCK_SH)
            try:
                os.close(daemon._started(options))
            except BaseException:
                users.close()
                raise
            daemon._users = users
            daemon._shm_dir = shm_dir_of(options)
        return daemon

    def watch(self, options: Options) -> int:
        """A descriptor that is readable when the daemon has ended; one that has ended is started again."""
        with self._turn():
            return self._started(options)

    def _started(self, options: Options) -> int:
        if (ended := self._alive()) is not None:
            return ended
        self._await_samplers()
        return os.pidfd_open(self._start(options).pid)

    def _alive(self) -> int | None:
        """A descriptor that is readable when the daemon has ended; None: it has, or never began."""
        if self._process is not None and self._process.poll() is not None:
            self._process = None
        if not self._lock_is_held():
            return None
        try:
            ended = os.pidfd_open(int((self._directory / "pid").read_text(encoding="utf-8")))
        except ProcessLookupError:
            return None
        if select.select([ended], [], [], 0)[0]:
            os.close(ended)
            return None
        return ended

    def _await_samplers(self) -> None:
        """They have the dead daemon's lock too, and end a moment later."""
        with self._open("daemon.lock") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)

    def leave(self) -> None:
        """Ends the daemon if nobody else uses it; a second call does nothing."""
        users, self._users = self._users, None
        if users is None:
            return
        with self._turn(), users:
            try:
                fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return
            if (ended := self._alive()) is not None:
                self._stop(ended)
            self._await_samplers()
            # What it leaves when it was killed: nobody else uses it, and none is started meanwhile.
            for left in Path(self._shm_dir).glob(f"croupier-{instance_of(self._directory)}[.-]*"):
                left.unlink(missing_ok=True)
            # It stays where another daemon's segments lie in it.
            with contextlib.suppress(OSError):
                os.rmdir(self._shm_dir)

    def _turn(self) -> IO[bytes]:
        """Held while a daemon starts or ends: one engine at a time."""
        turn = self._open("turn.lock")
        fcntl.flock(turn, fcntl.LOCK_EX)
        return turn

    def _open(self, name: str) -> IO[bytes]:
        return open(self._directory / name, "ab")

    def _lock_is_held(self) -> bool:
        with self._open("daemon.lock") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
            return False

    def _start(self, options: Options) -> subprocess.Popen:
        config = self._directory / "croupierd.yaml"
        config.write_text(configuration(options, self._directory), encoding="utf-8")
        notices = self._directory / "notify.sock"
        notices.unlink(missing_ok=True)
        with (
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ready,
            self._open("daemon.lock") as lock,
            open(self._directory / "croupierd.log", "ab" if self._users else "wb") as log,
        ):
            ready.bind(str(notices))
            fcntl.flock(lock, fcntl.LOCK_EX)
            process = subprocess.Popen(
                [find_croupierd(), "--config", str(config)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, "NOTIFY_SOCKET": str(notices)},
                pass_fds=[lock.fileno()],
                start_new_session=True,  # An interrupt at the terminal is the engine's to handle.
            )
            # Whole for who reads it without the turn.
            written = self._directory / "pid.new"
            written.write_text(str(process.pid), encoding="utf-8")
            written.replace(self._directory / "pid")
            self._process = process
            self._await_ready(ready, process)
            return process

    def _await_ready(self, ready: socket.socket, process: subprocess.Popen) -> None:
        """The daemon says READY=1 as it would to systemd; or it ends, which its descriptor tells."""
        deadline = time.monotonic() + _START_PATIENCE
        ended = os.pidfd_open(process.pid)
        try:
            while (left := deadline - time.monotonic()) > 0:
                readable, _, _ = select.select([ready, ended], [], [], left)
                if ready in readable and b"READY=1" in ready.recv(4096).split(b"\n"):
                    return
                if ended in readable:
                    raise RuntimeError(
                        f"croupierd ended at its start with status {process.wait()}:\n{self._log_end()}"
                    )
            process.terminate()
            raise RuntimeError(f"croupierd was not ready within {_START_PATIENCE:g} s:\n{self._log_end()}")
        finally:
            os.close(ended)

    def _stop(self, ended: int) -> None:
        try:
            signal.pidfd_send_signal(ended, signal.SIGTERM)
            if not select.select([ended], [], [], _STOP_PATIENCE)[0]:
                signal.pidfd_send_signal(ended, signal.SIGKILL)
        finally:
            os.close(ended)

    def _log_end(self) -> str:
        return (self._directory / "croupierd.log").read_text(encoding="utf-8", errors="replace")[-_LOG_TAIL:]


def default_directory() -> Path:
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    return Path(runtime, "croupier-vllm") if runtime else Path(f"/tmp/croupier-vllm-{os.geteuid()}")


def find_croupierd() -> str:
    beside = Path(croupier.__file__).parent / "bin" / "croupierd"
    if os.access(beside, os.X_OK):
        return str(beside)
    found = shutil.which("croupierd")
    if found is None:
        raise FileNotFoundError(
            f"there is no croupierd at {beside} nor in PATH; install it, or give the option 'endpoint'"
        )
    return found


def samplers_of(options: Options) -> int:
    """The engine's own processes spin and copy on the other half of the cores."""
    return options.samplers or max(1, len(os.sched_getaffinity(0)) // 2)


def instance_of(directory: Path) -> str:
    """Apart from a daemon of the same user with another runtime directory, whose segments may lie beside."""
    return f"vllm-{os.geteuid()}-{zlib.crc32(os.fsencode(directory)):08x}"


def shm_dir_of(options: Options) -> str:
    return options.shm_dir or f"/dev/shm/croupier-{os.geteuid()}"


def system_endpoint() -> str:
    """Of the daemon that the host's service manager runs, if one listens and lets this user in; else ""."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as control:
            control.connect(_SYSTEM_SOCKET)
    except OSError:
        return ""
    return f"ipc://{_SYSTEM_SOCKET}"


def configuration(options: Options, directory: Path) -> str:
    """The daemon's configuration; JSON is YAML."""
    return json.dumps(
        {
            "instance": instance_of(directory),
            "run_dir": str(directory),
            "shm": {"dir": shm_dir_of(options), "mode": "0600"},
            "samplers": {"count": samplers_of(options)},
            "sessions": {"max_batch": 4096, "max_sequences": 65536, "max_sequence_tokens": 2097152},
            "control": {"endpoint": f"ipc://{directory}/control.sock", "ipc_mode": "0600"},
            "decisions": {"endpoint": f"ipc://{directory}/decisions.sock"},
            "metrics": {"listen": "off"},
        },
        indent=1,
    )
