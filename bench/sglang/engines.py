"""An SGLang engine over random weights, for the scripts beside this file."""

from __future__ import annotations

import json
import os
import random
import tempfile
from pathlib import Path
from typing import Any

# Hidden size, layers, heads, key-value heads, intermediate size: Qwen2.5-7B's shape, and one of few layers.
SHAPES = {
    "7b": (3584, 28, 28, 4, 18944),
    "small": (1024, 4, 16, 4, 2816),
    "tiny": (128, 1, 2, 2, 256),
}
VOCAB = int(os.environ.get("VOCAB", 152064))


def model(shape: str, folder: Path, **more: Any) -> Path:
    """`more` of its config.json."""
    hidden, layers, heads, key_heads, inner = SHAPES[shape]
    config = {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": key_heads,
        "intermediate_size": inner,
        "vocab_size": VOCAB,
        "max_position_embeddings": 4096,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1000000.0,
        "hidden_act": "silu",
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps({**config, **more}))
    return folder


def eagle_draft(shape: str) -> Path:
    """One layer, with the target's embedding and head."""
    more = {"architectures": ["LlamaForCausalLMEagle"], "model_type": "llama", "num_hidden_layers": 1}
    return model(shape, Path(tempfile.mkdtemp(prefix="draft-")), **more)


def engine(shape: str, croupier: dict[str, Any] | None, **flags: Any) -> Any:
    """`croupier`: the options; None: SGLang's own sampler. The environment's FLAGS, in JSON, come last."""
    os.environ.pop("CROUPIER_SGLANG", None)
    if croupier is not None:
        os.environ["CROUPIER_SGLANG"] = json.dumps(croupier)
    import sglang

    asked: dict[str, Any] = {
        "model_path": str(model(shape, Path(tempfile.mkdtemp(prefix="model-")))),
        "load_format": "dummy",
        "skip_tokenizer_init": True,
        "attention_backend": "triton",
        "sampling_backend": "flashinfer",
        "grammar_backend": "none",
        "max_running_requests": 256,
        "context_length": 2048,
        "disable_radix_cache": True,
        "random_seed": 1,
        "log_level": os.environ.get("LOG_LEVEL", "warning"),
        "cuda_graph_bs_decode": [1, 8, 64, 128, 256],
        "disable_prefill_cuda_graph": True,
        "mem_fraction_static": 0.8,
    }
    return sglang.Engine(**{**asked, **flags, **json.loads(os.environ.get("FLAGS", "{}"))})


def prompts(count: int, length: int = 32) -> list[list[int]]:
    draws = random.Random(7)
    return [[draws.randrange(10, VOCAB) for _ in range(length)] for _ in range(count)]
