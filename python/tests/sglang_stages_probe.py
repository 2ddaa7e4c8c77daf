"""One engine's streams, disturbed: python sglang_stages_probe.py FOLDER, calls in JSON on standard input.

A call may have `abort` and `kill`: once its requests have so many tokens, the first one is aborted, or the
daemon is killed.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from sglang_engines import engine, streamed

from croupier.serving.place import daemon_pid


def disturbed(made: Any, folder: Path, call: dict[str, Any]) -> list[dict[str, Any]]:
    names = [f"request {number}" for number in range(len(call["input_ids"]))]
    at = {call.pop(what, None): what for what in ("abort", "kill")}
    answers: list[dict[str, Any]] = []
    for tokens, so_far in streamed(made, {**call, "rid": names}):
        answers = so_far
        for limit in [limit for limit in at if limit is not None and tokens >= limit]:
            if at.pop(limit) == "abort":
                made.tokenizer_manager.abort_request(names[0])
            else:
                os.kill(daemon_pid(folder / "croupier-private"), signal.SIGKILL)
    return answers


def main() -> None:
    folder, asked = Path(sys.argv[1]), json.load(sys.stdin)
    with engine(folder, asked["options"], **asked["flags"]) as made:
        answers = [disturbed(made, folder, call) for call in asked["calls"]]
    print("\nANSWERS " + json.dumps(answers), flush=True)


if __name__ == "__main__":
    main()
