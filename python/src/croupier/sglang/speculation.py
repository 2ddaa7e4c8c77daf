"""What an engine that speculates asks of the session, and which of them Croupier refuses.

SGLang verifies the drafts of these algorithms in one function, eagle_sample(), which hooks.py replaces where
the algorithm's worker calls it. The others have verifications of their own.
"""

from __future__ import annotations

import os
from typing import Any

# Where each algorithm's worker calls eagle_sample().
_CALLERS = {
    "EAGLE": "sglang.srt.speculative.eagle_worker_common",
    "EAGLE3": "sglang.srt.speculative.eagle_worker_common",
    "STANDALONE": "sglang.srt.speculative.eagle_worker_common",
    "NGRAM": "sglang.srt.speculative.ngram_worker",
}
# A flag of the server, and the value with which Croupier decides what drafts are accepted.
_FLAGS: tuple[tuple[str, Any, str], ...] = (
    ("speculative_use_rejection_sampling", False, "leave it out: a draft is accepted if it is what is drawn"),
    ("speculative_accept_threshold_single", 1.0, "leave it out: tokens would be other ones"),
    ("speculative_accept_threshold_acc", 1.0, "leave it out: tokens would be other ones"),
    ("speculative_adaptive", False, "leave it out"),
    ("enable_multi_layer_eagle", False, "leave it out"),
    ("tp_size", 1, "1 would be right, or no speculative_algorithm"),
    ("pp_size", 1, "1 would be right, or no speculative_algorithm"),
)
_SIMULATED = "SGLANG_SIMULATE_ACC_LEN"
# As croupier/types.h has them.
_MOST_IN_FLIGHT = 64
_MOST_ROWS = 16384


def window_of(server_args: Any) -> int:
    """The most rows of a request in a step: a token, and the drafts behind it."""
    return 1 if server_args.speculative_algorithm is None else server_args.speculative_num_draft_tokens


def is_chain(server_args: Any) -> bool:
    """Whether each draft follows the one before it. NGRAM fills its trees up, with children of the root."""
    return server_args.speculative_algorithm != "NGRAM" and server_args.speculative_eagle_topk == 1


def caller_of(server_args: Any) -> str:
    return _CALLERS[server_args.speculative_algorithm]


def faults(server_args: Any) -> list[str]:
    algorithm = getattr(server_args, "speculative_algorithm", None)
    if algorithm is None:
        return []
    if algorithm not in _CALLERS:
        return [f"speculative_algorithm is {algorithm!r}; {', '.join(_CALLERS)} would be right, or none"]
    found = [
        f"speculative decoding is on and {name} is {value!r}; {instead}"
        for name, right, instead in _FLAGS
        if (value := getattr(server_args, name, right)) not in (right, None)
    ]
    if float(os.environ.get(_SIMULATED) or 0) > 0:
        found.append(f"{_SIMULATED} is set, which makes up what is accepted; leave it out")
    window, batches = window_of(server_args), 1 if server_args.disable_overlap_schedule else 2
    if window * batches > _MOST_IN_FLIGHT:
        found.append(
            f"speculative_num_draft_tokens is {window}, with {batches} batches in flight; "
            f"up to {_MOST_IN_FLIGHT // batches} would be right"
        )
    requests = server_args.max_running_requests
    if requests is not None and requests * window > _MOST_ROWS:
        found.append(
            f"max_running_requests is {requests} and speculative_num_draft_tokens {window}, which may make "
            f"more than {_MOST_ROWS} rows a step; less of either would be right"
        )
    return found
