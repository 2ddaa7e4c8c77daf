"""What tests of private daemons and of what keeps them share."""

from __future__ import annotations

import os
from pathlib import Path

from croupier.serving.place import daemon_pid
from croupier.vllm.options import Options

# What is wrong takes a minute, or for ever: a stand-in here sleeps for one. A busy machine takes seconds to
# start a daemon.
PROMPT = 10.0


def options_of(tmp_path: Path, end: str = "") -> Options:
    return Options(samplers=1, shm_dir=f"/dev/shm/croupier-test-{os.getpid()}-{tmp_path.name}{end}")


def pid_of(tmp_path: Path) -> int:
    pid = daemon_pid(tmp_path)
    assert pid
    return pid


def is_gone(tmp_path: Path, shm_dir: str) -> bool:
    """The daemon, with all that it had."""
    return not Path(shm_dir).exists() and not (tmp_path / "engines.lock").exists()
