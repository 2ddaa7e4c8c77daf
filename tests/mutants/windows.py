#!/usr/bin/env python3
"""Breaks the rules of windows one by one, and shows that a test fails each time.

    git worktree add ../mutants; cd ../mutants; ./dev build
    tests/mutants/windows.py

Run it in a checkout of its own that is built: it changes files, builds, tests and puts them back. It takes
about a minute a mutant. Two mutants of the design cannot be written: of a rejected row the parameters are not
read, so that it leaves no feedback; and a draw's position is the length of the history."""

import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "release"
TESTS = (
    "tokens do not depend on what was drafted*,nor do they with windows*,tokens that are decided again are*"
)


class Mutant(NamedTuple):
    what: str
    path: str
    right: str
    wrong: str
    program: str = "test_sim"
    tests: str = TESTS


MUTANTS = (
    Mutant(
        "a row is due whatever it was computed from",
        "shm/column_due.cpp",
        "if (!goes_on || parent.token != input.token) return std::nullopt;",
        "if (!goes_on) return std::nullopt;",
    ),
    Mutant(
        "a head waits for the head before it alone",
        "shm/column_due.cpp",
        "    for (std::uint32_t column = last + 1 - rows; column <= last; ++column) {",
        "    for (std::uint32_t column = last + 1 - rows; column <= last + 1 - rows; ++column) {",
    ),
    Mutant(
        "a position counts rejected rows",
        "shm/column_due.cpp",
        "        if (decision.error == DecisionError::none)\n            before.outputs",
        "        before.outputs",
    ),
    Mutant(
        "a log grows by rejected rows",
        "shm/schedule_publisher.cpp",
        "const bool decided = !refused && decision.error == proto::DecisionError::none;",
        "const bool decided = !refused;",
    ),
    Mutant(
        "penalties see the history of the window's head",
        "daemon/worker/column_decider.cpp",
        "    fill_in_column(segment, step, column, asked, sequence, request);\n",
        "    fill_in_column(segment, step, column, asked, sequence, request);\n"
        "    request.output = request.output.first(request.output.size() - asked.row);\n",
    ),
    Mutant(
        "what was derived stays whatever the log kept",
        "daemon/worker/sequence_states.cpp",
        "    if (revision == which.revision) return;\n    if (which.kept",
        "    if (revision + 1 == which.revision) revision = which.revision;\n"
        "    if (revision == which.revision) return;\n    if (which.kept",
        "test_daemon",
        "a state is cut to what the next revision kept*",
    ),
)


def build() -> None:
    subprocess.run(["ninja", "-C", BUILD, "croupierd", "test_sim", "test_daemon"], check=True, stdout=subprocess.DEVNULL)


def passes(program: str, tests: str) -> bool:
    try:
        run = subprocess.run([BUILD / "bin" / program, tests], capture_output=True, text=True, timeout=900)
    except subprocess.TimeoutExpired:
        return False
    if "No tests ran" in run.stdout:
        sys.exit(f"the tests' names have changed: none matches {tests}")
    return run.returncode == 0


def lives(mutant: Mutant) -> bool:
    path = ROOT / mutant.path
    right = path.read_text()
    if right.count(mutant.right) != 1:
        sys.exit(f"{mutant.path} has {right.count(mutant.right)} times, not once:\n{mutant.right}")
    try:
        path.write_text(right.replace(mutant.right, mutant.wrong))
        build()
        return passes(mutant.program, mutant.tests)
    finally:
        path.write_text(right)


def main() -> int:
    build()
    if not passes("test_sim", TESTS):
        sys.exit("the tests fail without a mutant")
    alive = 0
    for mutant in MUTANTS:
        survived = lives(mutant)
        alive += survived
        print(f"{'ALIVE' if survived else 'fails'}: {mutant.what} ({mutant.path})", flush=True)
    build()
    print(f"{len(MUTANTS) - alive} of {len(MUTANTS)} mutants fail")
    return 1 if alive else 0


if __name__ == "__main__":
    sys.exit(main())
