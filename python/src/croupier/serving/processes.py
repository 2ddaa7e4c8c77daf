"""Processes that an engine starts, and how they are waited for and ended."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import IO

_PATIENCE = 5.0
_STARTER_PATIENCE = 30.0


def readable(descriptors: Iterable[int], seconds: float | None) -> set[int]:
    """Those that have something to read, or nothing any more; select() takes none from 1,024 on."""
    waits = select.poll()
    for descriptor in descriptors:
        waits.register(descriptor, select.POLLIN)
    return {found for found, _ in waits.poll(None if seconds is None else 1000 * seconds)}


def end_of(process: subprocess.Popen) -> int:
    """A descriptor that is readable when it has ended. A child that cannot be watched is not left alone."""
    try:
        return os.pidfd_open(process.pid)
    except OSError:
        end(process)
        raise


def end(process: subprocess.Popen) -> None:
    process.terminate()
    try:
        process.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def stop(ended: int, patience: float) -> None:
    """Ends what that descriptor tells the end of, whoever's child it is."""
    for how in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(ended, how)
        if readable([ended], patience):
            return


class Detached:
    """A program that outlives whoever ends this process and all its descendants, as vLLM does.

    In its `with` it is a child of another process (detach.py), which has its status. It begins at go(): what
    has to be written about it is written before. Where the `with` ends it is let go, or by an
    exception ended.
    """

    pid = 0
    ended = -1
    """A descriptor that is readable when it has ended; who lets it go closes it."""

    def __init__(
        self, command: list[str], lock: tuple[int, int], output: IO[bytes], environment: dict[str, str]
    ) -> None:
        """`lock`: a file's descriptor, which the program has too, and the byte of it that it holds locked."""
        self._output = output.name
        self._line, theirs = socket.socketpair()
        with theirs:
            passed = [theirs.fileno(), lock[0]]
            starter = [sys.executable, "-S", "-P", str(Path(__file__).with_name("detach.py"))]
            try:
                self._starter = subprocess.Popen(
                    [*starter, *map(str, (*passed, lock[1])), *command],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    env=environment,
                    pass_fds=passed,
                    start_new_session=True,  # An interrupt at the terminal is the engine's to handle.
                )
            except BaseException:
                self._line.close()
                raise

    def __enter__(self) -> Detached:
        try:
            self._line.settimeout(_STARTER_PATIENCE)
            # The process has opened it itself: its number may be another's by the time that it is read.
            told, descriptors, *_ = socket.recv_fds(self._line, 64, 1, socket.MSG_CMSG_CLOEXEC)
            if not told:
                raise RuntimeError(
                    f"{sys.executable} ended with status {self.status()} and has started nothing; "
                    f"what it said is in {self._output}"
                )
            if not descriptors:
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            [self.ended], self.pid = descriptors, int(told)
        except BaseException:
            self._give_up()
            raise
        return self

    def go(self) -> None:
        self._line.send(b".")

    def status(self) -> int:
        """Once it has ended; 128 and a signal's number if that ended it."""
        return self._starter.wait()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if error is not None:
            self._give_up()
            return
        self._line.close()
        self._starter.kill()
        self._starter.wait()

    def _give_up(self) -> None:
        # Not by its closing alone, which a forked child's descriptor outlives.
        with self._line, contextlib.suppress(OSError):
            self._line.shutdown(socket.SHUT_RDWR)
        if self.ended >= 0:
            stop(self.ended, _PATIENCE)
            os.close(self.ended)
        # With its child, it ends by itself, and leaves no process without a parent.
        try:
            self._starter.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self._starter.kill()
            self._starter.wait()
