"""A rank's logits as the writer takes them: its own part of the vocabulary, in the type of the LM head.

SGLang makes fp32 of them, in a buffer that all its CUDA graphs share, and gathers them on all ranks. Both is
left out here, where the numbers are the same: samplers read half as many bytes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
NAMES = {dtype: name for name, dtype in TYPES.items()}


def type_of(runner: Any) -> str:
    """Of the session, from SGLang's ModelRunner."""
    processors = _processors_of(runner)
    exact = bool(processors) and all(_is_narrow(module) for module in processors)
    return NAMES[runner.dtype] if exact else "fp32"


def ids_of(runner: Any, vocab: int, ranks: int) -> int:
    """How many ids a rank's part has, its padding included."""
    from sglang.srt.layers.vocab_parallel_embedding import ParallelLMHead, VocabParallelEmbedding

    heads = [module for module in runner.model.modules() if isinstance(module, ParallelLMHead)]
    # A model that ties its weights may have no other.
    heads += [module for module in runner.model.modules() if isinstance(module, VocabParallelEmbedding)]
    if ranks == 1 or not heads:
        return vocab
    return heads[0].num_embeddings_per_partition


def keep(runner: Any, ranks: int) -> None:
    """For a ModelRunner whose model has been loaded, and which draws tokens."""
    for processor in _processors_of(runner):
        processor.croupier_keeps = True
        # Each rank writes its own part. Log-probs of prompts still need all (gathering).
        processor.croupier_gathers = processor.do_tensor_parallel_all_gather
        if ranks > 1:
            processor.do_tensor_parallel_all_gather = False


def _processors_of(runner: Any) -> list[Any]:
    from sglang.srt.layers.logits_processor import LogitsProcessor

    return [module for module in runner.model.modules() if isinstance(module, LogitsProcessor)]


def _is_narrow(processor: Any) -> bool:
    # A soft cap is computed in fp32.
    return not processor.final_logit_softcapping and not processor.use_fp32_lm_head


def kept(processor: Any, logits: torch.Tensor, metadata: Any, use_buffer: bool) -> torch.Tensor | None:
    """In the place of SGLang's fp32 logits; None: those are right, for others read them too."""
    if (
        not hasattr(processor, "croupier_keeps")
        or not _is_narrow(processor)
        or logits.dtype == torch.float32
        or metadata.extend_return_logprob
    ):
        return None
    if logits.shape[-1] > processor.vocab_size:
        logits = logits[:, : processor.vocab_size]
    buffer = metadata.next_token_logits_buffer if use_buffer else None
    if buffer is None or len(buffer) != len(logits) or buffer.shape[-1] < logits.shape[-1]:
        return logits
    # CUDA graphs keep what they return: all of them return this.
    rows = buffer.view(logits.dtype)[:, : logits.shape[-1]]
    return rows.copy_(logits)


def part_of(logits: torch.Tensor, info: Any, dtype: torch.dtype) -> torch.Tensor:
    """A rank's part, in the session's type, of its own logits or of gathered ones; `info` is a WriterInfo."""
    if logits.shape[-1] != info.ids:
        logits = logits[:, info.first_id : info.first_id + info.ids]
        if logits.shape[-1] < info.ids:
            logits = torch.nn.functional.pad(logits, (0, info.ids - logits.shape[-1]))
    # What is wider here was widened by SGLang.
    return logits if logits.dtype == dtype else logits.to(dtype)


def on_host(logits: torch.Tensor) -> np.ndarray:
    """As verify mode takes them: bf16 as bits."""
    from sglang.srt.distributed import get_tp_group

    group = get_tp_group()
    whole = group.all_gather(logits.contiguous()) if group.world_size > 1 else logits
    whole = whole.contiguous().cpu()
    return (whole.view(torch.uint16) if whole.dtype == torch.bfloat16 else whole).numpy()
