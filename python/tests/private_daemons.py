"""What tests of private daemons and of what keeps them share."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

from croupier.vllm.options import Options

# What is wrong takes a minute, or for ever: a stand-in here sleeps for one. A busy machine takes seconds to
# start a daemon.
PROMPT = 10.0


def options_of(tmp_path: Path, end: str = "") -> Options:
    return Options(samplers=1, shm_dir=f"/dev/shm/croupier-test-{os.getpid()}-{tmp_path.name}{end}")


def pid_of(tmp_path: Path) -> int:
    return int((tmp_path / "pid").read_text().split()[0])


@contextlib.contextmanager
def promptly() -> Iterator[None]:
    begun = time.monotonic()
    yield
    assert time.monotonic() - begun < PROMPT
