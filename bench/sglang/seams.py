"""Compares an SGLang with what the plugin relies on: names, parameters, calls, and functions' sources.

    seams.py [--record] WHEEL_OR_FOLDER ...     a wheel, or a folder with the package sglang in it

As bench/vllm/seams.py does for vLLM, whose functions these are. Ends with 1 where something differs.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "vllm"))
# Not by its name, which is this file's too.
sys.path = [folder for folder in sys.path if Path(folder).resolve() != Path(__file__).resolve().parent]
from seam_list import Call, Seam  # noqa: E402
from seams import Source, call_fault, fault, numbers_of  # noqa: E402

RECORD = Path(__file__).with_name("seams.txt")
SCHEDULER, BATCH = "srt/managers/scheduler.py", "srt/managers/schedule_batch.py"
TOKENIZER, RUNNER = "srt/managers/tokenizer_manager.py", "srt/model_executor/model_runner.py"
LOGITS, REGISTRY = "srt/layers/logits_processor.py", "srt/plugins/hook_registry.py"
PENALTIES = "srt/sampling/penaltylib/orchestrator.py"
RESULTS = "srt/managers/scheduler_components/batch_result_processor.py"
GRAMMAR, PARAMETERS = "srt/constrained/base_grammar_backend.py", "srt/sampling/sampling_params.py"
TREES, DRAFTS = "srt/speculative/eagle_utils.py", "srt/speculative/eagle_info.py"
NGRAMS, SPECULATION = "srt/speculative/ngram_info.py", "srt/speculative/spec_utils.py"
VERIFY = "srt/speculative/eagle_worker_common.py"
STAGES = "srt/managers/scheduler_pp_mixin.py"
WORKER, RELAY = "srt/managers/tp_worker.py", "srt/managers/overlap_utils.py"

# fmt: off
SEAMS = [
    Seam(REGISTRY, "HookRegistry", "register", ["cls", "target", "hook", "hook_type"]),
    Seam(REGISTRY, "HookRegistry", "apply_hooks", ["cls"]),
    Seam("srt/plugins/__init__.py", "", "load_plugins", []),
    Seam(TOKENIZER, "TokenizerManager", "__init__", ["self", "server_args"]),
    Seam(TOKENIZER, "TokenizerManager", "_create_tokenized_object", ["self", "obj", "input_text"]),
    Seam(SCHEDULER, "Scheduler", "__init__", ["self", "server_args"]),
    Seam(SCHEDULER, "Scheduler", "run_batch", ["self", "batch"]),
    Seam(SCHEDULER, "Scheduler", "process_batch_result", ["self", "batch", "result"]),
    Seam(SCHEDULER, "Scheduler", "run_event_loop", ["self"]),
    Seam(STAGES, "SchedulerPPMixin", "_pp_send_output_to_next_stage",
         ["self", "next_first_rank_mb_id", "mbs", "last_rank_comm_queue", "pp_outputs"]),
    Seam(STAGES, "SchedulerPPMixin", "_pp_prep_batch_result", ["self", "batch", "mb_metadata", "pp_outputs"]),
    Seam(SCHEDULER, "Scheduler", "pp_group"),
    Seam(SCHEDULER, "Scheduler", "chunked_req"),
    Seam(SCHEDULER, "Scheduler", "max_running_requests"),
    Seam(SCHEDULER, "Scheduler", "max_total_num_tokens"),
    Seam(RUNNER, "ModelRunner", "sample", ["self", "logits_output", "forward_batch"]),
    Seam(RUNNER, "ModelRunner", "ngram_embedding_manager"),
    Seam(RUNNER, "ModelRunner", "load_model", ["self"]),
    Seam(RUNNER, "ModelRunner", "is_draft_worker"),
    Seam(LOGITS, "LogitsProcessor", "_get_logits", ["self", "hidden_states", "lm_head", "logits_metadata"]),
    Seam(LOGITS, "LogitsProcessor", "_copy_logits_to_buffer",
         ["self", "logits", "logits_metadata", "use_buffer"]),
    Seam(LOGITS, "LogitsProcessor", "do_tensor_parallel_all_gather"),
    Seam(LOGITS, "LogitsProcessor", "final_logit_softcapping"),
    Seam(LOGITS, "LogitsProcessor", "use_fp32_lm_head"),
    Seam(LOGITS, "LogitsMetadata", "next_token_logits_buffer"),
    Seam(LOGITS, "LogitsMetadata", "extend_return_logprob"),
    Seam(PENALTIES, "BatchedPenalizerOrchestrator", "__init__",
         ["self", "vocab_size", "batch", "penalizers"]),
    Seam(BATCH, "Req", "output_ids"),
    Seam(BATCH, "Req", "origin_input_ids"),
    Seam(BATCH, "Req", "to_finish"),
    Seam(BATCH, "Req", "is_retracted"),
    Seam(BATCH, "Req", "finished", ["self"]),
    Seam(BATCH, "ReqLogprob", "top_logprobs_num"),
    Seam(BATCH, "ReqLogprob", "token_ids_logprob"),
    Seam(BATCH, "ScheduleBatch", "decoding_reqs"),
    Seam(BATCH, "FINISH_ABORT", "__init__", ["self", "message", "status_code", "err_type"]),
    Seam(GRAMMAR, "BaseGrammarObject", "allocate_vocab_mask", ["self", "vocab_size", "batch_size", "device"]),
    Seam(GRAMMAR, "BaseGrammarObject", "fill_vocab_mask_batched", ["entries", "vocab_mask"]),
    Seam(TREES, "", "eagle_sample", ["verify_input", "batch", "logits_output", "grammar_mask"]),
    Seam(DRAFTS, "EagleVerifyInput", "draft_token"),
    Seam(DRAFTS, "EagleVerifyInput", "draft_token_num"),
    Seam(DRAFTS, "EagleVerifyInput", "positions"),
    Seam(DRAFTS, "EagleVerifyInput", "retrieve_next_token"),
    Seam(DRAFTS, "EagleVerifyInput", "retrieve_next_sibling"),
    Seam(DRAFTS, "EagleVerifyInput", "max_tree_depth", ["self"]),
    Seam(NGRAMS, "NgramVerifyInput", "max_tree_depth", ["self"]),
    Seam(SPECULATION, "", "build_grammar_vocab_mask", []),
    Seam(SPECULATION, "", "generate_token_bitmask",
         ["reqs", "retrieve_next_token_cpu", "retrieve_next_sibling_cpu", "draft_tokens_cpu", "vocab_size"]),
    Seam("srt/layers/logprob_processor.py", "", "compute_spec_v2_logprobs", ["batch", "logits_output"]),
    Seam(PARAMETERS, "SamplingParams", "custom_params"),
    Seam(PARAMETERS, "SamplingParams", "sampling_seed"),
    Seam(PARAMETERS, "SamplingParams", "min_new_tokens"),
    Seam(PARAMETERS, "SamplingParams", "logit_bias"),
]

CALLS = [
    Call("srt/managers/scheduler.py", "run_scheduler_process", "load_plugins", ""),
    Call("srt/plugins/__init__.py", "load_plugins", "HookRegistry.apply_hooks", ""),
    Call(WORKER, "TpModelWorker.forward_batch_generation", "self.model_runner.sample",
         "logits_output, forward_batch"),
    Call(LOGITS, "LogitsProcessor._get_logits", "self._copy_logits_to_buffer",
         "logits, logits_metadata, use_buffer=use_logits_buffer"),
    Call(STAGES, "SchedulerPPMixin._pp_send_recv_and_preprocess_output_tensors",
         "self._pp_send_output_to_next_stage",
         "next_first_rank_mb_id, mbs, last_rank_comm_queue, pp_outputs"),
    Call(STAGES, "SchedulerPPMixin._pp_send_recv_and_preprocess_output_tensors", "self._pp_prep_batch_result",
         "target, mb_metadata[next_mb_id], next_pp_outputs"),
    Call(VERIFY, "run_eagle_verify", "eagle_sample", "verify_input, batch, logits_output, grammar_mask"),
    Call("srt/speculative/ngram_worker.py", "NGRAMWorker.forward_batch_generation", "eagle_sample",
         "verify_input, batch, logits_output, grammar_mask"),
]

# Beside the functions of SEAMS and CALLS: how they behave matters too.
RELIED = [
    (SCHEDULER, "Scheduler.event_loop_overlap"),
    (SCHEDULER, "Scheduler.launch_batch_sample_if_needed"),
    (STAGES, "SchedulerPPMixin.event_loop_pp"),
    (STAGES, "SchedulerPPMixin._pp_launch_batch"),
    (STAGES, "SchedulerPPMixin._pp_prepare_tensor_dict"),
    (STAGES, "SchedulerPPMixin._pp_send_dict_to_next_stage"),
    (STAGES, "SchedulerPPMixin._pp_make_skip_output_result"),
    ("srt/managers/utils.py", "get_logprob_dict_from_result"),
    ("srt/managers/utils.py", "get_logprob_from_pp_outputs"),
    ("srt/distributed/parallel_state.py", "GroupCoordinator.send_tensor_dict"),
    (BATCH, "Req.reset_for_retract"),
    (BATCH, "Req.update_finish_state"),
    (LOGITS, "LogitsProcessor.forward"),
    (RELAY, "resolve_forward_inputs"),
    (RESULTS, "SchedulerBatchResultProcessor.process_batch_result_decode"),
    (RESULTS, "SchedulerBatchResultProcessor.process_batch_result_prefill"),
    (RESULTS, "SchedulerBatchResultProcessor.move_logprobs_to_cpu"),
    (RESULTS, "SchedulerBatchResultProcessor._normalize_decode_outputs"),
    ("srt/sampling/penaltylib/min_new_tokens.py", "BatchedMinNewTokensPenalizer._prepare"),
    ("srt/layers/sampler.py", "Sampler.forward"),
    (SPECULATION, "traverse_tree"),
    (RESULTS, "SchedulerBatchResultProcessor._resolve_spec_v2_tokens"),
    (RESULTS, "SchedulerBatchResultProcessor._apply_decode_logprobs"),
    (RESULTS, "SchedulerBatchResultProcessor.advance_grammar_fsm"),
    ("srt/speculative/eagle_worker_v2.py", "EAGLEWorkerV2.forward_batch_generation"),
    (PARAMETERS, "SamplingParams.__post_init__"),
]
# fmt: on


def places() -> list[tuple[str, str]]:
    named = [
        (seam.file, f"{seam.owner}.{seam.name}".lstrip(".")) for seam in SEAMS if seam.parameters is not None
    ]
    return sorted({*named, *((call.file, call.function) for call in CALLS), *RELIED})


def hashes_of(source: Source) -> dict[tuple[str, str], str]:
    return {place: digest for place in places() if (digest := source.hash_of(*place)) is not None}


def recorded() -> dict[tuple[str, str], str]:
    lines = [line.split() for line in RECORD.read_text(encoding="utf-8").splitlines() if line[:1] != "#"]
    return {(file, name): digest for _, file, name, digest in lines}


def look(source: Source) -> list[str]:
    """A line for each place that is not as the plugin knows it."""
    lines = [
        f"{seam.file}: {seam.owner}.{seam.name}: {found}" for seam in SEAMS if (found := fault(source, seam))
    ]
    for call in CALLS:
        if found := call_fault(source, call):
            lines.append(f"{call.file}: {call.function}: {found}")
    now, then = hashes_of(source), recorded()
    changed = [place for place in sorted(now.keys() | then.keys()) if now.get(place) != then.get(place)]
    return lines + [f"{file}: {name}: its source changed" for file, name in changed]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--record", action="store_true")
    parser.add_argument("places", nargs="+", type=Path)
    given = parser.parse_args()
    sources = sorted(
        (Source(place, "sglang") for place in given.places), key=lambda one: numbers_of(one.release)
    )
    if given.record:
        text = "# Release, file, function of SGLang, the first 16 digits of the SHA-256 of its source.\n"
        for (file, name), digest in sorted(hashes_of(sources[0]).items()):
            text += f"{sources[0].release} {file} {name} {digest}\n"
        RECORD.write_text(text, encoding="utf-8")
    differing = 0
    for source in sources:
        faults = look(source)
        print(
            f"SGLang {source.release}: {len(SEAMS)} names, {len(CALLS)} calls and {len(places())} functions'"
        )
        print(f"sources compared; {len(faults)} differ")
        for line in faults:
            print(f"  {line}")
        differing += len(faults)
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
