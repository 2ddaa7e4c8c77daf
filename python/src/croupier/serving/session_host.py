"""The host of a session whose scheduler is on another one: a daemon there, a relay, and what keeps them.

It is in the process of one of the session's workers. What the scheduler's process asks of it, and what it is
answered, are numbers and texts: they go over the engine's own way to its workers.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from .keeper import Keeper
from .options import Options
from .private_daemon import PrivateDaemon, system_endpoint
from .processes import readable
from .relay import Relay


class SessionHost:
    """begin() once or again, keep() when the session is open, close()."""

    def __init__(self, options: Options, own: Options, alone: Options, log: Callable[[str], None]) -> None:
        """`own`: of a daemon that is started here; `alone`: of the stand-in."""
        self._options = options
        self._own = own
        self._alone = alone
        self._log = log
        self._daemon: PrivateDaemon | None = None
        self._relay: Relay | None = None
        self._keeper: Keeper | None = None
        self._ending: threading.Thread | None = None
        self._lock = threading.RLock()

    def begin(self, root: str, root_key: str, private: bool) -> tuple[str, str]:
        """The daemon's endpoint, and the relay's public key; `private`: the host's daemon is not asked."""
        self._end_relay()
        endpoint = self._endpoint(private)
        self._relay = Relay(endpoint, root, root_key)
        return endpoint, self._relay.key

    def _endpoint(self, private: bool) -> str:
        if self._options.endpoint:
            return self._options.endpoint
        if not private and (system := system_endpoint()):
            return system
        self._daemon = self._daemon or PrivateDaemon.join(self._own)
        return self._daemon.endpoint

    def keep(self, segment_path: str) -> None:
        """Until the relay ends, as it does when the scheduler is gone, or to close()."""
        relay = self._relay
        assert relay is not None
        self._keeper = Keeper(segment_path, self._alone, self._daemon, self._log)
        # Of its own: close() may be called before the relay has ended.
        ended = os.dup(relay.ended)
        self._ending = threading.Thread(target=self._close_after, args=(ended,), name="relay", daemon=True)
        self._ending.start()

    def _close_after(self, ended: int) -> None:
        readable([ended], None)
        os.close(ended)
        self.close()

    def stop_keeping(self) -> None:
        """The session is about to be closed: what ends with it is not to be started again."""
        with self._lock:
            keeper, self._keeper = self._keeper, None
            if keeper is not None:
                keeper.close()

    def close(self) -> None:
        """When it returns, all has ended, whoever began to end it."""
        with self._lock:
            self.stop_keeping()
            self._end_relay()
            daemon, self._daemon = self._daemon, None
            if daemon is not None:
                daemon.leave()
        if self._ending is not None and self._ending is not threading.current_thread():
            self._ending.join()

    def _end_relay(self) -> None:
        with self._lock:
            relay, self._relay = self._relay, None
            if relay is not None:
                relay.close()
