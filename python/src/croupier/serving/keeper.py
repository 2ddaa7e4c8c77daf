"""What decides for this engine is kept alive: a private daemon is started again, a stand-in waits beside it.

The stand-in (`croupierd --stand-in-fd`) decides while there is no daemon, from the same segment and so with
the same tokens, and gives the session back when there is one. Neither takes part in a step that goes well.
"""

from __future__ import annotations

import os
import subprocess
import threading
import time
import weakref
from collections.abc import Callable

from .options import Options
from .private_daemon import PrivateDaemon, find_croupierd, samplers_of
from .processes import end, end_of, readable

# What dies at once is not started again at once.
_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 30.0
_LONG_LIFE = 10.0
# What lives and has no descriptor to wait for.
_LOOK_AGAIN = 1.0
_THREADS_PATIENCE = 5.0
# Of a stand-in that cannot stand in for this session's daemon, now or later; it has said why.
_REFUSES = 2


class SegmentFile:
    """Open in this process alone: a child that is forked would keep its memory after the session's end."""

    def __init__(self, path: str) -> None:
        self.descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        mine = weakref.ref(self)
        os.register_at_fork(after_in_child=lambda: (file := mine()) is not None and file.close())

    def close(self) -> None:
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


class Watched:
    """Something that is started again when it ends, later and later when it does not live for long."""

    def __init__(
        self, name: str, start: Callable[[], int | None], may_start_again: Callable[[], bool]
    ) -> None:
        self.name = name
        self.ended: int | None = None
        """A descriptor that is readable when it has ended; None: it does not run, or there is none."""
        self.due: float | None = None
        """When it is started again or looked after; None: it runs, or never will."""
        self._start = start
        self._may_start_again = may_start_again
        self._started = 0.0
        self._pause = _FIRST_PAUSE
        self._fault = ""

    def start(self) -> None:
        self.due, self._started = None, time.monotonic()
        self.ended = self._start()
        if self.ended is None:
            self.due = self._started + _LOOK_AGAIN

    def start_again(self, log: Callable[[str], None]) -> None:
        try:
            self.start()
        except Exception as error:  # Whatever it is: nobody else would start it again.
            if str(error) != self._fault:
                log(f"{self.name} cannot be started, and is tried again: {error}")
            self._fault = str(error)
            self._later()

    def note_end(self) -> None:
        self.close()
        if self._may_start_again():
            self._later()

    def _later(self) -> None:
        lived = time.monotonic() - self._started
        self._pause = _FIRST_PAUSE if lived > _LONG_LIFE else min(2 * self._pause, _LONGEST_PAUSE)
        self.due = time.monotonic() + self._pause

    def close(self) -> None:
        if self.ended is not None:
            os.close(self.ended)
            self.ended = None

    def keep(self, told: int, log: Callable[[str], None]) -> None:
        """Until `told` is readable, or it is not to be started again."""
        while self.ended is not None or self.due is not None:
            pause = None if self.due is None else max(0.0, self.due - time.monotonic())
            ready = readable([told] if self.ended is None else [told, self.ended], pause)
            if told in ready:
                return
            if self.ended in ready:
                self.note_end()
            elif not ready:
                self.start_again(log)


class Keeper:
    """From the opening of a session to close().

    Each has a thread of its own that sleeps until it ends: the stand-in is started again though a daemon
    still ends or starts.
    """

    def __init__(
        self, segment_path: str, options: Options, daemon: PrivateDaemon | None, log: Callable[[str], None]
    ) -> None:
        # The stand-in has it by its descriptor: arguments are read by every user, and the file may lose its
        # name while the session lives.
        self._segment = SegmentFile(segment_path) if options.stand_in else None
        self._options = options
        self._daemon = daemon
        self._log = log
        self._process: subprocess.Popen | None = None
        self._watched: list[Watched] = []
        if options.stand_in:
            self._watched.append(
                Watched("the stand-in", self._start_stand_in, self._stand_in_may_start_again)
            )
        if daemon is not None:
            self._watched.append(Watched("croupierd", daemon.watch, self._daemon_may_start_again))
        self._start_all()
        self._told, self._tell = os.pipe()
        self._threads = [
            threading.Thread(target=watched.keep, args=(self._told, log), name=watched.name, daemon=True)
            for watched in self._watched
        ]
        for thread in self._threads:
            thread.start()

    def _start_all(self) -> None:
        """Here and not in the threads: who cannot start them at all should learn that now."""
        try:
            for watched in self._watched:
                watched.start()
        except BaseException:
            self._end_all()
            raise

    def close(self) -> None:
        if self._tell < 0:
            return
        # Not by its closing: a child that this process has forked has it open too.
        os.write(self._tell, b".")
        os.close(self._tell)
        self._tell = -1
        deadline = time.monotonic() + _THREADS_PATIENCE
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        late = [thread.name for thread in self._threads if thread.is_alive()]
        if late:
            self._log(f"what keeps {' and '.join(late)} alive still waits, and is left to end by itself")
            self._end_stand_in()
            return  # It has the descriptors.
        os.close(self._told)
        self._end_all()

    def _end_all(self) -> None:
        for watched in self._watched:
            watched.close()
        self._end_stand_in()

    def _end_stand_in(self) -> None:
        if self._process is not None:
            end(self._process)
        if self._segment is not None:
            self._segment.close()

    def _daemon_may_start_again(self) -> bool:
        self._log("croupierd has ended; it is started again")
        return True

    def _stand_in_may_start_again(self) -> bool:
        status = self._process.wait()
        if status == _REFUSES:
            self._log(
                "the stand-in cannot decide for this session, and is not started again: only croupierd can"
            )
            return False
        how = f"was ended by signal {-status}" if status < 0 else f"has ended with status {status}"
        self._log(f"the stand-in {how}; it is started again")
        return True

    def _start_stand_in(self) -> int:
        inherited = {"--stand-in-fd": self._segment.descriptor}
        if self._daemon is not None:
            inherited["--used-by-fd"] = self._daemon.lock
        told = [word for name, number in inherited.items() for word in (name, str(number))]
        self._process = subprocess.Popen(
            [find_croupierd(), *told, "--samplers", str(samplers_of(self._options))],
            stdin=subprocess.DEVNULL,
            pass_fds=list(inherited.values()),
            start_new_session=True,  # An interrupt at the terminal is the engine's to handle.
        )
        return end_of(self._process)
