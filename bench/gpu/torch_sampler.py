#!/usr/bin/env python3
"""The controls of `croupier bench decide`'s case `full` in PyTorch, on the GPU that made the logits: a plain port, which no engine runs.

From the logits in a GPU's memory to the tokens there: penalties from token counts, min-p, top-k and top-p by a sort,
softmax, a draw by exponentials. With --tp the logits are gathered from the ranks first (NCCL).

    bench/gpu/torch_sampler.py --batches 1 8 32 128 256 --tp 1 >torch.json
"""

import argparse
import json
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

VOCAB = 151936
HISTORY = 1024  # half of it prompt


class Controls:
    def __init__(self, batch, device):
        def full(value):
            return torch.full((batch,), value, device=device)

        self.repetition, self.frequency, self.presence = full(1.1), full(0.1), full(0.1)
        self.temperature, self.top_p, self.min_p = full(0.8), full(0.95), full(0.02)
        self.top_k = torch.full((batch,), 50, device=device, dtype=torch.long)
        self.prompt = torch.randint(0, VOCAB, (batch, HISTORY // 2), device=device)
        self.output = torch.randint(0, VOCAB, (batch, HISTORY // 2), device=device)


def counts_of(tokens, vocab):
    counts = torch.zeros(
        (tokens.shape[0], vocab + 1), dtype=torch.long, device=tokens.device
    )
    counts.scatter_add_(1, tokens, torch.ones_like(tokens))
    counts = counts[:, :vocab]
    return counts, counts > 0


def penalise(logits, controls):
    _, in_prompt = counts_of(controls.prompt, logits.shape[1])
    output_counts, in_output = counts_of(controls.output, logits.shape[1])
    repetition = controls.repetition.unsqueeze(1).expand_as(logits)
    penalty = torch.where(in_prompt | in_output, repetition, 1.0)
    logits *= torch.where(logits > 0, 1.0 / penalty, penalty)
    logits -= controls.frequency.unsqueeze(1) * output_counts
    logits -= controls.presence.unsqueeze(1) * in_output
    return logits


def keep_min_p(logits, controls):
    probabilities = torch.softmax(logits, dim=-1)
    least = probabilities.amax(dim=-1, keepdim=True) * controls.min_p.unsqueeze(1)
    return logits.masked_fill_(probabilities < least, -float("inf"))


def keep_top_k_top_p(logits, controls):
    ordered, index = logits.sort(dim=-1, descending=False)
    kth = ordered.gather(1, (ordered.size(1) - controls.top_k).unsqueeze(1))
    ordered.masked_fill_(ordered < kth, -float("inf"))
    cumulated = torch.cumsum(ordered.softmax(dim=-1), dim=-1)
    dropped = cumulated <= 1 - controls.top_p.unsqueeze(1)
    dropped[:, -1] = False
    ordered.masked_fill_(dropped, -float("inf"))
    return logits.scatter_(1, index, ordered)


def sample(logits, controls):
    logits = penalise(logits.to(torch.float32), controls)
    logits.div_(controls.temperature.unsqueeze(1))
    logits = keep_min_p(logits, controls)
    logits = keep_top_k_top_p(logits, controls)
    probabilities = logits.softmax(dim=-1, dtype=torch.float32)
    return probabilities.div_(torch.empty_like(probabilities).exponential_()).argmax(
        dim=-1
    )


def gathered(logits, ranks):
    if ranks == 1:
        return logits
    everything = torch.empty(
        (ranks * logits.shape[0], logits.shape[1]),
        dtype=logits.dtype,
        device=logits.device,
    )
    dist.all_gather_into_tensor(everything, logits)
    return (
        everything.view(ranks, logits.shape[0], -1)
        .permute(1, 0, 2)
        .reshape(logits.shape[0], -1)
    )


def measure(batch, rank, ranks, steps):
    device = torch.device("cuda", rank)
    torch.manual_seed(batch)
    controls = Controls(batch, device)
    logits = (torch.randn((batch, VOCAB // ranks), device=device) * 2.5).to(
        torch.bfloat16
    )

    def step():
        return sample(gathered(logits, ranks), controls)

    for _ in range(5):
        step()
    torch.cuda.synchronize(device)
    single = []
    for _ in range(steps):
        begun, ended = (
            torch.cuda.Event(enable_timing=True),
            torch.cuda.Event(enable_timing=True),
        )
        begun.record()
        step()
        ended.record()
        torch.cuda.synchronize(device)
        single.append(begun.elapsed_time(ended) * 1e3)
    began = time.perf_counter()
    for _ in range(steps):
        step()
    torch.cuda.synchronize(device)
    queued = (time.perf_counter() - began) / steps * 1e6
    return {
        "batch": batch,
        "p50_us": statistics.median(single),
        "min_us": min(single),
        "queued_us": queued,
    }


def run_rank(rank, ranks, batches, steps):
    torch.cuda.set_device(rank)
    if ranks > 1:
        os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
        os.environ.setdefault("MASTER_PORT", "29517")
        dist.init_process_group("nccl", rank=rank, world_size=ranks)
    results = [measure(batch, rank, ranks, steps) for batch in batches]
    if rank == 0:
        environment = {
            "gpu": torch.cuda.get_device_name(0),
            "torch": torch.__version__,
            "tp": ranks,
            "vocab": VOCAB,
            "history": HISTORY,
            "steps": steps,
        }
        json.dump(
            {"environment": environment, "results": results}, sys.stdout, indent=1
        )
        print()
    if ranks > 1:
        dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8, 32, 128, 256])
    parser.add_argument("--tp", type=int, default=1)
    parser.add_argument("--steps", type=int, default=30)
    asked = parser.parse_args()
    if asked.tp == 1:
        run_rank(0, 1, asked.batches, asked.steps)
    else:
        mp.spawn(run_rank, args=(asked.tp, asked.batches, asked.steps), nprocs=asked.tp)


if __name__ == "__main__":
    main()
