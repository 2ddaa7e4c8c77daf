"""Rounds of `croupier sim`: random options from a seed, and the results."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

# Verifiers use only idle CPU time, which is scarce on a busy machine.
TIMEOUT_S = 600
# Longer than sim's own limit, whose message says what it waited for.
HUNG_S = TIMEOUT_S + 60
# Seconds to verify one token, per entry of the vocabulary, measured on the first host.
VERIFY_SECONDS = 1.1e-7
VERIFY_BUDGET_S = 3.5
MIXES = ("mixed", "mixed", "full", "fixed", "plain", "greedy", "fixed-top-p", "fixed-temperature")
REPORTED = (
    *("ok", "requests", "unfinished", "steps", "tokens", "verified", "mismatched", "lost", "duplicated"),
    *("recovered", "readmitted", "truncated", "failed_requests", "kills", "left_in_shm", "serving_s"),
    *("wall_s", "streams_digest", "first_mismatch", "fault"),
)


def random_shape(draw: random.Random, chaos: tuple[str, ...]) -> list[str]:
    vocab = draw.choice((300, 1000, 4099, 8192, 32000, 50257, 128256, 151936))
    batch = draw.choice((1, 2, 3, 4, 6, 8))
    stage_ms = draw.choice((10, 20, 40, 80))
    pp = draw.choice((1, 1, 1, 2))
    seconds = draw.uniform(8, 25)
    steps = min(seconds * 1000 / stage_ms, VERIFY_BUDGET_S / (vocab * VERIFY_SECONDS) / batch)
    shape = {
        "vocab": vocab,
        "batch": batch,
        "stage-ms": stage_ms,
        "pp": pp,
        "steps": max(12, int(steps)),
        "tp": draw.choice((1, 2)),
        "ahead": draw.choice((1, 1, 2, 3)),
        "mix": draw.choice(MIXES),
        "dtype": draw.choice(("bf16", "bf16", "fp16", "fp32")),
        "order": draw.choice(("identity", "random")),
        "randoms": draw.choice(("computed", "ring")),
        "decisions": draw.choice(("ring", "ring", "zmq")),
        "prompt-max": draw.choice((64, 512, 4096)),
        "output-max": draw.choice((16, 64, 160)),
        "tile": draw.choice((1, 64, 64, 64)),
        "truncates": draw.choice((0, 0, 0, 4)),
    }
    if draw.random() < 0.3:
        # Tiles of one id, orders, supplied randoms and summaries belong to whole rows.
        shape |= {"transport": "lean", "tile": 64, "order": "identity", "randoms": "computed"}
    options = [part for name, value in shape.items() for part in (f"--{name}", str(value))]
    if shape.get("transport") != "lean" and draw.random() < 0.5:
        options += ["--summaries"]
    return options + chaos_options(draw, chaos, 4)


def reference_shape(draw: random.Random, chaos: tuple[str, ...]) -> list[str]:
    """Always the same work, so that latencies can be compared over the hour."""
    shape = "--vocab 16384 --batch 4 --mix fixed --prompt-max 512 --output-max 64 --stage-ms 40 --steps 1000"
    return shape.split() + chaos_options(draw, chaos, 2)


def chaos_options(draw: random.Random, chaos: tuple[str, ...], most: int) -> list[str]:
    target = draw.choice(chaos)
    return [] if target == "none" else ["--chaos", target, "--kills", str(draw.randint(1, most))]


class Round:
    """One `croupier sim` with a running daemon."""

    def __init__(self, programs: Path, endpoint: str, options: list[str], output: Path) -> None:
        self.options = options
        self.output = output
        self.cut = False  # because time was over, not for anything that it did
        command = [programs / "croupier", "sim", "--endpoint", endpoint, "--json"]
        command += ["--timeout-s", str(TIMEOUT_S), *options]
        with output.open("wb") as file:
            self.process = subprocess.Popen(
                [str(part) for part in command], stdout=file, stderr=file, start_new_session=True
            )
        self.session = f"sim-{self.process.pid}"

    def finish(self) -> dict[str, Any]:
        """The report of sim, or why there is none."""
        began = time.monotonic()
        hung = False
        try:
            self.process.wait(HUNG_S)
        except subprocess.TimeoutExpired:
            hung = True
        self.kill()
        text = self.output.read_text(errors="replace")
        found: dict[str, Any] = {"options": " ".join(self.options), "exit": self.process.returncode}
        try:
            report = json.loads(text.strip().splitlines()[-1])
            found |= {key: report[key] for key in REPORTED if key in report}
            found["decision_us"] = {key: report["decision_us"][key] for key in ("p50", "p99", "max")}
        except (IndexError, ValueError, KeyError):
            found |= {"ok": False, "fault": text[-2000:]}
        if self.cut:
            found |= {"cut": True}
        if hung:
            found |= {"ok": False, "hung_s": time.monotonic() - began}
        return found

    def kill(self) -> None:
        """Kills its process group, including processes that it left behind."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
