"""An engine's session: with the daemon that its options name, the host's, or a private one."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from logging import Logger
from typing import Any, TypeVar

from croupier import Error, Session

from .options import Options
from .private_daemon import PrivateDaemon, system_endpoint
from .shared_memory import without_room

Opened = TypeVar("Opened")


class Opening:
    """open() once. Whoever made it leaves `daemon` when the session is closed."""

    daemon: PrivateDaemon | None = None
    """The private one, if the session is with one."""

    def __init__(self, options: Options, own: Options, logger: Logger, fewer_rows: str) -> None:
        """`own`: of a daemon that this engine starts; `fewer_rows`: what would take less room."""
        self._options = options
        self._own = own
        self._logger = logger
        self._fewer_rows = fewer_rows

    def open(self, at: Callable[[Callable[..., Session]], Opened], **asked: Any) -> Opened:
        """What `at` makes of a function that opens the session; that takes what `asked` lacks."""
        options, endpoint = self._options, self._options.endpoint
        if not endpoint and not options.private and (system := system_endpoint()):
            try:
                opened = at(lambda **more: Session(endpoint=system, **asked, **more))
            except Error as error:
                self._logger.warning("the host's daemon at %s is not used: %s", system, error)
            else:
                self._tell_ignored(system)
                return opened
        if not endpoint:
            self.daemon = self.daemon or PrivateDaemon.join(self._own)
            if url := self.daemon.metrics_url:
                self._logger.info("the private daemon's metrics are at %s", url)
            endpoint = self.daemon.endpoint
        else:
            self._tell_ignored(endpoint)
        return at(lambda **more: self._session_at(endpoint, **asked, **more))

    def _session_at(self, endpoint: str, **asked: Any) -> Session:
        """With no other daemon to go to: a full shared memory is told with what helps."""
        try:
            return Session(endpoint=endpoint, **asked)
        except Error as error:
            if error.name == "no_memory" and os.strerror(errno.ENOSPC) in str(error):
                raise RuntimeError(without_room(str(error), asked["max_batch"], self._fewer_rows)) from error
            raise

    def _tell_ignored(self, endpoint: str) -> None:
        if ignored := self._options.ignored_by_another_daemon():
            self._logger.warning(
                "the daemon at %s is configured otherwise: the option %s; a private daemon takes both",
                endpoint,
                ", and the option ".join(ignored),
            )
