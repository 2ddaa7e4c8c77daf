"""vLLM decodes with its own sampler and with Croupier, one engine after the other, on one GPU host.

    decode.py FOLDER [--layers 4] [--batches 1,8,64,256] ...

It makes a model of Qwen2.5's shape, gives both engines the same random weights, with an LM head such that
rows are about as peaked as a model's, and leaves in FOLDER: native.json and croupier.json (greedy tokens,
and microseconds a step of each kind), verify.json (decisions made again) and summary.json.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import time
import traceback
from pathlib import Path
from typing import Any

SHAPES = {
    "0.5b": (896, 14, 2, 4864),
    "1.5b": (1536, 12, 2, 8960),
    "7b": (3584, 28, 4, 18944),
}
VOCAB = 152064
PROMPT = 32


def kinds() -> dict[str, dict[str, Any]]:
    full = {
        "temperature": 0.8,
        "top_k": 50,
        "top_p": 0.95,
        "min_p": 0.02,
        "repetition_penalty": 1.1,
        "frequency_penalty": 0.1,
        "presence_penalty": 0.1,
    }
    return {
        "greedy": {"temperature": 0.0},
        "temperature": {"temperature": 0.8},
        "topk_topp": {"temperature": 0.8, "top_k": 50, "top_p": 0.95},
        "penalties": {
            "temperature": 0.8,
            "repetition_penalty": 1.1,
            "frequency_penalty": 0.1,
            "presence_penalty": 0.1,
        },
        "full": {**full, "seed": 7},
        "full_unseeded": full,
        "logprobs20": {"temperature": 0.8, "top_p": 0.95, "logprobs": 20},
    }


def own_kinds() -> dict[str, dict[str, Any]]:
    """What vLLM's sampler has not."""
    return {
        "dry_xtc": {
            "temperature": 0.8,
            "seed": 7,
            "extra_args": {
                "dry_multiplier": 0.8,
                "xtc_probability": 0.5,
                "xtc_threshold": 0.1,
            },
        },
        "top_n_sigma": {
            "temperature": 1.0,
            "seed": 7,
            "extra_args": {"top_n_sigma": 1.0},
        },
    }


def mixtures() -> list[dict[str, Any]]:
    """One request after another takes the next of these: verify mode's batch."""
    return [
        *kinds().values(),
        *own_kinds().values(),
        {
            "temperature": 0.9,
            "seed": 3,
            "logit_bias": {11: 5.0, 17: -100.0},
            "logprobs": 5,
        },
        {"temperature": 0.7, "seed": 4, "allowed_token_ids": list(range(100, 900, 3))},
        {"temperature": 1.0, "seed": 5, "min_tokens": 4, "stop_token_ids": [5, 6, 7]},
    ]


def make_model(folder: Path, size: str, layers: int) -> str:
    hidden, heads, kv_heads, inner = SHAPES[size]
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "intermediate_size": inner,
        "vocab_size": VOCAB,
        "max_position_embeddings": 32768,
        "max_window_layers": layers,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1e6,
        "hidden_act": "silu",
        "initializer_range": 0.02,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        "bos_token_id": 151643,
        "eos_token_id": 151643,
        "use_sliding_window": False,
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
    noise = torch.randn(
        weight.shape, generator=generator, device=weight.device, dtype=torch.float32
    )
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
        noise = (
            torch.randn(shape, generator=generator, device=device, dtype=torch.float32)
            * deviation
        )
        parameter.data.copy_(noise)


def prompts(count: int) -> list[dict[str, list[int]]]:
    return [
        {"prompt_token_ids": [(i * 7919 + j * 31) % 150000 for j in range(PROMPT)]}
        for i in range(count)
    ]


def engine(
    arguments: argparse.Namespace, model: str, croupier: dict[str, Any] | None
) -> Any:
    from vllm import LLM

    sizes = sorted(
        {int(batch) for batch in arguments.batches.split(",")} | {arguments.equal}
    )
    extra = {} if croupier is None else {"additional_config": {"croupier": croupier}}
    if arguments.no_async:
        extra["async_scheduling"] = False
    if arguments.prefill:
        extra["max_num_batched_tokens"] = arguments.prefill
    llm = LLM(
        model=model,
        load_format="dummy",
        skip_tokenizer_init=True,
        max_model_len=2048,
        max_num_seqs=max(sizes),
        max_logprobs=20,
        seed=0,
        tensor_parallel_size=arguments.tp,
        pipeline_parallel_size=arguments.pp,
        disable_custom_all_reduce=True,
        gpu_memory_utilization=arguments.memory,
        enable_prefix_caching=False,
        enforce_eager=arguments.eager,
        disable_log_stats=True,
        compilation_config={
            "mode": 0,
            "cudagraph_mode": "NONE" if arguments.eager else "FULL_DECODE_ONLY",
            "cudagraph_capture_sizes": sizes,
        },
        **extra,
    )
    llm.collective_rpc(spread_inputs)
    llm.collective_rpc(spread_head, args=(arguments.deviation,))
    return llm


def sampled(
    llm: Any, parameters: list[dict[str, Any]], tokens: int
) -> tuple[list[Any], float]:
    from vllm import SamplingParams

    base = {"max_tokens": tokens, "ignore_eos": True, "detokenize": False}
    asked = []
    for place, given in enumerate(parameters):
        own = {**base, **given}
        if "seed" in own:
            own["seed"] += 1000 * place
        asked.append(SamplingParams(**own))
    begun = time.perf_counter()
    outputs = llm.generate(prompts(len(asked)), asked, use_tqdm=False)
    return [output.outputs[0] for output in outputs], time.perf_counter() - begun


def time_steps(
    llm: Any, arguments: argparse.Namespace, wanted: dict[str, dict[str, Any]]
) -> dict[str, Any]:
    """Microseconds a step: a long run less a short one, so that prompts do not count."""
    times: dict[str, Any] = {}
    for batch in (int(text) for text in arguments.batches.split(",")):
        for name, parameters in wanted.items():
            sampled(llm, [parameters] * batch, 4)
            runs = []
            for _ in range(arguments.runs):
                _, short = sampled(llm, [parameters] * batch, 4)
                _, long = sampled(llm, [parameters] * batch, 4 + arguments.steps)
                runs.append(round((long - short) / arguments.steps * 1e6, 1))
            times[f"{batch}/{name}"] = {"best": min(runs), "runs": runs}
            print(f"{batch:4} {name:14} {min(runs):9.0f} us a step", flush=True)
    return times


def work(side: str, arguments: argparse.Namespace, folder: str, pipe: Any) -> None:
    """One engine in a process of its own, which ends with it."""
    path = Path(folder)
    found: dict[str, Any] = {"side": side}
    if arguments.tp * arguments.pp == 1 and not arguments.core_process:
        os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    try:
        options = None
        if side != "native":
            options = (
                {"endpoint": arguments.endpoint}
                if arguments.endpoint
                else {"samplers": arguments.samplers}
            )
            if arguments.spare:
                options["spare_batches"] = arguments.spare
        if side == "verify":
            options |= {
                "verify_every": arguments.verify_every,
                "verify_report": str(path / "verify.json"),
            }
        begun = time.perf_counter()
        llm = engine(arguments, str(path / "model"), options)
        found["seconds_to_start"] = round(time.perf_counter() - begun, 1)
        if side == "verify":
            mixed = [mixture for _ in range(arguments.equal) for mixture in mixtures()][
                : arguments.equal
            ]
            outputs, seconds = sampled(llm, mixed, arguments.equal_tokens)
            found["mixed_tokens"] = sum(len(output.token_ids) for output in outputs)
            found["seconds"] = round(seconds, 2)
        else:
            outputs, _ = sampled(
                llm, [{"temperature": 0.0}] * arguments.equal, arguments.equal_tokens
            )
            found["greedy"] = [list(output.token_ids) for output in outputs]
            flat, _ = sampled(llm, [{"temperature": 1.0, "logprobs": 5}] * 8, 4)
            found["likeliest"] = [
                [
                    max(found.logprob for found in top.values())
                    for top in output.logprobs
                ]
                for output in flat
            ]
            wanted = kinds() if side == "native" else {**kinds(), **own_kinds()}
            found["us_per_step"] = (
                time_steps(llm, arguments, wanted) if arguments.steps else {}
            )
        (path / f"{side}.json").write_text(json.dumps(found, indent=1))
        llm.llm_engine.engine_core.shutdown()
        pipe.send(None)
    except BaseException:
        (path / f"{side}.json").write_text(
            json.dumps({**found, "error": traceback.format_exc()}, indent=1)
        )
        pipe.send(traceback.format_exc())
        raise


def compare(folder: Path) -> dict[str, Any]:
    sides = {
        side: read(folder / f"{side}.json") for side in ("native", "croupier", "verify")
    }
    ours, theirs = (
        sides["croupier"].get("greedy", []),
        sides["native"].get("greedy", []),
    )
    differing = []
    for place, (one, other) in enumerate(zip(ours, theirs, strict=False)):
        at = next(
            (
                i
                for i, pair in enumerate(zip(one, other, strict=False))
                if pair[0] != pair[1]
            ),
            None,
        )
        if at is not None:
            differing.append(
                {
                    "request": place,
                    "first_difference": at,
                    "native": other[at],
                    "croupier": one[at],
                }
            )
    native, croupier = (
        sides[side].get("us_per_step", {}) for side in ("native", "croupier")
    )
    ratios = {
        kind: round(native[kind]["best"] / croupier[kind]["best"], 3)
        for kind in native
        if kind in croupier
    }
    return {
        "greedy_sequences": min(len(ours), len(theirs)),
        "greedy_sequences_that_differ": len(differing),
        "differing": differing[:50],
        "native_over_croupier": ratios,
        "verify": read(folder / "verify.json"),
        "errors": {
            side: found["error"] for side, found in sides.items() if "error" in found
        },
    }


def read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text()) if path.exists() else {}


def environment() -> dict[str, Any]:
    import torch
    import vllm

    gpu = subprocess.run(
        ["nvidia-smi", "-L"], capture_output=True, text=True, check=False
    ).stdout.strip()
    return {
        "vllm": vllm.__version__,
        "torch": torch.__version__,
        "gpus": gpu,
        "cores": len(os.sched_getaffinity(0)),
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--size", default="1.5b", choices=SHAPES)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--tp", type=int, default=1)
    parser.add_argument("--pp", type=int, default=1)
    parser.add_argument(
        "--spare", type=int, default=0, help="batches that rotate beyond the stages'"
    )
    parser.add_argument(
        "--prefill",
        type=int,
        default=0,
        help="prompts' tokens a step: a group for each stage comes of few",
    )
    parser.add_argument("--batches", default="1,8,64,256")
    parser.add_argument(
        "--steps", type=int, default=100, help="timed steps; 0: nothing is timed"
    )
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument(
        "--equal",
        type=int,
        default=64,
        help="requests whose greedy tokens are compared",
    )
    parser.add_argument("--equal-tokens", type=int, default=128)
    parser.add_argument("--verify-every", type=int, default=4)
    parser.add_argument("--deviation", type=float, default=4.5, help="of the logits")
    parser.add_argument("--memory", type=float, default=0.5)
    parser.add_argument(
        "--endpoint", default="", help="of a daemon; none: a private one"
    )
    parser.add_argument("--samplers", type=int, default=0)
    parser.add_argument("--sides", default="native,croupier,verify")
    parser.add_argument(
        "--core-process",
        action="store_true",
        help="the engine core in a process of its own",
    )
    parser.add_argument("--eager", action="store_true")
    parser.add_argument("--no-async", action="store_true")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    make_model(arguments.folder / "model", arguments.size, arguments.layers)
    context = multiprocessing.get_context("spawn")
    for side in arguments.sides.split(","):
        print(f"== {side}", flush=True)
        here, there = context.Pipe()
        process = context.Process(
            target=work, args=(side, arguments, str(arguments.folder), there)
        )
        process.start()
        there.close()
        try:
            here.recv()
        except EOFError:
            print(f"{side} ended without a word", file=sys.stderr)
        process.join()
    given = {name: str(value) for name, value in vars(arguments).items()}
    summary = {
        "arguments": given,
        "environment": environment(),
        **compare(arguments.folder),
    }
    (arguments.folder / "summary.json").write_text(json.dumps(summary, indent=1))
    print(json.dumps(summary, indent=1))
    return 1 if summary["errors"] else 0


if __name__ == "__main__":
    sys.exit(main())
