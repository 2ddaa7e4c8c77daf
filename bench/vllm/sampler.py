"""What vLLM's own sampler takes on the GPU of a step, from the logits to the tokens, by events around it.

    sampler.py FOLDER --batches 1,8,32,64,128,256

One engine without Croupier, of few layers: its sampler does not know of them. FOLDER/sampler.json has
percentiles of each batch and kind, by the names of the mixes of `croupier sim` beside which they stand
(bench/gpu/beside_sampler.sh).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import kinds
from engines import SETTLE, Run, add_engine_options, folder_model, make_llm
from shapes import make_model
from sides import environment, write_json

# As the simulated engine asks for them.
MIXES = {
    "fixed": {**kinds.FULL, "seed": 7},
    "fixed-unseeded": kinds.FULL,
    "fixed-temperature": {"temperature": 0.8},
    "fixed-top-p": {"temperature": 0.8, "top_p": 0.95, **kinds.PENALTIES},
}


class Timed:
    """Events around each call of vLLM's sampler."""

    def __init__(self) -> None:
        from vllm.v1.worker.gpu.sample.sampler import Sampler

        self._events: list[tuple[Any, Any]] = []
        plain = Sampler.__call__

        def call(sampler: Any, *given: Any, **named: Any) -> Any:
            import torch

            begun, ended = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begun.record()
            result = plain(sampler, *given, **named)
            ended.record()
            self._events.append((begun, ended))
            return result

        Sampler.__call__ = call

    def take(self) -> list[float]:
        """Microseconds of each call since the last time, in their order."""
        import torch

        torch.cuda.synchronize()
        times = [begun.elapsed_time(ended) * 1000 for begun, ended in self._events]
        self._events.clear()
        return times


def percentiles(times: list[float]) -> dict[str, float]:
    ascending = sorted(times)
    at = {"p50": 0.5, "p99": 0.99}
    return {
        name: round(ascending[min(int(len(ascending) * part), len(ascending) - 1)], 1)
        for name, part in at.items()
    } | {"steps": len(ascending)}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--batches", default="1,8,32,64,128,256")
    parser.add_argument("--mixes", default=",".join(MIXES))
    parser.add_argument("--steps", type=int, default=100)
    add_engine_options(parser)
    arguments = parser.parse_args()
    arguments.beside = {}
    batches = [int(text) for text in arguments.batches.split(",")]
    arguments.folder.mkdir(parents=True, exist_ok=True)
    make_model(arguments.folder / "model", arguments.size, arguments.layers)
    llm = make_llm(arguments, "native", folder_model(arguments.folder), batches, None)
    timed = Timed()
    found: dict[str, Any] = {"environment": environment(), "results": []}
    for mix in arguments.mixes.split(","):
        for batch in batches:
            Run(llm, [MIXES[mix]] * batch, SETTLE + 4).outputs()
            timed.take()
            Run(llm, [MIXES[mix]] * batch, SETTLE + arguments.steps).outputs()
            said = {"mix": mix, "columns": batch, "us": percentiles(timed.take()[SETTLE:])}
            found["results"].append(said)
            print(f"vLLM's sampler, {mix}, {batch} columns: {said['us']}", flush=True)
            write_json(arguments.folder / "sampler.json", found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
