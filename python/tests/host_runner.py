"""A worker's runner on the host, as vLLM leaves it, without a model or a profiling run of its own."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch

from croupier.vllm import runner as runners

VOCAB, PADDED, HIDDEN, RANKS = 500, 512, 16, 2
BANNED = 300


def make_runner(rank: int, head: Any) -> Any:
    """A runner as vLLM leaves it, of what sample() looks at."""
    runner = runners.CroupierModelRunner.__new__(runners.CroupierModelRunner)
    runner.device = torch.device("cpu")
    runner.is_last_pp_rank = True
    runner.pp_handler = None
    runner.vocab_size, runner.max_num_reqs = VOCAB, 16
    runner.lora_config = None
    runner.sampler = SimpleNamespace(add_request=lambda *_: None)
    runner.num_speculative_steps = 2
    runner.req_states = SimpleNamespace(prefill_len=SimpleNamespace(gpu=torch.tensor([1, 1, 1, 9])))
    shard = head[rank * PADDED // RANKS : (rank + 1) * PADDED // RANKS]
    runner.model = SimpleNamespace(compute_logits=lambda hidden: hidden @ shard.T)
    return runner


class SilentWriter:
    """Takes what it is given: these tests look at what the runner keeps."""

    state = SimpleNamespace(late_steps=0)

    def begin(self, step: int) -> bool:
        return True

    def enqueue_pointer(self, address: int, stride: int, stream: int, **arrays: int) -> None:
        self.address, self.stride = address, stride

    def enqueue_awaited_tokens_pointer(self, *_: Any, **__: Any) -> None:
        pass


def lone_runner(monkeypatch: Any, compute_logits: Any) -> Any:
    monkeypatch.setattr(torch.cuda, "current_stream", lambda *_: SimpleNamespace(cuda_stream=0))
    monkeypatch.setattr(runners, "get_tensor_model_parallel_world_size", lambda: 1)
    runner = make_runner(0, torch.ones(PADDED, HIDDEN, dtype=torch.bfloat16))
    runner.model = SimpleNamespace(compute_logits=compute_logits)
    runner.croupier_writer = SilentWriter()
    return runner
