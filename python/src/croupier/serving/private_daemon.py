"""A croupierd for the engines of one user on one host: the first one starts it, and it ends by itself.

Engines that use it, and the daemon itself, hold record locks on one file (place.py): the kernel drops them
with their processes, whatever ends those. The daemon ends some seconds after the last engine, and removes its
files; no code has to run in an engine that dies.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import croupier

from .options import Options
from .place import Byte, Place, default_directory
from .processes import Detached, readable

_START_PATIENCE = 30.0
# Of a daemon that serves nobody and is configured otherwise: it ends by itself.
_END_PATIENCE = 60.0
_LOOK_AGAIN = 0.05
_LOG_TAIL = 2000
_FEW_LEAN_SAMPLERS, _MOST_LEAN_SAMPLERS = 4, 12
# Of `samplers.count`.
_MOST_SAMPLERS = 256
_CGROUPS = Path("/sys/fs/cgroup")
_OWN_CGROUPS = Path("/proc/self/cgroup")
# Of the package's unit and its configuration.
_SYSTEM_SOCKET = "/run/croupier/control.sock"
_CONFIGURATION = "croupierd.yaml"
_LOG = "croupierd.log"


@dataclass(frozen=True)
class Names:
    """What no other daemon of this host has, and nobody can know and take beforehand."""

    instance: str
    shm_dir: str

    @classmethod
    def fresh(cls, options: Options) -> Names:
        name = f"{os.geteuid()}-{secrets.token_hex(8)}"
        return cls(f"private-{name}", options.shm_dir or f"/dev/shm/croupier-private-{name}")

    @classmethod
    def of(cls, configuration: str) -> Names | None:
        """None: it is no whole configuration."""
        try:
            told = json.loads(configuration)
            return cls(told["instance"], told["shm"]["dir"])
        except (ValueError, LookupError, TypeError):
            return None


class PrivateDaemon:
    """join() in each engine, leave() when it ends."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._joined = False

    @property
    def endpoint(self) -> str:
        return f"ipc://{self._place.directory}/control.sock"

    @property
    def metrics_url(self) -> str:
        """Empty: its configuration, which is the first engine's, has no port for metrics."""
        try:
            listen = json.loads(self._configured())["metrics"]["listen"]
        except (OSError, ValueError, LookupError, TypeError):
            return ""
        return "" if listen == "off" else f"http://{listen}/metrics"

    @property
    def lock(self) -> int:
        """The descriptor of the file that tells who uses the daemon."""
        return self._place.lock

    @classmethod
    def join(cls, options: Options, directory: Path | None = None) -> PrivateDaemon:
        deadline = time.monotonic() + _END_PATIENCE
        while True:
            daemon = cls(Place.at(directory or default_directory()))
            try:
                if daemon._enter(options):
                    return daemon
                pid = daemon._place.holder(Byte.daemon)
            finally:
                if not daemon._joined:
                    daemon._place.release()
            if time.monotonic() > deadline:
                raise RuntimeError(
                    f"the private croupierd of {daemon._place.directory} (pid {pid or 'unknown'}) serves "
                    f"no engine and has not ended within {_END_PATIENCE:g} s: end it, then start this again"
                )
            # A record lock can only be asked for, or waited for together with all who want to start.
            time.sleep(_LOOK_AGAIN)

    def _enter(self, options: Options) -> bool:
        """False: there is a daemon that serves nobody and is not as asked for, or whose folder is gone."""
        place = self._place
        with place.turn():
            if not place.is_present():
                return False
            alone = not place.has_engines()
            pid = place.holder(Byte.daemon)
            if alone and pid is not None and not self._is_as(options, pid):
                return False
            place.add_engine()
            self._joined = True
            try:
                if alone and pid is None:
                    self._remove_left()
                ended = self._started(options if alone else None)
            except BaseException:
                place.remove_engine()
                self._joined = False
                raise
            if ended is not None:
                os.close(ended)
        return True

    def watch(self) -> int | None:
        """A descriptor that is readable when the daemon has ended; one that has ended is started again.

        None: it has to be looked after again later. Another engine starts or ends it, or it lives where its
        process cannot be seen.
        """
        if not self._place.retain():
            return None
        try:
            with self._place.turn(wait=False) as mine:
                # Who has left starts nothing.
                return self._started(None) if mine and self._joined else None
        finally:
            self._place.release()

    def _started(self, options: Options | None) -> int | None:
        """Options are the first user's: those of another would move the segments of who is there already."""
        pid = self._place.holder(Byte.daemon)
        if pid is None:
            try:
                return self._start(options)
            except RuntimeError:
                # One that an engine started as it died was faster.
                pid = self._place.holder(Byte.daemon)
                if pid is None:
                    raise
        return self._end_of(pid)

    def _end_of(self, pid: int) -> int | None:
        if pid == 0:
            return None  # Of another container: its lock tells that it lives.
        try:
            ended = os.pidfd_open(pid)
        except ProcessLookupError:
            return None
        # The number may have been another process's by then.
        if self._place.holder(Byte.daemon) == pid:
            return ended
        os.close(ended)
        return None

    def leave(self) -> None:
        """The daemon ends some seconds later if nobody else uses it; a second call does nothing."""
        if self._joined:
            self._joined = False
            self._place.remove_engine()
            self._place.release()

    def _is_as(self, options: Options, pid: int) -> bool:
        """What engines that died have left may be another version's, or configured otherwise."""
        try:
            configured = self._configured()
            if pid != 0 and not os.path.samefile(f"/proc/{pid}/exe", find_croupierd()):
                return False
        except OSError:
            return False
        names = Names.of(configured)
        if names is None or options.shm_dir not in ("", names.shm_dir):
            return False
        return configured == configuration(options, self._place.directory, names)

    def _remove_left(self) -> None:
        """What a daemon could not remove that was killed with its engines."""
        try:
            names = Names.of(self._configured())
        except OSError:
            return
        if names is None:
            return
        for left in Path(names.shm_dir).glob(f"croupier-{names.instance}[.-]*"):
            left.unlink(missing_ok=True)
        # The next one has another name, and removes only its own.
        (self._place.directory / f"{names.instance}.lock").unlink(missing_ok=True)
        # It stays where another daemon's segments lie in it.
        with contextlib.suppress(OSError):
            os.rmdir(names.shm_dir)

    def _configured(self) -> str:
        with self._place.open(_CONFIGURATION) as file:
            return file.read().decode()

    def _configure(self, options: Options) -> None:
        # Whole, for who reads it after this engine has died.
        text = configuration(options, self._place.directory, Names.fresh(options))
        self._place.replace(_CONFIGURATION, text.encode())

    def _start(self, options: Options | None) -> int:
        place = self._place
        if not place.is_present():
            raise RuntimeError(
                f"{place.directory} was removed, as at a logout: the private croupierd cannot be started "
                "again there, and the stand-in decides alone. `loginctl enable-linger` keeps the folder"
            )
        if options is not None:
            self._configure(options)
        notices = place.directory / "notify.sock"
        notices.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ready:
            ready.bind(str(notices))
            command = [find_croupierd(), "--config", str(place.directory / _CONFIGURATION)]
            with open(place.directory / _LOG, "ab" if options is None else "wb") as log:
                croupierd = Detached(
                    [*command, "--used-by-fd", str(place.lock)],
                    (place.lock, Byte.daemon),
                    log,
                    {**os.environ, "NOTIFY_SOCKET": str(notices)},
                )
            with croupierd:
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
        try:
            with self._place.open(_LOG) as log:
                return log.read().decode(errors="replace")[-_LOG_TAIL:]
        except OSError as error:
            return f"(its log cannot be read: {error})"


def names_in(directory: Path) -> Names | None:
    """Of the private daemon that was configured there last; None: there is none."""
    try:
        return Names.of((directory / _CONFIGURATION).read_text(encoding="utf-8"))
    except OSError:
        return None


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

    Samplers that wait for a step slow down what shares a core's two threads with them, the engine's own
    Python before all. A few decide a lean step in some hundred microseconds, a dozen in half the time.
    """
    most = max(_usable_cores() // 3, _FEW_LEAN_SAMPLERS)
    return options.samplers or min(samplers_of(options), most, _MOST_LEAN_SAMPLERS * engines)


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


def system_endpoint() -> str:
    """Of the daemon that the host's service manager runs, if one listens and lets this user in; else ""."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as control:
            control.connect(_SYSTEM_SOCKET)
    except OSError:
        return ""
    return f"ipc://{_SYSTEM_SOCKET}"


def configuration(options: Options, directory: Path, names: Names) -> str:
    """The daemon's configuration; JSON is YAML."""
    return json.dumps(
        {
            "instance": names.instance,
            "run_dir": str(directory),
            "shm": {"dir": names.shm_dir, "mode": "0600"},
            "samplers": {"count": samplers_of(options)},
            "sessions": {
                "max_batch": 16384,
                "max_sequences": 65536,
                "max_sequence_tokens": 2097152,
                # It serves its own user alone, and both count token logs that may never be written.
                "max_segment_bytes": "1TiB",
                "max_total_bytes": "1TiB",
            },
            "control": {"endpoint": f"ipc://{directory}/control.sock", "ipc_mode": "0600"},
            "metrics": {
                "listen": "off" if options.metrics_port is None else f"127.0.0.1:{options.metrics_port}"
            },
        },
        indent=1,
    )
