"""What steps cost matrix products that run on the same GPU, in the same process, meanwhile.

    beside_matmul.py OUT.json [--columns 256] [--samplers 12] [--rounds 3]

PYTHONPATH has the package croupier with its programs, torch and bench/vllm. A CUDA graph of products runs
over and over; in turns nothing runs beside it, then a step every 5 ms, then steps back to back, as rows, as
lean steps, and as lean steps whose tokens another stream waits for than the one that has sent them: what an
engine does that goes on meanwhile. That stream waits by a word, where the step's own has a kernel that looks.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import threading
import time
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
            "decisions": {"endpoint": f"ipc://{self.folder}/decisions.sock"},
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
    """Matrix products that keep a GPU busy for some milliseconds, as one CUDA graph."""

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
        """One product's time, while the GPU always has some to do."""
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


class Steps:
    """An engine whose sequences are decided again and again, by a thread and on a stream of its own."""

    def __init__(self, daemon: Daemon, transport: int, columns: int, apart: bool = False) -> None:
        self.session = croupier.Session(
            endpoint=daemon.endpoint,
            name=f"transport-{transport}-{apart}",
            vocab=VOCAB,
            dtype="bf16",
            max_batch=columns,
            max_length=20000,
            transport=transport,
            summaries=int(transport == 1),
        )
        self.writer = croupier.Writer(self.session.segment_path, device=0)
        self.uids = list(range(1, columns + 1))
        for uid in self.uids:
            self.session.add(uid, [1, 2, 3], params=croupier.Params(seed=uid, **FULL))
        rows = torch.randn(columns, VOCAB, device="cuda") * 2.5
        rows[:, :50] += 8.0
        self.rows = rows.to(torch.bfloat16)
        self.tokens = torch.empty(columns, dtype=torch.int32, device="cuda")
        self.stream = torch.cuda.Stream(priority=-1)
        self.token_stream = torch.cuda.Stream(priority=-1) if apart else self.stream
        self.took: list[float] = []
        self.go_on = True

    def run(self, pause: float) -> None:
        stream = self.stream.cuda_stream
        while self.go_on:
            begun = time.monotonic()
            step = self.session.submit(self.uids)
            assert self.writer.begin(step)
            self.writer.enqueue(self.rows, stream)
            if self.token_stream is not self.stream:
                self.token_stream.wait_stream(self.stream)
            self.writer.enqueue_awaited_tokens(step, self.tokens, 20.0, self.token_stream.cuda_stream)
            assert not any(self.session.wait(20.0).errors)
            self.token_stream.synchronize()
            self.took.append(time.monotonic() - begun)
            time.sleep(max(0.0, pause - self.took[-1]))

    def beside(self, products: Products, pause: float, seconds: float) -> dict[str, Any]:
        self.go_on, self.took = True, []
        thread = threading.Thread(target=self.run, args=(pause,))
        thread.start()
        us = products.us_each(seconds)
        self.go_on = False
        thread.join()
        took = sorted(self.took)
        return {"product_us": us, "steps": len(took), "step_ms": took[len(took) // 2] * 1000}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--columns", type=int, default=256)
    parser.add_argument("--samplers", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.0)
    arguments = parser.parse_args()
    daemon = Daemon(arguments.samplers)
    results: list[dict[str, Any]] = []
    try:
        products = Products()
        engines = {
            "rows": Steps(daemon, 1, arguments.columns),
            "lean": Steps(daemon, 2, arguments.columns),
            "lean, tokens apart": Steps(daemon, 2, arguments.columns, apart=True),
        }
        for _ in range(arguments.rounds):
            for transport, steps in engines.items():
                for pace, pause in PACES.items():
                    alone = products.us_each(arguments.seconds)
                    found = steps.beside(products, pause, arguments.seconds)
                    found |= {"transport": transport, "pace": pace, "alone_us": alone}
                    found["loss"] = found["product_us"] / alone - 1
                    results.append(found)
                    print({key: round(of, 4) if isinstance(of, float) else of for key, of in found.items()})
    finally:
        daemon.end()
    given = {key: str(value) for key, value in vars(arguments).items()}
    gpu = torch.cuda.get_device_name()
    arguments.out.write_text(
        json.dumps({"gpu": gpu, "arguments": given, "results": results}, indent=1) + "\n"
    )


if __name__ == "__main__":
    main()
