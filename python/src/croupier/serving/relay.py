"""`croupier relay`, beside the daemon of a session whose scheduler is on another host."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

from croupier import FanOut

from .private_daemon import find_croupierd
from .processes import end, end_of, readable

_VARIABLES = "CROUPIER_RELAY_"
_START_PATIENCE = 30.0


class Relay:
    """Of one scheduler: it ends with that, or with this process, whatever ends it."""

    def __init__(self, endpoint: str, root: str, root_key: str) -> None:
        """`endpoint`: the daemon's. The scheduler listens at `root`; `root_key` is its public key."""
        self.key, secret = FanOut.make_keys()
        """The public one. The secret one is read by the relay alone, and has no name in a file system."""
        engine, key_file = os.pidfd_open(os.getpid()), os.memfd_create("croupier-relay-key")
        told = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            os.write(key_file, secret.encode())
            # As a service manager's, with a name of the kernel's choice.
            told.bind("")
            program = str(Path(find_croupierd()).with_name("croupier"))
            asked = {
                "--endpoint": endpoint,
                "--root": root,
                "--root-key": root_key,
                "--key-file": f"/proc/self/fd/{key_file}",
                "--engine-fd": str(engine),
                "--log-level": "warn",
            }
            # A Service of Kubernetes that is called croupier-relay gives names that the relay refuses.
            kept = {name: text for name, text in os.environ.items() if not name.startswith(_VARIABLES)}
            self._process = subprocess.Popen(
                [program, "relay", *(word for option in asked.items() for word in option)],
                stdin=subprocess.DEVNULL,
                env=kept | {"NOTIFY_SOCKET": "@" + told.getsockname()[1:].decode()},
                pass_fds=[engine, key_file],
                start_new_session=True,  # An interrupt at the terminal is the engine's to handle.
            )
            self.ended = end_of(self._process)
            """A descriptor that is readable when it has ended."""
            self._await_begin(told)
        finally:
            told.close()
            os.close(engine)
            os.close(key_file)

    def _await_begin(self, told: socket.socket) -> None:
        """Until its options are found to be right, which it tells when it has looked for the scheduler."""
        if told.fileno() in readable([told.fileno(), self.ended], _START_PATIENCE):
            return
        self.close()
        raise RuntimeError(
            f"`croupier relay` ended with status {self._process.returncode} at its start, or was silent for "
            f"{_START_PATIENCE:g} s; the log of this process says why"
        )

    def close(self) -> None:
        if self.ended >= 0:
            end(self._process)
            os.close(self.ended)
            self.ended = -1
