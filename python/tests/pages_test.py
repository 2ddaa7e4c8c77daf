"""The examples of the pages run as they stand there."""

import base64
import importlib.metadata
import re
import subprocess
import sys
from pathlib import Path

from croupier._programs import program_path
from croupier.sglang import compat as sglang_compat
from croupier.vllm import compat
from support import Daemon

ROOT = Path(__file__).parents[2]


def example(page: str, heading: str) -> str:
    """The block of Python after a heading."""
    section = (ROOT / page).read_text().split(f"## {heading}\n")[1].split("\n## ")[0]
    lines = re.search(r"(?:^    .*\n|^\n)+(?<=\n)", section[section.index("    import croupier") :], re.M)[0]
    return re.sub("^    ", "", lines, flags=re.M)


def output_of(program: str) -> list[str]:
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, text=True
    ).stdout.splitlines()


def test_the_example_of_the_readme_decodes() -> None:
    program = example("README.md", "In your engine")
    assert len([line for line in program.splitlines() if line]) <= 10
    lines = output_of(program)
    assert len(lines) == 8
    assert lines == output_of(program)


def test_the_engine_of_the_page_decodes(daemon: Daemon) -> None:
    program = example("docs/python.md", "An engine")
    there = "ipc:///run/croupier/control.sock"
    assert there in program
    assert len(output_of(program.replace(there, daemon.endpoint))) == 5


def test_the_example_that_streams_text_shows_no_stop_string(daemon: Daemon, tmp_path: Path) -> None:
    tokens = [b"Hello", b",", b" w", b"orld ", b"\xe2\x82", b"\xac", b"!\nUs", b"er:", b" unseen"]
    lines = [f"{base64.b64encode(token).decode()} {id}" for id, token in enumerate(tokens)]
    path = tmp_path / "tokens.tiktoken"
    path.write_text("\n".join(lines))
    program = ROOT / "docs" / "examples" / "streaming_text.py"
    said = subprocess.run(
        [sys.executable, program, daemon.endpoint, path], capture_output=True, check=True, encoding="utf-8"
    ).stdout
    assert said == "Hello, world \u20ac!\nended by stop_string\n"


def test_the_package_has_the_programs_of_a_host_and_no_simulator() -> None:
    carried = sorted(path.name for path in program_path("croupierd").parent.iterdir())
    installed = importlib.metadata.distribution("croupier")
    assert carried == ["croupier", "croupierd"]
    commands = [each.name for each in installed.entry_points if each.group == "console_scripts"]
    assert sorted(commands) == carried


def test_simulator_and_benchmarks_are_said_to_be_another_package_s() -> None:
    for command in ("sim", "bench"):
        ended = subprocess.run([program_path("croupier"), command], capture_output=True, text=True)
        assert ended.returncode == 127
        assert f"croupier-{command}: No such file or directory" in ended.stderr
        assert "install the Debian package croupier-bench, or run ./dev build" in ended.stderr
        assert ended.stderr.count("\n") == 1


def releases_of(engine: str) -> str:
    """Of the package's extra for an engine."""
    wanted = importlib.metadata.distribution("croupier").requires or []
    [releases] = [each for each in (re.sub("[ '()]", "", one) for one in wanted) if each.startswith(engine)]
    releases, extra = releases.split(";")
    assert extra == f'extra=="{engine}"'
    return releases.removeprefix(engine)


def test_the_package_names_the_releases_of_engines_that_its_plugins_support() -> None:
    between = {f"!=0.{minor}.*" for minor in range(27, 33)}
    assert set(releases_of("vllm").split(",")) == {">=0.26", "<0.34"} | between
    assert compat.names() == "0.26 and 0.33"
    assert releases_of("sglang") == f"=={sglang_compat.names()}"


def test_the_programs_of_the_package_run() -> None:
    said = subprocess.run(
        [sys.executable, "-c", "from croupier._programs import croupierd; croupierd()", "--version"],
        capture_output=True,
        check=True,
        text=True,
    ).stdout
    assert re.fullmatch(r"\d+\.\d+\.\d+\n", said)
