"""The engine core's half: the session, and a step for each batch. Nothing of vLLM is imported here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from croupier import DecisionError, Error
from croupier.serving.reasons import ASKED_FOR, failed, refused
from croupier.serving.shared_memory import status_of
from croupier.serving.verify import Verifier

from . import compat
from .columns import Columns
from .order import Order
from .sequences import Sequences

# Between the workers' sight of a decision and this process's, on one host.
MOMENT = 1.0


@dataclass
class Batch:
    """A batch between its submission and its decisions."""

    order: Order
    columns: Any
    """Columns, or Windows where the engine speculates; None: no request of it draws."""
    masks: list[Any] | None
    """Of its rows, where they are verified."""


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
        moment: float = MOMENT,
    ) -> None:
        self._session = session
        self._sequences = sequences
        self._timeout = timeout
        self._log = log
        self._verifier = verifier
        self._moment = moment
        # A session's first step is 0.
        self._last_step = -1
        self._columns: Any = None
        """Of the batch between schedule() and submit()."""
        self._reusable: list[Columns] = []
        """A request is in at most one of them. With pipeline stages there is one for each batch in turn."""

    def schedule(self, scheduled: Any) -> None:
        """Takes vLLM's SchedulerOutput, when it goes to the workers."""
        preempted = scheduled.preempted_req_ids or set()
        gone = scheduled.finished_req_ids | preempted | {new.req_id for new in scheduled.scheduled_new_reqs}
        if gone:
            self._reusable = [columns.without(gone) for columns in self._reusable]
        for name in scheduled.finished_req_ids:
            self._sequences.finish(name)
        for name in preempted:
            self._sequences.park(name)
        for new in scheduled.scheduled_new_reqs:
            self._sequences.admit(new, self._last_step)
        self._columns = self._next_columns(scheduled)

    def _next_columns(self, scheduled: Any) -> Any:
        names = list(scheduled.num_scheduled_tokens)
        prefix = self._prefix_of(scheduled, names)
        if prefix is None:
            counts = scheduled.num_scheduled_tokens
            self._reusable = [columns.without_paused(counts) for columns in self._reusable]
            prefix = self._prefix_of(scheduled, names)
        if prefix is not None and prefix.names == names and prefix.places is None:
            prefix.advance()
            return prefix
        if prefix is not None:
            self._reusable.remove(prefix)
        self._drop_with(set(names if prefix is None else names[len(prefix.names) :]))
        columns = self._columns_of(scheduled, names, prefix or Columns())
        if columns.names:
            self._reusable.append(columns)
        return columns

    def _prefix_of(self, scheduled: Any, names: list[str]) -> Columns | None:
        """The reusable columns with which a batch of these names starts."""
        return next((columns for columns in self._reusable if columns.is_prefix_of(scheduled, names)), None)

    def _drop_with(self, names: set[str]) -> None:
        """Drops the reusable columns that have one of these requests, and those that have become empty."""
        kept = []
        for columns in self._reusable:
            if not names.isdisjoint(columns.names):
                columns.settle()
            elif columns.names:
                kept.append(columns)
        self._reusable = kept

    def _columns_of(self, scheduled: Any, names: list[str], prefix: Columns) -> Columns:
        """The columns of a batch of these names; `prefix` has those of its first requests."""
        count = len(prefix.names)
        computed, drawing = computed_of(scheduled, count), self._sequences.drawing
        columns, places = prefix.copy(), list(range(count))
        columns.advance()
        for place in range(count, len(names)):
            name = names[place]
            counted = computed[name] + scheduled.num_scheduled_tokens[name]
            if (sequence := drawing(name, counted)) is not None:
                columns.add(name, sequence, counted)
                places.append(place)
        if len(places) < len(names):
            columns.places = places
        return columns

    def submit(self, grammar: Any) -> Batch:
        """Publishes the scheduled batch's columns; `grammar` is vLLM's GrammarOutput or None."""
        columns, self._columns = self._columns, None
        if columns is None or not columns.names:
            return Batch(Order(None), None, None)
        batch = self._submitted(columns, grammar)
        self._sequences.submitted(columns.sequences)
        return batch

    def _submitted(self, columns: Any, grammar: Any) -> Batch:
        bitmask = mask_rows = masks = None
        if grammar is not None:
            bitmask = grammar.grammar_bitmask
            row_of = {name: row for row, name in enumerate(grammar.structured_output_request_ids)}
            mask_rows = [row_of.get(name) for name in columns.names]
            if self._verifier is not None:
                # vLLM writes the next batch's over them.
                masks = [None if row is None else bitmask[row].copy() for row in mask_rows]
        self._last_step = self._session.submit(columns.uids, masks=bitmask, mask_rows=mask_rows)
        return Batch(Order(self._last_step, columns.places), columns, masks)

    def collect(self, batch: Batch, output: Any) -> Any:
        """Completes the workers' ModelRunnerOutput by what only the decisions say."""
        if output is None:
            return None
        errors: dict[str, str] = {}
        for name, reason in self._sequences.refused.items():
            if name in output.req_id_to_index:
                end_request(output, errors, name, refused(reason))
        if batch.order.step is not None:
            self._sequences.in_flight.popleft()
            answer = self._wait(batch.order.step)
            if answer.step != batch.order.step:
                raise RuntimeError(
                    f"the workers have the tokens of step {batch.order.step}; "
                    f"the daemon gave step {answer.step}"
                )
            self._compare(batch, answer, output, errors)
            if self._sequences.texts is not None and (ended := self._ended(batch, answer)):
                output.croupier_ended = ended
            if self._verifier is not None and (rows := getattr(output, "croupier_rows", None)) is not None:
                step, (names, sequences) = batch.order.step, batch.columns.of_rows()
                self._verifier.look(step, names, sequences, batch.masks, rows, answer, self._session)
        if errors:
            output.croupier_errors = errors
        return output

    def _ended(self, batch: Batch, answer: Any) -> dict[str, int]:
        """The requests that a stop string ends with this step: how many output tokens each then has."""
        found = answer.ended_by_strings()
        if not found:
            return {}
        names, sequences = batch.columns.of_rows()
        ended = {}
        for row, outputs in found:
            name, sequence = names[row], sequences[row]
            # Else vLLM gives up this token.
            if self._sequences.get(name) is sequence and batch.order.step > sequence.counted_at:
                sequence.ended_at = batch.order.step
                ended[name] = outputs
        return ended

    def _compare(self, batch: Batch, answer: Any, output: Any, errors: dict[str, str]) -> None:
        """The workers' tokens with the decisions', whose log-probs and errors are the output's too."""
        names, rows = batch.columns.names, None
        if output.req_ids != names:
            rows = [output.req_id_to_index[name] for name in names]
        for column in answer.mismatches(output.sampled_token_ids, rows=rows):
            self._look_at(batch, column, answer.decisions[column], output, errors)
        if batch.columns.width:
            output.logprobs = logprobs_of(answer, batch.columns.width, rows, len(output.req_ids))

    def _wait(self, step: int) -> Any:
        """The step's decisions: the workers have waited for them as long as they may."""
        why = "the daemon is alive, and slow or stuck"
        try:
            answer = self._session.wait(self._moment)
            if answer is not None:
                return answer
        except Error as error:
            if error.name == "peer_gone":
                raise RuntimeError(
                    f"step {step}: {error}. The relay on the last stage's host has died, or the hosts could "
                    "not reach each other for seconds: start the engine again"
                ) from error
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

    def _look_at(
        self,
        batch: Batch,
        column: int,
        decision: Any,
        output: Any,
        errors: dict[str, str],
        before: Sequence[int] = (),
    ) -> None:
        """A column without a token, or with another one than the workers'; `before` it are the window's."""
        name, step = batch.columns.names[column], batch.order.step
        if decision.token >= 0:
            drawn = output.sampled_token_ids[output.req_id_to_index[name]]
            raise other_tokens(step, name, drawn, decision.token)
        if decision.error == DecisionError.VOID and self._may_be_void(name, batch, column):
            return
        reason = f"step {step}: {decision.error_text or decision.error}"
        reason = refused(reason) if decision.error in ASKED_FOR else failed(reason)
        end_request(output, errors, name, reason, before)

    def _may_be_void(self, name: str, batch: Batch, column: int) -> bool:
        """Whether the engine gives up this token too: the sequence is finished, ended or counted back."""
        sequence, step = batch.columns.sequences[column], batch.order.step
        if self._sequences.get(name) is not sequence or step <= sequence.counted_at:
            return True
        return sequence.ended_at is not None and sequence.ended_at < step


def other_tokens(step: int, name: str, drawn: list[int], decided: Any) -> RuntimeError:
    return RuntimeError(f"step {step}, request {name}: the worker has {drawn}, the daemon {decided}")


def end_request(
    output: Any, errors: dict[str, str], name: str, reason: str, tokens: Sequence[int] = ()
) -> None:
    """Has a request end with an error, behind these last tokens."""
    errors[name] = reason
    output.sampled_token_ids[output.req_id_to_index[name]] = list(tokens)
    if not tokens:
        compat.current().drop_prompt_logprobs(output, name)


def computed_of(scheduled: Any, first: int = 0) -> dict[str, int]:
    """num_computed_tokens of a batch's requests, of those that go on from the `first` one on."""
    cached = scheduled.scheduled_cached_reqs
    computed = dict(zip(cached.req_ids[first:], cached.num_computed_tokens[first:], strict=True))
    computed |= {new.req_id: new.num_computed_tokens for new in scheduled.scheduled_new_reqs}
    return computed


def logprobs_of(answer: Any, width: int, rows: list[int] | None, count: int) -> Any:
    """The decisions' log-probs as vLLM's LogprobsLists: the drawn token, then the best, one row a request.

    Of a row vLLM reads as many as its request asked for. Where fewer tokens are left, ids that are not among
    them follow, impossible as they are.
    """
    from vllm.v1.outputs import LogprobsLists

    ranked = answer.ranked(width, rows=rows, count=count, fills=True)
    tokens, logprobs, ranks = map(np.asarray, ranked)
    return LogprobsLists(tokens.reshape(count, width), logprobs.reshape(count, width), ranks.view(np.int32))
