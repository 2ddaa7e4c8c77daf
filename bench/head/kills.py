#!/usr/bin/env python3
"""Kills workers while they send steps of Writer.enqueue_head(), and compares every token.

    kills.py OUT.json [--kills 8] [--steps 6] [--columns 64] [--vocab 151936] [--elements 3584]

PYTHONPATH as for steps.py. A worker is a process with the matrices of steps.py whose sums are exact. It is
killed some microseconds after its enqueue, a new one sends what is not decided, and sends the next steps. The
tokens must be those of torch's product and of a worker that lives.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import signal
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import kinds
import torch
from daemon_process import Daemon
from gpu_steps import PATIENCE, check_errors
from kind_steps import admit, asked, open_lean
from steps import whole_matrices

import croupier

MOST_US = 900  # behind the enqueue: a step is sent by then


def work(place: argparse.Namespace, path: str, orders: Connection) -> None:
    hidden, weight = whole_matrices(place.vocab, place.elements, "bf16")
    writer = croupier.Writer(path, device=0, rows="lent")
    logits = torch.empty(place.columns, writer.info.head_row_elements, dtype=torch.bfloat16, device="cuda")
    stream = torch.cuda.current_stream().cuda_stream
    orders.send("ready")
    while True:
        step, first = orders.recv()
        states = hidden[first : first + place.columns].contiguous()
        torch.cuda.synchronize()
        if not writer.begin(step):
            raise RuntimeError(f"step {step} cannot be begun")
        writer.enqueue_head(states, weight, logits, stream)
        orders.send("enqueued")


class Worker:
    def __init__(self, place: argparse.Namespace, path: str) -> None:
        context = multiprocessing.get_context("spawn")
        self._orders, theirs = context.Pipe()
        self._process = context.Process(target=work, args=(place, path, theirs), daemon=True)
        self._process.start()
        self._expect("ready")

    def _expect(self, word: str) -> None:
        if not self._orders.poll(60) or self._orders.recv() != word:
            raise RuntimeError(f"a worker is not {word}")

    def send(self, step: int, first: int) -> None:
        self._orders.send((step, first))
        self._expect("enqueued")

    def kill(self) -> None:
        os.kill(self._process.pid or 0, signal.SIGKILL)
        self._process.join()


def is_decided(session: croupier.Session) -> list[int] | None:
    """The step's tokens, if the worker had sent it."""
    decided = session.wait(0.5)
    if decided is None:
        return None
    check_errors(decided)
    return decided.tokens.tolist()


def expected(daemon: Daemon, place: argparse.Namespace, requests: list[Any], steps: int) -> list[list[int]]:
    hidden, weight = whole_matrices(place.vocab, place.elements, "bf16")
    session = open_lean(daemon, "expected", place.vocab, "bf16", place.columns)
    writer = croupier.Writer(session.segment_path, device=0, rows="lent")
    uids = admit(session, requests, 1, place.vocab)
    found = []
    for number in range(steps):
        step = session.submit(uids)
        assert writer.begin(step)
        logits = torch.matmul(hidden[number : number + place.columns], weight.t())
        writer.enqueue(logits, torch.cuda.current_stream().cuda_stream)
        decided = session.wait(PATIENCE)
        check_errors(decided)
        found.append(decided.tokens.tolist())
    writer.detach()
    session.close()
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--kills", type=int, default=8)
    parser.add_argument("--steps", type=int, default=6, help="from kill to kill")
    parser.add_argument("--columns", type=int, default=64)
    parser.add_argument("--samplers", type=int, default=8)
    parser.add_argument("--vocab", type=int, default=151936)
    parser.add_argument("--elements", type=int, default=3584)
    place = parser.parse_args()
    every = [each for each in kinds.seeded_mixtures() if "stop_token_ids" not in each]
    requests = [asked(every[at % len(every)]) for at in range(place.columns)]
    steps = place.kills * place.steps
    chance = random.Random(1)
    different = half_sent = 0
    with Daemon(place.samplers, pin=True, wait="spin") as daemon:
        right = expected(daemon, place, requests, steps)
        session = open_lean(daemon, "killed", place.vocab, "bf16", place.columns)
        uids = admit(session, requests, 1, place.vocab)
        worker = Worker(place, str(session.segment_path))
        for number in range(steps):
            step = session.submit(uids)
            worker.send(step, number)
            tokens = None
            if number % place.steps == place.steps - 1:
                time.sleep(chance.uniform(0, MOST_US) * 1e-6)
                worker.kill()
                tokens = is_decided(session)
                worker = Worker(place, str(session.segment_path))
                if tokens is None:
                    half_sent += 1
                    worker.send(step, number)
            if tokens is None:
                decided = session.wait(PATIENCE)
                check_errors(decided)
                tokens = decided.tokens.tolist()
            different += sum(a != b for a, b in zip(tokens, right[number], strict=True))
        worker.kill()
        session.close()
    found = {
        "kills": place.kills,
        "half_sent": half_sent,
        "tokens": steps * place.columns,
        "different": different,
    }
    print(json.dumps(found))
    place.out.write_text(json.dumps(found, indent=1))
    return 0 if different == 0 and half_sent > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
