"""Ends an engine core whose server was killed. Without Croupier it would go on waiting for requests."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable

from croupier.serving.processes import readable

# vLLM's name for the process, in data parallelism with a number behind it.
_ENGINE_CORE = "EngineCore"
# For its end, in which it may send to the server that is gone; then the kernel ends it.
_PATIENCE = 4.0


def end_with_server(log: Callable[..., None]) -> None:
    """Has this process end when the one that made it has, where this one is an engine core of a server."""
    server = multiprocessing.parent_process()
    if server is None or not multiprocessing.current_process().name.startswith(_ENGINE_CORE):
        return
    with contextlib.suppress(ProcessLookupError):
        ended = os.pidfd_open(server.pid)
        # Else it has ended before, and its number may be another's.
        if os.getppid() == server.pid:
            watch = threading.Thread(target=_watch, args=(ended, log), name="croupier-server", daemon=True)
            watch.start()
            return
        os.close(ended)
    os.kill(os.getpid(), signal.SIGTERM)


def _watch(ended: int, log: Callable[..., None]) -> None:
    readable([ended], None)
    log("The server that this engine core is of has ended, and so it ends too.")
    os.kill(os.getpid(), signal.SIGTERM)
    # Nothing to wait for: only that it has not ended by then.
    threading.Event().wait(_PATIENCE)
    os.kill(os.getpid(), signal.SIGKILL)
