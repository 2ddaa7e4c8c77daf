"""The engine core's half where the engine speculates: a window of rows for each request and step.

A row is computed from a drafted token and decided at its own position. It counts if that token is the one
that is decided before it, so that the stream is the one without drafts. Nothing of vLLM is imported here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import accumulate, takewhile
from typing import Any

from croupier import DecisionError

from .order import Order
from .plane import Batch, Plane, computed_of, logprobs_of, other_tokens
from .sequences import Sequence


@dataclass(eq=False)
class Windows:
    """A step's windows, in order."""

    names: list[str]
    sequences: list[Sequence]
    drafts: list[int]
    """So many does vLLM count."""
    places: list[int] | None
    """As Order has them."""
    uids: list[int] = field(init=False)
    rows: list[int] = field(init=False)
    """So many rows has the session: one more than drafts, or fewer."""
    left_out: list[int] = field(init=False)
    """As Order has them."""
    width: int = field(init=False)
    """As Columns has it."""

    def __post_init__(self) -> None:
        self.uids = [sequence.uid for sequence in self.sequences]
        self.rows = [1 + drafts for drafts in self.drafts]
        self.left_out = [sequence.left_out for sequence in self.sequences]
        self.width = max((sequence.width for sequence in self.sequences), default=0)

    def of_rows(self) -> tuple[list[str], list[Sequence]]:
        """The request and the sequence of each decision of the step."""
        names = [name for name, count in zip(self.names, self.rows, strict=True) for _ in range(count)]
        sequences = [one for one, count in zip(self.sequences, self.rows, strict=True) for _ in range(count)]
        return names, sequences


class WindowPlane(Plane):
    """Of an engine that speculates."""

    def __init__(self, *given: Any, mask_stride: int, most_masks: int) -> None:
        super().__init__(*given)
        self._mask_stride = mask_stride
        """So many rows has each request with a grammar in vLLM's bitmask."""
        self._most_masks = most_masks
        """So many has a step of the session room for: one for each request, or more."""
        self._drafts: dict[str, list[int]] = {}
        """Of the batch between schedule() and submit(), as the scheduler has them: -1 for those that it does
        not know, or that a grammar does not allow. It learns them between the two."""

    def _next_columns(self, scheduled: Any) -> Windows:
        self._drafts = known = scheduled.scheduled_spec_decode_tokens
        computed, counts = computed_of(scheduled), scheduled.num_scheduled_tokens
        names, places = list(counts), None
        drafts = [len(known[name]) if name in known else 0 for name in names]
        counted = [
            computed[name] + count - few for (name, count), few in zip(counts.items(), drafts, strict=True)
        ]
        sequences = self._sequences.all_drawing(names, counted)
        if sequences is None:
            each = list(map(self._sequences.drawing, names, counted))
            places = [place for place, sequence in enumerate(each) if sequence is not None]
            sequences = [sequence for sequence in each if sequence is not None]
            names, drafts = [names[place] for place in places], [drafts[place] for place in places]
        windows = Windows(names, sequences, drafts, None if len(names) == len(counts) else places)
        # vLLM counts each row as a token until it knows which are rejected.
        for sequence, rows in zip(sequences, windows.rows, strict=True):
            sequence.due += rows
        return windows

    def _submitted(self, windows: Windows, grammar: Any) -> Batch:
        bitmask = first = masks = None
        if grammar is not None:
            bitmask, first = grammar.grammar_bitmask, self._masked(windows, grammar)
            if self._verifier is not None:
                # vLLM writes the next batch's over them.
                masks = [
                    None if row is None else bitmask[row + number].copy()
                    for row, count in zip(first, windows.rows, strict=True)
                    for number in range(count)
                ]
        self._last_step = self._session.submit(
            windows.uids, masks=bitmask, mask_rows=first, rows=windows.rows
        )
        left_out = windows.left_out if any(windows.left_out) else None
        return Batch(Order(self._last_step, windows.places, windows.rows, left_out), windows, masks)

    def _masked(self, windows: Windows, grammar: Any) -> list[int | None]:
        """The first mask of each window, which ends where the grammar's masks do, or the room for them.

        vLLM makes them as far as it knows the drafts and the grammar allows them; behind that all is allowed.
        """
        place_of = {name: place for place, name in enumerate(grammar.structured_output_request_ids)}
        places = [place_of.get(name) for name in windows.names]
        masked = [column for column, place in enumerate(places) if place is not None]
        for column in masked:
            drafts = self._drafts.get(windows.names[column], ())
            windows.rows[column] = 1 + (drafts.index(-1) if -1 in drafts else len(drafts))
        room, left = self._most_masks, len(masked)
        # The shortest first: then the others share what room is left.
        for column in sorted(masked, key=windows.rows.__getitem__):
            windows.rows[column] = min(windows.rows[column], room // left)
            room, left = room - windows.rows[column], left - 1
        return [None if place is None else place * self._mask_stride for place in places]

    def _compare(self, batch: Batch, answer: Any, output: Any, errors: dict[str, str]) -> None:
        windows, sampled = batch.columns, output.sampled_token_ids
        places = list(map(output.req_id_to_index.__getitem__, windows.names))
        for column in answer.mismatches(sampled, rows=places, windows=windows.rows):
            self._look_at_window(batch, column, answer, output, errors)
        # As the scheduler does, which takes rejected rows off its count where they are part of it.
        rejected = [
            1 + drafts - len(sampled[place]) for drafts, place in zip(windows.drafts, places, strict=True)
        ]
        self._sequences.count_back(windows.names, windows.sequences, rejected, batch.order.step)
        if windows.width:
            first = [0] * len(output.req_ids)
            for place, end, rows in zip(places, accumulate(windows.rows), windows.rows, strict=True):
                first[place] = end - rows
            logprobs = logprobs_of(answer, windows.width, None, sum(windows.rows))
            output.logprobs = logprobs._replace(cu_num_generated_tokens=first)

    def _look_at_window(
        self, batch: Batch, column: int, answer: Any, output: Any, errors: dict[str, str]
    ) -> None:
        """A window that ends with an error, or has other tokens than the workers'."""
        rows = batch.columns.rows
        first = sum(rows[:column])
        decisions = answer.decisions[first : first + rows[column]]
        decided = [decision.token for decision in takewhile(lambda one: one.token >= 0, decisions)]
        failed = decisions[len(decided)] if len(decided) < len(decisions) else None
        if failed is None or (decided and failed.error == DecisionError.REJECTED):
            name = batch.columns.names[column]
            drawn = output.sampled_token_ids[output.req_id_to_index[name]]
            raise other_tokens(batch.order.step, name, drawn, decided)
        self._look_at(batch, column, failed, output, errors, decided)
