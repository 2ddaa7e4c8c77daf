"""The workers' half: logits into the session's segment, tokens out of it, on vLLM's model runner V2."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from vllm import SamplingParams
from vllm.distributed import get_tensor_model_parallel_rank, tensor_model_parallel_all_gather
from vllm.model_executor.layers.logits_processor import LogitsProcessor
from vllm.v1.worker.gpu.model_runner import GPUModelRunner
from vllm.v1.worker.gpu.sample.output import SamplerOutput

from croupier import Writer

from .order import Order

DTYPES = {torch.bfloat16: "bf16", torch.float16: "fp16", torch.float32: "fp32"}


@contextlib.contextmanager
def own_shard() -> Iterator[None]:
    """compute_logits() gives each rank's own part of the vocabulary, its padding with it."""
    gathers = LogitsProcessor._gather_logits
    LogitsProcessor._gather_logits = lambda self, logits: logits
    try:
        yield
    finally:
        LogitsProcessor._gather_logits = gathers


class CroupierModelRunner(GPUModelRunner):
    """A runner that was made by vLLM and is given this class; without a writer it samples as vLLM does."""

    croupier_writer: Writer | None = None
    croupier_order: Order | None = None
    croupier_timeout = 0.0
    croupier_verify_every = 0
    croupier_rows: np.ndarray | None = None

    def croupier_describe(self) -> dict[str, Any] | None:
        """What this rank's logits are, measured; None for a rank that has none."""
        if not self.is_last_pp_rank:
            return None
        hidden = torch.zeros(1, self.model_config.get_hidden_size(), dtype=self.dtype, device=self.device)
        with torch.inference_mode(), own_shard():
            logits = self.model.compute_logits(hidden)
        return {
            "rank": get_tensor_model_parallel_rank(),
            "ids": logits.shape[-1],
            "dtype": DTYPES.get(logits.dtype, str(logits.dtype)),
        }

    def croupier_attach(self, segment_path: str, timeout: float, verify_every: int) -> None:
        if not self.is_last_pp_rank:
            return
        self.croupier_writer = Writer(
            segment_path, rank=get_tensor_model_parallel_rank(), device=self.device.index
        )
        self.croupier_timeout = timeout
        self.croupier_verify_every = verify_every
        # vLLM's sampler keeps tables of what requests ask for, with limits of their own; nobody reads them.
        native_add = self.sampler.add_request
        neutral = SamplingParams(temperature=0.0)
        self.sampler.add_request = lambda index, prompt_len, _: native_add(index, prompt_len, neutral)

    def croupier_detach(self) -> None:
        writer, self.croupier_writer = self.croupier_writer, None
        if writer is not None:
            writer.detach()

    def sample_tokens(self, grammar_output: Any) -> Any:
        output = super().sample_tokens(grammar_output)
        rows, self.croupier_rows = self.croupier_rows, None
        if rows is not None and output is not None:
            output.model_runner_output.croupier_rows = rows
        return output

    def sample(
        self, hidden_states: torch.Tensor, input_batch: Any, grammar_output: Any
    ) -> tuple[SamplerOutput, torch.Tensor, torch.Tensor]:
        order, self.croupier_order = self.croupier_order, None
        if order is None:
            return super().sample(hidden_states, input_batch, grammar_output)
        requests = input_batch.num_reqs
        rejected = torch.zeros(requests, dtype=torch.int32, device=self.device)
        if order.step is not None and order.req_ids == input_batch.req_ids:
            tokens = self._decided(order, hidden_states[input_batch.logits_indices])
            return _output(tokens.view(-1, 1), torch.ones_like(rejected), rejected)
        sampled = torch.zeros(requests, 1, dtype=torch.int64, device=self.device)
        counts = torch.zeros_like(rejected)
        if order.step is not None:
            places = {name: row for row, name in enumerate(input_batch.req_ids)}
            # From pinned memory: another copy would wait for the stream, and so for the tokens before these.
            rows = torch.tensor([places[name] for name in order.req_ids])
            if self.device.type == "cuda":
                rows = rows.pin_memory().to(self.device, non_blocking=True)
            sampled[rows, 0] = self._decided(order, hidden_states[input_batch.logits_indices[rows]])
            counts[rows] = 1
        return _output(sampled, counts, rejected)

    def _decided(self, order: Order, hidden: torch.Tensor) -> torch.Tensor:
        """The tokens of the step's columns, one for each row of `hidden`."""
        writer = self.croupier_writer
        if writer is None:
            raise RuntimeError(f"step {order.step} came before croupier_attach(): this worker has no writer")
        if writer.state.late_steps:
            raise RuntimeError(
                f"tokens did not come within {self.croupier_timeout:g} s, and other ranks may have had them: "
                "this engine cannot go on; `croupier status` says how the daemon is"
            )
        with own_shard():
            logits = self.model.compute_logits(hidden)
        if logits.stride(-1) != 1:
            logits = logits.contiguous()
        stream = torch.cuda.current_stream(self.device).cuda_stream
        if not writer.begin(order.step):
            raise RuntimeError(
                f"step {order.step} cannot be begun: it is not scheduled, or its slot is not free yet"
            )
        writer.enqueue_pointer(logits.data_ptr(), logits.stride(0), stream)
        tokens = torch.empty(len(order.req_ids), dtype=torch.int32, device=self.device)
        # Neither this thread nor the GPU hangs on a daemon that is dead: the stream waits so long, no longer.
        writer.enqueue_awaited_tokens_pointer(order.step, tokens.data_ptr(), self.croupier_timeout, stream)
        if self.croupier_verify_every and order.step % self.croupier_verify_every == 0:
            self._keep_rows(logits)
        # A column without a decision is -1 here: the engine core knows why, and the GPU indexes with tokens.
        return tokens.clamp_(min=0).to(torch.int64)

    def _keep_rows(self, logits: torch.Tensor) -> None:
        whole = tensor_model_parallel_all_gather(logits)[:, : self.vocab_size].cpu()
        if get_tensor_model_parallel_rank() == 0:
            bits = whole.view(torch.uint16) if whole.dtype == torch.bfloat16 else whole
            self.croupier_rows = bits.numpy()


def _output(
    sampled: torch.Tensor, counts: torch.Tensor, rejected: torch.Tensor
) -> tuple[SamplerOutput, torch.Tensor, torch.Tensor]:
    output = SamplerOutput(
        sampled_token_ids=sampled,
        logprobs_tensors=None,
        num_nans=None,
        num_sampled=counts,
        num_rejected=rejected,
    )
    return output, counts, rejected
