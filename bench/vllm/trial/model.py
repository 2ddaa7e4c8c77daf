"""A small model of Qwen2's shape with weights in a file, whose rows are peaked as a trained model's are.

Each token has four successors, whose logits differ by several steps of bfloat16, so that a greedy token
seldom depends on rounding. What the layers add depends on the whole context, and moves each logit by about a
quarter of the gap between two successors: keys and values of another request show in the log-probs at once.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from shapes import LONGEST, qwen2_config

# hidden, heads, heads of keys and values, inner, layers.
SHAPES = {"small": (1024, 8, 2, 4096, 4), "tiny": (256, 4, 2, 512, 2)}
# Ids that end a text: <|im_end|> is the tokenizer's own, and the other two are the model's.
EOS = (2, 0, 1)
SUCCESSORS = 4
# Of the first successor's logit, and of the gaps behind it, before the last norm takes its share.
_PEAK, _GAP = 16.0, 2.5
# Of what all layers add, beside the embedding's 1.
_CONTEXT = 0.5
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] }}"
    "{{ '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


@dataclass(frozen=True)
class Model:
    """What the checks have to know of it."""

    folder: str
    vocab: int
    words: int
    """Ids below this one have a text."""
    eos: tuple[int, ...] = EOS

    def write(self) -> None:
        Path(self.folder, "trial.json").write_text(json.dumps(asdict(self)))

    @classmethod
    def read(cls, folder: Path) -> Model:
        known = json.loads((folder / "trial.json").read_text())
        return cls(**{**known, "eos": tuple(known["eos"])})


def make_model(
    folder: Path, tokenizer: Path, shape: str = "small", seed: int = 1, llama: bool = False
) -> Model:
    """The folder for `vllm serve`. Written as a Llama: without biases, and LoRA may change its head."""
    folder.mkdir(parents=True, exist_ok=True)
    words = write_tokenizer(folder, tokenizer)
    vocab = -(-words // 128) * 128
    config = text_config(shape, vocab)
    weights = text_weights(config, words, seed)
    whole = {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", **config}
    if llama:
        whole |= {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "attention_bias": False}
        weights = {name: tensor for name, tensor in weights.items() if not name.endswith(".bias")}
    (folder / "config.json").write_text(json.dumps(whole, indent=1))
    write_weights(folder / "model.safetensors", weights)
    model = Model(str(folder), vocab, words)
    model.write()
    return model


def write_tokenizer(folder: Path, tokenizer: Path, more: tuple[str, ...] = ()) -> int:
    """Its files, with more special tokens behind its own; how many ids it has in all."""
    read = gzip.decompress if tokenizer.suffix == ".gz" else bytes
    known = json.loads(read(tokenizer.read_bytes()))
    words = 1 + max([*known["model"]["vocab"].values(), *(added["id"] for added in known["added_tokens"])])
    for content in more:
        plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
        known["added_tokens"].append({"id": words, "content": content, **plain, "special": True})
        words += 1
    (folder / "tokenizer.json").write_text(json.dumps(known))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "model_max_length": LONGEST,
        "chat_template": CHAT_TEMPLATE,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    # No temperature in it: the checks give each request its own.
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": list(EOS)}))
    return words


def text_config(shape: str, vocab: int) -> dict[str, Any]:
    return {**qwen2_config(*SHAPES[shape], vocab), "bos_token_id": EOS[1], "eos_token_id": EOS[0]}


def text_weights(config: dict[str, Any], words: int, seed: int, prefix: str = "model.") -> dict[str, Any]:
    """Tensors by their names, in bfloat16."""
    import torch

    hidden, inner, layers = config["hidden_size"], config["intermediate_size"], config["num_hidden_layers"]
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    kv = hidden // heads * kv_heads
    chance = torch.Generator().manual_seed(seed)

    def normal(*shape: int, scale: float = 1.0) -> Any:
        found = torch.randn(shape, generator=chance, dtype=torch.float32)
        return (found * scale / shape[-1] ** 0.5).to(torch.bfloat16)

    embedding = torch.randn(config["vocab_size"], hidden, generator=chance, dtype=torch.float32)
    found = {
        f"{prefix}embed_tokens.weight": embedding.to(torch.bfloat16),
        f"{prefix}norm.weight": torch.ones(hidden, dtype=torch.bfloat16),
        "lm_head.weight": _head(embedding, words, chance),
    }
    # Each of the two updates of a layer has about this deviation, and their squares add up.
    update = _CONTEXT / (2 * layers) ** 0.5
    for layer in range(layers):
        place = f"{prefix}layers.{layer}."
        found |= {
            # Sharp attention, so that a row depends on single tokens of its context and not on their mean.
            f"{place}self_attn.q_proj.weight": normal(hidden, hidden, scale=3.0),
            f"{place}self_attn.q_proj.bias": torch.zeros(hidden, dtype=torch.bfloat16),
            f"{place}self_attn.k_proj.weight": normal(kv, hidden),
            f"{place}self_attn.k_proj.bias": torch.zeros(kv, dtype=torch.bfloat16),
            f"{place}self_attn.v_proj.weight": normal(kv, hidden),
            f"{place}self_attn.v_proj.bias": torch.zeros(kv, dtype=torch.bfloat16),
            f"{place}self_attn.o_proj.weight": normal(hidden, hidden, scale=update),
            f"{place}mlp.gate_proj.weight": normal(inner, hidden),
            f"{place}mlp.up_proj.weight": normal(inner, hidden),
            # SiLU of a normal variable times another one has a deviation of 0.6.
            f"{place}mlp.down_proj.weight": normal(hidden, inner, scale=update / 0.6),
            f"{place}input_layernorm.weight": torch.ones(hidden, dtype=torch.bfloat16),
            f"{place}post_attention_layernorm.weight": torch.ones(hidden, dtype=torch.bfloat16),
        }
    return found


def _head(embedding: Any, words: int, chance: Any) -> Any:
    """Each id's row is a sum of the embeddings of the tokens that it follows; one without a text has none."""
    import torch

    vocab, hidden = embedding.shape
    head = torch.zeros(vocab, hidden, dtype=torch.float32)
    usual = torch.arange(max(EOS) + 1, words)
    for place in range(SUCCESSORS):
        before = usual[torch.randperm(len(usual), generator=chance)]
        head[usual] += embedding[before] * ((_PEAK - place * _GAP) / hidden)
    return head.to(torch.bfloat16)


def write_weights(path: Path, tensors: dict[str, Any]) -> None:
    from safetensors.torch import save_file

    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path, {"format": "pt"})
