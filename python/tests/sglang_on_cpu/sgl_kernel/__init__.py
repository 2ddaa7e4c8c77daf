"""The kernels that SGLang calls on a CPU when it speculates, each as the plainest loop that does the same.

SGLang's own build of them for CPUs is on no package registry, and that for GPUs has none of these.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import torch


def __getattr__(name: str) -> Any:
    """What SGLang imports on a CPU and does not call without AMX."""
    if name.startswith("__"):
        raise AttributeError(name)

    def missing(*given: Any, **named: Any) -> Any:
        raise NotImplementedError(f"sgl_kernel.{name}")

    return missing


def verify_tree_greedy_cpu(
    *,
    predicts: torch.Tensor,
    accept_index: torch.Tensor,
    accept_token_num: torch.Tensor,
    candidates: torch.Tensor,
    retrive_index: torch.Tensor,
    retrive_next_token: torch.Tensor,
    retrive_next_sibling: torch.Tensor,
    target_predict: torch.Tensor,
) -> None:
    targets = target_predict.flatten()
    for request in range(len(candidates)):
        path = [0]
        while True:
            last = int(retrive_index[request, path[-1]])
            predicts[last] = targets[last]
            child = int(retrive_next_token[request, path[-1]])
            while child != -1 and int(candidates[request, child]) != int(targets[last]):
                child = int(retrive_next_sibling[request, child])
            if child == -1 or len(path) == accept_index.shape[1]:
                break
            path.append(child)
        accept_index[request, : len(path)] = retrive_index[request, path].int()
        accept_token_num[request] = len(path) - 1


def build_tree_kernel_efficient_cpu(
    parent_list: torch.Tensor,
    selected_index: torch.Tensor,
    verified_seq_len: torch.Tensor,
    tree_mask: torch.Tensor,
    positions: torch.Tensor,
    retrive_index: torch.Tensor,
    retrive_next_token: torch.Tensor,
    retrive_next_sibling: torch.Tensor,
    topk: int,
    depth: int,
    draft_token_num: int,
    tree_mask_mode: int,
) -> None:
    """Node n + 1 is the draft selected_index[n] among all; parent_list has the drafts that have children."""
    nodes = draft_token_num
    masks = tree_mask.view(-1, nodes, nodes)
    masks[:] = False
    for request in range(len(verified_seq_len)):
        selected = selected_index[request].tolist()
        parents = [0]
        for draft in selected:
            level = draft // topk
            parents.append(0 if level == 0 else 1 + selected.index(int(parent_list[request, level])))
        _lay(
            request,
            parents,
            verified_seq_len,
            positions,
            retrive_index,
            retrive_next_token,
            retrive_next_sibling,
        )
        for node, parent in enumerate(parents):
            masks[request, node] |= masks[request, parent]
            masks[request, node, node] = True


def _lay(
    request: int,
    parents: list[int],
    lengths: torch.Tensor,
    positions: torch.Tensor,
    index: torch.Tensor,
    next_token: torch.Tensor,
    next_sibling: torch.Tensor,
) -> None:
    """A tree whose nodes have these parents: the first is its own."""
    nodes = len(parents)
    depths = [0]
    for node in range(1, nodes):
        depths.append(depths[parents[node]] + 1)
    first = request * nodes
    positions[first : first + nodes] = torch.tensor(depths) + lengths[request]
    index[request] = torch.arange(first, first + nodes)
    next_token[request] = next_sibling[request] = -1
    for node in range(nodes - 1, 0, -1):
        next_sibling[request, node] = next_token[request, parents[node]]
        next_token[request, parents[node]] = node


def reconstruct_indices_from_tree_mask(
    tree_mask: torch.Tensor,
    verified_seq_len: torch.Tensor,
    positions: torch.Tensor,
    retrive_index: torch.Tensor,
    retrive_next_token: torch.Tensor,
    retrive_next_sibling: torch.Tensor,
    batch_size: int,
    draft_token_num: int,
) -> None:
    for request, mask in enumerate(tree_mask.view(batch_size, draft_token_num, draft_token_num)):
        parents = [0] + [int(mask[node, :node].nonzero().max()) for node in range(1, draft_token_num)]
        _lay(
            request,
            parents,
            verified_seq_len,
            positions,
            retrive_index,
            retrive_next_token,
            retrive_next_sibling,
        )


def assign_draft_cache_locs_contiguous_cpu(
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    seq_lens: torch.Tensor,
    out_cache_loc: torch.Tensor,
    pool_len: int,
    topk: int,
    num_steps: int,
) -> None:
    count = topk * num_steps
    for number, (row, length) in enumerate(zip(req_pool_indices, seq_lens, strict=True)):
        out_cache_loc[number * count : (number + 1) * count] = req_to_token[row, length : length + count]


def _spans(
    rows: torch.Tensor, starts: torch.Tensor, ends: torch.Tensor
) -> Iterator[tuple[Any, slice, slice]]:
    """Each request's row, its span there, and the place of that among all spans, one behind the other."""
    at = 0
    for row, start, end in zip(rows, starts, ends, strict=True):
        count = int(end - start)
        yield row, slice(int(start), int(end)), slice(at, at + count)
        at += count


def assign_extend_cache_locs_cpu(
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    start_offset: torch.Tensor,
    end_offset: torch.Tensor,
    out_cache_loc: torch.Tensor,
    pool_len: int,
) -> None:
    for row, span, place in _spans(req_pool_indices, start_offset, end_offset):
        out_cache_loc[place] = req_to_token[row, span]


def assign_req_to_token_pool_cpu(
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    start_offset: torch.Tensor,
    end_offset: torch.Tensor,
    out_cache_loc: torch.Tensor,
    pool_len: int,
) -> None:
    for row, span, place in _spans(req_pool_indices, start_offset, end_offset):
        req_to_token[row, span] = out_cache_loc[place].int()


def fill_accept_out_cache_loc_cpu(
    accept_index: torch.Tensor, out_cache_loc: torch.Tensor, accept_out_cache_loc: torch.Tensor
) -> None:
    accepted = accept_index[accept_index > -1].long()
    accept_out_cache_loc[: len(accepted)] = out_cache_loc[accepted]


def fill_bonus_tokens_cpu(
    accept_tokens: torch.Tensor, accept_lens: torch.Tensor, bonus_tokens: torch.Tensor, accept_stride: int
) -> None:
    rows = accept_tokens.view(-1, accept_stride)
    for request, count in enumerate(accept_lens.tolist()):
        bonus_tokens[request] = rows[request, count - 1]


def copy_all_layer_kv_cache_cpu(
    data_ptrs: torch.Tensor, strides: torch.Tensor, tgt_loc: torch.Tensor, src_loc: torch.Tensor
) -> None:
    for address, stride in zip(data_ptrs.tolist(), strides.tolist(), strict=True):
        rows = [ctypes.string_at(address + at * stride, stride) for at in src_loc.tolist()]
        for at, row in zip(tgt_loc.tolist(), rows, strict=True):
            ctypes.memmove(address + at * stride, row, stride)
