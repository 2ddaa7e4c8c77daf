"""The workers' half: logits into the session's segment, tokens out of it, on vLLM's model runner V2."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterable, Iterator, Mapping
from types import ModuleType
from typing import Any

import numpy as np
import torch
from vllm import SamplingParams
from vllm.distributed import (
    get_tensor_model_parallel_rank,
    get_tensor_model_parallel_world_size,
    tensor_model_parallel_all_gather,
)
from vllm.v1.worker.gpu.model_runner import GPUModelRunner
from vllm.v1.worker.gpu.sample.output import SamplerOutput
from vllm.v1.worker.gpu.sample.sampler import Sampler

from croupier import Writer

from . import fused_head, gpu_memory, shards, speculation, verification
from .options import Options
from .order import Order
from .verification import Layout, sent, warm_up

NO_ARRAYS: Mapping[str, torch.Tensor] = {}


def thin(sampler: Sampler, grammars: Any) -> None:
    """Only vLLM's warm-up still runs its sampler. Of what that keeps of requests drafters read temperatures.

    Its tables of them have limits of their own. Its counts for penalties, in the GPU's memory, are a number
    for each request and token of the vocabulary, and its masks for grammars a bit for each row and token:
    they go before that memory is dealt out.
    """
    native_add = sampler.add_request
    neutral = SamplingParams(temperature=0.0)

    def add_request(index: int, *given: Any) -> None:
        native_add(index, *given[:-1], neutral)
        sampler.sampling_states.temperature.np[index] = given[-1].temperature

    sampler.add_request = add_request
    sampler.penalties_state.output_bin_counts = None
    sampler.penalties_state.prompt_bin_mask = None
    grammars.apply_grammar_bitmask = lambda *_: None
    grammars.grammar_bitmask = None


class CroupierModelRunner(GPUModelRunner):
    """A runner that was made by vLLM and is given this class; without a writer it samples as vLLM does."""

    croupier_writer: Writer | None = None
    croupier_scheduled: Iterable[str] = ()
    """The requests of the batch as the engine core has them: of its execute_model."""
    croupier_order: Order | None = None
    croupier_timeout = 0.0
    croupier_verify_every = 0
    croupier_gathers = False
    croupier_described: dict[str, Any] | None = None
    """What this rank's logits are, measured in vLLM's profiling run."""
    croupier_head: Any = None
    """The LM head that the writer multiplies by; None: the model does."""
    croupier_rows: np.ndarray | None = None
    croupier_under_way: torch.Tensor | None = None
    """Tokens that only the stream of the other stages' tokens has waited for."""

    def load_model(self, *args: Any, **kwargs: Any) -> None:
        super().load_model(*args, **kwargs)
        # A model's own sampler is refused when the session is there.
        if self.is_last_pp_rank and type(self.sampler) is Sampler:
            thin(self.sampler, self.structured_outputs_worker)

    def profile_run(self, *args: Any, **kwargs: Any) -> None:
        # vLLM deals out what its run leaves.
        kept = torch.empty(self._kept_bytes(), dtype=torch.uint8, device=self.device)
        super().profile_run(*args, **kwargs)
        del kept
        # Before vLLM watches for kernels that are compiled late.
        if self.is_last_pp_rank and self.num_speculative_steps:
            width = 1 + self.num_speculative_steps
            warm_up(self.croupier_verification, width, self.req_states.prefill_len.gpu)

    def _kept_bytes(self) -> int:
        """GPU memory that is in use beside a batch, and that vLLM's run does not take."""
        if not self.is_last_pp_rank:
            return 0
        ranks, element = get_tensor_model_parallel_world_size(), self.model_config.head_dtype.itemsize
        kept = gpu_memory.of_writer(self.vllm_config, ranks, element)
        if self.pp_handler is not None:
            # The next batches' models run while the logits of those before them are still read (`sample`).
            rows = self.vllm_config.max_concurrent_batches * self.max_num_reqs
            kept += rows * -(-self.vocab_size // ranks) * element
        return kept

    def _dummy_sampler_run(self, hidden_states: torch.Tensor) -> None:
        super()._dummy_sampler_run(hidden_states)
        # What the model gave, whose width is not always that of the config. Adapters of an LM head are set
        # for as many rows as this run has.
        measured = hidden_states if self.lora_config is not None else hidden_states[:2]
        self.croupier_described = self._described(measured)
        if (Options.of(self.vllm_config) or Options()).head:
            self._take_head(hidden_states[:2])
        if self.num_speculative_steps:
            self.croupier_gathers = self._any_rank(self.croupier_described["gathers"])
            self._part(hidden_states[self._most_rows(len(hidden_states))])

    def _take_head(self, hidden: torch.Tensor) -> None:
        capability = torch.cuda.get_device_capability(self.device)
        try:
            gathers = self._any_rank(self.croupier_described["gathers"])
            self.croupier_head = fused_head.head_of(self.model, hidden, capability, gathers)
        except fused_head.UnfitHeadError as error:
            # Raised here it would be a line in the log of a worker.
            self.croupier_described["unfit_head"] = str(error)

    def _most_rows(self, requests: int) -> torch.Tensor:
        """As many rows as a step of windows may have, among those of vLLM's run: that has one a request."""
        return torch.arange(speculation.rows_of(self.vllm_config), device=self.device) % requests

    def _any_rank(self, flag: bool) -> bool:
        if get_tensor_model_parallel_world_size() == 1:
            return flag
        own = torch.tensor([[int(flag)]], device=self.device)
        return bool(tensor_model_parallel_all_gather(own).any())

    def _described(self, hidden: torch.Tensor) -> dict[str, Any]:
        return shards.describe(
            self.model,
            hidden,
            get_tensor_model_parallel_rank(),
            get_tensor_model_parallel_world_size(),
            # vLLM's LoRA of an LM head adds to the whole row.
            always_gathers=self.lora_config is not None,
        )

    def croupier_describe(self) -> dict[str, Any] | None:
        """None for a rank that has no logits."""
        if self.is_last_pp_rank and self.croupier_described is None:
            raise RuntimeError(
                "this vLLM made no profiling run, from which the shape of its logits is known; "
                "it is not one that Croupier's plugin knows"
            )
        return self.croupier_described

    def croupier_attach(self, segment_path: str, timeout: float, verify_every: int, gathers: bool) -> None:
        if not self.is_last_pp_rank:
            return
        self.croupier_writer = Writer(
            segment_path,
            rank=get_tensor_model_parallel_rank(),
            device=self.device.index,
        )
        if self.croupier_head is not None and self.croupier_writer.info.head_rows == 0:
            self.croupier_detach()
            raise RuntimeError(
                "'head' is 'fused', and the product of an LM head is not in this build of Croupier, or the "
                "GPU's driver is older than CUDA 12; without the option would be right"
            )
        self.croupier_timeout = timeout
        self.croupier_verify_every = verify_every
        self.croupier_gathers = gathers

    def croupier_detach(self) -> None:
        writer, self.croupier_writer = self.croupier_writer, None
        if writer is not None:
            writer.detach()

    def sample_tokens(self, grammar_output: Any) -> Any:
        output = super().sample_tokens(grammar_output)
        rows, self.croupier_rows = self.croupier_rows, None
        # Of a stage that draws nothing, the order is still here.
        self.croupier_order = self.croupier_under_way = None
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
        zeros, ones, no_tokens = (numbers[:requests] for numbers in self.croupier_numbers)
        if order.step is None:
            return _output(no_tokens, zeros, zeros)
        names = order.names(self.croupier_scheduled)
        if order.rows is not None:
            return self._verified(order, names, hidden_states, input_batch)
        if names == input_batch.req_ids:
            lent = self._sent(order, hidden_states, input_batch)
            counts = ones
            with self._where_tokens_come(*lent):
                sampled = self._drawn(order, requests)
        else:
            rows = self._rows_of(names, input_batch)
            lent = self._sent(order, hidden_states, input_batch, rows)
            counts = torch.zeros_like(zeros)
            counts[rows] = 1
            with self._where_tokens_come(*lent, rows):
                sampled = torch.zeros_like(no_tokens)
                sampled[rows] = self._drawn(order, len(names))
        if self._is_copied(order):
            self._keep_rows(lent[0])
        if self.pp_handler is not None:
            self.croupier_under_way = sampled
        return _output(sampled, counts, zeros)

    def _verified(
        self, order: Order, names: list[str], hidden_states: torch.Tensor, input_batch: Any
    ) -> tuple[SamplerOutput, torch.Tensor, torch.Tensor]:
        """The tokens of a step of windows: the drafts that are accepted, and the one behind them."""
        places = self._places_of(names, input_batch)
        layout = Layout.of(places, order.rows, input_batch.num_reqs, self.device, order.left_out)
        rows = self.croupier_verification.rows_of(layout, input_batch, self.req_states.prefill_len.gpu)
        lent = self._sent(order, hidden_states, input_batch, arrays=vars(rows))
        tokens = self._awaited(order, len(rows.row_of))
        if self._is_copied(order):
            self._keep_rows(lent[0][rows.row_of.clamp(min=0).long()])
        width = 1 + self.num_speculative_steps
        return _output(*self.croupier_verification.sampled_of(layout, tokens, input_batch, width))

    def postprocess_sampled(
        self, idx_mapping: torch.Tensor, sampled_tokens: torch.Tensor, *args: Any, **kwargs: Any
    ) -> None:
        if sampled_tokens is self.croupier_under_way:
            # The last of several stages counts what it has computed, and reads no token that it drew: those
            # of a batch are another stage's input. Reading them would hold up the next batch, or read ahead
            # of them.
            sampled_tokens = torch.zeros_like(sampled_tokens)
        super().postprocess_sampled(idx_mapping, sampled_tokens, *args, **kwargs)

    @functools.cached_property
    def croupier_numbers(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Zeros, ones and tokens that are 0, for a batch of any size: constants, which vLLM only reads."""
        zeros = torch.zeros(self.max_num_reqs, dtype=torch.int32, device=self.device)
        return zeros, torch.ones_like(zeros), torch.zeros_like(zeros, dtype=torch.int64).view(-1, 1)

    @functools.cached_property
    def croupier_verification(self) -> ModuleType:
        """Where windows are laid out and their tokens counted."""
        if self.device.type != "cuda":
            return verification
        # It needs Triton, which hosts without a GPU may lack.
        from . import verification_kernels

        return verification_kernels

    @staticmethod
    def _places_of(names: list[str], input_batch: Any) -> list[int]:
        places = {name: row for row, name in enumerate(input_batch.req_ids)}
        return [places[name] for name in names]

    def _rows_of(self, names: list[str], input_batch: Any) -> torch.Tensor:
        return sent(torch.tensor(self._places_of(names, input_batch)), self.device)

    def _logits_of(
        self, hidden_states: torch.Tensor, input_batch: Any, rows: torch.Tensor | None
    ) -> torch.Tensor:
        """This rank's part of the logits of these rows of the batch; None: of all."""
        indices = input_batch.logits_indices
        if rows is None or self.lora_config is not None:
            logits = self._part(hidden_states[indices])
            # An LM head's adapters are told by the place in the batch: rows are selected behind them.
            return logits if rows is None else logits[rows]
        return self._part(hidden_states[indices[rows]])

    def _part(self, hidden: torch.Tensor) -> torch.Tensor:
        ranks = get_tensor_model_parallel_world_size()
        if ranks == 1:
            return self.model.compute_logits(hidden)
        if self.croupier_gathers:
            row = self.model.compute_logits(hidden)
            return shards.part_of(row, get_tensor_model_parallel_rank(), ranks)
        return shards.own_logits(self.model, hidden)

    def _sent(
        self,
        order: Order,
        hidden_states: torch.Tensor,
        input_batch: Any,
        rows: torch.Tensor | None = None,
        arrays: Mapping[str, torch.Tensor] = NO_ARRAYS,
    ) -> tuple[torch.Tensor, ...]:
        """The rows of the step's columns are on their way into the segment: of `rows` of the batch, None: of
        all. Returned is what the writer reads until the step is decided, the rows first."""
        head, writer = self.croupier_head, self.croupier_writer
        if head is not None and writer is not None:
            indices = input_batch.logits_indices
            if len(indices if rows is None else rows) <= writer.info.head_rows:
                hidden = hidden_states[indices if rows is None else indices[rows]]
                logits = hidden.new_empty(len(hidden), writer.info.head_row_elements)
                self._begin(order)
                weight = head.weight[: writer.info.ids]
                writer.enqueue_head(hidden, weight, logits, self._stream(), **arrays)
                return logits, hidden
        logits = self._logits_of(hidden_states, input_batch, rows)
        if logits.stride(-1) != 1:
            logits = logits.contiguous()
        self._begin(order)
        pointers = {name: array.data_ptr() for name, array in arrays.items()}
        writer.enqueue_pointer(logits.data_ptr(), logits.stride(0), self._stream(), **pointers)
        return (logits,)

    def _begin(self, order: Order) -> None:
        writer = self.croupier_writer
        if writer is None:
            raise RuntimeError(f"step {order.step} came before croupier_attach(): this worker has no writer")
        if writer.state.late_steps:
            raise RuntimeError(
                f"tokens did not come within {self.croupier_timeout:g} s, and other ranks may have had them: "
                "this engine cannot go on; the engine core's log says how its daemon is asked"
            )
        if writer.begin(order.step):
            return
        # A scheduler on another host submits over a connection of its own.
        writer.wait_step(self.croupier_timeout)
        if not writer.begin(order.step):
            raise RuntimeError(
                f"step {order.step} cannot be begun: it is not scheduled, or its slot is not free yet"
            )

    @contextlib.contextmanager
    def _where_tokens_come(self, *used: torch.Tensor) -> Iterator[None]:
        """The stream that waits for tokens: the model's, where the next batch begins with them.

        With several stages it is the one on which vLLM sends tokens to the others, and the next batch of this
        stage goes by. `used` are tensors of the model's stream, the step's logits first.

        Samplers may read a step's logits until it is decided, and nobody keeps them that long: PyTorch gives
        their memory away again as soon as `sample` returns, in the order of the streams that use it. In the
        model's stream all later work comes behind the tokens, and so behind the last look at the logits. A
        stream that waits beside it holds the memory until its own wait is over (record_stream). Graphs that
        are replayed have memory of their own. A wait whose time is over ends the engine: what a sampler read
        after it is of no step that counts.
        """
        if self.pp_handler is None:
            yield
            return
        side = self.pp_handler.broadcast_stream
        side.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(side):
            yield
            for tensor in used:
                tensor.record_stream(side)
        # vLLM's copy of the tokens for the engine core waits for the model's stream alone.
        self.output_copy_stream.wait_stream(side)

    def _drawn(self, order: Order, count: int) -> torch.Tensor:
        """The step's tokens as vLLM has them, (count, 1), once the current stream has waited for them."""
        # A column without a decision is -1 here: the engine core knows why, and the GPU indexes with tokens.
        return torch.maximum(self._awaited(order, count).view(-1, 1), self.croupier_numbers[2][:count])

    def _awaited(self, order: Order, count: int) -> torch.Tensor:
        """The step's decisions, -1 where there is no token, once the current stream has waited for them."""
        tokens = torch.empty(count, dtype=torch.int32, device=self.device)
        # Neither this thread nor the GPU hangs on a daemon that is dead: the stream waits so long, no longer.
        self.croupier_writer.enqueue_awaited_tokens_pointer(
            order.step, tokens.data_ptr(), self._stream(), timeout=self.croupier_timeout
        )
        return tokens

    def _is_copied(self, order: Order) -> bool:
        return bool(self.croupier_verify_every) and order.step % self.croupier_verify_every == 0

    def _stream(self) -> int:
        return torch.cuda.current_stream(self.device).cuda_stream

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
