"""An engine in a process of its own, told what to do; results that are on the disk at once; time that
ends."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

# From a question to its answer: a start with a first compilation of FlashInfer's kernels takes two minutes.
PATIENCE = 300.0


class SideFailedError(RuntimeError):
    """What the other process says of an error, or that it has ended."""


def last_line(error: SideFailedError) -> str:
    """Of a traceback what says why; results have all of it."""
    return str(error).strip().splitlines()[-1][:400]


class Budget:
    """Nothing new is begun when it is over; what was measured by then counts."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds if seconds else float("inf")

    def left(self) -> float:
        return self._end - time.monotonic()

    def over(self, needed: float = 0.0) -> bool:
        return self.left() <= needed


def write_json(path: Path, found: Any) -> None:
    """Whole or not at all: a run may be cut at any moment."""
    part = path.with_suffix(".part")
    part.write_text(json.dumps(found, indent=1), encoding="utf-8")
    part.replace(path)


def read_json(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


class Side:
    """begin() and answer() of functions that take the engine first; ask() is both. The functions are named in
    modules, as are those that make and end the engine."""

    def __init__(self, name: str, make: Callable[..., Any], end: Callable[[Any], None], *given: Any) -> None:
        self.name = name
        context = multiprocessing.get_context("spawn")
        self._pipe, there = context.Pipe()
        self._process = context.Process(target=_serve, args=(there, make, end, given))
        self._process.start()
        there.close()

    @property
    def pid(self) -> int:
        return self._process.pid or 0

    def begin(self, function: Callable[..., Any], *given: Any) -> None:
        try:
            self._pipe.send((function, given))
        except OSError as error:
            raise SideFailedError(f"{self.name} has ended: {error}") from error

    def answer(self, patience: float = PATIENCE) -> Any:
        try:
            if not self._pipe.poll(max(0.0, patience)):
                self.kill()
                raise SideFailedError(f"{self.name} did not answer within {patience:.0f} s, and was ended")
            good, found = self._pipe.recv()
        except (EOFError, OSError) as error:
            raise SideFailedError(f"{self.name} ended without a word ({error})") from error
        if not good:
            raise SideFailedError(found)
        return found

    def ask(self, function: Callable[..., Any], *given: Any, patience: float = PATIENCE) -> Any:
        self.begin(function, *given)
        return self.answer(patience)

    def begin_close(self) -> None:
        """Several sides end at once where each is told before the first is waited for."""
        with contextlib.suppress(OSError):
            self._pipe.send(None)

    def close(self, patience: float = 60.0) -> None:
        self.begin_close()
        self._process.join(patience)
        self.kill()

    def kill(self) -> None:
        for end in (self._process.terminate, self._process.kill):
            if self._process.is_alive():
                end()
                self._process.join(10)


def _serve(pipe: Any, make: Callable[..., Any], end: Callable[[Any], None], given: tuple[Any, ...]) -> None:
    engine = None
    try:
        begun = time.perf_counter()
        engine = make(*given)
        pipe.send((True, round(time.perf_counter() - begun, 1)))
        while (asked := pipe.recv()) is not None:
            function, arguments = asked
            try:
                pipe.send((True, function(engine, *arguments)))
            except Exception:
                pipe.send((False, traceback.format_exc()))
    except EOFError:
        pass  # The script has ended, and with it what the engine is for.
    except BaseException:
        with contextlib.suppress(OSError):
            pipe.send((False, traceback.format_exc()))
        raise
    finally:
        if engine is not None:
            end(engine)


def end_llm(llm: Any) -> None:
    llm.llm_engine.engine_core.shutdown()


def end_by_signal() -> None:
    """`timeout` ends a script by SIGTERM: then what stands under `finally` is still done."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))


def environment() -> dict[str, Any]:
    """Without an import of what takes ten seconds to import."""
    try:
        found = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False).stdout
        gpus = ", ".join(line.split("(")[0].split(":", 1)[-1].strip() for line in found.splitlines())
    except OSError:
        gpus = ""
    return {
        "vllm": version("vllm"),
        "torch": version("torch"),
        "gpus": gpus,
        "cores": len(os.sched_getaffinity(0)),
    }
