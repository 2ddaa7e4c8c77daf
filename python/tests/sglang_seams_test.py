"""The installed SGLang is as the plugin and the doctor know it."""

from __future__ import annotations

import importlib.metadata
import json
import subprocess
import sys
from pathlib import Path

import pytest

from croupier._programs import program_path
from croupier.sglang.options import VARIABLE

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


def test_the_doctor_finds_the_plugin_beside_the_installed_release() -> None:
    try:
        release = importlib.metadata.version("sglang")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("there is no SGLang")
    asked = [program_path("croupier"), "doctor", "--json", "--python", sys.executable, "--patience", "60000"]
    told = json.loads(subprocess.run(asked, capture_output=True, text=True).stdout)
    [found] = [each for each in told["findings"] if each["check"] == "engine.plugin"]
    assert found["level"] == "fine"
    assert f"SGLang {release} and Croupier's plugin" in found["what"]
    assert f"{VARIABLE}=" in found["what"]


def test_a_release_that_differs_is_told_by_each_place(tmp_path: Path) -> None:
    (tmp_path / "sglang").mkdir()
    (tmp_path / "sglang-9.9.dist-info").mkdir()
    ran = subprocess.run([sys.executable, SCRIPT, str(tmp_path)], capture_output=True, text=True)
    assert ran.returncode == 1
    assert "ModelRunner.sample: there is no such file" in ran.stdout
