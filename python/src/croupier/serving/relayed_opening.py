"""An engine's session on another host than its scheduler's: opened through the relay there."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable
from logging import Logger
from typing import Any

from croupier import Error, FanOut, Session

from .opening import Opened
from .options import Options
from .shared_memory import without_room

# The relay's process has to start, and looks for its root once a second.
_JOIN_PATIENCE = 30.0
_OPEN_PATIENCE = 30.0

Begin = Callable[[str, str, bool], tuple[str, str]]


class RelayedDaemon:
    """The daemon of the other host, as far as this process has to do with it: leave() ends the way to it."""

    def __init__(self, fan_out: FanOut) -> None:
        self._fan_out = fan_out

    def leave(self) -> None:
        self._fan_out.close()


class RelayedOpening:
    """As Opening. Whoever made it leaves `daemon` when the session is closed."""

    daemon: RelayedDaemon | None = None

    def __init__(
        self,
        options: Options,
        address: str,
        begin: Begin,
        logger: Logger,
        fewer_rows: str,
        port: int = 0,
    ) -> None:
        """`address` and `port`: of this host, where the other one finds it; 0: any free port.

        `begin`: SessionHost.begin() over there.
        """
        self._options = options
        self._address = address
        self._begin = begin
        self._logger = logger
        self._fewer_rows = fewer_rows
        self._port = port

    def open(self, at: Callable[[Callable[..., Session]], Opened], **asked: Any) -> Opened:
        """What `at` makes of a function that opens the session; that takes what `asked` lacks."""
        private = self._options.private
        while True:
            endpoint, fan_out = self._connected(private)
            self.daemon = RelayedDaemon(fan_out)
            try:
                return at(
                    lambda **more: Session(relay=fan_out, timeout=_OPEN_PATIENCE, **asked, **more)  # noqa: B023
                )
            except Error as error:
                self.daemon.leave()
                if not private and not self._options.endpoint:
                    self._logger.warning("the other host's daemon at %s is not used: %s", endpoint, error)
                    private = True
                    continue
                if error.name == "no_memory" and os.strerror(errno.ENOSPC) in str(error):
                    raise RuntimeError(
                        without_room(str(error), asked["max_batch"], self._fewer_rows)
                    ) from error
                raise

    def _connected(self, private: bool) -> tuple[str, FanOut]:
        public, secret = FanOut.make_keys()
        host = f"[{self._address}]" if ":" in self._address else self._address
        with reserved_port(self._address, self._port) as port:
            root = f"tcp://{host}:{port.getsockname()[1]}"
            endpoint, relay_key = self._begin(root, public, private)
            self._logger.info("records go to the relay beside %s of the last stage, from %s", endpoint, root)
            try:
                group = FanOut(
                    root, public_key=public, secret_key=secret, relay_key=relay_key, timeout=_JOIN_PATIENCE
                )
            except Error as error:
                if error.name != "timed_out":
                    raise
                raise RuntimeError(
                    f"the relay on the last stage's host did not reach this one at {root} within "
                    f"{_JOIN_PATIENCE:g} s; let firewalls pass that port (the option relay_port fixes it), "
                    "set VLLM_HOST_IP to an address that the other host can reach, and ask "
                    f"`croupier doctor --peer {root.removeprefix('tcp://')}` there"
                ) from error
        return endpoint, group


def reserved_port(address: str, port: int) -> socket.socket:
    """A port of this host that no other program takes before the fan-out listens there: it may share it."""
    held = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
    try:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind((address, port))
    except (OSError, OverflowError) as error:
        held.close()
        raise RuntimeError(
            f"this host cannot listen at {address}:{port} for the last stage's host: {error}. The address is "
            "the engine's own for its other hosts (VLLM_HOST_IP), the port the option relay_port"
        ) from error
    return held
