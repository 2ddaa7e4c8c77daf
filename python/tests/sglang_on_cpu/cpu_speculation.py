"""A plugin of SGLang's for tests: its speculation on a CPU, with overlap, without AMX and Triton."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any


def register() -> None:
    import torch
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    for target, hook in (
        ("sglang.srt.arg_groups.speculative_hook._disable_overlap_schedule_for_cpu", _keep_overlap),
        ("sglang.srt.managers.overlap_utils.gather_spec_extras", _gather),
        ("sglang.srt.speculative.draft_utils.DraftBackendFactory.create_decode_backend", _of_draft_steps),
        ("sglang.srt.speculative.draft_utils.DraftBackendFactory.create_draft_extend_backend", _of_draft),
        (
            "sglang.srt.layers.attention.torch_native_backend.TorchNativeAttnBackend.forward_extend",
            _forward_extend,
        ),
    ):
        kind = HookType.AROUND if hook is _forward_extend else HookType.REPLACE
        HookRegistry.register(target, hook, kind)
    # A CPU has one stream.
    torch.Tensor.record_stream = lambda tensor, stream: None


def _keep_overlap(server_args: Any) -> None:
    """SGLang has it off on CPUs."""


def _gather(indices: Any, topk_p: Any, topk_index: Any, tokens: Any, hidden_states: Any) -> Any:
    states = None if hidden_states is None else hidden_states[indices]
    return topk_p[indices], topk_index[indices], tokens[indices], states


def _of_draft(factory: Any) -> Any:
    from sglang.srt.layers.attention.torch_native_backend import TorchNativeAttnBackend

    return TorchNativeAttnBackend(factory.draft_model_runner)


def _of_draft_steps(factory: Any) -> Any:
    if factory.speculative_num_steps <= 1:
        return None
    steps = factory.speculative_num_steps
    made = [_DraftStep(factory.draft_model_runner, factory.topk, steps, step) for step in range(steps)]
    return SimpleNamespace(
        attn_backends=made, init_forward_metadata=lambda batch: None, needs_cpu_seq_lens=True
    )


class _DraftStep:
    """Each branch sees what is verified, and its own drafts."""

    needs_cpu_seq_lens = True

    def __init__(self, runner: Any, topk: int, steps: int, step: int) -> None:
        self.runner, self.topk, self.steps, self.step = runner, topk, steps, step

    def init_forward_metadata(self, batch: Any) -> None:
        pass

    def forward(
        self, q: Any, k: Any, v: Any, layer: Any, batch: Any, save_kv_cache: bool = True, **more: Any
    ) -> Any:
        import torch
        from sglang.srt.mem_cache.memory_pool import KVWriteLoc

        pool, table = self.runner.token_to_kv_pool, self.runner.req_to_token_pool.req_to_token
        pool.set_kv_buffer(layer, KVWriteLoc(batch.out_cache_loc, None), k, v)
        found = torch.empty_like(q)
        for query in range(len(q)):
            request, branch = divmod(query, self.topk)
            length, row = int(batch.seq_lens[request]), table[batch.req_pool_indices[request]]
            start = length + branch * self.steps
            seen = torch.cat([row[:length], row[start : start + self.step + 1]])
            found[query] = _attended(q[query : query + 1], seen, None, layer, pool)[0]
        return found


def _attended(q: Any, seen: Any, mask: Any, layer: Any, pool: Any) -> Any:
    """Of queries, to the KV places that are seen; `mask`: which of these by each, None: all."""
    from torch.nn.functional import scaled_dot_product_attention

    heads = q.view(len(q), layer.tp_q_head_num, layer.qk_head_dim).movedim(0, 1)
    keys = pool.get_key_buffer(layer.layer_id)[seen].movedim(0, 1).to(heads.dtype)
    values = pool.get_value_buffer(layer.layer_id)[seen].movedim(0, 1).to(heads.dtype)
    grouped = layer.tp_q_head_num != layer.tp_k_head_num
    found = scaled_dot_product_attention(
        heads[None], keys[None], values[None], attn_mask=mask, scale=layer.scaling, enable_gqa=grouped
    )[0]
    return found.movedim(0, 1).reshape(len(q), -1)


def _forward_extend(
    native: Any, backend: Any, q: Any, k: Any, v: Any, layer: Any, batch: Any, *given: Any, **named: Any
) -> Any:
    import torch

    if not batch.forward_mode.is_target_verify():
        return native(backend, q, k, v, layer, batch, *given, **named)
    from sglang.srt.mem_cache.memory_pool import KVWriteLoc

    pool, table = backend.token_to_kv_pool, backend.req_to_token_pool.req_to_token
    pool.set_kv_buffer(layer, KVWriteLoc(batch.out_cache_loc, None), k, v)
    nodes = batch.spec_info.draft_token_num
    trees = batch.spec_info.custom_mask.view(-1, nodes, nodes).bool()
    found = torch.empty_like(q)
    for request, row in enumerate(batch.req_pool_indices):
        length, own = int(batch.seq_lens[request]), slice(request * nodes, (request + 1) * nodes)
        seen = torch.cat([table[row, :length], batch.out_cache_loc[own]])
        mask = torch.cat([torch.ones(nodes, length, dtype=torch.bool), trees[request]], dim=1)
        found[own] = _attended(q[own], seen, mask, layer, pool)
    return found
