"""The engine core's half: the session, and a step for each batch. Nothing of vLLM is imported here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from croupier import DecisionError, Error

from . import compat
from .failures import failed, refused
from .order import Order
from .sequences import Sequence, Sequences, ended_by_count
from .shared_memory import status_of
from .verify import Verifier

# Between the workers' sight of a decision and this process's.
_MOMENT = 1.0
# What the request itself asks for, rather than a fault of the model or of the daemon.
_ASKED_FOR = (
    DecisionError.NO_TOKEN_LEFT,
    DecisionError.BAD_PARAMETER,
    DecisionError.BAD_TOKEN,
    DecisionError.BAD_SEQUENCE,
    DecisionError.BAD_MASK,
)


@dataclass
class Batch:
    """A batch between its submission and its decisions."""

    order: Order
    sequences: list[Sequence]
    masks: list[Any] | None


@dataclass
class Steady:
    """What vLLM schedules next where nothing changes: the same requests, each with one token more."""

    counts: dict[str, int]
    names: list[str]
    """As vLLM lists what is computed of each."""
    computed: list[int]


class Plane:
    """schedule() with a batch, then submit(), then collect() with the workers' output: batches in one order
    in all three, which is the order in which the engine core works them. Between a batch's schedule() and its
    submit() no other is scheduled, also where the engine core needs a grammar's tokens of the oldest batch
    first: it collects that one meanwhile, and no more."""

    def __init__(
        self,
        session: Any,
        sequences: Sequences,
        timeout: float,
        log: Callable[[str], None],
        verifier: Verifier | None = None,
    ) -> None:
        self._session = session
        self._sequences = sequences
        self._timeout = timeout
        self._log = log
        self._verifier = verifier
        self._names: list[str] = []
        self._last_step = 0
        self._steady: Steady | None = None

    def schedule(self, scheduled: Any) -> None:
        """Takes vLLM's SchedulerOutput, when it goes to the workers."""
        for name in scheduled.finished_req_ids:
            self._sequences.finish(name)
        for name in scheduled.preempted_req_ids or ():
            self._sequences.park(name)
        cached = scheduled.scheduled_cached_reqs
        if self._goes_on(scheduled, cached):
            return
        computed = dict(zip(cached.req_ids, cached.num_computed_tokens, strict=True))
        for new in scheduled.scheduled_new_reqs:
            self._sequences.admit(new, self._last_step)
            computed[new.req_id] = new.num_computed_tokens
        # A batch with a request's tokens up to its last one draws the next; a part of a prompt draws none.
        # The workers' runner asks the same of the same numbers (seq_len < prefill_len).
        self._names = []
        for name, count in scheduled.num_scheduled_tokens.items():
            if name in self._sequences.refused:
                continue
            sequence = self._sequences.get(name)
            if sequence is None:
                raise RuntimeError(
                    f"request {name} is scheduled and was never among scheduled_new_reqs; "
                    "this vLLM announces requests otherwise than Croupier's plugin knows"
                )
            counted = computed[name] + count
            if counted >= sequence.prefill_len:
                if counted != sequence.due:
                    raise ended_by_count(name, counted - sequence.prompt_len, sequence)
                self._names.append(name)
        counts = scheduled.num_scheduled_tokens
        is_decode = self._names == list(counts) and len(cached.req_ids) == len(counts)
        if is_decode and all(count == 1 for count in counts.values()):
            following = [each + 1 for each in cached.num_computed_tokens]
            self._steady = Steady(dict(counts), list(cached.req_ids), following)

    def _goes_on(self, scheduled: Any, cached: Any) -> bool:
        """Whether the batch is the last one's requests with a token more each.

        All counts that schedule() would look at were right for the last one, and are one more in vLLM as in
        the session.
        """
        steady, self._steady = self._steady, None
        if steady is None or scheduled.scheduled_new_reqs:
            return False
        if cached.req_ids != steady.names or cached.num_computed_tokens != steady.computed:
            return False
        if scheduled.num_scheduled_tokens != steady.counts:
            return False
        self._names = list(steady.counts)
        self._steady = Steady(steady.counts, steady.names, [each + 1 for each in steady.computed])
        return True

    def submit(self, grammar: Any) -> Batch:
        """Publishes the scheduled batch's columns; `grammar` is vLLM's GrammarOutput or None."""
        names, self._names = self._names, []
        sequences = [self._sequences.get(name) for name in names]
        if not names:
            return Batch(Order(None, []), [], None)
        masks = None
        if grammar is not None:
            rows = dict(zip(grammar.structured_output_request_ids, grammar.grammar_bitmask, strict=True))
            masks = [rows.get(name) for name in names]
            if self._verifier is not None:
                # vLLM writes the next batch's over them.
                masks = [None if mask is None else mask.copy() for mask in masks]
        step = self._session.submit([sequence.uid for sequence in sequences], masks)
        self._last_step = step
        self._sequences.submitted(sequences)
        return Batch(Order(step, names), sequences, masks)

    def collect(self, batch: Batch, output: Any) -> Any:
        """Completes the workers' ModelRunnerOutput by what only the decisions say."""
        if output is None:
            return None
        errors = {
            name: refused(reason)
            for name, reason in self._sequences.refused.items()
            if name in output.req_id_to_index
        }
        if batch.order.step is not None:
            self._sequences.in_flight.popleft()
            answer = self._wait(batch.order.step)
            if answer.step != batch.order.step:
                raise RuntimeError(
                    f"the workers have the tokens of step {batch.order.step}; "
                    f"the daemon gave step {answer.step}"
                )
            self._check(batch, answer, output, errors)
            if any(sequence.request.wanted_logprobs is not None for sequence in batch.sequences):
                output.logprobs = logprobs_of(batch, answer, output)
            if self._verifier is not None:
                self._verifier.look(batch, answer, output, self._session)
        if errors:
            for name in errors:
                output.sampled_token_ids[output.req_id_to_index[name]] = []
                compat.current().drop_prompt_logprobs(output, name)
            output.croupier_errors = errors
        return output

    def _wait(self, step: int) -> Any:
        """The step's decisions: the workers have waited for them as long as they may."""
        why = "the daemon is alive, and slow or stuck"
        try:
            answer = self._session.wait(_MOMENT)
            if answer is not None:
                return answer
        except Error as error:
            why = str(error)
        raise RuntimeError(
            f"step {step} was not decided within {self._timeout:g} s ({why}); "
            f"`{status_of(self._session.segment_path)}` says how the daemon is, and the option 'timeout' is "
            "how long to wait"
        )

    def close(self) -> None:
        try:
            if self._verifier is not None:
                self._verifier.close()
        finally:
            try:
                self._session.close()
            except Error as error:
                # The session has no client any more, which the next daemon sees.
                self._log(
                    f"the daemon was not told that {self._session.segment_path} is done with, and the next "
                    f"one removes it, as `croupier cleanup` does: {error}"
                )

    def _check(self, batch: Batch, answer: Any, output: Any, errors: dict[str, str]) -> None:
        rows, sampled = output.req_id_to_index, output.sampled_token_ids
        tokens = answer.tokens.tolist()
        if batch.order.req_ids == output.req_ids and sampled == [[token] for token in tokens]:
            return
        for column, name in enumerate(batch.order.req_ids):
            drawn, token = sampled[rows[name]], tokens[column]
            if token >= 0:
                if drawn != [token]:
                    raise RuntimeError(
                        f"step {batch.order.step}, request {name}: the worker has {drawn}, the daemon {token}"
                    )
                continue
            decision = answer.decisions[column]
            if decision.error == DecisionError.VOID and self._may_be_void(name, batch, column):
                self._sequences.void(name, batch.sequences[column], batch.order.step)
                self._steady = None
                continue
            reason = f"step {batch.order.step}: {decision.error_text or decision.error}"
            errors[name] = refused(reason) if decision.error in _ASKED_FOR else failed(reason)

    def _may_be_void(self, name: str, batch: Batch, column: int) -> bool:
        """Whether the engine gives up this token too: the sequence is finished or counted back."""
        sequence = batch.sequences[column]
        return self._sequences.get(name) is not sequence or batch.order.step <= sequence.void_until


def logprobs_of(batch: Batch, answer: Any, output: Any) -> Any:
    """The decisions' log-probs as vLLM's LogprobsLists: the drawn token, then the best, one row a request."""
    wanted = [sequence.request.wanted_logprobs for sequence in batch.sequences]
    width = 1 + max(count or 0 for count in wanted)
    views = (np.asarray(view) for view in answer.ranked(width))
    tokens, logprobs, drawn_ranks = views
    tokens, logprobs = tokens.reshape(-1, width), logprobs.reshape(-1, width)
    rows = len(output.req_ids)
    ids = np.zeros((rows, width), dtype=np.int32)
    values = np.full((rows, width), -np.inf, dtype=np.float32)
    ranks = np.zeros(rows, dtype=np.int32)
    places = np.array([output.req_id_to_index[name] for name in batch.order.req_ids])
    asked = np.array([-1 if count is None else count for count in wanted])
    present = (asked >= 0) & (tokens[:, 0] >= 0)
    # Of a row vLLM reads as many as its request asked for.
    fewer = present & (tokens[np.arange(len(asked)), np.maximum(asked, 0)] < 0)
    for column in np.flatnonzero(fewer):
        _fill(tokens[column], logprobs[column], 1 + asked[column])
    ids[places[present]] = np.maximum(tokens[present], 0)
    values[places[present]] = logprobs[present]
    ranks[places[present]] = drawn_ranks[present]
    return _lists(ids, values, ranks)


def _fill(tokens: np.ndarray, logprobs: np.ndarray, wanted: int) -> None:
    """Fewer tokens are left than the row has places: ids that are not among them, impossible as they are."""
    left = tokens[:wanted]
    first = int(np.count_nonzero(left >= 0))
    taken = set(left[:first].tolist())
    unused = (token for token in range(len(tokens) + first) if token not in taken)
    tokens[first:] = [next(unused) for _ in range(first, len(tokens))]
    logprobs[first:] = -np.inf


def _lists(ids: np.ndarray, values: np.ndarray, ranks: np.ndarray) -> Any:
    from vllm.v1.outputs import LogprobsLists

    return LogprobsLists(ids, values, ranks)
