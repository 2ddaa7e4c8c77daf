"""What a private croupierd takes of its host while something runs: from /proc, by a thread of its own.

An engine's stand-in, which waits for the daemon's death, counts with it.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from pathlib import Path
from typing import Any

_TICKS = os.sysconf("SC_CLK_TCK")
_EVERY = 0.5


def parents() -> dict[int, int]:
    """Of each process its parent."""
    found = {}
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            fields = _stat(int(place.name))
            if fields:
                found[int(place.name)] = int(fields[1])
    return found


def children_of(pid: int) -> list[int]:
    """All processes below that one."""
    known, found = parents(), [pid]
    for one in found:
        found += [child for child, parent in known.items() if parent == one]
    return found[1:]


def lives(pid: int) -> bool:
    fields = _stat(pid)
    return bool(fields) and fields[0] != "Z"


def _stat(pid: int) -> list[str]:
    """State, parent and what follows; nothing of a process that is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return []


def cpu_seconds(pid: int) -> float:
    fields = _stat(pid)
    return (int(fields[11]) + int(fields[12])) / _TICKS if fields else 0.0


def memory_kib(pid: int) -> dict[str, int]:
    """Rss and Pss: what is shared counts in each one's Rss, and in parts in Pss."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return {"Rss": 0, "Pss": 0}
    pairs = (line.split(":") for line in lines[1:])
    return {name: int(value.split()[0]) for name, value in pairs if name in ("Rss", "Pss")}


def shared_bytes(folder: Path) -> int:
    """Of the segments, what has been touched."""
    total = 0
    for place in folder.glob("**/*") if folder.exists() else ():
        try:
            total += place.stat().st_blocks * 512
        except OSError:
            continue
    return total


def busy_cores() -> tuple[float, float]:
    """Seconds that all cores of the host together have worked so far, and the clock."""
    fields = [int(text) for text in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    idle = fields[3] + fields[4]
    return (sum(fields) - idle) / _TICKS, time.monotonic()


def available_mib() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) // 1024
    return 0


def daemon_pid(directory: Path) -> int | None:
    from croupier.serving import place

    return place.daemon_pid(directory) if directory.exists() else None


def stand_ins() -> list[int]:
    """Processes that wait beside an engine and decide where its daemon is dead."""
    found = []
    for place in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if place.name.isdigit() and b"--stand-in-fd" in (place / "cmdline").read_bytes().split(b"\0"):
                found.append(int(place.name))
    return found


class Watch:
    """with Watch(directory, shm) as watch: …; then watch.found()."""

    def __init__(self, directory: Path, segments: Path) -> None:
        self._directory, self._segments = directory, segments
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._first: dict[int, float] = {}
        self._last: dict[int, float] = {}
        self._most = {"daemon_pss_mib": 0.0, "daemon_rss_mib": 0.0, "segments_mib": 0.0}
        self._processes = 0
        self._least_available = available_mib()

    def __enter__(self) -> Watch:
        self._begun, self._since = busy_cores()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()
        self._ended, self._until = busy_cores()

    def _look(self) -> None:
        while True:
            self._look_once()
            if self._end.wait(_EVERY):
                self._look_once()
                return

    def _look_once(self) -> None:
        self._least_available = min(self._least_available, available_mib())
        daemon = daemon_pid(self._directory)
        if daemon is None:
            return
        pids = [daemon, *children_of(daemon), *stand_ins()]
        self._processes = max(self._processes, len(pids))
        for pid in pids:
            seconds = cpu_seconds(pid)
            self._first.setdefault(pid, seconds)
            self._last[pid] = max(self._last.get(pid, 0.0), seconds)
        memory = [memory_kib(pid) for pid in pids]
        for name, kind in (("daemon_pss_mib", "Pss"), ("daemon_rss_mib", "Rss")):
            self._most[name] = max(self._most[name], sum(one[kind] for one in memory) / 1024)
        segments = shared_bytes(self._segments) / 2**20
        self._most["segments_mib"] = max(self._most["segments_mib"], segments)

    def found(self) -> dict[str, Any]:
        seconds = max(self._until - self._since, 1e-9)
        used = sum(self._last[pid] - self._first[pid] for pid in self._first)
        return {
            "seconds": round(seconds, 1),
            "host_busy_cores": round((self._ended - self._begun) / seconds, 2),
            "host_least_available_mib": self._least_available,
            "daemon_processes": self._processes,
            "daemon_busy_cores": round(used / seconds, 3),
            **{name: round(value, 1) for name, value in self._most.items()},
        }
