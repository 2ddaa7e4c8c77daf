"""What an engine with speculative_config asks of the session, and which of them Croupier refuses."""

from __future__ import annotations

from typing import Any

from . import compat

# As croupier/types.h has them.
_MOST_IN_FLIGHT = 64
_MOST_ROWS = 16384
# Each is 19 KB for a vocabulary of 152,000, in each of four steps, in shared memory and on each GPU.
_MOST_MASKS = 2048


def window_of(vllm_config: Any) -> int:
    """The most rows of a request in a step: a token, and as many drafts as may stand before it."""
    return 1 + vllm_config.num_speculative_tokens


def rows_of(vllm_config: Any) -> int:
    """The most rows of a step: each is of a request, and of a token that is scheduled."""
    scheduler = vllm_config.scheduler_config
    requests = scheduler.max_num_seqs
    return max(requests, min(requests * window_of(vllm_config), scheduler.max_num_batched_tokens))


def masks_of(vllm_config: Any) -> int:
    """The most grammar masks of a step: where its rows want more, windows are cut short."""
    return max(vllm_config.scheduler_config.max_num_seqs, min(rows_of(vllm_config), _MOST_MASKS))


def draft_greedily(vllm_config: Any) -> str:
    """Before workers are made. Returns what the log is to say of it; empty: nothing is changed."""
    speculative = vllm_config.speculative_config
    method = getattr(speculative, "draft_sample_method", "greedy")
    if method == "greedy":
        return ""
    speculative.draft_sample_method = "greedy"
    return (
        f"draft_sample_method is {method!r}; with Croupier it is 'greedy', because a draft is accepted if it "
        "is the token that is drawn, and the drafter's most likely one is that most often"
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
