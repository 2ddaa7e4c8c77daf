"""A model for engines that verify: small, in numpy, with a fast path that errs as a test wants it."""

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

import croupier

sys.path.append(str(Path(__file__).parents[2] / "bench" / "verified"))
from engine import Request  # noqa: E402
from passes import FixedShape, Member  # noqa: E402

WIDTH = 16
READ = 16
DECAY = 0.5

# Of the fast path's row at a position of a sequence, in a batch of so many: changes it in place.
Spoil = Callable[[int, np.ndarray, int], None]


def exact(position: int, row: np.ndarray, batch: int) -> None:
    """The fast path does not err."""


class Noise:
    """Errs everywhere, each time in another way: as if no batch were like another."""

    def __init__(self, deviation: float, seed: int = 1) -> None:
        self._deviation = deviation
        self._random = np.random.default_rng(seed)

    def __call__(self, position: int, row: np.ndarray, batch: int) -> None:
        row += self._random.normal(0, self._deviation, len(row)).astype(np.float32)


class NoisyModel:
    """A row depends on the last tokens by what is stored of them, and what is stored on what was before.

    replay() computes each row by itself, in the same operations of the same shapes.
    """

    def __init__(self, *, slots: int, context: int, vocab: int, spoil: Spoil = exact) -> None:
        self.slots, self.context = slots, context
        self.passes: list[tuple[FixedShape, list[Member]]] = []
        self._spoil = spoil
        drawn = np.random.default_rng(3)
        self._embedding = drawn.normal(0, 1, (vocab, WIDTH))
        self._mix = drawn.normal(0, 1, (WIDTH, WIDTH))
        self._head = drawn.normal(0, 1, (WIDTH, vocab))
        self._weights = DECAY ** np.arange(READ, 0, -1)
        # Of each position, behind as many zeros as a row reads.
        self._stored = np.zeros((slots, READ + context, WIDTH))

    def decode(self, tokens: list[int], positions: list[int], slots: list[int]) -> np.ndarray:
        rows = []
        for token, position, slot in zip(tokens, positions, slots, strict=True):
            row = self._row(token, position, slot)
            before = row.copy()
            self._spoil(position, row, len(tokens))
            # What is stored errs as much as the row does.
            self._stored[slot, READ + position] += np.abs(row - before).mean()
            rows.append(row)
        return np.stack(rows)

    def replay(self, shape: FixedShape, members: list[Member]) -> np.ndarray:
        assert len(members) <= shape.groups
        self.passes.append((shape, members))
        rows = np.full((shape.groups * shape.width, len(self._head[0])), np.nan, np.float32)
        for number, member in enumerate(members):
            assert len(member.tokens) <= shape.width
            for place, token in enumerate(member.tokens):
                rows[number * shape.width + place] = self._row(token, member.position + place, member.slot)
        return rows

    def numbers(self, values: list[int]) -> np.ndarray:
        return np.array(values, np.int32)

    def stream(self) -> int:
        return 0

    def _row(self, token: int, position: int, slot: int) -> np.ndarray:
        before = self._weights @ self._stored[slot, position : position + READ]
        stored = np.roll(self._embedding[token], position % WIDTH) + 0.3 * np.tanh(before)
        self._stored[slot, READ + position] = stored
        hidden = np.tanh((stored + before) @ self._mix / 2)
        return (hidden @ self._head).astype(np.float32)


def reference(request: Request, vocab: int) -> tuple[list[int], str | None]:
    """A request's output, decided in this process from exact rows, one after another."""
    model = NoisyModel(slots=1, context=len(request.prompt) + request.asked["params"].max_tokens, vocab=vocab)
    shape, output, feedback, stopped = FixedShape(1, 1), [], (0.0, 0.0), None
    for position, token in enumerate(request.prompt):
        row = model.replay(shape, [Member(0, [token], position)])[0]
    while stopped is None:
        answer = croupier.decide(row, request.prompt, output, feedback=feedback, **request.asked)
        assert not answer.error
        output.append(answer.token)
        stopped, feedback = answer.stopped, answer.feedback
        position = len(request.prompt) + len(output) - 1
        if stopped is None:
            row = model.replay(shape, [Member(0, [answer.token], position)])[0]
    return output, stopped
