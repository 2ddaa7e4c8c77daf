"""A real croupierd for a test, with its own instance, run directory and sockets."""

import os
import shutil
import signal
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from croupier._programs import program_path
from support import Daemon


@pytest.fixture(scope="session")
def croupierd() -> Path:
    return Path(os.environ.get("CROUPIERD") or program_path("croupierd"))


@pytest.fixture(scope="module")
def daemon(croupierd: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """One for a module: tests open sessions of different names."""
    yield from _running(croupierd, tmp_path_factory.mktemp("daemon"))


@pytest.fixture
def own_daemon(croupierd: Path, tmp_path: Path) -> Iterator[Daemon]:
    """For a test that kills its parts."""
    yield from _running(croupierd, tmp_path)


@pytest.fixture
def narrow_daemon(croupierd: Path, tmp_path: Path) -> Iterator[Daemon]:
    """It takes a session, but not the tokens of one."""
    yield from _running(croupierd, tmp_path, max_message="4KiB")


def _running(program: Path, folder: Path, **options: str) -> Iterator[Daemon]:
    instance = "py-" + uuid.uuid4().hex[:12]
    daemon = Daemon(program, folder, instance, **options)
    try:
        daemon.start()
        yield daemon
    finally:
        daemon.end(signal.SIGTERM)
        shutil.rmtree(daemon.shm_folder, ignore_errors=True)


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """Of the test's session: one live client a name."""
    return "s" + uuid.uuid5(uuid.NAMESPACE_OID, request.node.nodeid).hex[:12]
