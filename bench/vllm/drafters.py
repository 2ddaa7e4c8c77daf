"""Drafters for speculation.py: their config.json, and random weights with a real drafter's acceptance.

Each worker has the target of shapes.py, changed by shape_target() in the same way with every drafter and with
none. A draft model has the target's first layers, and its LM head with noise. With the defaults, 0.7 of its
greedy drafts are right. An EAGLE-3 head has random weights, so that nearly no draft is accepted. N-grams have
prompts that repeat, and a target that follows them.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from engines import engine_arguments, folder_model, prompt_tokens
from shapes import SHAPES, VOCAB, make_model, qwen2_config

METHODS = ("draft_model", "eagle3", "ngram")
# Ids go round in groups of so many: what n-grams find again.
_ROUND = 4


def add_drafter_options(parser: argparse.ArgumentParser) -> None:
    drafter = parser.add_argument_group("the drafters")
    drafter.add_argument("--drafts", type=int, default=3, help="num_speculative_tokens")
    drafter.add_argument(
        "--draft-layers", type=int, default=1, help="the draft model's, which the target has too"
    )
    drafter.add_argument(
        "--rest",
        type=float,
        default=0.1,
        help="what the target's other layers count, as a part of the first ones",
    )
    drafter.add_argument("--noise", type=float, default=0.1, help="in the draft model's LM head, relative")
    drafter.add_argument(
        "--loops",
        type=float,
        default=40.0,
        help="of n-grams' target: what the next id of a loop has more, in logits",
    )


def make_drafter(folder: Path, method: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Writes what the drafter needs, and returns vLLM's speculative_config."""
    given: dict[str, Any] = {"method": method, "num_speculative_tokens": arguments.drafts}
    if method == "draft_model":
        return given | {
            "model": make_model(folder / "model" / "draft", arguments.size, arguments.draft_layers)
        }
    if method == "eagle3":
        return given | {"model": _make_eagle3(folder / "model" / "eagle3", arguments)}
    if method == "ngram":
        return given | {"prompt_lookup_min": 2, "prompt_lookup_max": 4}
    raise ValueError(f"the method {method!r} is not known; known are {', '.join(METHODS)}")


def _make_eagle3(folder: Path, arguments: argparse.Namespace) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    layers = arguments.layers
    config = {
        **qwen2_config(*SHAPES[arguments.size], 1),
        "architectures": ["LlamaForCausalLMEagle3"],
        "model_type": "llama",
        "draft_vocab_size": VOCAB,
        # vLLM's own choice has one layer twice where the target has four.
        "eagle_aux_hidden_state_layer_ids": [1, layers // 2, layers - 1],
    }
    (folder / "config.json").write_text(json.dumps(config))
    return str(folder)


def speculating(
    arguments: argparse.Namespace,
    side: str,
    croupier: dict[str, Any] | None,
    speculative: dict[str, Any] | None,
) -> dict[str, Any]:
    """engine_arguments() with drafts; None: without."""
    sizes = sizes_of(arguments)
    given = engine_arguments(arguments, side, folder_model(arguments.folder), sizes, croupier)
    if speculative is None:
        return given
    # CUDA graphs are captured by tokens: a step has so many of each request, and the drafter's own steps one.
    tokens = {size * (1 + speculative["num_speculative_tokens"]) for size in sizes}
    given["compilation_config"]["cudagraph_capture_sizes"] = sorted({*sizes, *tokens})
    return given | {"speculative_config": speculative}


def sizes_of(arguments: argparse.Namespace) -> list[int]:
    return sorted(
        {
            *(int(text) for text in arguments.batches.split(",")),
            *([arguments.equal] if arguments.equal else []),
        }
    )


def prompt_of(method: str) -> Any:
    return _looping_prompt if method == "ngram" else prompt_tokens


def _looping_prompt(place: int, length: int) -> list[int]:
    first = place * 7919 % 150000 // _ROUND * _ROUND
    return [first + at % _ROUND for at in range(length)]


# What a worker is told.


def shape_target(worker: Any, arguments: argparse.Namespace) -> None:
    """Of the layers that a draft model has not: a small part of what they were."""
    layers = worker.model_runner.model.model.layers
    if not 0 < arguments.draft_layers <= len(layers):
        raise ValueError(f"--draft-layers is {arguments.draft_layers}; 1 to {len(layers)} would be right")
    for layer in layers[arguments.draft_layers :]:
        layer.self_attn.o_proj.weight.data.mul_(arguments.rest)
        layer.mlp.down_proj.weight.data.mul_(arguments.rest)


def add_loops(worker: Any, logits: float) -> None:
    """The LM head expects behind each id the next one of its loop, by about so much."""
    import torch

    model = worker.model_runner.model
    head, embedded = model.lm_head.weight.data, model.model.embed_tokens.weight.data
    ids = torch.arange(len(head) // _ROUND * _ROUND, device=head.device)
    following = ids // _ROUND * _ROUND + (ids + 1) % _ROUND
    head[following] += (embedded[ids] * (logits / head.shape[1])).to(head.dtype)


def fill_drafter(worker: Any, method: str, arguments: argparse.Namespace) -> None:
    import torch

    if method == "ngram":
        return
    target, drafter = worker.model_runner.model, worker.model_runner.speculator.model
    theirs = dict(target.named_parameters())
    shared = {parameter.data_ptr() for parameter in theirs.values()}
    generator = torch.Generator(device=worker.device).manual_seed(29)
    filled = 0
    for name, parameter in sorted(drafter.named_parameters()):
        if parameter.data_ptr() in shared:
            continue  # An EAGLE-3 head has the target's embeddings and LM head.
        filled += 1
        weight = parameter.data
        if "norm" in name:
            weight.fill_(1.0)
            continue
        noise = torch.randn(weight.shape, generator=generator, device=weight.device, dtype=torch.float32)
        if method == "draft_model":
            part = (
                arguments.noise * arguments.deviation / weight.shape[-1] ** 0.5 if "lm_head" in name else 0.0
            )
            weight.copy_(theirs[name].data + noise * part)
        else:
            weight.copy_(noise / weight.shape[-1] ** 0.5)
    if not filled:
        raise RuntimeError(f"the drafter of {method} has no weights of its own")
