"""One engine's streams, call by call: python sglang_streams_probe.py FOLDER, lines in JSON on standard input.

The first line has the engine's options and flags, each other one a call. Standard output says READY, then how
many TOKENS a call has so far, then its ANSWERS.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from sglang_engines import engine, streamed

_KEPT = ("output_token_logprobs", "output_top_logprobs")


def tell(text: str) -> None:
    print(text, flush=True)


def told(made: Any, call: dict[str, Any]) -> list[Any]:
    """The answers, in the order of the call's requests."""
    answers: list[Any] = []
    for tokens, so_far in streamed(made, call):
        tell(f"TOKENS {tokens}")
        answers = so_far
    return [
        {"ids": one["output_ids"], **{name: one["meta_info"].get(name) for name in _KEPT}} for one in answers
    ]


def main() -> None:
    asked = json.loads(sys.stdin.readline())
    with engine(Path(sys.argv[1]), asked["options"], **asked["flags"]) as made:
        tell("READY")
        for line in sys.stdin:
            tell("ANSWERS " + json.dumps(told(made, json.loads(line))))


if __name__ == "__main__":
    main()
