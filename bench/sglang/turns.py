"""Engines that start at the same time and measure one after another: processes with one file, LOCK.

START_BY, in seconds since the epoch, is when to wait for others no longer.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import time
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def alone_when_started(name: str, is_last: bool = False) -> Iterator[Any]:
    """Yields what is to be called when the engine has started: it returns when all others have, or ended,
    and none of them measures."""
    if not (path := os.environ.get("LOCK")):
        yield lambda: None
        return
    with open(path, "w") as starting, open(path + ".untimed", "w") as untimed:
        fcntl.flock(starting, fcntl.LOCK_SH)
        if not is_last:
            fcntl.flock(untimed, fcntl.LOCK_SH)

        def wait() -> None:
            try:
                with until_start_by():
                    if is_last:
                        # Engines that only wait take cores too.
                        fcntl.flock(starting, fcntl.LOCK_UN)
                        fcntl.flock(untimed, fcntl.LOCK_EX)
                    fcntl.flock(starting, fcntl.LOCK_EX)
            except TimeoutError:
                print(f"{name}: measures beside others, which have not started or ended in time", flush=True)

        yield wait


@contextlib.contextmanager
def until_start_by() -> Iterator[None]:
    def late(*_: Any) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, late)
    left = float(os.environ.get("START_BY", "inf")) - time.time()
    signal.setitimer(signal.ITIMER_REAL, 0 if left == float("inf") else max(left, 0.001))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
