"""A model of Qwen2.5's shape with random weights, the same on both sides, and rows as peaked as a model's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SHAPES = {
    "0.5b": (896, 14, 2, 4864),
    "1.5b": (1536, 12, 2, 8960),
    "7b": (3584, 28, 4, 18944),
    "72b": (8192, 64, 8, 29568),
}
VOCAB = 152064
LONGEST = 32768


def qwen2_config(
    hidden: int, heads: int, kv_heads: int, inner: int, layers: int, vocab: int = VOCAB
) -> dict[str, Any]:
    """Of the model itself: its architecture's name and its special ids are the caller's."""
    return {
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "intermediate_size": inner,
        "vocab_size": vocab,
        "max_position_embeddings": LONGEST,
        "max_window_layers": layers,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1e6,
        "hidden_act": "silu",
        "initializer_range": 0.02,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        "use_sliding_window": False,
    }


def make_model(folder: Path, size: str, layers: int) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        **qwen2_config(*SHAPES[size], layers),
        "bos_token_id": 151643,
        "eos_token_id": 151643,
    }
    (folder / "config.json").write_text(json.dumps(config))
    return str(folder)


def spread_head(worker: Any, deviation: float) -> None:
    """On each rank: normal weights in its part of the LM head, for logits of that deviation.

    Dummy weights are nearly nothing, and their rows are flat. What the last norm leaves has elements of about
    one, so that a weight's deviation is the logits' over the root of the hidden size.
    """
    import torch

    if not worker.model_runner.is_last_pp_rank:
        return
    head = worker.model_runner.model.lm_head
    weight = head.weight.data
    scale = deviation / weight.shape[1] ** 0.5
    first = head.shard_indices.org_vocab_start_index
    generator = torch.Generator(device=weight.device).manual_seed(1000 + first)
    noise = torch.randn(weight.shape, generator=generator, device=weight.device, dtype=torch.float32)
    weight.copy_(noise * scale)


def spread_inputs(worker: Any) -> None:
    """Embeddings and layers such that hidden states differ from token to token, and a context matters."""
    import torch

    generator = torch.Generator(device=worker.device).manual_seed(17)
    for name, parameter in sorted(worker.model_runner.model.named_parameters()):
        if "lm_head" in name:
            continue
        if "norm" in name:
            parameter.data.fill_(1.0)
            continue
        deviation = 1.0 if "embed" in name else 1.0 / parameter.shape[-1] ** 0.5
        shape, device = parameter.shape, parameter.device
        noise = torch.randn(shape, generator=generator, device=device, dtype=torch.float32) * deviation
        parameter.data.copy_(noise)
