"""How much steps slow down matrix products that run on the same GPU in the same process.

    beside_matmul.py OUT.json [--columns 256] [--samplers 12] [--rounds 3]

PYTHONPATH has the package croupier with its programs, torch and bench/vllm. A CUDA graph of products runs
repeatedly: alone, with a step every 5 ms, and with steps back to back. Steps are sent as rows, as lean steps,
and as lean steps for whose tokens another stream waits, as in an engine that continues meanwhile. That stream
waits for a word in memory; the step's own stream has a polling kernel. "read once" is a lower bound: torch
finds the largest logit of each row as often as lean steps occur. "lost_us" is the time that products lose per
step.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from kinds import FULL

import croupier
from croupier._programs import program_path

VOCAB = 151936
PACES = {"every 5 ms": 0.005, "back to back": 0.0}


class Daemon:
    def __init__(self, samplers: int) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="beside-matmul-"))
        self.endpoint = f"ipc://{self.folder}/control.sock"
        config = self.folder / "croupierd.yaml"
        settings = {
            "instance": self.folder.name.replace("_", "-").lower(),
            "run_dir": str(self.folder),
            "samplers": {"count": samplers},
            "control": {"endpoint": self.endpoint},
            "metrics": {"listen": "off"},
        }
        config.write_text(json.dumps(settings))
        with open(self.folder / "log", "wb") as log:
            self.process = subprocess.Popen(
                [program_path("croupierd"), "--config", config], stdout=log, stderr=log
            )
        while "ready: " not in (self.folder / "log").read_text():
            if self.process.poll() is not None:
                raise RuntimeError((self.folder / "log").read_text())
            time.sleep(0.01)

    def end(self) -> None:
        self.process.terminate()
        self.process.wait()


class Products:
    """A CUDA graph of matrix products that keeps a GPU busy for some milliseconds."""

    EACH = 40

    def __init__(self) -> None:
        self._stream = torch.cuda.Stream()
        a, b = (torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16) for _ in range(2))
        out = torch.empty_like(a)
        with torch.cuda.stream(self._stream):
            torch.mm(a, b, out=out)
        self._stream.synchronize()
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph, stream=self._stream):
            for _ in range(self.EACH):
                torch.mm(a, b, out=out)
        self._kept = a, b, out

    def us_each(self, seconds: float) -> float:
        """The time of one product while the GPU is always busy."""
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        replays, until = 0, time.monotonic() + seconds
        with torch.cuda.stream(self._stream):
            self._graph.replay()
            begin.record()
            pending: list[torch.cuda.Event] = []
            while time.monotonic() < until:
                self._graph.replay()
                replays += 1
                pending.append(torch.cuda.Event())
                pending[-1].record()
                if len(pending) > 2:
                    pending.pop(0).synchronize()
            end.record()
        end.synchronize()
        return begin.elapsed_time(end) * 1000 / (replays * self.EACH)


class Reading:
    """Finds the largest logit of rows repeatedly, at the pace of another engine."""

    def __init__(self, rows: list[torch.Tensor]) -> None:
        self.rows = itertools.cycle(rows)
        columns = len(rows[0])
        self.largest = torch.empty(columns, dtype=torch.bfloat16, device="cuda")
        self.stream = torch.cuda.Stream(priority=-1)

    def step(self) -> None:
        with torch.cuda.stream(self.stream):
            torch.amax(next(self.rows), 1, out=self.largest)
        self.stream.synchronize()


class Steps:
    """An engine whose sequences are decided again and again, by a thread and on a stream of its own.

    Sequences end: where one is drawn from few rows for long, penalties leave nothing of what it is drawn from.
    """

    LENGTH = 400

    def __init__(
        self, daemon: Daemon, transport: int, rows: list[torch.Tensor], apart: bool = False
    ) -> None:
        columns = len(rows[0])
        self.session = croupier.Session(
            endpoint=daemon.endpoint,
            name=f"transport-{transport}-{apart}",
            vocab=VOCAB,
            dtype="bf16",
            max_batch=columns,
            max_length=1000,
            max_sequences=2 * columns,
            transport=transport,
            summaries=int(transport == 1),
        )
        self.writer = croupier.Writer(self.session.segment_path, device=0)
        self.uids: list[int] = []
        self.made = 0
        self.rows = itertools.cycle(rows)
        self.columns = columns
        self.tokens = torch.empty(columns, dtype=torch.int32, device="cuda")
        self.stream = torch.cuda.Stream(priority=-1)
        self.token_stream = torch.cuda.Stream(priority=-1) if apart else self.stream

    def replace_sequences(self) -> None:
        for uid in self.uids:
            self.session.finish(uid)
        self.uids = [self.made + place for place in range(1, self.columns + 1)]
        for uid in self.uids:
            self.session.add(uid, [1, 2, 3], params=croupier.Params(seed=uid, **FULL))

    def step(self) -> None:
        if self.made % (self.LENGTH * self.columns) == 0:
            self.replace_sequences()
        self.made += self.columns
        step = self.session.submit(self.uids)
        assert self.writer.begin(step)
        self.writer.enqueue(next(self.rows), self.stream.cuda_stream)
        if self.token_stream is not self.stream:
            self.token_stream.wait_stream(self.stream)
        self.writer.enqueue_awaited_tokens(step, self.tokens, self.token_stream.cuda_stream, timeout=20.0)
        assert not any(self.session.wait(20.0).errors)
        self.token_stream.synchronize()


def rows_of(columns: int) -> torch.Tensor:
    """Logits as spread as a model's, with different likely tokens in each row."""
    rows = torch.randn(columns, VOCAB, device="cuda") * 2.5
    rows.scatter_add_(
        1,
        torch.randint(VOCAB, (columns, 50), device="cuda"),
        torch.full((columns, 50), 8.0, device="cuda"),
    )
    return rows.to(torch.bfloat16)


def beside(step: Callable[[], None], products: Products, pause: float, seconds: float) -> dict[str, Any]:
    """The time of a product while steps run, at most one per `pause` seconds."""
    took: list[float] = []
    over = threading.Event()

    def run() -> None:
        while not over.is_set():
            begun = time.monotonic()
            step()
            took.append(time.monotonic() - begun)
            time.sleep(max(0.0, pause - took[-1]))

    alone = products.us_each(seconds)
    thread = threading.Thread(target=run)
    thread.start()
    begun = time.monotonic()
    us = products.us_each(seconds)
    while_beside = time.monotonic() - begun
    over.set()
    thread.join()
    median = sorted(took)[len(took) // 2]
    return {
        "product_us": us,
        "steps": len(took),
        "step_ms": median * 1000,
        "alone_us": alone,
        "loss": us / alone - 1,
        "lost_us": (1 - alone / us) * while_beside * 1e6 / len(took),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--columns", type=int, default=256)
    parser.add_argument("--samplers", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=24, help="number of batches of logits to cycle through")
    parser.add_argument("--seconds", type=float, default=1.0)
    arguments = parser.parse_args()
    daemon = Daemon(arguments.samplers)
    results: list[dict[str, Any]] = []
    try:
        products = Products()
        rows = [rows_of(arguments.columns) for _ in range(arguments.rows)]
        engines: dict[str, Steps | Reading] = {
            "rows": Steps(daemon, 1, rows),
            "lean": Steps(daemon, 2, rows),
            "lean, tokens apart": Steps(daemon, 2, rows, apart=True),
            "read once": Reading(rows),
        }
        for _ in range(arguments.rounds):
            for transport, steps in engines.items():
                for pace, pause in PACES.items():
                    if transport == "read once" and pause == 0.0:
                        pause = next(
                            of["step_ms"] / 1000
                            for of in reversed(results)
                            if of["transport"] == "lean" and of["pace"] == pace
                        )
                    found = beside(steps.step, products, pause, arguments.seconds)
                    results.append({"transport": transport, "pace": pace, **found})
                    print({key: round(of, 4) if isinstance(of, float) else of for key, of in results[-1].items()})
    finally:
        daemon.end()
    given = {key: str(value) for key, value in vars(arguments).items()}
    gpu = torch.cuda.get_device_name()
    arguments.out.write_text(
        json.dumps({"gpu": gpu, "arguments": given, "results": results}, indent=1) + "\n"
    )


if __name__ == "__main__":
    main()
