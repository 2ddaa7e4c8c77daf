"""Two hosts on one machine: each has a network namespace, its own /dev/shm and a folder for runtime files.

As root. Between them is a pair of virtual interfaces, which tc may delay (netem) or cut (bpf).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

ADDRESSES = ("10.231.8.1", "10.231.8.2")
INTERFACE = "croupier0"
_OWN_MEMORY = 'mount -t tmpfs -o "size=$0" tmpfs /dev/shm && exec "$@"'
# A program that returns TC_ACT_SHOT.
_DROP = ("bpf", "direct-action", "bytecode", "1,6 0 0 2")
_CLONE_NEWNS, _CLONE_NEWNET = 0x00020000, 0x40000000


class CannotError(RuntimeError):
    """What this machine does not allow."""


def ip(*words: str) -> None:
    _run("ip", *words)


def _run(*command: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise CannotError(f"there is no `{command[0]}` (package iproute2)") from error
    if done.returncode != 0:
        raise CannotError(f"{' '.join(command)}: {done.stderr.strip()}")


class Place(NamedTuple):
    namespace: str
    """Empty: the network is this process' own."""
    memory: str
    environment: dict[str, str]

    def enter(self) -> None:
        """This process moves there, which has no other thread yet, and takes the variables."""
        libc = ctypes.CDLL(None, use_errno=True)

        def done(status: int) -> None:
            if status != 0:
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

        if self.namespace:
            with open(self.namespace, "rb") as namespace:
                done(libc.setns(namespace.fileno(), _CLONE_NEWNET))
        done(libc.unshare(_CLONE_NEWNS))
        subprocess.run(["mount", "--make-rprivate", "/"], check=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={self.memory}", "tmpfs", "/dev/shm"], check=True)
        os.environ.update(self.environment)


class TwoHosts:
    """Host 0 and host 1, in a `with`."""

    addresses = ADDRESSES
    interface = INTERFACE

    def __init__(self, folder: Path, memory: str = "4g") -> None:
        self._folder = folder
        self._memory = memory
        self._names = [f"croupier-{place}-{os.getpid()}" for place in (0, 1)]

    def __enter__(self) -> TwoHosts:
        first, second = self._names
        try:
            for name in self._names:
                ip("netns", "add", name)
                ip("-n", name, "link", "set", "lo", "up")
            ip(
                "-n",
                first,
                "link",
                "add",
                INTERFACE,
                "type",
                "veth",
                "peer",
                "name",
                INTERFACE,
                "netns",
                second,
            )
            for name, address in zip(self._names, ADDRESSES, strict=True):
                ip("-n", name, "addr", "add", f"{address}/24", "dev", INTERFACE)
                ip("-n", name, "link", "set", INTERFACE, "up")
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._remove()

    def _remove(self) -> None:
        for name in self._names:
            with contextlib.suppress(CannotError):
                ip("netns", "del", name)

    def start(self, host: int, command: Sequence[str], **given: Any) -> subprocess.Popen:
        """A program on that host; `env` is added to this process' environment."""
        inside = [*self._inside(host), "sh", "-c", _OWN_MEMORY, self._memory]
        environment = os.environ | self.environment(host) | given.pop("env", {})
        return subprocess.Popen([*inside, *command], env=environment, **given)

    def environment(self, host: int) -> dict[str, str]:
        """What vLLM, Gloo and NCCL have to know there; NCCL would take the two for one host."""
        runtime = self._folder / f"runtime-{host}"
        runtime.mkdir(mode=0o700, exist_ok=True)
        return {
            "VLLM_HOST_IP": self.addresses[host],
            "GLOO_SOCKET_IFNAME": self.interface,
            "NCCL_SOCKET_IFNAME": self.interface,
            "NCCL_HOSTID": f"croupier-host-{host}",
            "XDG_RUNTIME_DIR": str(runtime),
        }

    def place(self, host: int) -> Place:
        """For a process that is to move there itself."""
        return Place(f"/run/netns/{self._names[host]}", self._memory, self.environment(host))

    def _inside(self, host: int) -> list[str]:
        return ["ip", "netns", "exec", self._names[host]]

    def delay(self, milliseconds: float) -> bool:
        """One way, in both directions; False: this kernel has no netem."""
        if shutil.which("tc") is None:
            return False
        qdisc = ["qdisc", "replace", "dev", INTERFACE, "root", "netem", "delay", f"{milliseconds}ms"]
        return all(
            subprocess.run(["tc", "-n", name, *qdisc], capture_output=True).returncode == 0
            for name in self._names
        )

    def cut(self, seconds: float) -> None:
        """Nothing comes through for so long, and neither host is told.

        Each drops what arrives: an interface that is down, or a queue that drops, tells the sender's TCP.
        """
        try:
            for name in self._names:
                _run("tc", "-n", name, "qdisc", "add", "dev", INTERFACE, "ingress")
                _run("tc", "-n", name, "filter", "add", "dev", INTERFACE, "ingress", *_DROP)
            time.sleep(seconds)  # It is what is measured, and waits for nothing.
        finally:
            for name in self._names:
                with contextlib.suppress(CannotError):
                    _run("tc", "-n", name, "qdisc", "del", "dev", INTERFACE, "ingress")


class OneNetwork(TwoHosts):
    """Two hosts in all but their network, for a kernel without namespaces: nothing delays or cuts it."""

    addresses = ("127.0.0.1", "127.0.0.2")
    interface = "lo"

    def __enter__(self) -> OneNetwork:
        return self

    def _remove(self) -> None:
        pass

    def place(self, host: int) -> Place:
        return Place("", self._memory, self.environment(host))

    def _inside(self, host: int) -> list[str]:
        return ["unshare", "--mount"]

    def delay(self, milliseconds: float) -> bool:
        return False

    def cut(self, seconds: float) -> None:
        raise CannotError("two hosts in one network have no link to cut")
