"""A croupierd for the time of a measurement, with its own instance and folder."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import croupier
from croupier._programs import program_path

READY_WITHIN = 60.0


class Daemon:
    def __init__(self, samplers: int, pin: bool, wait: str = "adaptive") -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="verified-"))
        self._shm = Path("/dev/shm") / self._folder.name
        self._endpoint = f"ipc://{self._folder}/control.sock"
        self._log = self._folder / "log"
        config = self._folder / "croupierd.yaml"
        settings = {
            "instance": self._folder.name.replace("_", "-").lower(),
            "run_dir": str(self._folder),
            "shm": {"dir": str(self._shm)},
            "samplers": {"count": samplers, "pin": pin, "wait": wait},
            "control": {"endpoint": self._endpoint},
            "metrics": {"listen": "off"},
        }
        config.write_text(json.dumps(settings))
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [program_path("croupierd"), "--config", config], stdout=log, stderr=log
            )
        end = time.monotonic() + READY_WITHIN
        while "ready: " not in self._log.read_text():
            if self._process.poll() is not None or time.monotonic() > end:
                raise RuntimeError("croupierd is not ready; its log: " + self._log.read_text())
            time.sleep(0.01)

    def open(self, **options: Any) -> croupier.Session:
        return croupier.Session(endpoint=self._endpoint, **options)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.wait()
        for folder in (self._folder, self._shm):
            shutil.rmtree(folder, ignore_errors=True)
