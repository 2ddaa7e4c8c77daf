"""What bench/vllm/seams.py sees of a vLLM: small sources that only look like one, and the installed one."""

from __future__ import annotations

import importlib.metadata
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "bench" / "vllm"))
import seams  # noqa: E402
from seam_list import Call, Seam  # noqa: E402

SOURCE = """
class Scheduler:
    waiting: set[str]

    def __init__(self):
        self.errors: dict[str, int] = {}
        self.policy = 1

    def update(self, output, *, more=None):
        self.helper.run(output, again=True)
"""


def vllm(folder: Path, text: str = SOURCE, release: str = "0.33.0") -> seams.Source:
    (folder / "vllm").mkdir(parents=True, exist_ok=True)
    (folder / f"vllm-{release}.dist-info").mkdir(exist_ok=True)
    (folder / "vllm" / "a.py").write_text(text)
    return seams.Source(folder)


@pytest.mark.parametrize(
    ("seam", "text"),
    [
        (Seam("a.py", "Scheduler", "update", ["self", "output"]), None),
        (Seam("a.py", "Scheduler", "waiting", type="set[str]"), None),
        (Seam("a.py", "Scheduler", "errors", type="dict[str, int]"), None),
        (Seam("a.py", "Scheduler", "policy"), None),
        (Seam("b.py", "Scheduler", "policy"), "there is no such file"),
        (Seam("a.py", "Other", "policy"), "there is no class Other"),
        (Seam("a.py", "Scheduler", "gone"), "nothing sets gone"),
        (Seam("a.py", "Scheduler", "gone", ["self"]), "there is no function gone"),
        (
            Seam("a.py", "Scheduler", "update", ["self", "input"]),
            "it takes ['self', 'output'], and ['self', 'input'] was known",
        ),
        (
            Seam("a.py", "Scheduler", "errors", type="set[str]"),
            "its type is dict[str, int], and set[str] was known",
        ),
    ],
)
def test_a_name_that_moved_or_has_another_type_is_named(tmp_path: Path, seam: Seam, text: str | None) -> None:
    assert seams.fault(vllm(tmp_path), seam) == text


def test_a_call_with_other_arguments_is_named(tmp_path: Path) -> None:
    source = vllm(tmp_path)
    place = ("a.py", "Scheduler.update", "self.helper.run")
    assert seams.call_fault(source, Call(*place, "output, again=True")) is None
    assert seams.call_fault(source, Call(*place, "output")) == (
        "it calls self.helper.run with (output, again=True), and (output) was known"
    )
    assert seams.call_fault(source, Call("a.py", "Scheduler.update", "self.stop", "")) == (
        "it does not call self.stop"
    )


def test_a_changed_function_is_named_with_both_hashes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seams, "SEAMS", [Seam("a.py", "Scheduler", "update", ["self"])])
    monkeypatch.setattr(seams, "CALLS", [])
    monkeypatch.setattr(seams, "RELIED", [])
    monkeypatch.setattr(seams, "RECORD", tmp_path / "seams.txt")
    before = vllm(tmp_path / "before")
    seams.record([before])
    known = seams.recorded((tmp_path / "seams.txt").read_text().splitlines())
    assert seams.look(before, known) == []
    # Where a function stands, and blank lines in it, are no change.
    moved = vllm(tmp_path / "moved", SOURCE.replace("class", "x = 1\n\nclass"), "0.34.0")
    assert seams.look(moved, known) == []
    after = vllm(tmp_path / "after", SOURCE.replace("again=True", "again=False"), "0.34.0")
    old, new = (source.hash_of("a.py", "Scheduler.update") for source in (before, after))
    assert old != new
    assert seams.look(after, known) == [
        f"vllm/a.py: Scheduler.update: its source changed: 0.33.0 {old}, 0.34.0 {new}"
    ]


def test_a_release_before_all_recorded_ones_is_compared_with_none(tmp_path: Path) -> None:
    source = vllm(tmp_path, release="0.25.0")
    assert seams.changed(source, {"0.26.0": {}}) == (
        "",
        ["seams.txt has no release that it could be compared with"],
    )


def test_the_installed_vllm_is_as_the_plugin_knows_it() -> None:
    known = seams.recorded(seams.RECORD.read_text().splitlines())
    try:
        installed = importlib.metadata.distribution("vllm")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("no vLLM is installed")
    if installed.version.partition("+")[0] not in known:
        pytest.skip(f"vLLM {installed.version} is not recorded")
    assert seams.look(seams.Source(Path(str(installed.locate_file("")))), known) == []
