#!/usr/bin/env python3
"""Croupier's fused head beside others: microseconds from hidden states in a GPU's memory to tokens there.

    peers.py OUT.json [--tp 1] [--ways fused,lean,...] [--columns 1,64] [--shapes 151936x3584,...]

PYTHONPATH as for steps.py. One process a rank, each with a GPU of its own; ways by turns, p50 of rank 0. What
is not installed is left out, and said. Requests are plain (a temperature alone) or filtered (top_k, top_p).

    fused       Writer.enqueue_head()
    lean        torch's product, and Writer.enqueue()
    torch       torch's product, gathered logits, softmax and exponentials (filters by sorting)
    vllm        torch's product, gathered logits, and the kernels of vLLM's sampler
    flashinfer  torch's product, gathered logits, and FlashInfer's sampling
    gumbel      one Triton kernel that multiplies and draws one temperature, in the manner of FlashSampling
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing
from daemon_process import Daemon
from gpu_steps import LENGTH, PATIENCE, Clock, check_errors
from kind_steps import admit, asked, open_lean
from torch_sampler import gathered, keep_top_k_top_p

import croupier

TEMPERATURE, TOP_K, TOP_P = 0.8, 50, 0.95
KINDS: dict[str, dict[str, Any]] = {
    "plain": {"temperature": TEMPERATURE},
    "filtered": {"temperature": TEMPERATURE, "top_k": TOP_K, "top_p": TOP_P},
}
NEEDS = {"vllm": "vllm", "flashinfer": "flashinfer", "gumbel": "triton"}


class Job:
    """The matrices of one rank, and what is asked of them."""

    def __init__(self, place: argparse.Namespace, rank: int, kind: str, columns: int) -> None:
        self.place, self.rank, self.kind, self.columns = place, rank, kind, columns
        self.hidden = place.hidden[:columns]
        self.weight = place.weight
        self.logits = torch.empty(columns, len(self.weight), dtype=torch.bfloat16, device="cuda")

    def product(self) -> torch.Tensor:
        return torch.matmul(self.hidden, self.weight.t(), out=self.logits)

    def all_logits(self) -> torch.Tensor:
        return gathered(self.product(), self.place.tp)

    def each(self, value: float, dtype: torch.dtype) -> torch.Tensor:
        return torch.full((self.columns,), value, dtype=dtype, device="cuda")


class Lean:
    """Through a session: as steps.py has both ways, with a process for each rank."""

    def __init__(self, job: Job, fused: bool) -> None:
        self.job, self.fused = job, fused
        self.session = None
        path: list[Any] = [None]
        if job.rank == 0:
            name = f"{job.kind}-{job.columns}-{fused}-{job.place.tp}-{job.hidden.shape[1]}"
            self.session = open_lean(
                job.place.daemon,
                name,
                job.place.vocab,
                "bf16",
                job.columns,
                tp=job.place.tp,
            )
            self.uids = admit(self.session, [asked(KINDS[job.kind])] * job.columns, 1, job.place.vocab)
            path = [str(self.session.segment_path)]
        dist.broadcast_object_list(path)
        self.writer = croupier.Writer(path[0], rank=job.rank, device=job.rank, rows="lent")
        elements = self.writer.info.head_row_elements if fused else 0
        self.logits = torch.empty(job.columns, elements, dtype=torch.bfloat16, device="cuda")
        self.tokens = torch.empty(job.columns, dtype=torch.int32, device="cuda")
        self.step = 0

    def begin(self) -> None:
        step = [self.session.submit(self.uids) if self.session is not None else 0]
        dist.broadcast_object_list(step)
        self.step = step[0]
        assert self.writer.begin(self.step)

    def enqueue(self) -> None:
        stream = torch.cuda.current_stream().cuda_stream
        if self.fused:
            self.writer.enqueue_head(self.job.hidden, self.job.weight, self.logits, stream)
        else:
            self.writer.enqueue(self.job.product(), stream)
        self.writer.enqueue_awaited_tokens(self.step, self.tokens, stream, timeout=PATIENCE)

    def finish(self) -> None:
        if self.session is not None:
            check_errors(self.session.wait(PATIENCE))

    def close(self) -> None:
        torch.cuda.synchronize()
        dist.barrier()
        self.writer.detach()
        if self.session is not None:
            self.session.close()


class OnGpu:
    """A way whose tokens need nobody else."""

    def __init__(self, draw: Callable[[], torch.Tensor]) -> None:
        self._draw = draw
        self.enqueue()
        torch.cuda.synchronize()

    def begin(self) -> None:
        pass

    def enqueue(self) -> None:
        self._draw()

    def finish(self) -> None:
        pass

    def close(self) -> None:
        pass


def torch_draw(job: Job) -> Callable[[], torch.Tensor]:
    job.top_k, job.top_p = job.each(TOP_K, torch.int64), job.each(TOP_P, torch.float32)

    def draw() -> torch.Tensor:
        logits = job.all_logits().float().div_(TEMPERATURE)
        if job.kind == "filtered":
            logits = keep_top_k_top_p(logits, job)
        probabilities = logits.softmax(dim=-1)
        return probabilities.div_(torch.empty_like(probabilities).exponential_()).argmax(dim=-1)

    return draw


def vllm_draw(job: Job) -> Callable[[], torch.Tensor]:
    from vllm.v1.sample.ops.topk_topp_sampler import apply_top_k_top_p
    from vllm.v1.worker.gpu.sample.gumbel import apply_temperature, gumbel_sample

    numbers = torch.arange(job.columns, dtype=torch.int32, device="cuda")
    seeds, positions = numbers.long(), numbers.long() + 100
    temperature = job.each(TEMPERATURE, torch.float32)
    top_k, top_p = job.each(TOP_K, torch.int32), job.each(TOP_P, torch.float32)

    def draw() -> torch.Tensor:
        logits = job.all_logits().float()
        if job.kind == "filtered":
            apply_temperature(logits, numbers, temperature)
            logits = apply_top_k_top_p(logits, top_k, top_p)
        plain = job.kind == "plain"
        return gumbel_sample(logits, numbers, temperature, seeds, positions, plain, False)

    return draw


def flashinfer_draw(job: Job) -> Callable[[], torch.Tensor]:
    import flashinfer

    sampling = flashinfer.sampling
    top_k, top_p = job.each(TOP_K, torch.int32), job.each(TOP_P, torch.float32)

    def draw() -> torch.Tensor:
        logits = job.all_logits().float().div_(TEMPERATURE)
        if job.kind == "filtered":
            return sampling.top_k_top_p_sampling_from_logits(logits, top_k, top_p, deterministic=True)
        return sampling.sampling_from_logits(logits, deterministic=True)

    return draw


def gumbel_draw(job: Job) -> Callable[[], torch.Tensor]:
    if job.kind != "plain" or job.place.tp > 1:
        raise NotImplementedError("it draws one temperature, on one GPU")
    from gumbel_kernel import fused_gumbel

    return lambda: fused_gumbel(job.hidden, job.weight, TEMPERATURE, seed=1)


DRAWS = {
    "torch": torch_draw,
    "vllm": vllm_draw,
    "flashinfer": flashinfer_draw,
    "gumbel": gumbel_draw,
}


def releases() -> dict[str, str]:
    found = {each.name: each.version for each in importlib.metadata.distributions()}
    return {name: found[name] for name in ("torch", "triton", "vllm", "flashinfer-python") if name in found}


def make_way(job: Job, name: str) -> Lean | OnGpu | str:
    """Or why there is none."""
    if name in NEEDS and importlib.util.find_spec(NEEDS[name]) is None:
        return f"{NEEDS[name]} is not installed"
    if name in ("fused", "lean"):
        return Lean(job, name == "fused")
    try:
        return OnGpu(DRAWS[name](job))
    except Exception as error:  # what others raise is theirs to say
        return f"{type(error).__name__}: {str(error)[:200]}"


def measure(job: Job) -> dict[str, Any]:
    made = {name: make_way(job, name) for name in job.place.ways}
    ways = {name: way for name, way in made.items() if not isinstance(way, str)}
    found: dict[str, Any] = {"left_out": {name: way for name, way in made.items() if isinstance(way, str)}}
    clocks = {name: Clock("cuda") for name in ways}
    for clock in clocks.values():
        clock.begin_session()
    for _ in range(min(job.place.steps, LENGTH)):
        for name, way in ways.items():
            way.begin()
            torch.cuda.synchronize()
            dist.barrier()
            clocks[name].time(way.enqueue, way.finish)
    for way in ways.values():
        way.close()
    for name, clock in clocks.items():
        found[name] = clock.result()["p50"]
    return found


def run_rank(rank: int, place: argparse.Namespace) -> None:
    torch.cuda.set_device(rank)
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(place.port)}
    dist.init_process_group("cpu:gloo,cuda:nccl", rank=rank, world_size=place.tp)
    results: list[dict[str, Any]] = []
    said = {
        "device": torch.cuda.get_device_name(),
        "cores": os.cpu_count(),
        "releases": releases(),
        "tp": place.tp,
        "samplers": place.samplers,
    }
    place.daemon = Daemon(place.samplers, pin=True, wait="spin") if rank == 0 else None
    if place.daemon is not None:
        place.daemon.__enter__()
    try:
        for shape in place.shapes:
            vocab, elements = map(int, shape.split("x"))
            place.vocab = vocab
            torch.manual_seed(rank)
            own = torch.randn(vocab // place.tp, elements, device="cuda") / elements**0.5
            place.weight = own.bfloat16()
            torch.manual_seed(1000)
            place.hidden = (torch.randn(max(place.columns), elements, device="cuda") * 2.5).bfloat16()
            for columns in place.columns:
                for kind in place.kinds:
                    found = measure(Job(place, rank, kind, columns))
                    results.append(
                        {
                            "vocab": vocab,
                            "elements": elements,
                            "columns": columns,
                            "kind": kind,
                        }
                        | found
                    )
                    if rank != 0:
                        continue
                    print(json.dumps(results[-1]), flush=True)
                    place.out.write_text(json.dumps(said | {"results": results}, indent=1))
    finally:
        if place.daemon is not None:
            place.daemon.__exit__(None, None, None)
        dist.destroy_process_group()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    shapes = [f"{vocab}x{elements}" for vocab in (151936, 128256) for elements in (3584, 4096, 8192)]
    parser.add_argument("out", type=Path)
    parser.add_argument("--tp", type=int, default=1)
    parser.add_argument("--ways", default=",".join(["fused", "lean", *DRAWS]))
    parser.add_argument("--columns", default="1,8,16,32,64,128,256")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--shapes", default=",".join(shapes))
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--samplers", type=int, default=12)
    parser.add_argument("--port", type=int, default=29533)
    place = parser.parse_args()
    place.ways, place.kinds = place.ways.split(","), place.kinds.split(",")
    place.shapes, place.columns = (
        place.shapes.split(","),
        [*map(int, place.columns.split(","))],
    )
    torch.multiprocessing.spawn(run_rank, (place,), nprocs=place.tp)
    return 0


if __name__ == "__main__":
    sys.exit(main())
