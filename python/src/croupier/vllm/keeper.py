"""What decides for this engine is kept alive: a private daemon is started again, a stand-in waits beside it.

The stand-in (`croupierd --stand-in`) decides while there is no daemon, from the same segment and so with the
same tokens, and gives the session back when there is one. Neither takes part in a step that goes well.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable

from .options import Options
from .private_daemon import PrivateDaemon, find_croupierd, samplers_of

# What dies at once is not started again at once.
_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 30.0
_LONG_LIFE = 10.0
_STOP_PATIENCE = 5.0


class Watched:
    """Something that is started again when it ends, later and later when it does not live for long."""

    def __init__(self, name: str, start: Callable[[], int | None]) -> None:
        self.name = name
        self.ended: int | None = None
        """A descriptor that is readable when it has ended; None: it does not run."""
        self.due: float | None = None
        """When it is started again; None: it runs, or never will."""
        self._start = start
        self._started = 0.0
        self._pause = _FIRST_PAUSE

    def start(self) -> None:
        self.due, self._started = None, time.monotonic()
        self.ended = self._start()

    def start_again(self, log: Callable[[str], None]) -> None:
        try:
            self.start()
        except (OSError, RuntimeError) as error:
            log(f"{self.name} cannot be started, and is tried again: {error}")
            self._later()

    def note_end(self, again: bool) -> None:
        self.close()
        if again:
            self._later()

    def _later(self) -> None:
        lived = time.monotonic() - self._started
        self._pause = _FIRST_PAUSE if lived > _LONG_LIFE else min(2 * self._pause, _LONGEST_PAUSE)
        self.due = time.monotonic() + self._pause

    def close(self) -> None:
        if self.ended is not None:
            os.close(self.ended)
            self.ended = None


class Keeper:
    """From the opening of a session to close(), in a thread of its own that sleeps until something ends."""

    def __init__(
        self, segment_path: str, options: Options, daemon: PrivateDaemon | None, log: Callable[[str], None]
    ) -> None:
        self._segment_path = segment_path
        self._options = options
        self._daemon = daemon
        self._log = log
        self._process: subprocess.Popen | None = None
        self._stand_in = Watched("the stand-in", self._start_stand_in)
        self._watched = [self._stand_in] if options.stand_in else []
        if daemon is not None:
            self._watched.append(Watched("croupierd", self._start_daemon))
        # Here: who cannot start it at all should learn that now.
        for watched in self._watched:
            watched.start()
        self._told, self._tell = os.pipe()
        self._thread = threading.Thread(target=self._run, name="croupier-keeper", daemon=True)
        self._thread.start()

    def close(self) -> None:
        if self._tell < 0:
            return
        os.close(self._tell)
        self._tell = -1
        self._thread.join()
        os.close(self._told)
        for watched in self._watched:
            watched.close()
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(_STOP_PATIENCE)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def _run(self) -> None:
        while True:
            now = time.monotonic()
            for watched in self._watched:
                if watched.due is not None and watched.due <= now:
                    watched.start_again(self._log)
            ends = [watched.ended for watched in self._watched if watched.ended is not None]
            dues = [watched.due - now for watched in self._watched if watched.due is not None]
            pause = max(0.0, min(dues)) if dues else None
            readable, _, _ = select.select([self._told, *ends], [], [], pause)
            if self._told in readable:
                return
            for watched in self._watched:
                if watched.ended in readable:
                    watched.note_end(self._may_start_again(watched))

    def _may_start_again(self, watched: Watched) -> bool:
        if watched is not self._stand_in:
            self._log("croupierd has ended; it is started again")
            return True
        status = self._process.wait()
        # 0: its session has ended; 1: it has said why it cannot stand in for this session's daemon.
        if status < 0:
            self._log(f"the stand-in was ended by signal {-status}; it is started again")
        return status not in (0, 1)

    def _start_daemon(self) -> int:
        return self._daemon.watch(self._options)

    def _start_stand_in(self) -> int:
        self._process = subprocess.Popen(
            [
                find_croupierd(),
                "--stand-in",
                self._segment_path,
                "--samplers",
                str(samplers_of(self._options)),
            ],
            stdin=subprocess.DEVNULL,
            start_new_session=True,  # An interrupt at the terminal is the engine's to handle.
        )
        return os.pidfd_open(self._process.pid)
