#!/usr/bin/env python3
"""Serves a transformer with and without verification, and compares texts and throughput.

    run.py OUT.json [--size small] [--device cpu|cuda] [--transport rows|lean] [--parts rows,batchings]

The package croupier, with its programs, and torch must be importable. The weights are random. There are three
parts:

rows        compares the bits of one sequence's rows in passes of both kinds
batchings   serves the same requests in ten batchings: with verification the texts must be equal; without it,
            the result has the share of requests and of tokens that differ
throughput  serves requests of which a share is verified, for each shape of windows; the cases take turns, and
            `of_plain` is a case's throughput divided by that of the same requests without verification, which
            are served just before: least, median and most of all rounds; `of_plain_by_cpu` counts the seconds
            that the engine and a host's model have computed
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import random
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from batchings import Batching, batchings
from daemon_process import Daemon
from engine import Request
from model import SIZES, Decoder
from passes import FixedShape
from row_bits import compare_rows
from served import Place, Served, serve
from summary import medians
from workload import requests, unverified

import croupier

DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}
PROMPT_TOKENS = (8, 40)
PROMPTS = FixedShape(8, 32)
# Most of the model's rows have a clear best token, which ends no request.
FLAT_TOKENS = 6


def compare_batchings(place: Place, asked: list[Request], windows: FixedShape) -> Iterator[dict[str, Any]]:
    """A line for each batching, with and without verification, compared with the first of its kind."""
    for verified in (True, False):
        first: Served | None = None
        for batching in batchings(asked if verified else [unverified(each) for each in asked]):
            served = serve(place, batching, windows)
            first = first or served
            yield {
                "batching": batching.name,
                "verified": verified,
                **differences(served.texts, first.texts),
                **served.report(),
            }


def differences(texts: dict[int, list[int]], others: dict[int, list[int]]) -> dict[str, Any]:
    """A token that the other text has not at its place differs, as does all that a shorter text lacks."""
    different = sum(text != others[uid] for uid, text in texts.items())
    tokens = sum(a != b for uid, text in texts.items() for a, b in itertools.zip_longest(text, others[uid]))
    longest = sum(max(len(text), len(others[uid])) for uid, text in texts.items())
    return {
        "different_requests": different / len(texts),
        "different_tokens": round(tokens / longest, 4),
    }


def compare_throughput(
    place: Place,
    asked: list[Request],
    shapes: list[FixedShape],
    shares: list[float],
    rounds: int,
    running: int,
) -> Iterator[dict[str, Any]]:
    """A line for each run of a shape and a share, compared with one of the same requests unverified."""
    texts: dict[tuple[FixedShape, int], list[int]] = {}
    cases = list(itertools.product(shapes, shares))
    serve(place, queued(mixture(asked, 1), running), shapes[0])  # warms up
    for number in range(rounds):
        for shape, share in random.Random(number).sample(cases, len(cases)):
            plain = serve(place, queued(mixture(asked, 0), running), shape)
            mixed = mixture(asked, share)
            served = serve(place, queued(mixed, running), shape)
            verified = {each.uid: served.texts[each.uid] for each in mixed if each.verified}
            yield {
                "groups": shape.groups,
                "width": shape.width,
                "verified_share": share,
                "of_plain": times_as_fast(served, plain, "seconds"),
                "of_plain_by_cpu": times_as_fast(served, plain, "cpu_seconds"),
                "changed_texts": sum(
                    texts.setdefault((shape, uid), text) != text for uid, text in verified.items()
                ),
                **served.report(),
            }


def times_as_fast(served: Served, plain: Served, clock: str) -> float:
    """Tokens by seconds of the clock, divided by those of the plain run."""
    return round(served.tokens / getattr(served, clock) / (plain.tokens / getattr(plain, clock)), 3)


def mixture(asked: list[Request], share: float) -> list[Request]:
    """Of which so many are verified: always the same."""
    chosen = {each.uid for each in random.Random(1).sample(asked, round(share * len(asked)))}
    return [each if each.uid in chosen else unverified(each) for each in asked]


def queued(asked: list[Request], running: int) -> Batching:
    return Batching(f"{running} at a time", [(0, each) for each in asked], running)


def environment(options: argparse.Namespace) -> dict[str, Any]:
    cuda = options.device == "cuda"
    return {
        "croupier": croupier.__version__,
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name() if cuda else f"{platform.machine()} host",
        "capability": torch.backends.cpu.get_cpu_capability(),
        "cores": len(os.sched_getaffinity(0)),
        "arguments": {name: value for name, value in vars(options).items() if name != "out"},
    }


def print_progress(begun: float, line: dict[str, Any]) -> None:
    print(f"{time.monotonic() - begun:6.1f} s {json.dumps(line)}", flush=True)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path, help="the JSON file that is written")
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--dtype", choices=DTYPES, default="bf16")
    parser.add_argument("--transport", choices=("rows", "lean"), default="rows")
    parser.add_argument("--split-k", action="store_true", help="small batches add up products in parts")
    parser.add_argument("--parts", default="rows,batchings,throughput")
    parser.add_argument("--requests", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=96, help="the most of a request")
    parser.add_argument(
        "--groups", default="8", help="sequences of a verification pass, a list for throughput"
    )
    parser.add_argument("--widths", default="32", help="rows of a sequence in it, a list for throughput")
    parser.add_argument("--shares", default="0,0.05,0.1,0.5,1", help="of verified requests, for throughput")
    parser.add_argument("--running", type=int, default=16, help="requests at a time, for throughput")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--samplers", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1, help="of torch, on a host")
    return parser.parse_args()


def main() -> int:
    begun = time.monotonic()
    options = parsed()
    # Then the daemon is ended too.
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    torch.set_num_threads(options.threads)
    size = SIZES[options.size]
    shapes = [
        FixedShape(groups, width)
        for groups, width in itertools.product(
            map(int, options.groups.split(",")), map(int, options.widths.split(","))
        )
    ]
    model = Decoder(
        size,
        slots=options.requests,
        context=PROMPT_TOKENS[1] + options.tokens,
        device=options.device,
        dtype=DTYPES[options.dtype],
        split_k=options.split_k,
    )
    batch = options.running if options.parts == "throughput" else options.requests
    batches = sorted({min(count, options.requests) for count in (1, 2, 8, options.requests)})
    model.prepare(batch, [PROMPTS, *shapes])
    print_progress(begun, {"prepared": batch})
    asked = requests(
        options.requests,
        vocab=size.vocab,
        tokens=options.tokens,
        prompt=PROMPT_TOKENS,
        flat_tokens=FLAT_TOKENS,
    )
    found: dict[str, Any] = {"environment": environment(options)}
    # On a host without a GPU the model computes on the same cores.
    with Daemon(options.samplers, pin=options.device != "cpu") as daemon:
        device = torch.cuda.current_device() if options.device == "cuda" else -1
        place = Place(daemon, model, size.vocab, options.dtype, options.transport, device, PROMPTS)
        parts = {
            "rows": lambda: compare_rows(model, shapes[0], batches),
            "batchings": lambda: compare_batchings(place, asked, shapes[0]),
            "throughput": lambda: compare_throughput(
                place,
                asked,
                shapes,
                [float(share) for share in options.shares.split(",")],
                options.rounds,
                options.running,
            ),
        }
        for part in options.parts.split(","):
            found[part] = []
            for line in parts[part]():
                print_progress(begun, line)
                found[part].append(line)
                options.out.write_text(json.dumps(found, indent=1))
    if "throughput" in found:
        found["medians"] = medians(found["throughput"])
        options.out.write_text(json.dumps(found, indent=1))
    changed = [
        *(line for line in found.get("rows", []) if line["different"] > line.get("expected", 1)),
        *(line for line in found.get("batchings", []) if line["verified"] and line["different_requests"]),
        *(line for line in found.get("throughput", []) if line["changed_texts"]),
    ]
    for line in changed:
        print(f"verified rows or texts differ: {json.dumps(line)}", file=sys.stderr)
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main())
