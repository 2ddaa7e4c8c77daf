"""What a worker's process is asked; in a module, because such a function travels by its name."""

from __future__ import annotations

import os
from typing import Any


def pid_of(worker: Any) -> int:
    return os.getpid()


def begin_profile(worker: Any) -> None:
    import torch

    worker.croupier_profile = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA])
    worker.croupier_profile.start()


def end_profile(worker: Any) -> list[tuple[float, float, str, int]]:
    """All kernels and copies since then: begin and duration in microseconds, name and stream."""
    import torch

    torch.cuda.synchronize(worker.device)
    worker.croupier_profile.stop()
    events = worker.croupier_profile.profiler.kineto_results.events()
    del worker.croupier_profile
    return sorted(
        (event.start_ns() / 1000, event.duration_ns() / 1000, event.name()[:80], event.device_resource_id())
        for event in events
        if "CUDA" in str(event.device_type()) and event.duration_ns() > 0
    )


def memory_of(worker: Any) -> dict[str, Any]:
    """Of one rank: what torch holds, its most since the last look, and what the sampler keeps."""
    import torch

    runner = worker.model_runner
    found: dict[str, Any] = {
        "allocated": torch.cuda.memory_allocated(worker.device),
        "most": torch.cuda.max_memory_allocated(worker.device),
    }
    torch.cuda.reset_peak_memory_stats(worker.device)
    states = vars(runner.sampler) if getattr(runner, "sampler", None) is not None else {}
    found["sampler_states"] = {
        name: size for name, state in states.items() if (size := device_bytes(state)) and name != "req_states"
    }
    return found


def device_bytes(thing: Any, depth: int = 3) -> int:
    """Of the tensors in GPU memory below an object of vLLM's sampler; its UVA tensors lie in the host's."""
    import torch

    if isinstance(thing, torch.Tensor):
        return thing.nbytes if thing.is_cuda else 0
    if depth == 0 or type(thing).__name__.startswith("Uva") or not hasattr(thing, "__dict__"):
        return 0
    if not type(thing).__module__.startswith("vllm.v1.worker.gpu"):
        return 0
    return sum(device_bytes(part, depth - 1) for name, part in vars(thing).items() if name != "req_states")


def count_computed(worker: Any) -> None:
    """From now on the worker counts the tokens that it computes: one for each request that decodes a step."""
    execute = worker.execute_model
    worker.bench_computed = 0

    def counted(scheduled: Any, *given: Any, **named: Any) -> Any:
        worker.bench_computed += scheduled.total_num_scheduled_tokens
        return execute(scheduled, *given, **named)

    worker.execute_model = counted


def computed(worker: Any) -> int:
    return worker.bench_computed
