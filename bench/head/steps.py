#!/usr/bin/env python3
"""From hidden states in a GPU's memory to tokens there: torch's product and Writer.enqueue() beside
Writer.enqueue_head(), by turns.

    steps.py OUT.json [--columns 1,8,64,256] [--kinds greedy,full] [--vocab 151936] [--elements 3584]

PYTHONPATH as for bench/gpu/kind_steps.py, and bench/gpu itself. Microseconds of the GPU's stream, from the
first enqueue on, and of the host's calls. The two ways round products otherwise, so that a token may differ
now and then: these are counted. Before that, steps of small whole numbers, whose sums are exact in any order,
ask for each control, half of their columns under a mask: no token may differ, by one rank and by four. With
--tokens alone nothing is timed.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import kinds
import torch
from daemon_process import Daemon
from gpu_steps import KINDS, LENGTH, PATIENCE, Clock, check_errors, row_number
from kind_steps import admit, asked, open_lean

import croupier

ROWS = 512  # different hidden states
LIKELY = 50
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


def drawn_matrices(vocab: int, elements: int, dtype: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Of logits as spread as a model's, with some likely tokens in each row."""
    torch.manual_seed(1)
    weight = torch.randn(vocab, elements, device="cuda") / elements**0.5
    hidden = torch.randn(ROWS, elements, device="cuda") * 2.5
    likely = torch.randint(vocab, (ROWS, LIKELY), device="cuda")
    for row in range(ROWS):
        hidden[row] += 8 * weight[likely[row]].sum(dim=0)
    return hidden.to(DTYPES[dtype]), weight.to(DTYPES[dtype])


def whole_matrices(vocab: int, elements: int, dtype: str) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(2)
    hidden = torch.randint(-2, 3, (ROWS, elements), device="cuda").to(DTYPES[dtype])
    weight = torch.randint(-1, 2, (vocab, elements), device="cuda").to(DTYPES[dtype])
    # A power of two: products and sums stay exact.
    return hidden, weight * 2.0 ** -round(math.log2(elements**0.5 / 2.5))


def half_masked(columns: int, vocab: int, position: int) -> list[Any]:
    """Of every second column, others each time, a mask that allows about half of the ids."""
    random = torch.Generator().manual_seed(position)
    sizes = (columns, (vocab + 31) // 32)
    words = torch.randint(-(2**31), 2**31 - 1, sizes, dtype=torch.int32, generator=random).numpy()
    return [words[column] if (column + position) % 2 == 0 else None for column in range(columns)]


class Way:
    """A session whose steps' logits are computed in one way, and a writer for each rank of it."""

    def __init__(
        self, daemon: Daemon, place: argparse.Namespace, name: str, columns: int, tp: int, mask_rows: int
    ) -> None:
        self.fused = name == "fused"
        named = f"{name}-{columns}-{tp}"
        self.session = open_lean(daemon, named, place.vocab, place.dtype, columns, tp=tp, mask_rows=mask_rows)
        self.writers = [
            croupier.Writer(self.session.segment_path, rank=rank, device=0, rows="lent") for rank in range(tp)
        ]
        self.tokens = torch.empty(columns, dtype=torch.int32, device="cuda")
        # Lent rows stay as they are until the step is decided.
        self.logits = [
            torch.empty(columns, self._elements(writer.info), dtype=DTYPES[place.dtype], device="cuda")
            for writer in self.writers
        ]
        self.clock = Clock("cuda")
        self.host_us: list[float] = []

    def _elements(self, info: croupier.WriterInfo) -> int:
        return info.head_row_elements if self.fused else info.ids

    def step(
        self, uids: list[int], masks: list[Any] | None, hidden: torch.Tensor, weight: torch.Tensor
    ) -> list[int]:
        step = self.session.submit(uids, masks=masks)
        for writer in self.writers:
            assert writer.begin(step)
        torch.cuda.synchronize()
        stream = torch.cuda.current_stream().cuda_stream
        columns: list[Any] = []

        def enqueue() -> None:
            begun = time.perf_counter()
            for writer, logits in zip(self.writers, self.logits, strict=True):
                info = writer.info
                own = weight[info.first_id : info.first_id + info.ids]
                if self.fused:
                    writer.enqueue_head(hidden, own, logits, stream)
                else:
                    torch.matmul(hidden, own.t(), out=logits)
                    writer.enqueue(logits, stream)
            self.host_us.append((time.perf_counter() - begun) * 1e6)
            self.writers[0].enqueue_awaited_tokens(step, self.tokens, stream, timeout=PATIENCE)

        def finish() -> None:
            decided = self.session.wait(PATIENCE)
            check_errors(decided)
            columns.extend(decided.tokens.tolist())

        self.clock.time(enqueue, finish)
        if self.tokens.tolist() != columns:
            raise RuntimeError("the tokens in the GPU's memory are not the step's")
        return columns

    def close(self) -> None:
        for writer in self.writers:
            writer.detach()
        self.session.close()


def run(
    daemon: Daemon,
    place: argparse.Namespace,
    requests: list[dict[str, Any]],
    steps: int,
    tp: int,
    whole: bool,
) -> tuple[list[Way], int]:
    """Both ways by turns. How many tokens differ."""
    columns = len(requests)
    hidden, weight = place.whole if whole else place.drawn
    gathered = torch.empty(columns, hidden.shape[1], dtype=hidden.dtype, device="cuda")
    mask_rows = columns if whole else 0
    ways = [Way(daemon, place, name, columns, tp, mask_rows) for name in ("matmul", "fused")]
    done = different = 0
    first = 1
    while done < steps:
        for way in ways:
            way.clock.begin_session()
            uids = admit(way.session, [asked(each) for each in requests], first, place.vocab)
        for position in range(min(LENGTH, steps - done)):
            numbers = torch.tensor([row_number(uid, position, ROWS) for uid in uids])
            torch.index_select(hidden, 0, numbers.to("cuda"), out=gathered)
            order = ways if position % 2 == 0 else ways[::-1]
            masks = half_masked(columns, place.vocab, position) if whole else None
            found = [way.step(uids, masks, gathered, weight) for way in order]
            different += sum(a != b for a, b in zip(*found, strict=True))
            done += 1
        for way in ways:
            for uid in uids:
                way.session.finish(uid)
        first += columns
    for way in ways:
        way.close()
    return ways, different


def check_tokens(daemon: Daemon, place: argparse.Namespace) -> dict[str, Any]:
    # None may stop before the others.
    every = [each for each in kinds.seeded_mixtures() if "stop_token_ids" not in each]
    tokens = different = 0
    # Four ranks of the usual vocabulary part it within a block.
    for tp in (1, 4):
        for columns in map(int, place.token_columns.split(",")):
            requests = [every[at % len(every)] for at in range(columns)]
            ways, differ = run(daemon, place, requests, place.token_steps, tp, whole=True)
            tokens += columns * place.token_steps
            different += differ
    return {"tokens": tokens, "different": different}


def measure(daemon: Daemon, place: argparse.Namespace, kind: str, columns: int) -> dict[str, Any]:
    requests = [KINDS[kind] if kind in KINDS else kinds.batch_of(kind, columns)[0]] * columns
    ways, different = run(daemon, place, requests, place.steps, 1, whole=False)
    found: dict[str, Any] = {"kind": kind, "columns": columns, "different": different}
    for way, name in zip(ways, ("matmul", "fused"), strict=True):
        found[name] = {**way.clock.result(), "host": round(statistics.median(way.host_us), 1)}
    found["ratio"] = round(found["fused"]["p50"] / found["matmul"]["p50"], 3)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument(
        "--kinds", default="greedy,temperature,top_p,full", help="as kind_steps.py, and top_p"
    )
    parser.add_argument("--columns", default="1,8,16,32,64,128,256")
    parser.add_argument("--dtype", default="bf16", help=", ".join(DTYPES))
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--samplers", type=int, default=12)
    parser.add_argument("--wait", default="spin", help="samplers.wait of the daemon")
    parser.add_argument("--vocab", type=int, default=151936)
    parser.add_argument("--elements", type=int, default=3584)
    parser.add_argument("--tokens", action="store_true", help="compare tokens, and time nothing")
    parser.add_argument("--token-steps", type=int, default=12)
    parser.add_argument("--token-columns", default="1,8,33,256")
    place = parser.parse_args()
    found: dict[str, Any] = {
        "device": torch.cuda.get_device_name(),
        **{name: getattr(place, name) for name in ("dtype", "samplers", "wait", "vocab", "elements")},
        "results": [],
    }
    with Daemon(place.samplers, pin=True, wait=place.wait) as daemon:
        place.whole = whole_matrices(place.vocab, place.elements, place.dtype)
        found["exact"] = check_tokens(daemon, place)
        print(json.dumps(found["exact"]), flush=True)
        del place.whole
        torch.cuda.empty_cache()
        place.out.write_text(json.dumps(found, indent=1))
        if not place.tokens:
            place.drawn = drawn_matrices(place.vocab, place.elements, place.dtype)
            for columns in map(int, place.columns.split(",")):
                for kind in place.kinds.split(","):
                    found["results"].append(measure(daemon, place, kind, columns))
                    print(json.dumps(found["results"][-1]), flush=True)
                    place.out.write_text(json.dumps(found, indent=1))
    return 0 if found["exact"]["different"] == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
