"""A croupierd with its own instance, directory and port, which can be killed and observed."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

LOCAL = urllib.request.build_opener(urllib.request.ProxyHandler({}))
READY_WITHIN = 60.0
ENDS_WITHIN = 60.0


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


class Plant:
    def __init__(self, name: str, programs: Path, folder: Path, samplers: int) -> None:
        self.name = name
        self.croupierd = programs / "croupierd"
        self.folder = folder / name
        self.run_dir = self.folder / "run"
        self.run_dir.mkdir(parents=True)
        self.instance = f"endurance-{name}-{os.getpid()}"
        self.shm = Path("/dev/shm") / self.instance
        self.url = f"http://127.0.0.1:{free_port()}"
        self.endpoint = f"ipc://{self.run_dir}/control.sock"
        self.log = self.folder / "log"
        self.ready_seconds: list[float] = []
        self.faults: list[str] = []
        # Held while there is no daemon, so that no sample is taken of a starting one.
        self.changing = threading.RLock()
        settings = {
            "instance": self.instance,
            "run_dir": str(self.run_dir),
            "shm": {"dir": str(self.shm)},
            # As in `croupier sim`: simulated GPUs compute on the same cores.
            "samplers": {"count": samplers, "pin": False, "restart_backoff_ms": 1},
            "sessions": {"reattach_grace_ms": 60000},
            "control": {"endpoint": self.endpoint},
            "metrics": {"listen": self.url.removeprefix("http://")},
        }
        self.config = self.folder / "croupierd.yaml"
        self.config.write_text(json.dumps(settings, indent=1))
        self.start()

    def start(self) -> None:
        began = time.monotonic()
        with self.log.open("ab") as log:
            self.process = subprocess.Popen([self.croupierd, "--config", self.config], stdout=log, stderr=log)
        while not self._ready():
            if self.process.poll() is not None or time.monotonic() - began > READY_WITHIN:
                raise RuntimeError(f"{self.name}: croupierd is not ready; its log: {self.log}")
            time.sleep(0.01)
        self.ready_seconds.append(round(time.monotonic() - began, 3))

    def _ready(self) -> bool:
        try:
            with LOCAL.open(self.url + "/readyz", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def fetch(self, path: str) -> str:
        with LOCAL.open(self.url + path, timeout=10) as answer:
            return str(answer.read().decode())

    def sampler_pids(self) -> list[int]:
        """Pids by index; 0 while a sampler is restarting."""
        samplers = json.loads(self.fetch("/snapshot.json"))["samplers"]
        return [int(each["pid"]) if each["alive"] else 0 for each in samplers]

    def kill(self) -> None:
        self._end_and_start("daemon killed", signal.SIGKILL)

    def hand_over(self) -> None:
        self._end_and_start("daemon handed over", signal.SIGUSR1)

    def _end_and_start(self, what: str, number: int) -> None:
        with self.changing:
            self.process.send_signal(number)
            self._await_end(what, -signal.SIGKILL if number == signal.SIGKILL else 0)
            self.start()

    def kill_sampler(self, index: int) -> bool:
        """Returns false if the sampler is restarting."""
        with self.changing:
            pid = self.sampler_pids()[index]
            if pid > 0:
                os.kill(pid, signal.SIGKILL)
            return pid > 0

    def processes(self) -> list[int]:
        """Processes that map files of the instance, removed or not: daemon, samplers, engines."""
        found = []
        for each in Path("/proc").glob("[0-9]*/maps"):
            try:
                if f"{self.shm}/" in each.read_text(errors="replace"):
                    found.append(int(each.parent.name))
            except OSError:
                continue
        return found

    def _await_end(self, what: str, wanted: int) -> None:
        try:
            code = self.process.wait(ENDS_WITHIN)
        except subprocess.TimeoutExpired:
            self.faults.append(f"{what}: not ended within {ENDS_WITHIN:.0f} s")
            self.process.kill()
            code = self.process.wait()
            return
        if code != wanted:
            self.faults.append(f"{what}: ended with {code}")

    def check_alive(self) -> None:
        with self.changing:
            if self.process.poll() is None:
                return
            self.faults.append(f"croupierd ended by itself with {self.process.returncode}")
            self.start()

    def end(self) -> dict[str, Any]:
        """Sends SIGTERM; returns the files left behind and the log."""
        with self.changing:
            self.process.terminate()
            self._await_end("SIGTERM", 0)
        alive = self.processes()
        left = sorted(str(each.relative_to(self.shm)) for each in self.shm.rglob("*"))
        shutil.rmtree(self.shm, ignore_errors=True)
        kept = sorted(each.name for each in self.run_dir.iterdir())
        return {
            "left_in_shm": left,
            "left_processes": alive,
            "in_run_dir": kept,
            "logged": self.logged(),
            "ready_seconds": self.ready_seconds,
            "faults": self.faults,
        }

    def logged(self) -> dict[str, int]:
        """The number of log events by level and name."""
        events: Counter[str] = Counter()
        for line in self.log.read_text(errors="replace").splitlines():
            found = re.match(r"time=\S+ level=(\w+) pid=\d+ event=(\w+)", line)
            events[f"{found[1]} {found[2]}" if found else "no event: " + line[:200]] += 1
        return dict(sorted(events.items()))
