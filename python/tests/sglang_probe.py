"""What one engine answers to a list of calls: python sglang_probe.py FOLDER, calls in JSON on standard input.

A process of its own for each engine: SGLang loads its plugins once in a process, and ends all its children.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from sglang_engines import engine


def main() -> None:
    asked = json.load(sys.stdin)
    answers = []
    with engine(Path(sys.argv[1]), asked["options"], **asked["flags"]) as made:
        for call in asked["calls"]:
            try:
                answers.append(made.generate(**call))
            except ValueError as error:
                answers.append(str(error))
    print("\nANSWERS " + json.dumps(answers), flush=True)


if __name__ == "__main__":
    main()
