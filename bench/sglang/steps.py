"""Times of a step: steps.py SIDE OUT.json, SIDE native or croupier.

A step takes the difference of two batches that differ in STEPS tokens, over STEPS; each is the best of RUNS.
KINDS, BATCHES, SHAPE and OPTIONS are environment variables too, and those of turns.py.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

from turns import alone_when_started

SHORT = 8


def main() -> None:
    side, out = sys.argv[1:]
    from engines import engine

    options = json.loads(os.environ.get("OPTIONS", "{}")) if side == "croupier" else None
    with alone_when_started(side) as wait_for_others:
        server = engine(os.environ.get("SHAPE", "7b"), options)
        print(f"{side}: started", flush=True)
        wait_for_others()
        measure(server, side, out)
        server.shutdown()


def measure(server: Any, side: str, out: str) -> None:
    import kinds
    from engines import prompts

    steps, runs = int(os.environ.get("STEPS", 64)), int(os.environ.get("RUNS", 2))
    batches = [int(batch) for batch in os.environ.get("BATCHES", "1,8,64,256").split(",")]
    names = os.environ.get("KINDS", ",".join(kinds.names())).split(",")
    # Of the measurements alone, as starts take longer or shorter.
    deadline = time.monotonic() + float(os.environ.get("TOTAL", 1e9))

    def seconds(kind: str, count: int, tokens: int) -> float:
        asked, more = kinds.of_requests(kind, count, tokens), kinds.logprobs_of(kind, count)
        start = time.perf_counter()
        answers = server.generate(input_ids=prompts(count), sampling_params=asked, **more)
        passed = time.perf_counter() - start
        assert all(len(answer["output_ids"]) == tokens for answer in answers)
        return passed

    found: dict[str, dict[int, float]] = {}
    for kind in names:
        found[kind] = {}
        for count in batches:
            if time.monotonic() > deadline:
                print(f"{side}: no time for {kind} at {count}", flush=True)
                continue
            seconds(kind, count, 4)
            # Each by itself: a run of the short one that stalled would make a step look short.
            long, short = (
                min(seconds(kind, count, tokens) for _ in range(runs)) for tokens in (SHORT + steps, SHORT)
            )
            best = long - short
            found[kind][count] = round(1e6 * best / steps, 1)
        print(f"{side} {kind}: {found[kind]}", flush=True)
        with open(out, "w") as file:
            json.dump({"side": side, "steps": steps, "runs": runs, "microseconds": found}, file, indent=1)


if __name__ == "__main__":
    main()
