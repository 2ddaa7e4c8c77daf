"""vLLM's own kernels before and behind a step of windows, in Triton's interpreter: the plugin takes from them
what vLLM's rejection sampler takes, and what it gives them leaves requests as that would."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("triton")
pytest.importorskip("vllm")

from croupier.vllm import compat  # noqa: E402

VOCAB, STATES, DRAFTS, LONGEST = 50, 6, 3, 200


def next_token(history: list[int]) -> int:
    return hash((*history[-3:], len(history))) % VOCAB


class Requests:
    """The states of requests as vLLM's runner keeps them on its device."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.prefill_len = torch.tensor([chance.randint(1, 12) for _ in range(STATES)], dtype=torch.int32)
        self.histories = [
            [chance.randrange(VOCAB) for _ in range(count)] for count in self.prefill_len.tolist()
        ]
        self.all_token_ids = torch.zeros(STATES, LONGEST, dtype=torch.int32)
        for state, history in enumerate(self.histories):
            self.all_token_ids[state, : len(history)] = torch.tensor(history, dtype=torch.int32)
        self.total_len = self.prefill_len.clone()
        self.num_computed = torch.zeros(STATES, dtype=torch.int32)
        self.last_sampled = torch.zeros(STATES, 1, dtype=torch.int64)
        self.drafts = torch.zeros(STATES, DRAFTS, dtype=torch.int64)
        self.next_prefill = torch.zeros(1, STATES, dtype=torch.int32)
        self.accepted: set[int] = set()
        """Numbers of drafts of a step."""

    def draft(self, state: int) -> None:
        history = list(self.histories[state])
        for place in range(DRAFTS):
            history.append(next_token(history))
            wrong = self.chance.random() < 0.3
            self.drafts[state, place] = history[-1] ^ 1 if wrong else history[-1]

    def scheduled(self, state: int) -> tuple[int, int]:
        """How many tokens of it the next step has, and how many of these are drafts."""
        left = int(self.prefill_len[state] - self.num_computed[state])
        if left > 1 and self.chance.random() < 0.5:
            return self.chance.randint(1, left - 1), 0
        # The last token of a prompt, too, may have drafts behind it, which stand for none.
        drafts = self.chance.randint(0, DRAFTS) if left <= 1 else 0
        return max(left, 1) + drafts, drafts


def one_step(requests: Requests, functions: Any) -> None:
    """`functions` has rows_of() and sampled_of()."""
    from vllm.v1.worker.gpu import input_batch as vllms
    from vllm.v1.worker.gpu.spec_decode.rejection_sampler import gather_draft_sampled

    from croupier.vllm.verification import Layout

    chance = requests.chance
    states = chance.sample(range(STATES), chance.randint(1, STATES))
    counts, drafts = zip(*map(requests.scheduled, states), strict=True)
    idx_mapping = torch.tensor(states)
    lengths, windows = torch.tensor(counts), 1 + torch.tensor(drafts)
    starts = torch.cat([torch.zeros(1), lengths.cumsum(0)]).int()
    cu_num_logits = torch.cat([torch.zeros(1), windows.cumsum(0)]).int()
    input_ids = torch.zeros(sum(counts), dtype=torch.int32)
    positions, seq_lens = (
        torch.zeros(sum(counts), dtype=torch.int64),
        torch.zeros(len(states), dtype=torch.int32),
    )
    vllms.prepare_prefill_inputs(
        input_ids,
        requests.next_prefill,
        idx_mapping,
        starts,
        requests.all_token_ids,
        requests.prefill_len,
        requests.num_computed,
    )
    vllms.prepare_pos_seq_lens(idx_mapping, starts, requests.num_computed, positions, seq_lens)
    total = int(cu_num_logits[-1])
    expanded, local = vllms.expand_idx_mapping(idx_mapping, total, cu_num_logits, 1 + DRAFTS)
    logits_indices = vllms.combine_sampled_and_draft_tokens(
        input_ids,
        idx_mapping,
        requests.last_sampled,
        starts,
        seq_lens,
        requests.prefill_len,
        requests.drafts,
        cu_num_logits,
        total,
    )
    batch = SimpleNamespace(
        cu_num_logits=cu_num_logits,
        logits_indices=logits_indices,
        input_ids=input_ids,
        positions=positions,
        idx_mapping=idx_mapping,
    )
    draws = [place for place, state in enumerate(states) if seq_lens[place] >= requests.prefill_len[state]]
    if not draws:
        drawn = torch.zeros(len(states), 1 + DRAFTS, dtype=torch.int64)
        sampled, rejected = torch.zeros(2, len(states), dtype=torch.int32)
    else:
        chance.shuffle(draws)
        # A grammar's window is told to be shorter than vLLM's; adaptive verification makes vLLM's shorter.
        told = [int(windows[place]) for place in draws]
        told = [chance.randint(1, 1 + DRAFTS) if chance.random() < 0.3 else count for count in told]
        layout = Layout.of(draws, told, len(states), torch.device("cpu"))
        rows = functions.rows_of(layout, batch, requests.prefill_len)
        theirs, their_positions = gather_draft_sampled(
            input_ids, positions, logits_indices, expanded, local, requests.prefill_len
        )
        row, exists = rows.row_of.long(), rows.row_of >= 0
        assert rows.inputs.tolist() == torch.where(exists, theirs[row], -1).tolist()
        assert rows.positions.tolist() == torch.where(exists, their_positions[row], -1).tolist()
        tokens = decided(requests, [states[place] for place in draws], told, rows.inputs.tolist())
        drawn, sampled, rejected = functions.sampled_of(layout, tokens, batch, 1 + DRAFTS)
    # Of a part of a prompt vLLM draws a token, and forgets it here.
    their_sampled, their_rejected = vllms.get_num_sampled_and_rejected(
        torch.where(sampled == 0, 1, sampled), seq_lens, cu_num_logits, idx_mapping, requests.prefill_len
    )
    assert sampled.tolist() == their_sampled.tolist()
    assert rejected.tolist() == their_rejected.tolist()
    vllms.post_update(
        idx_mapping,
        requests.num_computed,
        requests.last_sampled,
        None,
        drawn,
        sampled,
        rejected,
        starts,
        requests.all_token_ids,
        requests.total_len,
    )
    for place in draws:
        state = states[place]
        requests.accepted.add(int(sampled[place]) - 1)
        history = requests.histories[state]
        assert requests.total_len[state] == len(history)
        assert requests.num_computed[state] == len(history) - 1
        assert requests.all_token_ids[state, : len(history)].tolist() == history
        assert requests.last_sampled[state, 0] == history[-1]
        requests.draft(state)


def decided(requests: Requests, states: list[int], told: list[int], inputs: list[int]) -> Any:
    """The daemon's decisions: a row counts if its input is the token before it."""
    tokens: list[int] = []
    for state, count in zip(states, told, strict=True):
        history, start = requests.histories[state], len(tokens)
        assert inputs[start] == history[-1]
        for number in range(count):
            if number and inputs[start + number] != history[-1]:
                tokens += [-1] * (count - number)
                break
            history.append(next_token(history))
            tokens.append(history[-1])
    return torch.tensor(tokens, dtype=torch.int32)


def test_requests_are_as_vllms_own_kernels_would_leave_them() -> None:
    if not compat.current().speculates:
        pytest.skip("Croupier does not speculate with this vLLM")
    # The interpreter has to be chosen before Triton is imported.
    subprocess.run([sys.executable, __file__], env={**os.environ, "TRITON_INTERPRET": "1"}, check=True)


def main() -> None:
    import triton
    import triton.language
    import vllm.triton_utils

    # vLLM takes stand-ins for them where there is no GPU.
    vllm.triton_utils.triton, vllm.triton_utils.tl = triton, triton.language
    from croupier.vllm import verification, verification_kernels

    accepted: set[int] = set()
    for seed in range(8):
        requests = Requests(random.Random(seed))
        for step in range(30):
            if max(map(len, requests.histories)) < LONGEST - 2 * DRAFTS:
                one_step(requests, verification_kernels if step % 2 else verification)
        accepted |= requests.accepted
    assert accepted == {0, 1, 2, 3}


if __name__ == "__main__":
    main()
