"""What the plugin relies on in vLLM: seams.py compares a release with it."""

from __future__ import annotations

from typing import NamedTuple

NEWEST, OLDEST = (99, 0), (0, 0)


class Seam(NamedTuple):
    """A function with the first of its parameters, or a name that a class or a function of it sets."""

    file: str
    owner: str
    """A class; empty: the module."""
    name: str
    parameters: list[str] | None = None
    """In this order; None: a name and no function."""
    type: str = ""
    """The annotation that the name must have, if any."""
    since: tuple[int, int] = OLDEST
    until: tuple[int, int] = NEWEST
    """The releases that have it: from the first, before the second."""


class Call(NamedTuple):
    """A call that must stand in a function, with just these arguments."""

    file: str
    function: str
    """With its class before a dot."""
    callee: str
    arguments: str
    since: tuple[int, int] = OLDEST
    until: tuple[int, int] = NEWEST


V33 = (0, 33)
SCHEDULER, ASYNC_SCHEDULER = "v1/core/sched/scheduler.py", "v1/core/sched/async_scheduler.py"
RUNNER, WORKER = "v1/worker/gpu/model_runner.py", "v1/worker/gpu_worker.py"
LOGITS = "model_executor/layers/logits_processor.py"
PENALTIES, SAMPLER = "v1/worker/gpu/sample/penalties.py", "v1/worker/gpu/sample/sampler.py"
EXECUTOR, UNI = "v1/executor/abstract.py", "v1/executor/uniproc_executor.py"
MULTI = "v1/executor/multiproc_executor.py"
BATCH = ["self", "scheduler_output", "non_block"]
GRAMMAR = ["self", "grammar_output", "non_block"]
CORE, OUTPUT = "v1/engine/core.py", "v1/core/sched/output.py"
PIPELINE, GUMBEL = "v1/worker/gpu/pp_utils.py", "v1/worker/gpu/sample/gumbel.py"
INPUTS, DRAFTS = "v1/worker/gpu/input_batch.py", "v1/worker/gpu/spec_decode/"
GRAMMARS, MASKS = "v1/structured_output/__init__.py", "v1/worker/gpu/structured_outputs.py"
DETOKENIZER, ENGINE = "v1/engine/detokenizer.py", "v1/engine/__init__.py"
PROCESSOR, PROTOCOL = "v1/engine/input_processor.py", "entrypoints/openai/engine/protocol.py"

# fmt: off
SEAMS = [
    Seam(EXECUTOR, "Executor", "get_class", ["vllm_config"]),
    Seam(EXECUTOR, "Executor", "initialize_from_config", ["self", "kv_cache_configs"]),
    Seam(EXECUTOR, "Executor", "compile_or_warm_up_model", ["self"], since=V33),
    Seam(EXECUTOR, "Executor", "shutdown", ["self"]),
    Seam(MULTI, "MultiprocExecutor", "_init_executor", ["self"]),
    Seam(MULTI, "MultiprocExecutor", "execute_model", BATCH),
    Seam(MULTI, "MultiprocExecutor", "sample_tokens", GRAMMAR),
    Seam("config/parallel.py", "ParallelConfig", "nnodes_within_dp", ["self"]),
    Seam("config/parallel.py", "ParallelConfig", "node_rank_within_dp", ["self"]),
    Seam("config/parallel.py", "ParallelConfig", "local_world_size", ["self"]),
    Seam("utils/network_utils.py", "", "get_ip", []),
    Seam(UNI, "UniProcExecutor", "_init_executor", ["self"]),
    Seam(UNI, "UniProcExecutor", "execute_model", BATCH),
    Seam(UNI, "UniProcExecutor", "sample_tokens", GRAMMAR),
    Seam(PROCESSOR, "InputProcessor", "__init__", ["self", "vllm_config"]),
    Seam(PROCESSOR, "InputProcessor", "process_inputs", ["self", "request_id", "prompt", "params"]),
    Seam(SCHEDULER, "Scheduler", "update_from_output", ["self", "scheduler_output", "model_runner_output"]),
    Seam(SCHEDULER, "Scheduler", "grammar_compile_error_reqs", type="set[str]", until=V33),
    Seam(SCHEDULER, "Scheduler", "grammar_compile_error_reqs", type="dict[str, RequestError]", since=V33),
    Seam(SCHEDULER, "Scheduler", "schedule", ["self"]),
    Seam(SCHEDULER, "Scheduler", "waiting"),
    Seam(SCHEDULER, "Scheduler", "skipped_waiting", until=V33),
    Seam(SCHEDULER, "Scheduler", "requests", type="dict[str, Request]"),
    Seam(SCHEDULER, "Scheduler", "policy"),
    Seam(SCHEDULER, "Scheduler", "reset_preempted_req_ids", type="set[str]"),
    Seam("v1/core/sched/request_queue.py", "", "create_request_queue", ["policy"]),
    Seam("v1/core/sched/request_queue.py", "RequestQueue", "prepend_request", ["self", "request"]),
    Seam(ASYNC_SCHEDULER, "AsyncScheduler", "__init__", ["self"]),
    Seam(ASYNC_SCHEDULER, "AsyncScheduler", "pp_size", until=V33),
    Seam(ASYNC_SCHEDULER, "AsyncScheduler", "decode_stagger", since=V33),
    Seam("v1/request.py", "Request", "num_output_placeholders"),
    Seam("v1/request.py", "Request", "num_in_flight_tokens"),
    Seam("v1/request.py", "Request", "async_tokens_to_discard", until=V33),
    Seam("v1/request.py", "Request", "num_stale_output_tokens", since=V33),
    Seam("v1/request.py", "Request", "next_decode_eligible_step"),
    Seam("v1/request.py", "RequestStatus", "PREEMPTED"),
    Seam(OUTPUT, "SchedulerOutput", "num_scheduled_tokens", type="dict[str, int]"),
    Seam(OUTPUT, "SchedulerOutput", "total_num_scheduled_tokens", type="int"),
    Seam(OUTPUT, "SchedulerOutput", "preempted_req_ids", type="set[str] | None"),
    Seam(OUTPUT, "SchedulerOutput", "finished_req_ids", type="set[str]"),
    Seam(OUTPUT, "SchedulerOutput", "scheduled_new_reqs", type="list[NewRequestData]"),
    Seam(OUTPUT, "SchedulerOutput", "scheduled_cached_reqs", type="CachedRequestData"),
    Seam(OUTPUT, "NewRequestData", "prefill_token_ids", type="list[int] | None"),
    Seam(OUTPUT, "NewRequestData", "prompt_token_ids", type="list[int] | None"),
    Seam(OUTPUT, "NewRequestData", "prompt_embeds"),
    Seam(OUTPUT, "CachedRequestData", "num_computed_tokens", type="list[int]"),
    Seam(OUTPUT, "CachedRequestData", "req_ids", type="list[str]"),
    Seam(OUTPUT, "GrammarOutput", "structured_output_request_ids", type="list[str]"),
    Seam(OUTPUT, "GrammarOutput", "grammar_bitmask"),
    Seam("v1/outputs.py", "LogprobsLists", "sampled_token_ranks"),
    Seam("v1/outputs.py", "ModelRunnerOutput", "req_ids", type="list[str]"),
    Seam("v1/outputs.py", "ModelRunnerOutput", "req_id_to_index", type="dict[str, int]"),
    Seam("v1/outputs.py", "ModelRunnerOutput", "sampled_token_ids", type="list[list[int]]"),
    Seam("v1/outputs.py", "ModelRunnerOutput", "prompt_logprobs_dict"),
    Seam("v1/outputs.py", "ModelRunnerOutput", "prompt_token_id_logprobs_dict", since=V33),
    Seam("outputs.py", "RequestError", "code", type="str", since=V33),
    Seam("outputs.py", "RequestError", "message", type="str", since=V33),
    Seam("outputs.py", "RequestError", "to_exception", ["self"], since=V33),
    Seam(WORKER, "Worker", "init_device", ["self"]),
    Seam(WORKER, "Worker", "_make_model_runner", ["self"], since=V33),
    Seam(WORKER, "Worker", "execute_model", ["self", "scheduler_output"]),
    Seam(WORKER, "Worker", "sample_tokens", ["self", "grammar_output"]),
    Seam("v1/worker/startup_plan.py", "", "compute_plan_fingerprint", ["vllm_config", "rank", "world_size"]),
    Seam(RUNNER, "GPUModelRunner", "sample", ["self", "hidden_states", "input_batch", "grammar_output"]),
    Seam(RUNNER, "GPUModelRunner", "sample_tokens", ["self", "grammar_output"]),
    Seam(RUNNER, "GPUModelRunner", "is_last_pp_rank"),
    Seam(RUNNER, "GPUModelRunner", "pp_handler"),
    Seam(RUNNER, "GPUModelRunner", "output_copy_stream"),
    Seam(RUNNER, "GPUModelRunner", "postprocess_sampled", ["self", "idx_mapping", "sampled_tokens"]),
    Seam(RUNNER, "GPUModelRunner", "load_model", ["self"]),
    Seam(RUNNER, "GPUModelRunner", "profile_run", ["self"]),
    Seam(RUNNER, "GPUModelRunner", "_dummy_sampler_run", ["self", "hidden_states"]),
    Seam(RUNNER, "GPUModelRunner", "max_num_reqs"),
    Seam(RUNNER, "GPUModelRunner", "lora_config"),
    Seam(PIPELINE, "PPHandler", "is_last_rank"),
    Seam(PIPELINE, "PPHandler", "broadcast_stream"),
    Seam(PIPELINE, "PPHandler", "queue", type="deque[PendingRecv | None]"),
    Seam("v1/worker/gpu/async_utils.py", "AsyncOutput", "model_runner_output"),
    Seam("v1/worker/gpu/input_batch.py", "InputBatch", "logits_indices"),
    Seam("v1/worker/gpu/input_batch.py", "InputBatch", "req_ids", type="list[str]"),
    Seam("v1/worker/gpu/sample/output.py", "SamplerOutput", "sampled_token_ids", type="torch.Tensor"),
    Seam("v1/worker/gpu/sample/output.py", "SamplerOutput", "num_sampled"),
    Seam("v1/worker/gpu/sample/output.py", "SamplerOutput", "num_rejected"),
    Seam(PENALTIES, "PenaltiesState", "output_bin_counts"),
    Seam(PENALTIES, "PenaltiesState", "prompt_bin_mask"),
    Seam(SAMPLER, "Sampler", "penalties_state"),
    Seam(SAMPLER, "Sampler", "sampling_states"),
    Seam("v1/worker/gpu/sample/states.py", "SamplingStates", "temperature"),
    Seam(RUNNER, "GPUModelRunner", "structured_outputs_worker"),
    Seam(MASKS, "StructuredOutputsWorker", "grammar_bitmask"),
    Seam(MASKS, "StructuredOutputsWorker", "apply_grammar_bitmask", ["self", "logits"]),
    Seam(SAMPLER, "Sampler", "add_request", ["self", "req_idx", "prompt_len", "sampling_params"], until=V33),
    Seam(SAMPLER, "Sampler", "add_request", ["self", "req_idx", "sampling_params"], since=V33),
    Seam(LOGITS, "LogitsProcessor", "_apply_head", ["self", "lm_head", "hidden_states", "embedding_bias"]),
    Seam(LOGITS, "LogitsProcessor", "_gather_logits", ["self", "logits"]),
    Seam(LOGITS, "LogitsProcessor", "_get_logits", ["self", "hidden_states"]),
    Seam(GUMBEL, "", "gumbel_sample", ["logits", "expanded_idx_mapping", "temperature", "seed", "pos"]),
    Seam(ENGINE, "EngineCoreOutput", "stop_reason", type="int | str | None"),
    Seam(ENGINE, "EngineCoreOutput", "finish_reason", type="FinishReason | None"),
    Seam(ENGINE, "FinishReason", "ABORT"),
    Seam("v1/request.py", "RequestStatus", "FINISHED_STOPPED"),
    Seam("v1/request.py", "Request", "resumable"),
    Seam("v1/request.py", "Request", "num_output_tokens", ["self"]),
    Seam(SCHEDULER, "Scheduler", "_update_request_with_output", ["self", "request", "new_token_ids"]),
    Seam("tokenizers/registry.py", "", "cached_tokenizer_from_config", ["model_config"]),
    Seam("config/model.py", "ModelConfig", "skip_tokenizer_init", type="bool"),
    Seam("sampling_params.py", "SamplingParams", "stop", type="str | list[str] | None"),
    Seam("sampling_params.py", "SamplingParams", "detokenize", type="bool"),
    Seam("sampling_params.py", "SamplingParams", "skip_special_tokens", type="bool"),
    Seam("sampling_params.py", "SamplingParams", "spaces_between_special_tokens", type="bool"),
    Seam("v1/engine/__init__.py", "EngineCoreOutput", "error", type="RequestError | None", since=V33),
    Seam("v1/engine/__init__.py", "EngineCoreRequest", "prompt_embeds", type="torch.Tensor | None"),
    Seam("v1/engine/output_processor.py", "RequestOutputCollector", "put", ["self", "output"]),
    Seam("v1/engine/async_llm.py", "InputStreamError", "__init__", ["self", "cause"]),
    Seam(PROTOCOL, "GenerationError", "__init__", ["self", "message"], until=V33),
    Seam("exceptions.py", "GenerationError", "__init__", ["self", "message"], since=V33),
    Seam("distributed/communication_op.py", "", "tensor_model_parallel_all_gather", ["input_"]),
    Seam("config/vllm.py", "VllmConfig", "compute_hash", ["self"]),
    Seam("config/vllm.py", "VllmConfig", "max_concurrent_batches", ["self"]),
    Seam("config/vllm.py", "VllmConfig", "use_v2_model_runner", ["self"]),
    Seam("config/vllm.py", "VllmConfig", "additional_config"),
    Seam("config/vllm.py", "VllmConfig", "watermark_config", since=V33),
    Seam("config/vllm.py", "VllmConfig", "is_mm_encoder_only", ["self"], since=V33),
    Seam("config/model.py", "ModelConfig", "return_sampling_mask", type="bool", since=V33),
    Seam("config/parallel.py", "ParallelConfig", "worker_cls", type="str"),
    Seam("config/parallel.py", "ParallelConfig", "pipeline_parallel_size"),
    Seam("config/parallel.py", "ParallelConfig", "enable_elastic_ep", type="bool"),
    Seam("config/scheduler.py", "SchedulerConfig", "async_scheduling"),
    Seam("sampling_params.py", "SamplingParams", "all_stop_token_ids", ["self"]),
    Seam("sampling_params.py", "SamplingParams", "bad_words_token_ids", ["self"]),
    Seam("sampling_params.py", "SamplingParams", "extra_args", type="dict[str, Any] | None"),
    Seam("sampling_params.py", "SamplingParams", "seed", type="int | None"),
    Seam("sampling_params.py", "SamplingParams", "logprobs", type="int | None"),
    Seam("sampling_params.py", "SamplingParams", "trace_decode_token_ids", since=V33),
    # Of engines that speculate.
    Seam(OUTPUT, "SchedulerOutput", "scheduled_spec_decode_tokens", type="dict[str, list[int]]", since=V33),
    Seam(SCHEDULER, "Scheduler", "update_draft_token_ids_in_output", ["self", "draft_token_ids"], since=V33),
    Seam(SCHEDULER, "Scheduler", "update_draft_token_ids", ["self", "draft_token_ids"], since=V33),
    Seam(GRAMMARS, "StructuredOutputManager", "grammar_bitmask", ["self", "requests"], since=V33),
    Seam(GRAMMARS, "StructuredOutputManager", "validate_tokens", ["self", "request"], since=V33),
    Seam("v1/outputs.py", "LogprobsLists", "slice_request", ["self", "req_idx", "num_positions"], since=V33),
    Seam(INPUTS, "InputBatch", "cu_num_logits", type="torch.Tensor", since=V33),
    Seam(INPUTS, "InputBatch", "logits_indices", type="torch.Tensor", since=V33),
    Seam(INPUTS, "InputBatch", "input_ids", type="torch.Tensor", since=V33),
    Seam(INPUTS, "InputBatch", "positions", type="torch.Tensor", since=V33),
    Seam(INPUTS, "InputBatch", "idx_mapping", type="torch.Tensor", since=V33),
    Seam(INPUTS, "", "_combine_sampled_and_draft_tokens_kernel", ["input_ids_ptr"], since=V33),
    Seam(INPUTS, "", "_get_num_sampled_and_rejected_kernel", ["num_sampled_ptr"], since=V33),
    Seam(INPUTS, "", "_post_update_kernel", ["idx_mapping_ptr"], since=V33),
    Seam(DRAFTS + "rejection_sampler.py", "", "_gather_draft_sampled_kernel", ["draft_sampled_ptr"],
         since=V33),
    Seam(DRAFTS + "adaptive_verification.py", "AdaptiveVerificationManager", "reallocate_drafts", ["self"],
         since=V33),
    Seam(RUNNER, "GPUModelRunner", "prepare_inputs", ["self", "scheduler_output"], since=V33),
    Seam(RUNNER, "GPUModelRunner", "num_speculative_steps", since=V33),
    Seam("v1/worker/gpu/states.py", "RequestState", "prefill_len", since=V33),
    Seam(PROCESSOR, "InputProcessor", "speculative_config", since=V33),
    Seam("sampling_params.py", "SamplingParams", "_validate_spec_decode", ["self", "speculative_config"],
         since=V33),
    Seam("config/vllm.py", "VllmConfig", "num_speculative_tokens", ["self"], since=V33),
    Seam("config/speculative.py", "SpeculativeConfig", "method", since=V33),
    Seam("config/speculative.py", "SpeculativeConfig", "draft_sample_method", since=V33),
    Seam(DRAFTS + "speculator.py", "DraftModelSpeculator", "sample_draft", ["self", "hidden_states"],
         since=V33),
    Seam(DRAFTS + "acceptance_estimator.py", "OnlineAcceptanceEstimator", "predict",
         ["self", "logits"], since=V33),
    Seam("config/speculative.py", "SpeculativeConfig", "rejection_sample_method",
         type="RejectionSampleMethod", since=V33),
]

CALLS = [
    # The session opens behind the warm-up.
    Call(EXECUTOR, "Executor.initialize_from_config", "self.collective_rpc", "'compile_or_warm_up_model'",
         until=V33),
    Call(CORE, "EngineCore._initialize_kv_caches", "self.model_executor.initialize_from_config",
         "kv_cache_configs"),
    Call(CORE, "EngineCore._initialize_kv_caches", "self.model_executor.compile_or_warm_up_model", "",
         since=V33),
    # A batch's two calls come from one thread, and no other batch's call stands between them.
    Call(CORE, "EngineCore.step_with_batch_queue", "self.model_executor.execute_model",
         "scheduler_output, non_block=True"),
    Call(CORE, "EngineCore.step_with_batch_queue", "self.model_executor.sample_tokens",
         "grammar_output, non_block=True"),
    Call(CORE, "EngineCore.step", "self.model_executor.sample_tokens", "grammar_output"),
    Call(WORKER, "Worker.determine_available_memory", "self.model_runner.profile_run", "", until=V33),
    Call(WORKER, "Worker.determine_available_memory", "self.model_runner.profile_run",
         "randomize_inputs=self.randomize_dummy_inputs", since=V33),
    Call(WORKER, "Worker._init_workspace_and_model_runner", "self._make_model_runner", "", since=V33),
    Call(WORKER, "Worker.sample_tokens", "self.model_runner.sample_tokens", "grammar_output"),
    Call("v1/worker/worker_base.py", "WorkerWrapperBase.execute_model", "self.worker.execute_model",
         "scheduler_output"),
    Call(RUNNER, "GPUModelRunner.profile_run", "self._dummy_sampler_run", "sample_hidden_states"),
    Call(RUNNER, "GPUModelRunner.sample_tokens", "self.sample", "hidden_states, input_batch, grammar_output"),
    # The front end's request is looked at with the configuration that the plugin takes away.
    Call("entrypoints/cli/serve.py", "run_headless", "MultiprocExecutor",
         "vllm_config, monitor_workers=False"),
    Call(PROCESSOR, "InputProcessor._validate_params", "params.verify",
         "self.model_config, self.speculative_config, self.structured_outputs_config, self.tokenizer",
         since=V33),
    Call(LOGITS, "LogitsProcessor._get_logits", "self._gather_logits", "logits"),
    Call("lora/layers/logits_processor.py", "LogitsProcessorWithLoRA._get_logits",
         "self.base_layer._gather_logits", "logits"),
]

# Beside the functions of SEAMS and CALLS: how they behave matters too.
RELIED = [
    (SCHEDULER, "Scheduler._preempt_request"),
    (SCHEDULER, "Scheduler._update_after_schedule"),
    (SCHEDULER, "Scheduler.reset_prefix_cache"),
    (ASYNC_SCHEDULER, "AsyncScheduler._update_after_schedule"),
    (RUNNER, "GPUModelRunner.add_requests"),
    (RUNNER, "GPUModelRunner.update_requests"),
    (PIPELINE, "PPHandler.get_prev_sampled_outputs"),
    (PIPELINE, "PPHandler.receive"),
    (PIPELINE, "PPHandler.broadcast"),
    ("v1/worker/gpu/async_utils.py", "AsyncOutput.__init__"),
    ("v1/worker/gpu/async_utils.py", "AsyncOutput.get_output"),
    (LOGITS, "LogitsProcessor.forward"),
    (SAMPLER, "Sampler.__call__"),
    (GUMBEL, "gumbel_block_argmax"),
    (GUMBEL, "gumbel_noised_argmax"),
    (GUMBEL, "murmur3_hash32"),
    (GUMBEL, "murmur3_uniform32"),
    (GUMBEL, "_murmur3_mix"),
    (GUMBEL, "_murmur3_fmix32"),
    (GUMBEL, "_log1p_neg_stable"),
    ("v1/engine/async_llm.py", "AsyncLLM.generate"),
    # What the session's stop strings are, and where they end a text.
    (SCHEDULER, "Scheduler._handle_stopped_request"),
    ("v1/core/sched/utils.py", "check_stop"),
    ("v1/engine/output_processor.py", "OutputProcessor.process_outputs"),
    (DETOKENIZER, "IncrementalDetokenizer.from_new_request"),
    (DETOKENIZER, "BaseIncrementalDetokenizer.__init__"),
    (DETOKENIZER, "BaseIncrementalDetokenizer.update"),
    (DETOKENIZER, "FastIncrementalDetokenizer.__init__"),
    (DETOKENIZER, "FastIncrementalDetokenizer.decode_next"),
    (DETOKENIZER, "FastIncrementalDetokenizer._protected_step"),
    (DETOKENIZER, "check_stop_strings"),
]
# fmt: on
