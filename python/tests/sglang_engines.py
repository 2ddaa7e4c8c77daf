"""SGLang's own engine on this host's CPU, over a model of one layer: nothing of it is imitated."""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

VOCAB = 512
# The measurements' plugin, which makes logits uneven, is the tests' too.
BENCH = Path(__file__).parents[2] / "bench" / "sglang"
# What SGLang needs to speculate on a CPU.
ON_CPU = Path(__file__).parent / "sglang_on_cpu"
CONFIG = {
    "architectures": ["Qwen2ForCausalLM"],
    "model_type": "qwen2",
    "hidden_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "intermediate_size": 64,
    "vocab_size": VOCAB,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-6,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "bos_token_id": 1,
    "eos_token_id": 2,
}
FLAGS: dict[str, Any] = {
    "device": "cpu",
    "load_format": "dummy",
    "skip_tokenizer_init": True,
    "attention_backend": "torch_native",
    "sampling_backend": "pytorch",
    "grammar_backend": "none",
    "max_running_requests": 16,
    "context_length": 400,
    "disable_cuda_graph": True,
    "disable_radix_cache": True,
    "mem_fraction_static": 0.5,
    "max_total_tokens": 20000,
    "random_seed": 1,
    "log_level": "warning",
}


def plugin(folder: Path, module: str) -> None:
    """As an installation would make it known."""
    info = folder / f"{module}-0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 0\n")
    (info / "entry_points.txt").write_text(f"[sglang.srt.plugins]\n{module} = {module}:register\n")


def tokenizer(folder: Path) -> None:
    """Each byte is a token, and the rest of the vocabulary is special."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE(vocab={letter: token for token, letter in enumerate(letters)}, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    # transformers may add one of its own.
    made.add_special_tokens([f"<|{token}|>" for token in range(len(letters), VOCAB - 2)])
    made.save(str(folder / "tokenizer.json"))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": f"<|{VOCAB - 3}|>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))


def weights(folder: Path, **config: Any) -> None:
    """As a file, of which each of several ranks loads its part; with `load_format="auto"`."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(5)
    made = Qwen2ForCausalLM(Qwen2Config(**{**CONFIG, "initializer_range": 0.4, **config}))
    made.save_pretrained(folder / "model")


@contextmanager
def engine(
    folder: Path,
    options: dict[str, Any] | None,
    plugins: Sequence[str] = (),
    config: dict[str, Any] | None = None,
    **flags: Any,
) -> Iterator[Any]:
    """`options` of Croupier; None: SGLang's own sampler.

    `plugins`: modules of ON_CPU and BENCH. `config`: what the model has otherwise.
    """
    model, site = folder / "model", folder / "site"
    model.mkdir(exist_ok=True)
    (model / "config.json").write_text(json.dumps({**CONFIG, **(config or {})}))
    if not flags.get("skip_tokenizer_init", True):
        tokenizer(model)
    if not site.exists():
        plugin(site, "weights")
        plugin(site / "speculation", "cpu_speculation")
    # Schedulers are processes of their own.
    paths = [str(ON_CPU), str(BENCH)]
    if "load_format" not in flags:
        paths.insert(1, str(site))
    changed = {
        # Else SGLang looks for kernels of vLLM's, and takes torch's NCCL for a group of several ranks.
        "SGLANG_USE_CPU_ENGINE": "1",
        "SGLANG_NCCL_SO_PATH": "none",
        "TORCH_COMPILE_DISABLE": "1",
        # More threads wait for each other, spinning: a step of this model takes many times as long.
        "OMP_NUM_THREADS": "1",
        "XDG_RUNTIME_DIR": str(folder),
    }
    if flags.get("tp_size", 1) > 1:
        # The cores of each rank.
        changed["SGLANG_CPU_OMP_THREADS_BIND"] = "|".join(["0"] * flags["tp_size"])
    sys.path.insert(0, str(ON_CPU))
    if plugins:
        for module in plugins:
            plugin(folder / "plugins", module)
        # The schedulers have this process's.
        sys.path[:0] = [str(folder / "plugins"), str(BENCH)]
    if "speculative_algorithm" in flags:
        # SGLang's sources for n-grams lack an include.
        changed["CXX"] = "c++ -include cstddef"
        paths.insert(0, str(site / "speculation"))
        sys.path.insert(0, str(site / "speculation"))
        if "speculative_draft_model_path" in flags:
            draft = folder / flags["speculative_draft_model_path"]
            flags = {**flags, "speculative_draft_model_path": str(draft)}
    paths += filter(None, [os.environ.get("PYTHONPATH")])
    changed["PYTHONPATH"] = os.pathsep.join(paths)
    if options is not None:
        changed["CROUPIER_SGLANG"] = json.dumps({"samplers": 1, **options})
    before = {name: os.environ.get(name) for name in (*changed, "CROUPIER_SGLANG")}
    os.environ.pop("CROUPIER_SGLANG", None)
    os.environ.update(changed)
    try:
        import sglang

        made = sglang.Engine(model_path=str(model), **{**FLAGS, **flags})
        try:
            yield made
        finally:
            made.shutdown()
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def prompts(count: int, length: int = 6) -> list[list[int]]:
    draws = random.Random(7)
    return [[draws.randrange(10, VOCAB) for _ in range(length)] for _ in range(count)]


def tokens(made: Any, ids: list[list[int]], asked: Any, **more: Any) -> list[list[int]]:
    answers = made.generate(input_ids=ids, sampling_params=asked, **more)
    return [answer["output_ids"] for answer in answers]


def streamed(made: Any, call: dict[str, Any]) -> Iterator[tuple[int, list[Any]]]:
    """With each chunk: how many tokens there are, and the answers so far in the order of the requests."""
    last: dict[int, Any] = {}
    for chunk in made.generate(**call, stream=True):
        last[chunk["index"]] = chunk
        answers = [answer for _, answer in sorted(last.items())]
        yield sum(answer["meta_info"]["completion_tokens"] for answer in answers), answers
