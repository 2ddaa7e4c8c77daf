"""Continuous batching with decode, verify, rollback (LLM-42) over Croupier's plane.

The fast path decodes all running sequences together, and its rows depend on the batch in their last bits. A
request that is `verified` is checked after some tokens, or once it has ended: the plane forgets the tokens
that are not verified, and decides them again from a window of rows that a pass of a fixed shape computed.
What matches is kept; the first mismatch is replaced, and what follows it is decoded anew. The pass also
replaces the keys and values of the fast path. Only verified tokens are released.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container
from dataclasses import dataclass, field
from typing import Any

from passes import FixedShape, Member, Model

import croupier

# What a step's decisions are waited for at most.
PATIENCE = 60.0
# A window has at most 64 rows (CROUPIER_MAX_WINDOW_ROWS): the last verified token and those that are cut off.
MOST_CUT = 63


@dataclass(frozen=True)
class Request:
    uid: int
    prompt: list[int]
    # Session.add()'s keywords: params, stop_ids, allowed_ids and so on.
    asked: dict[str, Any]
    verified: bool = False


@dataclass(eq=False)
class Sequence:
    """A request that has a slot. Of its output, the released tokens are those that no pass changes."""

    request: Request
    slot: int
    output: list[int] = field(default_factory=list)
    released: int = 0
    # How many tokens of the prompt have their keys and values.
    prefilled: int = 0
    stopped: str | None = None

    @property
    def pending(self) -> int:
        return len(self.output) - self.released

    def position_of_last(self) -> int:
        return len(self.request.prompt) + len(self.output) - 1


@dataclass
class Counts:
    prompt_passes: int = 0
    decode_passes: int = 0
    window_passes: int = 0
    # Of the fast path, apart from the tokens of the prompts' last rows.
    decoded: int = 0
    windows: int = 0
    # Windows in which a token did not match, and tokens of the fast path that were thrown away.
    rollbacks: int = 0
    discarded: int = 0


@dataclass
class InFlight:
    """A step whose decisions are waited for. A GPU's arrays are lent to the plane until then."""

    step: int
    lent: list[Any]
    take: Callable[[croupier.Step], None]


class Engine:
    def __init__(
        self,
        session: croupier.Session,
        writer: croupier.Writer,
        model: Model,
        *,
        prompts: FixedShape,
        windows: FixedShape,
        running: int | None = None,
        release: Callable[[int, list[int], str | None], None],
    ) -> None:
        """At most `running` sequences run at once; by default as many as the model has room for. `release` is
        called with tokens for the user, and with the reason if the sequence has ended.

        A window has its last verified token and up to windows.width - 1 tokens of the fast path.
        """
        if not 2 <= windows.width <= MOST_CUT + 1:
            raise ValueError(f"windows have {windows.width} rows; allowed: 2 to {MOST_CUT + 1}")
        self.counts = Counts()
        self._session, self._writer, self._model = session, writer, model
        self._prompts, self._windows, self._release = prompts, windows, release
        self._waiting: deque[Request] = deque()
        self._running: list[Sequence] = []
        self._free_slots = list(reversed(range(running or model.slots)))

    @property
    def idle(self) -> bool:
        return not self._waiting and not self._running

    def add(self, request: Request) -> None:
        most = len(request.prompt) + request.asked["params"].max_tokens
        if not request.prompt or not request.asked["params"].max_tokens or most > self._model.context:
            raise ValueError(
                f"request {request.uid} has {len(request.prompt)} tokens and asks for up to "
                f"{request.asked['params'].max_tokens}; allowed: at least 1 of each, and together up to "
                f"{self._model.context}"
            )
        self._waiting.append(request)

    def step(self) -> None:
        """Runs one pass of each kind that has work. A sequence is in one of them."""
        self._admit()
        prompts = [one for one in self._running if one.prefilled < len(one.request.prompt)]
        windows = self._choose_windows()
        decodes = [
            one for one in self._running if one.output and one not in windows and not self._is_due(one)
        ]
        in_flight = [
            self._send_prompts(prompts[: self._prompts.groups]),
            self._send_windows(windows),
            self._send_decodes(decodes),
        ]
        for each in in_flight:
            if each is not None:
                each.take(self._decided(each.step))
        self._running = [one for one in self._running if not self._is_over(one)]

    def _admit(self) -> None:
        while self._waiting and self._free_slots:
            request = self._waiting.popleft()
            self._session.add(request.uid, request.prompt, **request.asked)
            self._running.append(Sequence(request, self._free_slots.pop()))

    def resume(self, requests: list[Request], texts: dict[int, list[int]], ends: Container[int]) -> None:
        """Goes on in the session of a client that died, after the texts that it had released.

        `ends` has those that have ended. What was decided beyond them is forgotten. Keys and values come from
        the same passes as before: of prompts from theirs, of verified tokens from that of windows.
        """
        self._clear_flight()
        live = set(self._session.list())
        for request in requests:
            text = texts.get(request.uid, [])
            if request.uid in live and (request.uid in ends or not text):
                self._session.finish(request.uid)
            if request.uid in ends:
                continue
            if text:
                self._resume_sequence(request, text)
            else:
                self.add(request)

    def _clear_flight(self) -> None:
        """Gives up steps whose rows the writer of that time did not write."""
        while self._session.in_flight:
            if (wanted := self._writer.wait_step(0)) is not None:
                self._session.give_up(wanted.step)
            self._session.wait(PATIENCE)

    def _resume_sequence(self, request: Request, text: list[int]) -> None:
        self._session.truncate(request.uid, len(text))
        one = Sequence(request, self._free_slots.pop(), list(text), len(text), len(request.prompt))
        self._compute(one.slot, request.prompt, 0, self._prompts)
        self._compute(one.slot, text[:-1], len(request.prompt), self._windows)
        self._running.append(one)

    def _compute(self, slot: int, tokens: list[int], position: int, shape: FixedShape) -> None:
        for start in range(0, len(tokens), shape.width):
            chunk = tokens[start : start + shape.width]
            self._model.replay(shape, [Member(slot, chunk, position + start)])

    # The forward pass of prompts: of a fixed shape, so that its rows need no verification.

    def _send_prompts(self, sequences: list[Sequence]) -> InFlight | None:
        if not sequences:
            return None
        self.counts.prompt_passes += 1
        width = self._prompts.width
        members, ends, last_rows = [], [], []
        for number, one in enumerate(sequences):
            chunk = one.request.prompt[one.prefilled : one.prefilled + width]
            members.append(Member(one.slot, chunk, one.prefilled))
            one.prefilled += len(chunk)
            if one.prefilled == len(one.request.prompt):
                ends.append(one)
                last_rows.append(number * width + len(chunk) - 1)
        rows = self._model.replay(self._prompts, members)
        if not ends:
            return None
        step = self._session.submit([one.request.uid for one in ends])
        lent = self._write(step, rows, row_of=last_rows)
        return InFlight(step, lent, lambda decided: self._take_next(ends, decided, final=True))

    # The fast path.

    def _send_decodes(self, sequences: list[Sequence]) -> InFlight | None:
        if not sequences:
            return None
        self.counts.decode_passes += 1
        self.counts.decoded += len(sequences)
        step = self._session.submit([one.request.uid for one in sequences])
        rows = self._model.decode(
            [one.output[-1] for one in sequences],
            [one.position_of_last() for one in sequences],
            [one.slot for one in sequences],
        )
        lent = self._write(step, rows)
        return InFlight(step, lent, lambda decided: self._take_next(sequences, decided, final=False))

    def _take_next(self, sequences: list[Sequence], decided: croupier.Step, *, final: bool) -> None:
        for one, decision in zip(sequences, decided.decisions, strict=True):
            _require_token(one, decision)
            one.output.append(decision.token)
            one.stopped = decision.stopped
            if final or not one.request.verified:
                self._release_output(one)

    # Verification and rollback.

    def _is_due(self, one: Sequence) -> bool:
        return one.pending == self._windows.width - 1 or one.stopped is not None

    def _choose_windows(self) -> list[Sequence]:
        """None before one is due; then the pass costs no more for sequences that it checks early."""
        pending = [one for one in self._running if one.pending]
        if not any(self._is_due(one) for one in pending):
            return []
        pending.sort(key=lambda one: (not self._is_due(one), -one.pending))
        return pending[: self._windows.groups]

    def _send_windows(self, sequences: list[Sequence]) -> InFlight | None:
        if not sequences:
            return None
        self.counts.window_passes += 1
        self.counts.windows += len(sequences)
        members, inputs, row_of = [], [], []
        for number, one in enumerate(sequences):
            self._session.truncate(one.request.uid, one.released)
            fed = one.output[one.released - 1 :]
            members.append(Member(one.slot, fed, one.position_of_last() - one.pending))
            inputs += fed
            row_of += range(number * self._windows.width, number * self._windows.width + len(fed))
        uids = [one.request.uid for one in sequences]
        step = self._session.submit(uids, rows=[len(member.tokens) for member in members])
        rows = self._model.replay(self._windows, members)
        lent = self._write(step, rows, row_of=row_of, inputs=inputs)
        return InFlight(step, lent, lambda decided: self._take_windows(sequences, decided))

    def _take_windows(self, sequences: list[Sequence], decided: croupier.Step) -> None:
        decisions = iter(decided.decisions)
        for one in sequences:
            window = [next(decisions) for _ in range(one.pending + 1)]
            _require_token(one, window[0])
            verified = [each for each in window if not each.error]
            guessed = one.output[one.released :]
            matched = sum(each.token == guess for each, guess in zip(verified, guessed, strict=False))
            self.counts.rollbacks += matched < len(guessed)
            self.counts.discarded += len(guessed) - matched
            one.output[one.released :] = [each.token for each in verified]
            one.stopped = verified[-1].stopped
            self._release_output(one)

    # What all passes share.

    def _write(self, step: int, rows: Any, **numbers: list[int]) -> list[Any]:
        if not self._writer.begin(step):
            raise RuntimeError(f"step {step} cannot be begun: is another one begun and not enqueued?")
        arrays = {name: self._model.numbers(values) for name, values in numbers.items()}
        self._writer.enqueue(rows, self._model.stream(), **arrays)
        return [rows, *arrays.values()]

    def _decided(self, step: int) -> croupier.Step:
        decided = self._session.wait(PATIENCE)
        if decided is None or decided.step != step:
            raise RuntimeError(f"step {step} is not decided after {PATIENCE} seconds")
        return decided

    def _release_output(self, one: Sequence) -> None:
        tokens = one.output[one.released :]
        one.released = len(one.output)
        # A client that dies in between leaves a sequence that resume() finishes.
        self._release(one.request.uid, tokens, one.stopped)
        if one.stopped is not None:
            self._session.finish(one.request.uid)
            self._free_slots.append(one.slot)

    @staticmethod
    def _is_over(one: Sequence) -> bool:
        return one.stopped is not None and not one.pending


def _require_token(one: Sequence, decision: croupier.Decision) -> None:
    if decision.error:
        raise RuntimeError(
            f"request {one.request.uid} has no token at position {len(one.output)}: {decision.error_text}"
        )
