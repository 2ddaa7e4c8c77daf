#!/usr/bin/env python3
"""Breaks the rules of windows one by one, and shows that a test fails each time.

    git worktree add ../mutants; cd ../mutants; ./dev build
    tests/mutants/windows.py

Run it in a checkout of its own that is built: it changes files, builds, tests and puts them back. It takes
about a minute a mutant."""

import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "release"


class Mutant(NamedTuple):
    what: str
    path: str
    right: str
    wrong: str


MUTANTS = (
    Mutant(
        "a row is due whatever it was computed from",
        "shm/column_due.cpp",
        "goes_on && parent.token == input.token &&",
        "goes_on &&",
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
    ),
    Mutant(
        "rejected rows leave feedback",
        "daemon/worker/column_decider.cpp",
        "        append(segment, asked, sequence, decision.token);\n",
        "        append(segment, asked, sequence, decision.token);\n    }\n"
        "    if (decision.error == DecisionError::none || decision.error == DecisionError::rejected) {\n",
    ),
    Mutant(
        "randoms belong to the place in the step, and not to the position",
        "daemon/worker/column_decider.cpp",
        "    request.random = random_for(segment, step, column, request);\n",
        "    request.random = proto::random_at(request.params->seed, sequence.prompt_length + asked.position,\n"
        "                                      request.params->child, 0);\n",
    ),
)

TESTS = (
    "tokens do not depend on what was drafted*,nor do they with windows*,tokens that are decided again are*"
)


def build() -> None:
    subprocess.run(["ninja", "-C", BUILD, "croupierd", "test_sim"], check=True, stdout=subprocess.DEVNULL)


def passes() -> bool:
    try:
        run = subprocess.run([BUILD / "bin" / "test_sim", TESTS], capture_output=True, text=True, timeout=900)
    except subprocess.TimeoutExpired:
        return False
    if "No tests ran" in run.stdout:
        sys.exit("the tests' names have changed: TESTS matches none")
    return run.returncode == 0


def lives(mutant: Mutant) -> bool:
    path = ROOT / mutant.path
    right = path.read_text()
    if right.count(mutant.right) != 1:
        sys.exit(f"{mutant.path} has {right.count(mutant.right)} times, not once:\n{mutant.right}")
    try:
        path.write_text(right.replace(mutant.right, mutant.wrong))
        build()
        return passes()
    finally:
        path.write_text(right)


def main() -> int:
    build()
    if not passes():
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
