"""The installed SGLang is as the plugin knows it."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "bench" / "sglang" / "seams.py"


def test_the_installed_release_has_the_seams() -> None:
    try:
        installed = importlib.metadata.distribution("sglang")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("there is no SGLang")
    ran = subprocess.run(
        [sys.executable, SCRIPT, str(installed.locate_file(""))], capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_a_release_that_differs_is_told_by_each_place(tmp_path: Path) -> None:
    (tmp_path / "sglang").mkdir()
    (tmp_path / "sglang-9.9.dist-info").mkdir()
    ran = subprocess.run([sys.executable, SCRIPT, str(tmp_path)], capture_output=True, text=True)
    assert ran.returncode == 1
    assert "ModelRunner.sample: there is no such file" in ran.stdout
