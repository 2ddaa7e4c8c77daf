"""What a session takes of the host's shared memory, said at start: containers have 64 MB of it by default."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

_TOKEN_BYTES = 4
_MIB = 1 << 20
# A sequence's log grows by so much, and keeps so much when the sequence ends.
_LOG_PIECE = 16384


class Room(NamedTuple):
    at_open: int
    """Bytes that the session has taken."""
    logs: int
    """Bytes that its token logs take when the KV cache is full, and no two requests share a prefix."""
    free: int
    """Bytes that are left where it lies."""
    fewer_sequences: str
    """What of the engine would take less room."""

    @property
    def text(self) -> str:
        return (
            f"the session takes {_mib(self.at_open)} MiB of shared memory, and its token logs up to "
            f"{_mib(self.logs)} MiB more while the KV cache is full; {_mib(self.free)} MiB are free"
        )

    @property
    def advice(self) -> str:
        """Empty: there is enough."""
        if self.free >= self.logs:
            return ""
        return (
            f"shared memory may run out: {self.text}. A request whose log cannot grow then ends with an "
            f"error. In a container, --shm-size {_mib(self.at_open + self.logs)}m or more would be right, "
            f"or {self.fewer_sequences}"
        )


def room_of(
    segment_path: str, sequences: int, cached_tokens: int, longest: int, fewer_sequences: str
) -> Room:
    """`cached_tokens`: what the KV cache holds; 0 where that is not known."""
    taken = os.stat(segment_path).st_blocks * 512
    place = os.statvfs(segment_path)
    most = sequences * longest
    tokens = min(cached_tokens, most) if cached_tokens else most
    logs, free = tokens * _TOKEN_BYTES + sequences * _LOG_PIECE, place.f_bavail * place.f_frsize
    return Room(taken, logs, free, fewer_sequences)


def status_of(segment_path: str) -> str:
    """The command that says how the daemon is that made the segment: a private one has its own names."""
    place = Path(segment_path)
    instance = place.name.removeprefix("croupier-").rpartition("-")[0]
    return f"croupier status --instance {instance} --shm-dir {place.parent}"


def without_room(error: str, rows: int, fewer_rows: str) -> str:
    return (
        f"the session does not fit into shared memory: {error}. In a container it has 64 MB unless it is "
        f"started with a larger --shm-size. A step has room for {rows} rows: {fewer_rows} would take less"
    )


def _mib(count: int) -> int:
    return -(-count // _MIB)
