"""Writes LoRA adapters for the trial's model, and a multimodal model with its text weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .model import EOS, Model, text_config, text_weights, write_tokenizer, write_weights

RANK = 8
# In the prompt, for one image.
IMAGE = ("<|vision_start|>", "<|vision_end|>", "<|vision_pad|>", "<|image_pad|>", "<|video_pad|>")


def make_adapter(folder: Path, model: Model, kind: str, seed: int) -> str:
    """`layers` changes the output of each layer, `head` only the logits; both change the tokens."""
    import torch

    config = json.loads(Path(model.folder, "config.json").read_text())
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    chance = torch.Generator().manual_seed(seed)

    def normal(*shape: int, scale: float) -> Any:
        return (torch.randn(shape, generator=chance) * scale).to(torch.bfloat16)

    tensors, targets = {}, ["lm_head"]
    if kind == "layers":
        targets = ["o_proj", "down_proj"]
        for layer in range(config["num_hidden_layers"]):
            place = f"base_model.model.model.layers.{layer}"
            for name, width in ((f"{place}.self_attn.o_proj", hidden), (f"{place}.mlp.down_proj", inner)):
                tensors[f"{name}.lora_A.weight"] = normal(RANK, width, scale=width**-0.5)
                tensors[f"{name}.lora_B.weight"] = normal(hidden, RANK, scale=0.4)
    else:
        tensors["base_model.model.lm_head.lora_A.weight"] = normal(RANK, hidden, scale=hidden**-0.5)
        tensors["base_model.model.lm_head.lora_B.weight"] = normal(model.vocab, RANK, scale=1.5)
    folder.mkdir(parents=True, exist_ok=True)
    known = {
        "peft_type": "LORA",
        "r": RANK,
        "lora_alpha": RANK,
        "lora_dropout": 0.0,
        "bias": "none",
        "target_modules": targets,
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": model.folder,
    }
    (folder / "adapter_config.json").write_text(json.dumps(known))
    write_weights(folder / "adapter_model.safetensors", tensors)
    return str(folder)


def make_multimodal(folder: Path, tokenizer: Path, shape: str, seed: int = 3) -> Model:
    """Qwen2.5-VL's architecture: the trial's text weights and a small vision tower."""
    folder.mkdir(parents=True, exist_ok=True)
    words = write_tokenizer(folder, tokenizer, IMAGE)
    first = words - len(IMAGE)
    vocab = -(-words // 128) * 128
    text = text_config(shape, vocab)
    width = text["hidden_size"] // text["num_attention_heads"]
    # Parts of a head's rotation that time, height and width have.
    sections = [width // 2 - 2 * (3 * width // 16), 3 * width // 16, 3 * width // 16]
    vision = {
        "model_type": "qwen2_5_vl",
        "depth": 2,
        "hidden_size": 128,
        "intermediate_size": 256,
        "num_heads": 4,
        "out_hidden_size": text["hidden_size"],
        "patch_size": 14,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
        "in_channels": 3,
        "window_size": 112,
        "fullatt_block_indexes": [1],
        "tokens_per_second": 2,
        "hidden_act": "silu",
    }
    known = {
        "architectures": ["Qwen2_5_VLForConditionalGeneration"],
        "model_type": "qwen2_5_vl",
        **text,
        "rope_scaling": {"type": "mrope", "mrope_section": sections},
        **{f"{name[2:-2]}_token_id": first + place for place, name in enumerate(IMAGE[:3])},
        "image_token_id": first + 3,
        "video_token_id": first + 4,
        "vision_config": vision,
    }
    (folder / "config.json").write_text(json.dumps(known, indent=1))
    (folder / "preprocessor_config.json").write_text(json.dumps(_preprocessor()))
    config = json.loads((folder / "tokenizer_config.json").read_text())
    config |= {"tokenizer_class": "Qwen2Tokenizer", "chat_template": _IMAGE_TEMPLATE}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    weights = text_weights(text, first, seed) | _vision_weights(vision)
    write_weights(folder / "model.safetensors", weights)
    model = Model(str(folder), vocab, first, EOS)
    model.write()
    return model


_IMAGE_TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' }}"
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}"
    "{% for part in message['content'] %}{% if part['type'] == 'image' or 'image_url' in part %}"
    "{{ '<|vision_start|><|image_pad|><|vision_end|>' }}"
    "{% elif 'text' in part %}{{ part['text'] }}{% endif %}{% endfor %}{% endif %}"
    "{{ '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def _preprocessor() -> dict[str, Any]:
    return {
        "image_processor_type": "Qwen2VLImageProcessor",
        "processor_class": "Qwen2_5_VLProcessor",
        "min_pixels": 3136,
        "max_pixels": 200704,
        "patch_size": 14,
        "temporal_patch_size": 2,
        "merge_size": 2,
        "image_mean": [0.48145466, 0.4578275, 0.40821073],
        "image_std": [0.26862954, 0.26130258, 0.27577711],
    }


def _vision_weights(vision: dict[str, Any]) -> dict[str, Any]:
    import torch

    chance = torch.Generator().manual_seed(19)
    hidden, inner, out = vision["hidden_size"], vision["intermediate_size"], vision["out_hidden_size"]
    merged = hidden * vision["spatial_merge_size"] ** 2
    patch = vision["temporal_patch_size"], vision["patch_size"], vision["patch_size"]
    found = {}

    def linear(name: str, outer: int, width: int, bias: bool = True) -> None:
        weight = torch.randn(outer, width, generator=chance) * width**-0.5
        found[f"{name}.weight"] = weight.to(torch.bfloat16)
        if bias:
            found[f"{name}.bias"] = torch.zeros(outer, dtype=torch.bfloat16)

    count = vision["in_channels"] * patch[0] * patch[1] * patch[2]
    linear("visual.patch_embed.proj", hidden, count, bias=False)
    weight = found["visual.patch_embed.proj.weight"]
    found["visual.patch_embed.proj.weight"] = weight.view(hidden, vision["in_channels"], *patch)
    for block in range(vision["depth"]):
        place = f"visual.blocks.{block}"
        linear(f"{place}.attn.qkv", 3 * hidden, hidden)
        linear(f"{place}.attn.proj", hidden, hidden)
        linear(f"{place}.mlp.gate_proj", inner, hidden)
        linear(f"{place}.mlp.up_proj", inner, hidden)
        linear(f"{place}.mlp.down_proj", hidden, inner)
        for norm in ("norm1", "norm2"):
            found[f"{place}.{norm}.weight"] = torch.ones(hidden, dtype=torch.bfloat16)
    found["visual.merger.ln_q.weight"] = torch.ones(hidden, dtype=torch.bfloat16)
    linear("visual.merger.mlp.0", merged, merged)
    linear("visual.merger.mlp.2", out, merged)
    return found
