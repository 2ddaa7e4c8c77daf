"""The tensors of a step of windows, against what a look at each row and request gives."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from croupier.vllm import verification  # noqa: E402
from croupier.vllm.verification import Layout  # noqa: E402

HOST = torch.device("cpu")
MOST = 5


class Batch:
    """A batch at random: parts of prompts, prompts' ends, some of them with drafts that stand for none, and
    requests that decode, whose drafts may be fewer than are scheduled and other than the session's rows."""

    def __init__(self, chance: random.Random) -> None:
        self.requests = chance.randint(1, 12)
        states = chance.sample(range(20), self.requests)
        self.prefill_len = [chance.randint(1, 40) for _ in range(20)]
        self.logits: list[int] = []
        self.windows: dict[int, int] = {}
        self.lines: list[list[tuple[int, int]]] = []
        ids: list[int] = []
        positions: list[int] = []
        indices: list[int] = []
        starts = [0]
        for request, state in enumerate(states):
            drafts = chance.randrange(MOST)
            length = self.prefill_len[state]
            first = length - 1 + chance.choice([0, 0, 7, 30])
            rows, told = 1 + drafts, 1 + chance.randint(0, MOST - 1)
            if request and chance.random() < 0.2 and first > 0:
                rows, told, first = 1, 0, first - 1  # A part of a prompt.
            if told:
                self.windows[request] = told
            before = chance.randint(0, min(first, 9))
            line = []
            for position in range(first - before, first + rows):
                if position >= first:
                    indices.append(len(ids))
                    line.append((chance.randrange(500), position))
                    ids.append(line[-1][0])
                else:
                    ids.append(-7)
                positions.append(position)
            self.lines.append(line)
            starts.append(len(indices))
        self.states = states
        self.tensors = SimpleNamespace(
            input_ids=torch.tensor(ids, dtype=torch.int32),
            positions=torch.tensor(positions),
            logits_indices=torch.tensor(indices),
            cu_num_logits=torch.tensor(starts, dtype=torch.int32),
            idx_mapping=torch.tensor(states),
        )
        self.order = list(self.windows)
        chance.shuffle(self.order)
        # Placeholders of a prompt's pictures.
        some = chance.random() < 0.5
        self.left_out = {request: chance.choice([0, 1, 40]) * some for request in self.order}

    def layout(self, device: Any) -> Layout:
        windows = [self.windows[request] for request in self.order]
        left_out = [self.left_out[request] for request in self.order]
        return Layout.of(self.order, windows, self.requests, device, left_out if any(left_out) else None)

    def on(self, device: Any) -> SimpleNamespace:
        return SimpleNamespace(**{name: tensor.to(device) for name, tensor in vars(self.tensors).items()})

    def rows(self) -> list[tuple[int, ...]]:
        found: list[tuple[int, ...]] = []
        for request in self.order:
            start = sum(len(line) for line in self.lines[:request])
            computed = self.prefill_len[self.states[request]] <= self.lines[request][0][1]
            for number in range(self.windows[request]):
                if number >= len(self.lines[request]):
                    found.append((-1, -1, -1))
                    continue
                token, position = self.lines[request][number]
                position -= self.left_out[request]
                found.append((start + number, token if number == 0 or computed else -1, position))
        return found

    def sampled(self, tokens: list[int]) -> tuple[list[list[int]], list[int], list[int]]:
        all_tokens, counts, rejected = [], [], []
        starts = {}
        start = 0
        for request in self.order:
            starts[request] = start
            start += self.windows[request]
        for request in range(self.requests):
            own = tokens[starts[request] :][: self.windows[request]] if request in starts else []
            accepted = own[: own.index(-1)] if -1 in own else own
            if own and not accepted:
                accepted = [0]
            all_tokens.append(accepted)
            counts.append(len(accepted))
            rejected.append(len(self.lines[request]) - len(accepted) if own else 0)
        return all_tokens, counts, rejected


def compare(functions: Any, seed: int, device: Any = HOST) -> None:
    """`functions` has rows_of() and sampled_of()."""
    chance = random.Random(seed)
    batch = Batch(chance)
    layout, tensors = batch.layout(device), batch.on(device)
    prefill_len = torch.tensor(batch.prefill_len, dtype=torch.int32, device=device)
    rows = functions.rows_of(layout, tensors, prefill_len)
    parts = (rows.row_of, rows.inputs, rows.positions)
    assert list(zip(*(part.tolist() for part in parts), strict=True)) == batch.rows()
    assert {part.dtype for part in parts} == {torch.int32}
    tokens = []
    for request in batch.order:
        count = batch.windows[request]
        accepted = chance.randint(0, min(count, len(batch.lines[request])))
        tokens += [chance.randrange(500) for _ in range(accepted)] + [-1] * (count - accepted)
    decided = torch.tensor(tokens, dtype=torch.int32, device=device)
    sampled, counts, rejected = functions.sampled_of(layout, decided, tensors, MOST)
    own, own_counts, own_rejected = batch.sampled(tokens)
    assert sampled.shape == (batch.requests, MOST)
    assert (sampled.dtype, counts.dtype, rejected.dtype) == (torch.int64, torch.int32, torch.int32)
    assert sampled.min() >= 0
    assert (counts.tolist(), rejected.tolist()) == (own_counts, own_rejected)
    assert [row[:count] for row, count in zip(sampled.tolist(), own_counts, strict=True)] == own


@pytest.mark.parametrize("seed", range(100))
def test_rows_and_tokens_are_those_that_a_look_at_each_gives(seed: int) -> None:
    compare(verification, seed)


def test_kernels_give_the_same() -> None:
    """In Triton's interpreter, which has to be chosen before Triton is imported."""
    pytest.importorskip("triton")
    subprocess.run([sys.executable, __file__], env={**os.environ, "TRITON_INTERPRET": "1"}, check=True)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
@pytest.mark.parametrize("seed", range(100))
def test_kernels_give_the_same_on_a_gpu(seed: int) -> None:
    from croupier.vllm import verification_kernels

    compare(verification_kernels, seed, torch.device("cuda"))


if __name__ == "__main__":
    from croupier.vllm import verification_kernels

    for each in range(60):
        compare(verification_kernels, each)
