"""The runtime folder of a private daemon, and the locks that tell who uses it.

A record lock belongs to a process: the kernel drops it with the process that took it, and a child that this
one forks has none of it. It is also dropped when the process closes any descriptor of the file, so each file
is open once in a process, however many engines it has. Folder and lock are kept open: a logout may remove
both. daemon/supervisor/private_use.h is the daemon's side.
"""

from __future__ import annotations

import contextlib
import enum
import fcntl
import os
import stat
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO

_LOCK = "engines.lock"
_FLOCK = "hhqqi4x"
# Where no session of this user has a folder; other users may have been there first.
_FALLBACK = Path("/tmp")
_FALLBACKS = 100


class Byte(enum.IntEnum):
    """Of the lock's file."""

    turn = 0
    """Of who joins, starts the daemon or ends: one at a time."""
    engines = 1
    """Shared by all processes with engines."""
    daemon = 2


class Place:
    """Of this process; at() and release() count who has it."""

    _all: dict[tuple[int, int, int], Place] = {}
    _changing = threading.Lock()

    def __init__(self, directory: Path, folder: int, lock: int) -> None:
        self.directory = directory
        self.lock = lock
        self._folder = folder
        self._key = _key_of(os.fstat(lock))
        self._handles = 0
        self._engines = 0
        self._turn = threading.Lock()

    @classmethod
    def at(cls, directory: Path) -> Place:
        with cls._changing:
            make_own(directory)
            folder = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                place = cls._present(folder)
                if place is not None:
                    os.close(folder)
                else:
                    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
                    place = cls(directory, folder, os.open(_LOCK, flags, 0o600, dir_fd=folder))
                    cls._all[place._key] = place
            except BaseException:
                os.close(folder)
                raise
            place._handles += 1
            return place

    @classmethod
    def _present(cls, folder: int) -> Place | None:
        try:
            return cls._all.get(_key_of(os.stat(_LOCK, dir_fd=folder, follow_symlinks=False)))
        except FileNotFoundError:
            return None

    def retain(self) -> bool:
        """False: it was released for the last time."""
        with self._changing:
            self._handles += self._handles > 0
            return self._handles > 0

    def release(self) -> None:
        with self._changing:
            self._handles -= 1
            if self._handles == 0 and self._all.pop(self._key, None) is self:
                os.close(self.lock)
                os.close(self._folder)

    def is_present(self) -> bool:
        """False: the last daemon has removed it, or a logout."""
        try:
            return _key_of(os.stat(self.directory / _LOCK, follow_symlinks=False)) == self._key
        except OSError:
            return False

    @contextlib.contextmanager
    def turn(self, wait: bool = True) -> Iterator[bool]:
        """Whether it could be had, which is asked only if it is not waited for."""
        if not self._turn.acquire(blocking=wait):
            yield False
            return
        try:
            how = fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB
            try:
                fcntl.lockf(self.lock, how, 1, Byte.turn)
            except (BlockingIOError, PermissionError):
                yield False
                return
            try:
                yield True
            finally:
                fcntl.lockf(self.lock, fcntl.LOCK_UN, 1, Byte.turn)
        finally:
            self._turn.release()

    def holder(self, byte: Byte) -> int | None:
        """Another process that has it, 0 if it is one of another container; None: no other process has it."""
        asked = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, byte, 1, 0)
        kind, _, _, _, pid = struct.unpack(_FLOCK, fcntl.fcntl(self.lock, fcntl.F_GETLK, asked))
        return None if kind == fcntl.F_UNLCK else max(0, pid)

    def has_engines(self) -> bool:
        return self._engines > 0 or self.holder(Byte.engines) is not None

    def add_engine(self) -> None:
        with self._changing:
            fcntl.lockf(self.lock, fcntl.LOCK_SH | fcntl.LOCK_NB, 1, Byte.engines)
            self._engines += 1

    def remove_engine(self) -> None:
        with self._changing:
            self._engines -= 1
            if self._engines == 0:
                fcntl.lockf(self.lock, fcntl.LOCK_UN, 1, Byte.engines)

    def open(self, name: str) -> IO[bytes]:
        return open(name, "rb", opener=lambda path, flags: os.open(path, flags, dir_fd=self._folder))

    def replace(self, name: str, content: bytes) -> None:
        """Whole, or not at all."""
        written = Path(name).with_suffix(".new").name
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
        with open(
            written, "wb", opener=lambda path, _: os.open(path, flags, 0o600, dir_fd=self._folder)
        ) as file:
            file.write(content)
        os.replace(written, name, src_dir_fd=self._folder, dst_dir_fd=self._folder)


def _key_of(status: os.stat_result) -> tuple[int, int, int]:
    # A forked child has the objects of its parent, and none of its locks.
    return os.getpid(), status.st_dev, status.st_ino


def daemon_pid(directory: Path) -> int | None:
    """Of the private daemon there; None: none lives."""
    place = Place.at(directory)
    try:
        return place.holder(Byte.daemon)
    finally:
        place.release()


def default_directory() -> Path:
    """The same for all engines of this user; without a session's folder, the first of its own in /tmp."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and is_own_folder(runtime):
        return Path(runtime, "croupier-private")
    user = os.geteuid()
    for number in range(_FALLBACKS):
        found = _FALLBACK / (f"croupier-private-{user}" + (f"-{number}" if number else ""))
        # Another user cannot remove what is this one's there, nor this one what is another's.
        try:
            if found.lstat().st_uid == user:
                return found
        except FileNotFoundError:
            return found
    raise PermissionError(
        f"other users have taken {_FALLBACK}/croupier-private-{user} and {_FALLBACKS - 1} more: set "
        "XDG_RUNTIME_DIR to a folder of your own, or give the option 'endpoint'"
    )


def is_own_folder(path: str) -> bool:
    """`su` and `sudo -E` leave another user's; a logout removes it, and tmux keeps the variable."""
    try:
        found = os.lstat(path)
    except OSError:
        return False
    is_closed = not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return os.path.isabs(path) and stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and is_closed


def make_own(directory: Path) -> None:
    """A directory that is nobody else's: who can write to it could put a daemon or a file of theirs there.

    Its name in /tmp is known beforehand, and anybody may have been there first.
    """
    with contextlib.suppress(FileExistsError):
        directory.mkdir(mode=0o700, parents=True)
    found = directory.lstat()
    if not stat.S_ISDIR(found.st_mode):
        what = "a link" if stat.S_ISLNK(found.st_mode) else "no directory"
    elif found.st_uid != os.geteuid():
        what = f"user {found.st_uid}'s"
    elif found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        what = f"writable by others (mode {stat.S_IMODE(found.st_mode):04o})"
    else:
        return
    raise PermissionError(
        f"{directory} is {what}; a directory of user {os.geteuid()} that nobody else may write to "
        "(mode 0700) would be right: remove it, set XDG_RUNTIME_DIR, or give the option 'endpoint'"
    )
