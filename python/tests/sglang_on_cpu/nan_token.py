"""A plugin of SGLang's for tests: requests that have the token 9 have logits that are no numbers."""

from __future__ import annotations

from typing import Any

TOKEN = 9


def register() -> None:
    from sglang.srt.plugins.hook_registry import HookRegistry

    HookRegistry.register(
        "sglang.srt.layers.vocab_parallel_embedding.VocabParallelEmbedding.forward", _after_forward
    )


def _after_forward(states: Any, embedding: Any, ids: Any) -> None:
    states[ids == TOKEN] = float("nan")
