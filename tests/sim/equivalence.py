#!/usr/bin/env python3
"""Serves the same requests in plain steps and in many other ways, also under deaths, and compares the tokens.

    tests/sim/equivalence.py [--steps 4000] [--kills 42]

Each run is `croupier sim` with all controls mixed. It prints a line a run: what differs from plain steps, its tokens,
its deaths, and whether the streams are the same. At the end: how many tokens and deaths there were in all."""

import argparse
import json
import subprocess
import sys
from itertools import product
from pathlib import Path

SIM = Path(__file__).resolve().parents[2] / "build" / "release" / "bin" / "croupier-sim"
PLAIN = "--vocab 1001 --batch 64 --prompt-max 300 --samplers 2 --timeout-s 900 --json"
TARGETS = ("samplers", "daemon", "writer", "client")


def serve(steps: int, how: str) -> dict:
    words = [SIM, *PLAIN.split(), "--steps", str(steps), *how.split()]
    run = subprocess.run(words, capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(f"croupier-sim {PLAIN} --steps {steps} {how}\n{run.stderr}")
    return json.loads(run.stdout)


def ways(kills: int) -> list[str]:
    both = [f"--transport {transport} --tp {tp}" for transport, tp in product(("rows", "lean"), (1, 2, 4))]
    windows = [f"{way} --draft {draft}" for way, draft in product(both, (1, 4, 15))]
    windows += [f"{way} --draft 5 --ahead 3 --truncates 400" for way in both]
    windows += [f"{way} --replay {tokens}" for way, tokens in product(both, (7, 63))]
    dying = ("--draft 5", "--draft 4 --ahead 3", "--replay 20")
    return [f"{way} --verify never" for way in windows] + [
        f"--transport {transport} --tp 2 {way} --chaos {target} --kills {kills} --verify never"
        for transport, way, target in product(("rows", "lean"), dying, TARGETS)
    ]


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--steps", type=int, default=4000)
    options.add_argument("--kills", type=int, default=42)
    asked = options.parse_args()
    # With whole rows some requests have an rng that lean steps lack.
    plain = {transport: serve(asked.steps, f"--transport {transport}") for transport in ("rows", "lean")}
    tokens = kills = wrong = 0
    for how in ways(asked.kills):
        report = serve(asked.steps, how)
        same = report["streams_digest"] == plain[how.split()[1]]["streams_digest"]
        lost = report["lost"] + report["duplicated"]
        tokens, kills = tokens + report["tokens"], kills + report["kills"]
        wrong += not same or lost > 0
        print(f"{'same' if same else 'OTHER'} {report['tokens']} tokens, {report['kills']} deaths: {how}", flush=True)
    print(f"{tokens} tokens, {kills} deaths; {wrong} runs have other tokens than plain steps")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
