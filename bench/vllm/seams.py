"""Compares a vLLM with what the plugin relies on: names, parameters, types, calls, and functions' sources.

    seams.py [--record] WHEEL_OR_FOLDER ...     a wheel, or a folder with the package vllm in it

Nothing of vLLM is imported. Ends with 1 where something differs, and names it. A function whose source
differs from what seams.txt has for the release is named with both hashes; a release that is not there is
compared with the newest recorded one before it. --record writes the hashes of these places into seams.txt.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import re
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

from seam_list import CALLS, RELIED, SEAMS, Call, Seam

RECORD = Path(__file__).with_name("seams.txt")


class Source:
    """A vLLM, or another package, in a wheel or in a folder."""

    def __init__(self, place: Path, package: str = "vllm") -> None:
        self._package = package
        self._wheel = zipfile.ZipFile(place) if place.is_file() else None
        self._folder = place
        self._text: dict[str, str | None] = {}
        self._module: dict[str, ast.Module] = {}
        self.release = self._release()

    def _release(self) -> str:
        if self._wheel is not None:
            names = self._wheel.namelist()
        else:
            names = [f"{found.name}/" for found in self._folder.glob(f"{self._package}-*.dist-info")]
        for name in names:
            if found := re.match(rf"{self._package}-(\d[^/]*)\.dist-info/", name):
                return found[1].partition("+")[0]
        raise SystemExit(f"{self._folder}: it has no {self._package}-*.dist-info, which says its release")

    def text(self, file: str) -> str | None:
        if file not in self._text:
            try:
                if self._wheel is not None:
                    self._text[file] = self._wheel.read(f"{self._package}/{file}").decode()
                else:
                    self._text[file] = (self._folder / self._package / file).read_text(encoding="utf-8")
            except (FileNotFoundError, KeyError):
                self._text[file] = None
        return self._text[file]

    def module(self, file: str) -> ast.Module | None:
        text = self.text(file)
        if text is None:
            return None
        if file not in self._module:
            self._module[file] = ast.parse(text)
        return self._module[file]

    def function(self, file: str, name: str) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
        """`name` has its class before a dot. Of overloads it is the last."""
        body: ast.AST | None = self.module(file)
        owner, _, name = name.rpartition(".")
        if body is not None and owner:
            body = class_of(body, owner)
        found = [
            node
            for node in getattr(body, "body", ())
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name
        ]
        return found[-1] if found else None

    def hash_of(self, file: str, name: str) -> str | None:
        """Of a function's lines, without its decorators, blank lines and indentation's depth."""
        node = self.function(file, name)
        if node is None:
            return None
        lines = (self.text(file) or "").splitlines()[node.lineno - 1 : node.end_lineno]
        text = "\n".join(line[node.col_offset :].rstrip() for line in lines if line.strip())
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def class_of(module: ast.AST, name: str) -> ast.ClassDef | None:
    return next(
        (n for n in getattr(module, "body", ()) if isinstance(n, ast.ClassDef) and n.name == name), None
    )


def numbers_of(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", release)[:3])


def is_of(release: str, seam: Seam | Call) -> bool:
    return seam.since <= numbers_of(release)[:2] < seam.until


def fault(source: Source, seam: Seam) -> str | None:
    module = source.module(seam.file)
    if module is None:
        return "there is no such file"
    body: ast.AST = module
    if seam.owner:
        owner = class_of(module, seam.owner)
        if owner is None:
            return f"there is no class {seam.owner}"
        body = owner
    if seam.parameters is None:
        return name_fault(body, seam)
    found = source.function(seam.file, f"{seam.owner}.{seam.name}" if seam.owner else seam.name)
    if found is None:
        return f"there is no function {seam.name}"
    has = [argument.arg for argument in found.args.posonlyargs + found.args.args]
    known = seam.parameters
    return None if has[: len(known)] == known else f"it takes {has}, and {known} was known"


def name_fault(body: ast.AST, seam: Seam) -> str | None:
    types = [kind for name, kind in names_set(body) if name == seam.name]
    if not types:
        return f"nothing sets {seam.name}"
    given = {kind.strip("'\"") for kind in types if kind}
    if seam.type and seam.type not in given:
        return f"its type is {' or '.join(sorted(given)) or 'not given'}, and {seam.type} was known"
    return None


def names_set(body: ast.AST) -> Iterator[tuple[str, str]]:
    """Fields of the class, and attributes that its functions give `self`, with their annotations."""
    for node in ast.walk(body):
        if isinstance(node, ast.Assign):
            targets, kind = node.targets, ""
        elif isinstance(node, ast.AnnAssign):
            targets, kind = [node.target], ast.unparse(node.annotation)
        else:
            continue
        for target in targets:
            for part in target.elts if isinstance(target, ast.Tuple) else [target]:
                if isinstance(part, ast.Name):
                    yield part.id, kind
                elif isinstance(part, ast.Attribute):
                    yield part.attr, kind


def call_fault(source: Source, call: Call) -> str | None:
    function = source.function(call.file, call.function)
    if function is None:
        return "there is no such function"
    calls = [n for n in ast.walk(function) if isinstance(n, ast.Call) and ast.unparse(n.func) == call.callee]
    given = [", ".join([*map(ast.unparse, n.args), *map(ast.unparse, n.keywords)]) for n in calls]
    if not given:
        return f"it does not call {call.callee}"
    if call.arguments not in given:
        return f"it calls {call.callee} with ({') and ('.join(given)}), and ({call.arguments}) was known"
    return None


def functions_relied_on(release: str) -> list[tuple[str, str]]:
    seams = [seam for seam in SEAMS if seam.parameters is not None and is_of(release, seam)]
    named = [(seam.file, f"{seam.owner}.{seam.name}" if seam.owner else seam.name) for seam in seams]
    called = [(call.file, call.function) for call in CALLS if is_of(release, call)]
    return sorted({*named, *called, *RELIED})


def recorded(lines: list[str]) -> dict[str, dict[tuple[str, str], str]]:
    """Of each release, the hash of each function."""
    found: dict[str, dict[tuple[str, str], str]] = {}
    for line in lines:
        if line.strip() and not line.startswith("#"):
            release, file, name, digest = line.split()
            found.setdefault(release, {})[file, name] = digest
    return found


def hashes_of(source: Source) -> dict[tuple[str, str], str]:
    hashes = {place: source.hash_of(*place) for place in functions_relied_on(source.release)}
    return {place: digest for place, digest in hashes.items() if digest is not None}


def changed(source: Source, known: dict[str, dict[tuple[str, str], str]]) -> tuple[str, list[str]]:
    """The release that it is compared with, and a line for each function that differs."""
    own = numbers_of(source.release)
    before = [release for release in known if numbers_of(release) <= own]
    if not before:
        return "", ["seams.txt has no release that it could be compared with"]
    base = source.release if source.release in known else max(before, key=numbers_of)
    now, then = hashes_of(source), known[base]
    lines = []
    for file, name in sorted(now.keys() | then.keys()):
        old, new = then.get((file, name), "absent"), now.get((file, name), "absent")
        if old != new:
            lines.append(f"vllm/{file}: {name}: its source changed: {base} {old}, {source.release} {new}")
    return base, lines


def record(sources: list[Source]) -> None:
    lines = RECORD.read_text(encoding="utf-8").splitlines() if RECORD.exists() else []
    known = recorded(lines)
    for source in sources:
        known[source.release] = hashes_of(source)
    text = "# Hashes of the functions of vLLM that the plugin relies on: ./dev seams --record writes them.\n"
    text += "# Release, file, function, the first 16 digits of the SHA-256 of its source.\n"
    for release in sorted(known, key=numbers_of):
        for (file, name), digest in sorted(known[release].items()):
            text += f"{release} {file} {name} {digest}\n"
    RECORD.write_text(text, encoding="utf-8")


def look(source: Source, known: dict[str, dict[tuple[str, str], str]]) -> list[str]:
    """A line for each place that is not as the plugin knows it."""
    lines = []
    for seam in SEAMS:
        if is_of(source.release, seam) and (found := fault(source, seam)):
            lines.append(f"vllm/{seam.file}: {seam.owner + '.' if seam.owner else ''}{seam.name}: {found}")
    for call in CALLS:
        if is_of(source.release, call) and (found := call_fault(source, call)):
            lines.append(f"vllm/{call.file}: {call.function}: {found}")
    return lines + changed(source, known)[1]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--record", action="store_true")
    parser.add_argument("places", nargs="+", type=Path)
    given = parser.parse_args(arguments)
    sources = [Source(place) for place in given.places]
    if given.record:
        record(sources)
    known = recorded(RECORD.read_text(encoding="utf-8").splitlines())
    differing = 0
    for source in sources:
        faults = look(source, known)
        seams = sum(is_of(source.release, seam) for seam in SEAMS)
        calls = sum(is_of(source.release, call) for call in CALLS)
        hashes = len(hashes_of(source))
        print(
            f"vLLM {source.release}: {seams} names and types, {calls} calls and {hashes} functions' sources "
            f"compared; {len(faults)} differ"
        )
        for line in faults:
            print(f"  {line}")
        differing += len(faults)
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
