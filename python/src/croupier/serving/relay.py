"""`croupier relay`, beside the daemon of a session whose scheduler is on another host."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from croupier import FanOut

from .private_daemon import find_croupierd
from .processes import end, end_of


class Relay:
    """Of one scheduler: it ends with that, or with this process, whatever ends it."""

    def __init__(self, endpoint: str, root: str, root_key: str) -> None:
        """`endpoint`: the daemon's. The scheduler listens at `root`; `root_key` is its public key."""
        self.key, secret = FanOut.make_keys()
        """The public one. The secret one is read by the relay alone, and has no name in a file system."""
        engine, key_file = os.pidfd_open(os.getpid()), os.memfd_create("croupier-relay-key")
        try:
            os.write(key_file, secret.encode())
            program = str(Path(find_croupierd()).with_name("croupier"))
            asked = {
                "--endpoint": endpoint,
                "--root": root,
                "--root-key": root_key,
                "--key-file": f"/proc/self/fd/{key_file}",
                "--engine-fd": str(engine),
                "--log-level": "warn",
            }
            self._process = subprocess.Popen(
                [program, "relay", *(word for option in asked.items() for word in option)],
                stdin=subprocess.DEVNULL,
                pass_fds=[engine, key_file],
                start_new_session=True,  # An interrupt at the terminal is the engine's to handle.
            )
        finally:
            os.close(engine)
            os.close(key_file)
        self.ended = end_of(self._process)
        """A descriptor that is readable when it has ended."""

    def close(self) -> None:
        if self.ended >= 0:
            end(self._process)
            os.close(self.ended)
            self.ended = -1
