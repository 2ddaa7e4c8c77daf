"""vLLM's engines as the scripts beside this file start them, and requests through them."""

from __future__ import annotations

import argparse
import contextlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from shapes import SHAPES, spread_head, spread_inputs

PROMPT = 32
LONGEST = 2048
_LONGEST_PROMPT = 1024
# Steps at the beginning of a run that no time is taken of: prompts, and kernels that are compiled when first
# used.
SETTLE = 4
# Tokens of steps in which a full batch decodes and a few prompts begin.
_STEPS_WITH_PROMPTS = (320, 384, 448, 512)
# vLLM alone; `sharded` is with batch-sharded sampling, which is new in 0.33 and off by default.
NATIVE_SIDES = ("native", "sharded")


def add_engine_options(parser: argparse.ArgumentParser) -> None:
    model = parser.add_argument_group("the model and the engines")
    model.add_argument("--size", default="1.5b", choices=SHAPES, help="Qwen2.5's shape of that size")
    model.add_argument("--layers", type=int, default=4)
    model.add_argument("--deviation", type=float, default=4.5, help="of the logits")
    model.add_argument("--tp", type=int, default=1)
    model.add_argument("--pp", type=int, default=1)
    model.add_argument("--memory", type=float, default=0.4, help="each engine's part of a GPU's memory")
    model.add_argument("--cache-gib", type=float, default=0, help="for keys and values; 0: vLLM measures")
    model.add_argument(
        "--tokenizer", default="", help="a folder with a tokenizer; grammars need one, and llguidance"
    )
    model.add_argument("--core-process", action="store_true", help="the engine core in a process of its own")
    model.add_argument(
        "--worker-process", action="store_true", help="a worker in a process of its own at one rank too"
    )
    model.add_argument(
        "--logprobs-mode", default="raw_logprobs", choices=("raw_logprobs", "processed_logprobs")
    )
    model.add_argument("--eager", action="store_true", help="without CUDA graphs")
    model.add_argument(
        "--graphs",
        default="decode",
        choices=("decode", "piecewise"),
        help="CUDA graphs of steps that only decode, or also of those with prompts, which 0.33 has",
    )
    model.add_argument("--no-async", action="store_true", help="without asynchronous scheduling")
    plugin = parser.add_argument_group("Croupier's side")
    plugin.add_argument("--endpoint", default="", help="of a daemon; none: a private one")
    plugin.add_argument("--samplers", type=int, default=0)
    plugin.add_argument("--timeout", type=float, default=0, help="the option timeout; 0: its default")
    plugin.add_argument(
        "--spare-batches",
        type=int,
        choices=(0, 1),
        help="the option spare_batches: with stages, one batch in flight more than there are stages",
    )
    parser.add_argument(
        "--groups",
        type=int,
        default=0,
        help="with stages, how many groups the requests go round in; 0: what is best for each side, that is "
        "the stages, and one more with --spare-batches 1",
    )


def croupier_options(arguments: argparse.Namespace, **more: Any) -> dict[str, Any]:
    """The dictionary of additional_config: what was asked for; the rest is the plugin's own default."""
    options: dict[str, Any] = {}
    for name in ("endpoint", "samplers", "timeout"):
        if value := getattr(arguments, name):
            options[name] = value
    if arguments.spare_batches is not None:
        options["spare_batches"] = arguments.spare_batches
    return options | more


def groups_of(arguments: argparse.Namespace, side: str) -> int:
    if arguments.pp == 1:
        return 1
    if arguments.groups:
        return arguments.groups
    own = arguments.beside.get("spare_batches") if side == "beside" else None
    spare = arguments.spare_batches if own is None else own
    return arguments.pp + (spare or 0 if side not in NATIVE_SIDES else 0)


def prefill_budget(arguments: argparse.Namespace, side: str, most: int) -> int | None:
    """max_num_batched_tokens, which is what makes requests go through a pipeline in groups.

    vLLM's scheduler fills a step from the waiting requests until the tokens of the step are this many, and a
    request that has drawn a token is eligible again as many steps later as there are stages. With the default
    of 16,384 all 256 prompts of 32 fit the first step: all requests are one group for ever, and each stage
    waits for the other. With a step's tokens cut at one group's prompts, the second step takes the second
    group, and from then on the groups take turns. More groups than native has steps between a request's two
    tokens would fall together again, unevenly: so each side has the number of groups that it can keep apart.
    """
    groups = groups_of(arguments, side)
    return None if groups == 1 else max(-(-most // groups) * PROMPT, most)


def prompt_length(arguments: argparse.Namespace, side: str, most: int, batch: int) -> int:
    """So many tokens that a group's prompts fill a step, in a smaller batch too."""
    budget = prefill_budget(arguments, side, most)
    if budget is None or batch < 2:
        return PROMPT
    return min(_LONGEST_PROMPT, budget // -(-batch // groups_of(arguments, side)))


def use_graphs(arguments: argparse.Namespace) -> None:
    """Before vLLM is imported: piecewise graphs without a compiler, which would take a minute a start."""
    if arguments.graphs == "piecewise":
        os.environ["VLLM_USE_BREAKABLE_CUDAGRAPH"] = "1"


def cudagraph_mode(arguments: argparse.Namespace) -> str:
    if arguments.eager:
        return "NONE"
    return "FULL_AND_PIECEWISE" if arguments.graphs == "piecewise" else "FULL_DECODE_ONLY"


def engine_arguments(
    arguments: argparse.Namespace, side: str, model: str, sizes: list[int], croupier: dict[str, Any] | None
) -> dict[str, Any]:
    """For LLM() and for AsyncEngineArgs(): the same but for the key `croupier` and the side `sharded`."""
    from vllm.config import StructuredOutputsConfig

    groups = groups_of(arguments, side)
    captured = {-(-size // groups) for size in sizes} | set(sizes)
    if arguments.graphs == "piecewise":
        captured |= set(_STEPS_WITH_PROMPTS)
    given: dict[str, Any] = {
        "model": model,
        "load_format": "dummy",
        "max_model_len": LONGEST,
        "max_num_seqs": max(sizes),
        "max_logprobs": 20,
        "logprobs_mode": arguments.logprobs_mode,
        "seed": 0,
        "tensor_parallel_size": arguments.tp,
        "pipeline_parallel_size": arguments.pp,
        "disable_custom_all_reduce": True,
        "gpu_memory_utilization": arguments.memory,
        "enable_prefix_caching": False,
        "enforce_eager": arguments.eager,
        "disable_log_stats": True,
        "compilation_config": {
            "mode": 0,
            "cudagraph_mode": cudagraph_mode(arguments),
            "cudagraph_capture_sizes": sorted(captured),
        },
    }
    if arguments.tokenizer:
        given["tokenizer"] = arguments.tokenizer
        given["structured_outputs_config"] = StructuredOutputsConfig(backend="guidance")
    else:
        given["skip_tokenizer_init"] = True
    if croupier is not None:
        given["additional_config"] = {"croupier": croupier}
    if side == "sharded":
        given["enable_batch_sharded_sampling"] = True
    if arguments.worker_process:
        given["distributed_executor_backend"] = "mp"
    if arguments.no_async:
        given["async_scheduling"] = False
    if arguments.cache_gib:
        given["kv_cache_memory_bytes"] = int(arguments.cache_gib * 2**30)
    if budget := prefill_budget(arguments, side, max(sizes)):
        given["max_num_batched_tokens"] = budget
    return given


def make_llm(
    arguments: argparse.Namespace,
    side: str,
    model: str,
    sizes: list[int],
    croupier: dict[str, Any] | None,
) -> Any:
    return llm_of(arguments, engine_arguments(arguments, side, model, sizes, croupier))


def llm_of(arguments: argparse.Namespace, given: dict[str, Any]) -> Any:
    """vLLM's LLM of these arguments, with weights that make rows as peaked as a model's."""
    if arguments.tp * arguments.pp == 1 and not arguments.core_process:
        os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    use_graphs(arguments)
    from vllm import LLM

    llm = LLM(**given)
    llm.collective_rpc(spread_inputs)
    llm.collective_rpc(spread_head, args=(arguments.deviation,))
    return llm


def make_apart(runtime: Path, *given: Any) -> Any:
    stay_apart(runtime)
    return make_llm(*given)


def stay_apart(runtime: Path) -> None:
    """With a daemon of its own: one that engines share has as many samplers as the first of them asks for."""
    runtime.mkdir(mode=0o700, exist_ok=True)
    os.environ["XDG_RUNTIME_DIR"] = str(runtime)


def prompt_tokens(place: int, length: int = PROMPT) -> list[int]:
    return [(place * 7919 + j * 31) % 150000 for j in range(length)]


def sampling_of(given: dict[str, Any], place: int, tokens: int) -> Any:
    """vLLM's SamplingParams of one request; a seed is another one for each place."""
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind, StructuredOutputsParams

    own = {"max_tokens": tokens, "ignore_eos": True, "detokenize": False, **given}
    if "seed" in own:
        own["seed"] += 1000 * place
    if isinstance(own.get("structured_outputs"), dict):
        own["structured_outputs"] = StructuredOutputsParams(**own["structured_outputs"])
    return SamplingParams(output_kind=RequestOutputKind.FINAL_ONLY, **own)


@contextlib.contextmanager
def held_back(llm: Any) -> Iterator[None]:
    """Requests that are added meanwhile begin together.

    An engine core in a process of its own would begin with those that came first, and groups would form by
    chance.
    """
    llm.sleep(level=0)
    try:
        yield
    finally:
        llm.wake_up(tags=["scheduling"])


class Run:
    """Requests on their way: outputs in their order, and the time of the steps in which all decode."""

    def __init__(
        self,
        llm: Any,
        parameters: list[dict[str, Any]],
        tokens: int,
        length: int = PROMPT,
        prompt_of: Callable[[int, int], list[int]] = prompt_tokens,
    ) -> None:
        self._core = llm.llm_engine
        self._tokens = tokens
        self._names: list[str] = []
        self._finished: dict[str, Any] = {}
        self._from: tuple[float, int] | None = None
        self._until: tuple[float, int] | None = None
        with held_back(llm):
            for place, given in enumerate(parameters):
                name = f"{place}"
                prompt = {"prompt_token_ids": prompt_of(place, length)}
                self._core.add_request(name, prompt, sampling_of(given, place, tokens))
                self._names.append(name)
            # The front end's own state of each request: it knows the tokens that have come so far.
            states = self._core.output_processor.request_states.values()
            self._progress = [state.detokenizer for state in states][-len(parameters) :]
            if any("structured_outputs" in given for given in parameters):
                time.sleep(0.5)  # Grammars are compiled meanwhile, by threads of the engine core.

    def step(self) -> bool:
        """One step; False when nothing is left to do."""
        if not self._core.has_unfinished_requests():
            return False
        for output in self._core.step():
            if output.finished:
                self._finished[output.request_id] = output.outputs[0]
        now, first = time.perf_counter(), self._progress[0].num_output_tokens()
        if self._from is None:
            if min(progress.num_output_tokens() for progress in self._progress) >= SETTLE:
                self._from = (now, first)
        elif self._until is None and first >= self._tokens:
            self._until = (now, first)
        return True

    def outputs(self) -> list[Any]:
        while self.step():
            pass
        return [self._finished[name] for name in self._names]

    def us_per_step(self) -> float:
        if self._from is None or self._until is None or self._until[1] == self._from[1]:
            raise RuntimeError("no step was timed: the requests did not all decode at once")
        (begun, before), (ended, after) = self._from, self._until
        return round((ended - begun) / (after - before) * 1e6, 1)


def token_lists(
    llm: Any, parameters: list[dict[str, Any]], tokens: int, length: int = PROMPT
) -> list[list[int]]:
    return [list(output.token_ids) for output in Run(llm, parameters, tokens, length).outputs()]


def folder_model(folder: Path) -> str:
    return str(folder / "model")
