"""Which of the places that the plugin builds on are in a vLLM, and which have moved. Nothing is imported.

    seams.py WHEEL_OR_FOLDER ...     a wheel, or a folder with the package vllm in it

Ends with 1 where a place is not as the plugin knows it, and names it.
"""

from __future__ import annotations

import ast
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

# fmt: off
# File, class or "" for the module, name, and the parameters that must be there in this order; None: a name
# that the class or a function of it sets.
SEAMS: list[tuple[str, str, str, list[str] | None]] = [
    ("v1/executor/abstract.py", "Executor", "get_class", ["vllm_config"]),
    ("v1/executor/abstract.py", "Executor", "initialize_from_config", ["self", "kv_cache_configs"]),
    ("v1/executor/abstract.py", "Executor", "shutdown", ["self"]),
    ("v1/executor/multiproc_executor.py", "MultiprocExecutor", "_init_executor", ["self"]),
    ("v1/executor/multiproc_executor.py", "MultiprocExecutor", "execute_model",
     ["self", "scheduler_output", "non_block"]),
    ("v1/executor/multiproc_executor.py", "MultiprocExecutor", "sample_tokens",
     ["self", "grammar_output", "non_block"]),
    ("v1/executor/uniproc_executor.py", "UniProcExecutor", "_init_executor", ["self"]),
    ("v1/executor/uniproc_executor.py", "UniProcExecutor", "execute_model",
     ["self", "scheduler_output", "non_block"]),
    ("v1/executor/uniproc_executor.py", "UniProcExecutor", "sample_tokens",
     ["self", "grammar_output", "non_block"]),
    ("v1/engine/input_processor.py", "InputProcessor", "__init__", ["self", "vllm_config"]),
    ("v1/engine/input_processor.py", "InputProcessor", "process_inputs",
     ["self", "request_id", "prompt", "params"]),
    ("v1/core/sched/scheduler.py", "Scheduler", "update_from_output",
     ["self", "scheduler_output", "model_runner_output"]),
    ("v1/core/sched/scheduler.py", "Scheduler", "grammar_compile_error_reqs", None),
    ("v1/core/sched/scheduler.py", "Scheduler", "schedule", ["self"]),
    ("v1/core/sched/scheduler.py", "Scheduler", "waiting", None),
    ("v1/core/sched/scheduler.py", "Scheduler", "requests", None),
    ("v1/core/sched/scheduler.py", "Scheduler", "policy", None),
    ("v1/core/sched/scheduler.py", "Scheduler", "reset_preempted_req_ids", None),
    ("v1/core/sched/request_queue.py", "", "create_request_queue", ["policy"]),
    ("v1/core/sched/request_queue.py", "RequestQueue", "prepend_request", ["self", "request"]),
    ("v1/core/sched/async_scheduler.py", "AsyncScheduler", "__init__", ["self"]),
    ("v1/core/sched/async_scheduler.py", "AsyncScheduler", "pp_size", None),
    ("v1/request.py", "Request", "num_output_placeholders", None),
    ("v1/request.py", "Request", "num_in_flight_tokens", None),
    ("v1/request.py", "Request", "async_tokens_to_discard", None),
    ("v1/request.py", "Request", "next_decode_eligible_step", None),
    ("v1/request.py", "RequestStatus", "PREEMPTED", None),
    ("v1/core/sched/output.py", "SchedulerOutput", "num_scheduled_tokens", None),
    ("v1/core/sched/output.py", "SchedulerOutput", "preempted_req_ids", None),
    ("v1/core/sched/output.py", "NewRequestData", "prefill_token_ids", None),
    ("v1/core/sched/output.py", "CachedRequestData", "num_computed_tokens", None),
    ("v1/core/sched/output.py", "GrammarOutput", "structured_output_request_ids", None),
    ("v1/core/sched/output.py", "GrammarOutput", "grammar_bitmask", None),
    ("v1/outputs.py", "LogprobsLists", "sampled_token_ranks", None),
    ("v1/outputs.py", "ModelRunnerOutput", "req_id_to_index", None),
    ("v1/worker/gpu_worker.py", "Worker", "init_device", ["self"]),
    ("v1/worker/gpu_worker.py", "Worker", "sample_tokens", ["self", "grammar_output"]),
    ("v1/worker/gpu/model_runner.py", "GPUModelRunner", "sample",
     ["self", "hidden_states", "input_batch", "grammar_output"]),
    ("v1/worker/gpu/model_runner.py", "GPUModelRunner", "sample_tokens", ["self", "grammar_output"]),
    ("v1/worker/gpu/model_runner.py", "GPUModelRunner", "is_last_pp_rank", None),
    ("v1/worker/gpu/model_runner.py", "GPUModelRunner", "pp_handler", None),
    ("v1/worker/gpu/model_runner.py", "GPUModelRunner", "output_copy_stream", None),
    ("v1/worker/gpu/model_runner.py", "GPUModelRunner", "postprocess_sampled",
     ["self", "idx_mapping", "sampled_tokens"]),
    ("v1/worker/gpu/pp_utils.py", "PPHandler", "is_last_rank", None),
    ("v1/worker/gpu/pp_utils.py", "PPHandler", "broadcast_stream", None),
    ("v1/worker/gpu/pp_utils.py", "PPHandler", "queue", None),
    ("v1/worker/gpu/async_utils.py", "AsyncOutput", "model_runner_output", None),
    ("v1/worker/gpu/input_batch.py", "InputBatch", "logits_indices", None),
    ("v1/worker/gpu/input_batch.py", "InputBatch", "req_ids", None),
    ("v1/worker/gpu/sample/output.py", "SamplerOutput", "num_rejected", None),
    ("v1/worker/gpu/model_runner.py", "GPUModelRunner", "load_model", ["self"]),
    ("v1/worker/gpu/sample/penalties.py", "PenaltiesState", "output_bin_counts", None),
    ("v1/worker/gpu/sample/penalties.py", "PenaltiesState", "prompt_bin_mask", None),
    ("v1/worker/gpu/sample/sampler.py", "Sampler", "penalties_state", None),
    ("v1/worker/gpu/sample/sampler.py", "Sampler", "add_request",
     ["self", "req_idx", "prompt_len", "sampling_params"]),
    ("model_executor/layers/logits_processor.py", "LogitsProcessor", "_gather_logits", ["self", "logits"]),
    (
        "model_executor/layers/logits_processor.py",
        "LogitsProcessor",
        "_get_logits",
        ["self", "hidden_states"],
    ),
    ("v1/worker/gpu/model_runner.py", "GPUModelRunner", "profile_run", ["self"]),
    ("v1/worker/gpu/model_runner.py", "GPUModelRunner", "_dummy_sampler_run", ["self", "hidden_states"]),
    ("v1/worker/gpu/model_runner.py", "GPUModelRunner", "max_num_reqs", None),
    ("v1/worker/gpu/model_runner.py", "GPUModelRunner", "lora_config", None),
    ("v1/engine/__init__.py", "EngineCoreOutput", "stop_reason", None),
    ("v1/engine/output_processor.py", "RequestOutputCollector", "put", ["self", "output"]),
    ("v1/engine/async_llm.py", "InputStreamError", "__init__", ["self", "cause"]),
    ("entrypoints/openai/engine/protocol.py", "GenerationError", "__init__", ["self", "message"]),
    ("distributed/communication_op.py", "", "tensor_model_parallel_all_gather", ["input_"]),
    ("config/vllm.py", "VllmConfig", "compute_hash", ["self"]),
    ("config/vllm.py", "VllmConfig", "max_concurrent_batches", ["self"]),
    ("config/vllm.py", "VllmConfig", "use_v2_model_runner", ["self"]),
    ("config/vllm.py", "VllmConfig", "additional_config", None),
    ("config/parallel.py", "ParallelConfig", "worker_cls", None),
    ("config/parallel.py", "ParallelConfig", "pipeline_parallel_size", None),
    ("config/scheduler.py", "SchedulerConfig", "async_scheduling", None),
    ("sampling_params.py", "SamplingParams", "all_stop_token_ids", ["self"]),
    ("sampling_params.py", "SamplingParams", "bad_words_token_ids", ["self"]),
    ("sampling_params.py", "SamplingParams", "extra_args", None),
]
# fmt: on


class Source:
    """A vLLM in a wheel or in a folder."""

    def __init__(self, place: Path) -> None:
        self._wheel = zipfile.ZipFile(place) if place.is_file() else None
        self._folder = place
        self._read: dict[str, ast.Module | None] = {}

    def module(self, file: str) -> ast.Module | None:
        if file not in self._read:
            try:
                if self._wheel is not None:
                    text = self._wheel.read(f"vllm/{file}").decode()
                else:
                    text = (self._folder / "vllm" / file).read_text(encoding="utf-8")
                self._read[file] = ast.parse(text)
            except (FileNotFoundError, KeyError):
                self._read[file] = None
        return self._read[file]


def fault(source: Source, file: str, owner: str, name: str, parameters: list[str] | None) -> str | None:
    module = source.module(file)
    if module is None:
        return "there is no such file"
    body: ast.AST | None = module
    if owner:
        body = next(
            (n for n in module.body if isinstance(n, ast.ClassDef) and n.name == owner),
            None,
        )
        if body is None:
            return f"there is no class {owner}"
    if parameters is None:
        return None if name in names_set(body) else f"nothing sets {name}"
    found = [n for n in body.body if isinstance(n, ast.FunctionDef) and n.name == name]
    if not found:
        return f"there is no function {name}"
    has = [argument.arg for argument in found[-1].args.args]
    return None if has[: len(parameters)] == parameters else f"it takes {has}, and {parameters} was known"


def names_set(body: ast.AST) -> Iterator[str]:
    """Fields of the class, and attributes that its functions give `self`."""
    for node in ast.walk(body):
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        for target in targets if isinstance(node, ast.Assign | ast.AnnAssign) else ():
            for part in target.elts if isinstance(target, ast.Tuple) else [target]:
                if isinstance(part, ast.Name):
                    yield part.id
                elif isinstance(part, ast.Attribute):
                    yield part.attr


def main() -> int:
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        print(__doc__)
        return 2
    moved = 0
    for place in sys.argv[1:]:
        source = Source(Path(place))
        faults = [(seam, found) for seam in SEAMS if (found := fault(source, *seam))]
        print(f"{place}: {len(SEAMS) - len(faults)} of {len(SEAMS)} places are as the plugin knows them")
        for (file, owner, name, _), found in faults:
            print(f"  vllm/{file}: {owner + '.' if owner else ''}{name}: {found}")
        moved += len(faults)
    return 1 if moved else 0


if __name__ == "__main__":
    sys.exit(main())
