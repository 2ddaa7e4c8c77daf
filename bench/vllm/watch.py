"""What an engine and its private croupierd take of their host and its GPUs while something runs.

From /proc, by a thread of its own, and from nvidia-smi. An engine's stand-in, which waits for the daemon's
death, counts with the daemon.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
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


class Gpus:
    """How busy they are and what power they take, four times a second; nothing without nvidia-smi."""

    def __init__(self) -> None:
        asked = "--query-gpu=utilization.gpu,power.draw"
        command = ["nvidia-smi", asked, "--format=csv,noheader,nounits", "--loop-ms=250"]
        self._process: subprocess.Popen[str] | None = None
        with contextlib.suppress(OSError):
            self._process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )

    def found(self) -> dict[str, Any]:
        """Quartiles over all GPUs and times, in percent and in watts of one GPU."""
        if self._process is None:
            return {}
        self._process.terminate()
        rows = [line.split(",") for line in self._process.communicate()[0].splitlines()]
        return gpu_quartiles(rows)


def gpu_quartiles(rows: list[list[str]]) -> dict[str, Any]:
    columns = {"gpu_percent": 0, "gpu_watts": 1}
    found: dict[str, Any] = {}
    for name, place in columns.items():
        values = []
        for row in rows:
            # A last line may be cut, and a GPU may not tell.
            with contextlib.suppress(ValueError, IndexError):
                values.append(float(row[place]))
        if values:
            ordered = sorted(values)
            found[name] = [ordered[round(part * (len(ordered) - 1))] for part in (0.25, 0.5, 0.75)]
    return found


def daemon_processes(directory: Path, engine: int) -> list[int]:
    """The daemon there, its children, and the stand-ins of that engine."""
    daemon = daemon_pid(directory)
    if daemon is None:
        return []
    below = set(children_of(engine))
    return sorted({daemon, *children_of(daemon), *(pid for pid in stand_ins() if pid in below)})


def memory_of_host(directory: Path, engine: int) -> dict[str, float]:
    """MiB of an engine and of its daemon: parts of what is shared, so that sums are true."""
    daemon = daemon_processes(directory, engine)
    others = {engine, *children_of(engine)} - set(daemon)
    return {
        "engine_pss_mib": round(sum(memory_kib(pid)["Pss"] for pid in others) / 1024, 1),
        "daemon_pss_mib": round(sum(memory_kib(pid)["Pss"] for pid in daemon) / 1024, 1),
        "daemon_rss_mib": round(sum(memory_kib(pid)["Rss"] for pid in daemon) / 1024, 1),
    }


class Watch:
    """with Watch(directory, segments, engine) as watch: …; then watch.found(). `engine` is a process."""

    def __init__(self, directory: Path, segments: Path, engine: int) -> None:
        self._directory, self._segments, self._engine = directory, segments, engine
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._first: dict[int, float] = {}
        self._last: dict[int, float] = {}
        self._segments_mib = 0.0
        self._processes = 0
        self._least_available = available_mib()

    def __enter__(self) -> Watch:
        self._gpus = Gpus()
        self._begun, self._since = busy_cores()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()
        self._ended, self._until = busy_cores()
        self._of_gpus = self._gpus.found()

    def _look(self) -> None:
        while True:
            self._look_once()
            if self._end.wait(_EVERY):
                self._look_once()
                return

    def _look_once(self) -> None:
        self._least_available = min(self._least_available, available_mib())
        pids = daemon_processes(self._directory, self._engine)
        self._processes = max(self._processes, len(pids))
        for pid in pids:
            seconds = cpu_seconds(pid)
            self._first.setdefault(pid, seconds)
            self._last[pid] = max(self._last.get(pid, 0.0), seconds)
        self._segments_mib = max(self._segments_mib, shared_bytes(self._segments) / 2**20)

    def found(self) -> dict[str, Any]:
        seconds = max(self._until - self._since, 1e-9)
        found: dict[str, Any] = {
            "seconds": round(seconds, 1),
            "host_busy_cores": round((self._ended - self._begun) / seconds, 2),
            "host_least_available_mib": self._least_available,
            **self._of_gpus,
        }
        if self._processes:
            used = sum(self._last[pid] - self._first[pid] for pid in self._first)
            found["daemon_processes"] = self._processes
            found["daemon_busy_cores"] = round(used / seconds, 3)
            found["segments_mib"] = round(self._segments_mib, 1)
        return found
