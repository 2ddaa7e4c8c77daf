"""A croupierd for the engines of one user on one host: the first one starts it, the last one ends it.

Who uses it holds a shared lock on one file, the daemon itself holds another one through a descriptor that it
inherits: the kernel drops both with their processes, whatever ends them. What an engine holds itself it
releases by name: a child that it forked has the same descriptors, and may live on.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import socket
import stat
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import croupier

from .options import Options
from .processes import Detached, readable, stop

_START_PATIENCE = 30.0
_STOP_PATIENCE = 30.0
_SAMPLERS_PATIENCE = 10.0
_LOG_TAIL = 2000
_MOST_LEAN_SAMPLERS = 12
# Of `samplers.count`.
_MOST_SAMPLERS = 256
_CGROUPS = Path("/sys/fs/cgroup")
_OWN_CGROUPS = Path("/proc/self/cgroup")
# Of the package's unit and its configuration.
_SYSTEM_SOCKET = "/run/croupier/control.sock"


class PrivateDaemon:
    """join() in each engine, leave() when it ends."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._users: IO[bytes] | None = None
        self._shm_dir = ""

    @property
    def endpoint(self) -> str:
        return f"ipc://{self._directory}/control.sock"

    @classmethod
    def join(cls, options: Options, directory: Path | None = None) -> PrivateDaemon:
        daemon = cls(directory or default_directory())
        make_own(daemon._directory)
        with daemon._turn():
            users = daemon._open("users.lock")
            try:
                alone = _locks(users)
                fcntl.flock(users, fcntl.LOCK_SH)
                if alone:
                    daemon._shm_dir = daemon._shm_dir_in_force(options)
                    daemon._end_unless_as(options)
                ended = daemon._started(options if alone else None)
                if ended is not None:
                    os.close(ended)
            except BaseException:
                _unlock(users)
                raise
            daemon._users = users
            daemon._shm_dir = daemon._shm_dir_in_force(options)
        return daemon

    def watch(self) -> int | None:
        """A descriptor that is readable when the daemon has ended; one that has ended is started again.

        None: it has to be looked after again later. Another engine starts or ends it, or it lives where its
        process cannot be seen.
        """
        with self._open("turn.lock") as turn:
            if not _locks(turn):
                return None
            try:
                # Who has left starts nothing that nobody would end.
                return self._started(None) if self._users is not None else None
            finally:
                _unlock(turn)

    def _started(self, options: Options | None) -> int | None:
        """Options are the first user's: those of another would move the segments of who is there already."""
        lives, ended = self._found()
        if lives:
            return ended
        self._await_samplers()
        return self._start(options)

    def _found(self) -> tuple[bool, int | None]:
        """Whether the daemon lives, and what is readable when it has ended, where there can be such."""
        if not self._lock_is_held():
            return False, None
        try:
            pid, namespace = self._written_pid()
        except FileNotFoundError:
            return False, None  # The engine that started it died before; so it ends without having begun.
        if namespace != pid_namespace():
            # In another container the number is another process's, or nobody's: the lock alone tells.
            return True, None
        try:
            ended = os.pidfd_open(pid)
        except ProcessLookupError:
            return False, None
        if readable([ended], 0):
            os.close(ended)
            return False, None
        return True, ended

    def _written_pid(self) -> tuple[int, str]:
        pid, *namespace = (self._directory / "pid").read_text(encoding="utf-8").split()
        return int(pid), namespace[0] if namespace else pid_namespace()

    def _write_pid(self, pid: int) -> None:
        """Whole for who reads it without the turn."""
        written = self._directory / "pid.new"
        written.write_text(f"{pid}\n{pid_namespace()}\n", encoding="utf-8")
        written.replace(self._directory / "pid")

    def _await_samplers(self) -> None:
        """They have the dead daemon's lock too, and end a moment later."""
        deadline = time.monotonic() + _SAMPLERS_PATIENCE
        while self._lock_is_held():
            if time.monotonic() > deadline:
                raise RuntimeError(
                    f"{self._directory}/daemon.lock is still locked {_SAMPLERS_PATIENCE:g} s after "
                    "croupierd's end; no process that has it open would be right (`fuser` names them)"
                )
            time.sleep(0.01)

    def leave(self) -> None:
        """Ends the daemon if nobody else uses it; a second call does nothing."""
        users, self._users = self._users, None
        if users is None:
            return
        with self._turn():
            try:
                if _locks(users):
                    self._end()
            finally:
                _unlock(users)

    def _end_unless_as(self, options: Options) -> None:
        """What engines that were killed have left may be another version's, or configured otherwise."""
        try:
            configured = (self._directory / "croupierd.yaml").read_text(encoding="utf-8")
            program = f"/proc/{self._written_pid()[0]}/exe"
            same = os.path.samefile(program, find_croupierd())
        except OSError:
            return  # None has been started, or it has ended, or is another container's.
        if not same or configured != configuration(options, self._directory):
            self._end()

    def _end(self) -> None:
        lives, ended = self._found()
        if lives and ended is None:
            return  # Its process cannot be seen from here: it stays for the next engine of its container.
        if ended is not None:
            try:
                stop(ended, _STOP_PATIENCE)
            finally:
                os.close(ended)
        self._await_samplers()
        # What it leaves when it was killed: nobody else uses it, and none is started meanwhile.
        for left in Path(self._shm_dir).glob(f"croupier-{instance_of(self._directory)}[.-]*"):
            left.unlink(missing_ok=True)
        # It stays where another daemon's segments lie in it.
        with contextlib.suppress(OSError):
            os.rmdir(self._shm_dir)

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        """Held while a daemon starts or ends: one engine at a time."""
        turn = self._open("turn.lock")
        try:
            fcntl.flock(turn, fcntl.LOCK_EX)
            yield
        finally:
            _unlock(turn)

    def _open(self, name: str) -> IO[bytes]:
        return open(self._directory / name, "ab")

    def _lock_is_held(self) -> bool:
        lock = self._open("daemon.lock")
        if _locks(lock):
            _unlock(lock)
            return False
        # Not unlocked: it is not this descriptor's.
        lock.close()
        return True

    def _configured(self, options: Options | None) -> Path:
        config = self._directory / "croupierd.yaml"
        if options is not None:
            # Whole, for who reads it after this engine has died.
            written = config.with_suffix(".new")
            written.write_text(configuration(options, self._directory), encoding="utf-8")
            written.replace(config)
        return config

    def _shm_dir_in_force(self, options: Options) -> str:
        try:
            return json.loads((self._directory / "croupierd.yaml").read_text(encoding="utf-8"))["shm"]["dir"]
        except (OSError, ValueError, LookupError, TypeError):
            return shm_dir_of(options)

    def _start(self, options: Options | None) -> int:
        config = self._configured(options)
        notices = self._directory / "notify.sock"
        notices.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ready:
            ready.bind(str(notices))
            with (
                self._open("daemon.lock") as lock,
                open(self._directory / "croupierd.log", "ab" if options is None else "wb") as log,
            ):
                # Closed here, and not unlocked, as soon as croupierd has it: it is the daemon's.
                fcntl.flock(lock, fcntl.LOCK_EX)
                croupierd = Detached(
                    [find_croupierd(), "--config", str(config)],
                    lock.fileno(),
                    log,
                    {**os.environ, "NOTIFY_SOCKET": str(notices)},
                )
            with croupierd:
                self._write_pid(croupierd.pid)
                croupierd.go()
                self._await_ready(ready, croupierd)
                return croupierd.ended

    def _await_ready(self, ready: socket.socket, croupierd: Detached) -> None:
        """The daemon says READY=1 as it would to systemd; or it ends, which its descriptor tells."""
        deadline = time.monotonic() + _START_PATIENCE
        while (left := deadline - time.monotonic()) > 0:
            told = readable([ready.fileno(), croupierd.ended], left)
            if ready.fileno() in told and b"READY=1" in ready.recv(4096).split(b"\n"):
                return
            if croupierd.ended in told:
                raise RuntimeError(
                    f"croupierd ended at its start with status {croupierd.status()}:\n{self._log_end()}"
                )
        raise RuntimeError(f"croupierd was not ready within {_START_PATIENCE:g} s:\n{self._log_end()}")

    def _log_end(self) -> str:
        return (self._directory / "croupierd.log").read_text(encoding="utf-8", errors="replace")[-_LOG_TAIL:]


def pid_namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def _locks(file: IO[bytes]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _unlock(file: IO[bytes]) -> None:
    """Not by its closing alone, which a forked child's descriptor outlives."""
    with file:
        fcntl.flock(file, fcntl.LOCK_UN)


def default_directory() -> Path:
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    return Path(runtime, "croupier-vllm") if runtime else Path(f"/tmp/croupier-vllm-{os.geteuid()}")


def make_own(directory: Path) -> None:
    """A directory that is nobody else's: who can write to it could put a daemon or a file of theirs there.

    Its name in /tmp is known beforehand, and anybody may have been there first.
    """
    with contextlib.suppress(FileExistsError):
        directory.mkdir(mode=0o700, parents=True)
    found = directory.lstat()
    if not stat.S_ISDIR(found.st_mode):
        what = "a link" if stat.S_ISLNK(found.st_mode) else "no directory"
    elif found.st_uid != os.geteuid():
        what = f"user {found.st_uid}'s"
    elif found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        what = f"writable by others (mode {stat.S_IMODE(found.st_mode):04o})"
    else:
        return
    raise PermissionError(
        f"{directory} is {what}; a directory of user {os.geteuid()} that nobody else may write to "
        "(mode 0700) would be right: remove it, set XDG_RUNTIME_DIR, or give the option 'endpoint'"
    )


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
    """The engine's own processes need the other cores; a sampler needs its own for a small part of a step."""
    return options.samplers or max(1, min(_usable_cores() * 3 // 4, _MOST_SAMPLERS))


def lean_samplers_of(options: Options, engines: int) -> int:
    """Of a daemon for so many engines with lean steps.

    Samplers that wait for a step slow down what shares a core's two threads with them, and a dozen decide a
    lean step about as soon as more do.
    """
    return options.samplers or min(samplers_of(options), _MOST_LEAN_SAMPLERS * engines)


def _usable_cores() -> int:
    """A container's limit is no cpuset: all cores are shown, and its processes stopped when it is used up."""
    quotas = [quota for group, unified in _groups() if (quota := _quota(group, unified)) > 0]
    return int(min([len(os.sched_getaffinity(0)), *quotas]))


def _groups() -> Iterator[tuple[Path, bool]]:
    """The control groups that limit this process's time, as far as they are seen from here."""
    try:
        own = _OWN_CGROUPS.read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    for line in own:
        _, controllers, path = line.split(":", 2)
        if not controllers or "cpu" in controllers.split(","):
            root = _CGROUPS / "cpu" if controllers else _CGROUPS
            inner = root / path.strip("/")
            yield from (
                (group, not controllers)
                for group in (inner, *inner.parents)
                if root in (group, *group.parents)
            )


def _quota(group: Path, unified: bool) -> float:
    """In cores; 0 where there is no limit."""
    names = ["cpu.max"] if unified else ["cpu.cfs_quota_us", "cpu.cfs_period_us"]
    try:
        quota, period = " ".join((group / name).read_text(encoding="utf-8") for name in names).split()
        return max(0.0, float(quota) / float(period))
    except (OSError, ValueError, ZeroDivisionError):
        return 0.0


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
