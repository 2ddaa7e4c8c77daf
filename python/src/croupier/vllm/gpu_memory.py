"""What a rank's writer takes of its GPU's memory, which vLLM has to leave when it deals out the rest.

The writer allocates it when the session is open, long behind that. gpu_writer/lean_path.cpp and copy_path.cpp
have what it is; python/tests/gpu_test.py compares.
"""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any

from . import pipeline, speculation
from .options import Options

# Of a step's row beside what is measured of its blocks: what it wants and where it is sent.
_ROW = 512
# Whatever the session's size is: kernels, streams, counters.
ANYHOW = 32 << 20


def of_writer(vllm_config: Any, ranks: int, element: int) -> int:
    """In bytes; an element of a row of logits has as many as `element`."""
    device = vllm_config.device_config.device_type
    if device != "cuda":
        return 0
    options = Options.of(vllm_config) or Options()
    vocab, rows = vllm_config.model_config.get_vocab_size(), speculation.rows_of(vllm_config)
    if options.transport_from(device) == "rows":
        return of_rows_writer(vocab, ranks, element, rows)
    slots, masks = pipeline.slots_of(vllm_config), speculation.masks_of(vllm_config)
    return of_lean_writer(vocab, ranks, element, slots, rows, masks)


def of_rows_writer(vocab: int, ranks: int, element: int, rows: int) -> int:
    """Two steps' slices on their way, with a maximum of 4 bytes for each tile of 64 ids."""
    tiles = -(-vocab // (64 * ranks)) + 1
    return ANYHOW + 2 * rows * tiles * (64 * element + 4)


def of_lean_writer(vocab: int, ranks: int, element: int, slots: int, rows: int, masks: int) -> int:
    """Grammar masks of the steps in flight, and what is measured of one step's rows."""
    # Blocks of 64 ids, measured in chunks of 128 blocks: a maximum, a rank in the race, a weight and two sums
    # of each.
    chunks = 1 + vocab // (64 * 128 * ranks)
    measured = chunks * (128 * (element + 4 + 1 + 8) + 12)
    return ANYHOW + slots * masks * _up(-(-vocab // 32) * 4, 64) + rows * (measured + _ROW)


def keep_plans_apart(startup_plan: ModuleType) -> None:
    """Has vLLM keep memory plans apart by what Croupier reserves; a second call does nothing.

    With VLLM_ENABLE_STARTUP_PLAN vLLM takes the size of its KV cache from an earlier start instead of
    profiling, by a hash of the configuration, which leaves Croupier's options out (leave_out_of_hash).
    """
    if hasattr(startup_plan, "croupier_apart"):
        return
    startup_plan.croupier_apart = True
    native = startup_plan.compute_plan_fingerprint

    @functools.wraps(native)
    def compute_plan_fingerprint(vllm_config: Any, *given: Any, **named: Any) -> str:
        found, options = native(vllm_config, *given, **named), Options.of(vllm_config)
        if options is None:
            return found
        # What of_writer() and the runner reserve by.
        reserved = (
            options.transport_from(vllm_config.device_config.device_type),
            speculation.rows_of(vllm_config),
            speculation.masks_of(vllm_config),
            pipeline.slots_of(vllm_config),
            vllm_config.max_concurrent_batches,
        )
        return "-".join(map(str, (found, *reserved)))

    startup_plan.compute_plan_fingerprint = compute_plan_fingerprint


def _up(count: int, unit: int) -> int:
    return -(-count // unit) * unit
