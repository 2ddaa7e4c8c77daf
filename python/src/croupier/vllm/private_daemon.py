"""A croupierd for the engines of one user on one host: the first one starts it, the last one ends it.

Who uses it holds a shared lock on one file, the daemon itself holds another one through a descriptor that it
inherits: the kernel drops both with their processes, whatever ends them.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import IO

import croupier

from .options import Options

_START_PATIENCE = 30.0
_STOP_PATIENCE = 30.0
_LOG_TAIL = 2000


class PrivateDaemon:
    """join() in each engine, leave() when it ends."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._users: IO[bytes] | None = None

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
                if not daemon._lives():
                    daemon._start(options)
            except BaseException:
                users.close()
                raise
            daemon._users = users
        return daemon

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
            if self._lives():
                self._stop()

    def _turn(self) -> IO[bytes]:
        """Held while a daemon starts or ends: one engine at a time."""
        turn = self._open("turn.lock")
        fcntl.flock(turn, fcntl.LOCK_EX)
        return turn

    def _open(self, name: str) -> IO[bytes]:
        return open(self._directory / name, "ab")

    def _lives(self) -> bool:
        with self._open("daemon.lock") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
            return False

    def _start(self, options: Options) -> None:
        config = self._directory / "croupierd.yaml"
        config.write_text(configuration(options, self._directory), encoding="utf-8")
        notices = self._directory / "notify.sock"
        notices.unlink(missing_ok=True)
        with (
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ready,
            self._open("daemon.lock") as lock,
            open(self._directory / "croupierd.log", "wb") as log,
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
            (self._directory / "pid").write_text(str(process.pid), encoding="utf-8")
            self._await_ready(ready, process)

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

    def _stop(self) -> None:
        ended = os.pidfd_open(int((self._directory / "pid").read_text(encoding="utf-8")))
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


def configuration(options: Options, directory: Path) -> str:
    """The daemon's configuration; JSON is YAML."""
    instance = f"vllm-{os.geteuid()}"
    cores = len(os.sched_getaffinity(0))
    return json.dumps(
        {
            "instance": instance,
            "run_dir": str(directory),
            "shm": {"dir": options.shm_dir or f"/dev/shm/croupier-{os.geteuid()}", "mode": "0600"},
            # The engine's own processes spin and copy on the other half.
            "samplers": {"count": options.samplers or max(1, cores // 2)},
            "sessions": {"max_batch": 4096, "max_sequences": 65536, "max_sequence_tokens": 2097152},
            "control": {"endpoint": f"ipc://{directory}/control.sock", "ipc_mode": "0600"},
            "decisions": {"endpoint": f"ipc://{directory}/decisions.sock"},
            "metrics": {"listen": "off"},
        },
        indent=1,
    )
