"""What an engine with speculative_config asks of the session, and which of them Croupier refuses."""

from __future__ import annotations

from typing import Any

from . import compat

# As croupier/types.h has them.
_MOST_IN_FLIGHT = 64
_MOST_ROWS = 16384


def window_of(vllm_config: Any) -> int:
    """The most rows of a request in a step: a token, and as many drafts as may stand before it."""
    return 1 + vllm_config.num_speculative_tokens


def rows_of(vllm_config: Any) -> int:
    """The most rows of a step: each is of a request, and of a token that is scheduled."""
    scheduler = vllm_config.scheduler_config
    requests = scheduler.max_num_seqs
    return max(requests, min(requests * window_of(vllm_config), scheduler.max_num_batched_tokens))


def advice(vllm_config: Any) -> str:
    """Empty: there is none."""
    speculative = vllm_config.speculative_config
    if getattr(speculative, "draft_sample_method", "greedy") == "greedy":
        return ""
    return (
        f"draft_sample_method is {speculative.draft_sample_method!r}, which takes GPU memory and changes "
        "nothing with Croupier: the drafter's most likely tokens are its drafts. Leave it out"
    )


def faults(vllm_config: Any) -> list[str]:
    speculative = vllm_config.speculative_config
    if speculative is None:
        return []
    if not compat.current().speculates:
        names = " and ".join(release.name for release in compat.RELEASES if release.speculates)
        return [
            f"speculative decoding is on, which Croupier supports with vLLM {names}; "
            "without speculative_config would be right"
        ]
    found = []
    if speculative.rejection_sample_method != "standard":
        found.append(
            f"its rejection_sample_method is {speculative.rejection_sample_method!r}, and Croupier accepts a "
            "draft if it is the token that is drawn; 'standard' would be right"
        )
    if speculative.method == "extract_hidden_states":
        found.append(
            "its speculative method is 'extract_hidden_states', which drafts no tokens; "
            "another would be right"
        )
    if vllm_config.parallel_config.pipeline_parallel_size > 1:
        found.append(
            "speculative decoding is on and pipeline_parallel_size is above 1; 1 would be right, or no "
            "speculative_config"
        )
    window, batches = window_of(vllm_config), vllm_config.max_concurrent_batches
    if window * batches > _MOST_IN_FLIGHT:
        found.append(
            f"num_speculative_tokens is {window - 1}, with {batches} batches in flight; "
            f"up to {_MOST_IN_FLIGHT // batches - 1} would be right"
        )
    if rows_of(vllm_config) > _MOST_ROWS:
        found.append(
            f"max_num_seqs is {vllm_config.scheduler_config.max_num_seqs} and num_speculative_tokens "
            f"{window - 1}, which may make more than {_MOST_ROWS} rows a step; less of either would be "
            "right, or of max_num_batched_tokens"
        )
    return found
