#!/usr/bin/env python3
"""From logits in a GPU's memory to tokens there, for steps of windows beside steps of one row each.

    gpu_steps.py OUT.json [--windows 1,8,64,256] [--drafts 4] [--accepted 0.8] [--kinds full] [--wait spin]

PYTHONPATH has the package croupier with its programs, torch, bench/vllm and bench/verified. Each request's
rows are those of its positions, whatever was drafted. So the tokens of plain steps, which come first, say
which drafts are right: each is with the chance --accepted. The tokens of windows must be the same ones.
Times are of the GPU's stream, from the enqueue on, in microseconds; of a device "cpu", of the host's calls.
A session's first steps are counted apart: samplers do not know yet when to expect logits.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from daemon_process import Daemon
from kinds import FULL, GREEDY

import croupier

KINDS = {
    "full": FULL,
    "greedy": GREEDY,
    "temperature": {"temperature": 0.8},
    "top_p": {"temperature": 0.8, "top_p": 0.95},
}
PATIENCE = 20.0
# Drawn from few rows for long, penalties leave nothing of what a request is drawn from.
LENGTH = 240
PROMPT = 3
ARRAYS = ("row_of", "inputs", "parents", "positions")


class Clock:
    """Times what is enqueued between its two calls; the GPU is busy until all of that is enqueued."""

    BUSY_CYCLES = 400_000
    FIRST = 5

    def __init__(self, device: str) -> None:
        self._gpu = device != "cpu"
        self.us: list[float] = []
        self.first_us: list[float] = []
        self._to_come = 0

    def begin_session(self) -> None:
        self._to_come = self.FIRST

    def clear(self) -> None:
        self.us.clear()
        self.first_us.clear()

    def _note(self, us: float) -> None:
        (self.first_us if self._to_come > 0 else self.us).append(us)
        self._to_come -= 1

    def time(self, enqueue: Callable[[], None], finish: Callable[[], None]) -> None:
        if not self._gpu:
            begun = time.perf_counter()
            enqueue()
            finish()
            self._note((time.perf_counter() - begun) * 1e6)
            return
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda._sleep(self.BUSY_CYCLES)
        begin.record()
        enqueue()
        end.record()
        finish()
        end.synchronize()
        self._note(begin.elapsed_time(end) * 1e3)

    def result(self) -> dict[str, float]:
        marks = statistics.quantiles(self.us, n=100, method="inclusive")
        return {
            "p50": round(marks[49], 1),
            "p99": round(marks[98], 1),
            "steps": len(self.us),
            "first_max": round(max(self.first_us), 1),
        }


class Drafts:
    def __init__(self, accepted: float, seed: int) -> None:
        self._accepted = accepted
        self._random = random.Random(seed)

    def next_is_right(self) -> bool:
        return self._random.random() < self._accepted


class Engine:
    """A session, its writer, and one request in each of `requests` columns."""

    def __init__(
        self, daemon: Daemon, place: argparse.Namespace, requests: int, rows: int, kind: str
    ) -> None:
        self.device = place.device
        self.requests, self.rows = requests, rows
        self.session = daemon.open(
            name=f"windows-{requests}-{rows}",
            vocab=place.vocab,
            dtype="bf16",
            transport=place.transport,
            steps_in_flight=3,
            max_batch=requests * rows,
            max_windows=requests,
            max_sequences=2 * requests,
            max_length=LENGTH + 100,
        )
        self.writer = croupier.Writer(self.session.segment_path, device=self.number)
        self.params = KINDS[kind]
        # A plain step's logits are an engine's: one row after another.
        self.gathered = torch.empty(requests, place.vocab, dtype=torch.bfloat16, device=place.device)
        self.tokens = torch.empty(requests * rows, dtype=torch.int32, device=place.device)
        self.arrays = {
            name: torch.zeros(requests * rows, dtype=torch.int32, device=place.device) for name in ARRAYS
        }

    @property
    def number(self) -> int:
        return -1 if self.device == "cpu" else torch.cuda.current_device()

    @property
    def stream(self) -> int:
        return 0 if self.device == "cpu" else torch.cuda.current_stream().cuda_stream

    def admit(self, first: int) -> list[int]:
        uids = list(range(first + 1, first + 1 + self.requests))
        for uid in uids:
            self.session.add(uid, [uid % 100] * PROMPT, params=croupier.Params(seed=uid, **self.params))
        return uids

    def step(self, uids: list[int], logits: torch.Tensor, given: dict[str, list[int]], clock: Clock) -> None:
        for name, numbers in given.items():
            self.arrays[name].copy_(torch.tensor(numbers, dtype=torch.int32))
        step = self.session.submit(uids, rows=[self.rows] * len(uids))
        assert self.writer.begin(step)
        if self.device != "cpu":
            torch.cuda.synchronize()

        def enqueue() -> None:
            self.writer.enqueue(logits, self.stream, **{name: self.arrays[name] for name in given})
            if self.device != "cpu":
                self.writer.enqueue_awaited_tokens(step, self.tokens, self.stream, timeout=PATIENCE)

        clock.time(enqueue, lambda: check_errors(self.session.wait(PATIENCE)))

    def close(self) -> None:
        self.writer.detach()
        self.session.close()


def check_errors(step: croupier.Step) -> None:
    for decision in step.decisions:
        if decision.error not in (0, croupier.DecisionError.REJECTED):
            raise RuntimeError(f"request {decision.uid}: {decision.error_text}")


def rows_of(count: int, vocab: int, device: str) -> torch.Tensor:
    """Logits as spread as a model's, with different likely tokens in each row."""
    torch.manual_seed(1)
    rows = torch.randn(count, vocab, device=device, dtype=torch.bfloat16) * 2.5
    likely = torch.randint(vocab, (count, 50), device=device)
    return rows.scatter_add_(1, likely, torch.full((count, 50), 8.0, device=device, dtype=torch.bfloat16))


def row_number(uid: int, position: int, rows: int) -> int:
    return (uid * 7919 + position * 104729) % rows


def plain(engine: Engine, first: int, logits: torch.Tensor, clock: Clock) -> list[list[int]]:
    uids = engine.admit(first)
    for position in range(LENGTH):
        numbers = torch.tensor([row_number(uid, position, len(logits)) for uid in uids])
        torch.index_select(logits, 0, numbers.to(logits.device), out=engine.gathered)
        engine.step(uids, engine.gathered, {}, clock)
    tokens = [engine.session.output(uid) for uid in uids]
    for uid in uids:
        engine.session.finish(uid)
    return tokens


def windows(
    engine: Engine, first: int, logits: torch.Tensor, right: list[list[int]], drafts: Drafts, clock: Clock
) -> tuple[int, int]:
    """How many rows were decided, and how many sent. The tokens must be those of plain steps."""
    uids = engine.admit(first)
    outputs: list[list[int]] = [[] for _ in uids]
    decided = sent = 0
    while max(map(len, outputs)) + engine.rows <= LENGTH:
        given: dict[str, list[int]] = {name: [] for name in ARRAYS}
        for asked in zip(uids, outputs, right, strict=True):
            add_window(given, asked, engine.rows, len(logits), drafts)
        before = sum(map(len, outputs))
        engine.step(uids, logits, given, clock)
        outputs = [engine.session.output(uid) for uid in uids]
        for output, tokens in zip(outputs, right, strict=True):
            if output != tokens[: len(output)]:
                raise RuntimeError("a window's token differs from that of a plain step")
        decided += sum(map(len, outputs)) - before
        sent += len(uids) * engine.rows
    for uid in uids:
        engine.session.finish(uid)
    return decided, sent


def add_window(
    given: dict[str, list[int]],
    asked: tuple[int, list[int], list[int]],
    rows: int,
    numbers: int,
    drafts: Drafts,
) -> None:
    """The rows of a chain: of a request, its output so far, and the tokens of plain steps."""
    uid, output, tokens = asked
    head = len(given["inputs"])
    for row in range(rows):
        position = len(output) + row
        fed = tokens[position - 1] if position > 0 else -2
        given["row_of"].append(row_number(uid, position, numbers))
        given["inputs"].append(fed if row == 0 or drafts.next_is_right() else fed ^ 1)
        given["parents"].append(head + max(row - 1, 0))
        # Where the token that is fed stands in prompt and output together.
        given["positions"].append(PROMPT + position - 1)


def measure(
    daemon: Daemon, place: argparse.Namespace, kind: str, requests: int, logits: torch.Tensor
) -> dict[str, Any]:
    one, many = Clock(place.device), Clock(place.device)
    decided = sent = 0
    for turn in range(place.rounds + 1):
        if turn == 1:  # behind the first, which warms up
            one.clear()
            many.clear()
            decided = sent = 0
        one.begin_session()
        alone = Engine(daemon, place, requests, 1, kind)
        right = plain(alone, turn * 10_000, logits, one)
        alone.close()
        many.begin_session()
        engine = Engine(daemon, place, requests, 1 + place.drafts, kind)
        some = windows(engine, turn * 10_000, logits, right, Drafts(place.accepted, turn), many)
        engine.close()
        decided, sent = decided + some[0], sent + some[1]
    return {
        "kind": kind,
        "windows": requests,
        "drafts": place.drafts,
        "decided_of_sent": round(decided / sent, 3),
        "tokens_compared": decided,
        "window_us": many.result(),
        "one_row_us": one.result(),
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--windows", default="1,8,64,256", help="requests of a step")
    parser.add_argument("--drafts", type=int, default=4)
    parser.add_argument("--accepted", type=float, default=0.8, help="the chance that a draft is right")
    parser.add_argument("--kinds", default="full", help=", ".join(KINDS))
    parser.add_argument("--transport", default="lean", choices=["rows", "lean"])
    parser.add_argument("--samplers", type=int, default=12)
    parser.add_argument("--wait", default="adaptive", help="samplers.wait of the daemon")
    parser.add_argument(
        "--rounds", type=int, default=14, help=f"of {LENGTH} positions, behind one that warms up"
    )
    parser.add_argument("--vocab", type=int, default=151936)
    parser.add_argument("--rows", type=int, default=1024, help="different rows of logits")
    parser.add_argument("--device", default="cuda")
    place = parser.parse_args()
    logits = rows_of(place.rows, place.vocab, place.device)
    results = []
    with Daemon(place.samplers, pin=place.device != "cpu", wait=place.wait) as daemon:
        for kind in place.kinds.split(","):
            for requests in map(int, place.windows.split(",")):
                results.append(measure(daemon, place, kind, requests, logits))
                print(json.dumps(results[-1]), flush=True)
    device = torch.cuda.get_device_name() if place.device != "cpu" else "cpu"
    place.out.write_text(
        json.dumps(
            {"device": device, "samplers": place.samplers, "wait": place.wait, "results": results}, indent=1
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
