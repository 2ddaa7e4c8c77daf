#!/usr/bin/env python3
"""For ./dev lint: a key of all that clang-tidy's findings in a file depend on.

    tests/house/tidy_keys.py COMMAND <FILES    prints KEY BUILD FILE, BUILD being where it is compiled

FILES has a name a line. KEY is - for a file that this host's build does not compile. It is made of
clang-tidy's release, COMMAND and configuration, of the file's compile commands, and of what is in the file
and in all that it includes, which ninja knows from the last build.
"""

import functools
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

RELEASE, EXTENSION = Path("build/release"), Path("build/release/python/build")


@functools.cache
def content(path: str) -> bytes:
    return hashlib.sha256(Path(path).read_bytes()).digest()


@functools.cache
def commands(build: Path) -> dict[str, str]:
    """By source: a file that several programs compile has one for each, and all are joined."""
    found: dict[str, str] = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        source = os.path.abspath(entry["file"])
        found[source] = found.get(source, "") + entry["command"] + "\n"
    return found


@functools.cache
def included(build: Path) -> dict[str, list[str]]:
    """By source: itself and all that it includes."""
    listed = subprocess.run(["ninja", "-C", build, "-t", "deps"], check=True, capture_output=True, text=True)
    found: dict[str, list[str]] = {}
    for block in listed.stdout.split("\n\n"):
        first, *rest = block.strip().split("\n")
        if rest and first.endswith("(VALID)"):
            paths = [os.path.join(build, line.strip()) for line in rest]
            found.setdefault(os.path.abspath(paths[0]), []).extend(paths)
    return found


def key_of(build: Path, name: str, tool: bytes) -> str:
    source = os.path.abspath(name)
    if source not in commands(build) or source not in included(build):
        return "-"
    parts = [tool, commands(build)[source].encode()]
    parts += [path.encode() + content(path) for path in sorted(set(included(build)[source]))]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def main() -> None:
    version = subprocess.run(["clang-tidy-14", "--version"], check=True, capture_output=True).stdout
    tool = version + sys.argv[1].encode()
    listed = subprocess.run(["git", "ls-files", "*.clang-tidy"], check=True, capture_output=True, text=True)
    tool += b"".join(Path(name).read_bytes() for name in listed.stdout.split())
    for name in sys.stdin.read().split():
        build = EXTENSION if name.startswith("python/") else RELEASE
        print(key_of(build, name, tool), build, name)


main()
