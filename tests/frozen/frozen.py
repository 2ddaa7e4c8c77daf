#!/usr/bin/env python3
"""What 1.x promises, against what this tree and its build are (docs/one-point-zero.md).

frozen.py check BUILD [KIND...]    says what of the kept is broken; exit status 1 where something is, 77 where
                                   nothing is kept yet
frozen.py keep BUILD [KIND...]     adds what is new to kept/, before a release; refused where one is broken
frozen.py anew BUILD [KIND...]     keeps what is so now and forgets the rest: for a new major version alone
"""

import json
import pathlib
import shutil
import subprocess
import sys

import configuration
import headers
import log_events
import messages
import programs
import python_names
import segment
import tokens
from facts import KEPT, RELEASE, ROOT, Kept, broken


def python_facts(build, _):
    python = build / "python/venv/bin/python"
    if not python.exists():
        raise SystemExit(f"the package is not installed: python/install.sh {build}")
    said = subprocess.run(
        [python, ROOT / "tests/frozen/python_names.py"], check=True, capture_output=True, text=True
    )
    return json.loads(said.stdout)


FACTS = {
    "headers": (lambda build, _: headers.facts(build), headers.RULE),
    "segment": (lambda build, _: segment.facts(build), segment.RULE),
    "configuration": (lambda build, kept: configuration.facts(build / "bin", kept), configuration.RULE),
    "log_events": (lambda build, _: log_events.facts(), log_events.RULE),
    "programs": (lambda build, kept: programs.facts(build / "bin", kept), programs.RULE),
    "tokens": (lambda build, _: tokens.facts(), tokens.RULE),
    # Its test is one of the package's: python/tests/frozen_test.py.
    "python": (python_facts, python_names.RULE),
}
KINDS = [*FACTS, "messages"]


def broken_of(kind, kept, now):
    return broken(segment.of_this_build(kept.facts, now) if kind == "segment" else kept.facts, now)


def sentences_of(kind, kept, now):
    found = broken_of(kind, kept, now)
    if kept.release != RELEASE:
        found.append(
            f"{kept.file.relative_to(ROOT)} is of {kept.release}, and this is {RELEASE}: "
            "add what is new with ./dev freeze"
        )
    return found


def rule_of(kind):
    return messages.RULE if kind == "messages" else FACTS[kind][1]


def check(build, kinds):
    if not KEPT.exists():
        print("nothing is kept yet: ./dev freeze does it, at a release")
        return 77
    failed = 0
    for kind in kinds:
        if kind == "messages":
            found, count = messages.broken(), len(messages.kept_tables())
        else:
            kept = Kept(kind)
            found, count = sentences_of(kind, kept, FACTS[kind][0](build, kept.facts)), len(kept.facts)
        print(
            f"{kind}: {len(found)} of {count} promises broken"
            if found
            else f"{kind}: {count} promises are kept"
        )
        if found:
            print("".join(f"  {sentence}\n" for sentence in found) + f"  {rule_of(kind)}")
        failed += len(found)
    return 1 if failed else 0


def keep(build, kinds, anew):
    KEPT.mkdir(exist_ok=True)
    for kind in kinds:
        if kind == "messages":
            found = [] if anew else messages.broken()
            new = [] if found else messages.keep()
        else:
            kept = Kept(kind)
            if anew:
                kept.facts, kept.release = {}, RELEASE
            now = FACTS[kind][0](build, kept.facts)
            found = broken_of(kind, kept, now)
            new = [] if found else kept.keep(now)
        if found:
            print(
                f"{kind}: nothing is kept while promises are broken\n"
                + "\n".join(f"  {sentence}" for sentence in found)
            )
            return 1
        print(
            f"{kind}: {len(new)} new"
            + "".join(f"\n  {name}" for name in new[:20])
            + ("\n  ..." if len(new) > 20 else "")
        )
    if "headers" in kinds and (anew or not headers.KEPT_HEADERS.exists()):
        # They stay those of the first release.
        shutil.rmtree(headers.KEPT_HEADERS, ignore_errors=True)
        shutil.copytree(ROOT / "include", headers.KEPT_HEADERS)
    return 0


def main(arguments):
    kinds = arguments[2:] or KINDS
    if len(arguments) < 2 or arguments[0] not in ("check", "keep", "anew") or not set(kinds) <= set(KINDS):
        print(__doc__ + f"Kinds: {', '.join(KINDS)}", file=sys.stderr)
        return 2
    build = pathlib.Path(arguments[1]).resolve()
    if not (build / "bin/croupier").exists():
        print(f"{build} has no bin/croupier: ./dev build makes build/release", file=sys.stderr)
        return 2
    return check(build, kinds) if arguments[0] == "check" else keep(build, kinds, arguments[0] == "anew")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
