"""A rank's part of an engine that speculates: a decode batch is a step with a window for each request.

A row is computed from a drafted token and decided at its own position. It counts if that token is the one
that is decided before it, so that the stream is the one without drafts. trees.py has what is between SGLang
and the writer.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from croupier import DecisionError

from . import logits as own_logits
from . import trees
from .batches import Batch
from .plane import Plane, is_given_up
from .sequences import prompt_of


class WindowPlane(Plane):
    """The plane of an engine with drafts, which has one rank."""

    def __init__(self, *given: Any, vocab: int, is_chain: bool) -> None:
        super().__init__(*given)
        self._vocab = vocab
        self._is_chain = is_chain
        self._layout_of: list[Any] = []
        """The requests and places that `_layout` is of."""
        self._layout: Any = None

    def begin(self, batch: Any, chunked: Any) -> None:
        super().begin(batch, chunked)
        for req in batch.reqs:
            if id(req) in self._current.coming:
                # What failed before it was retracted is decided again.
                req.croupier_failed = None

    def verify(
        self, verified: Any, logits_output: Any, masks: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """What SGLang's eagle_sample() returns; `masks` are of each node of each request, on the host."""
        width, depth = verified.draft_token_num, verified.max_tree_depth
        batch = self._begun(logits_output, rows=width)
        batch.is_drafted, batch.window = True, width
        layout = self._laid(batch)
        if not batch.places:
            return trees.accepted_of(layout, layout.places.int(), width, depth)
        logits = own_logits.part_of(logits_output.next_token_logits, self._writer.info, self._dtype)
        self._submit(batch, lambda session: session.masks_of_nodes(batch, masks))
        self._write(batch, logits, trees.rows_of(layout, verified, self._is_chain))
        return trees.accepted_of(layout, self._awaited(batch), width, depth)

    def _laid(self, batch: Batch) -> trees.Layout:
        of = [*batch.reqs, *batch.places]
        if of != self._layout_of:
            left_out = [self._left_out(batch.reqs[place]) for place in batch.places]
            numbers = self._sent(batch.places + left_out).view(2, len(left_out))
            self._layout_of, self._layout = of, trees.Layout(numbers[0], numbers[1], len(batch.reqs))
        return self._layout

    def _left_out(self, req: Any) -> int:
        if not hasattr(req, "croupier_left_out"):
            req.croupier_left_out = len(req.origin_input_ids) - len(prompt_of(req, self._vocab))
        return req.croupier_left_out

    def _compare(self, batch: Batch, result: Any) -> None:
        if not batch.is_drafted:
            super()._compare(batch, result)
            return
        answer = batch.answer = self._wait(batch.step)
        tokens = np.asarray(answer.tokens).reshape(-1, batch.window)
        errors = np.asarray(answer.errors).reshape(-1, batch.window)
        failed = (errors != DecisionError.FINE) & (errors != DecisionError.REJECTED)
        if failed.any():
            self._look_at_windows(batch, answer, failed)
        self._check(batch, result, tokens)
        if batch.rows is not None:
            self._session.verify(batch, answer)

    def _look_at_windows(self, batch: Batch, answer: Any, failed: np.ndarray) -> None:
        for column in np.flatnonzero(failed.any(axis=1)):
            place, row = batch.places[column], int(failed[column].argmax())
            req = batch.reqs[place]
            decision = answer.decisions[column * batch.window + row]
            if row > 0:
                # A token before it may end the request. Else the next window begins here, and is void where
                # it is in flight.
                req.croupier_failed = decision
                continue
            if decision.error == DecisionError.VOID and not is_given_up(req):
                decision = req.croupier_failed or decision
            self._look_at(batch, place, decision)

    def _check(self, batch: Batch, result: Any, tokens: np.ndarray) -> None:
        """The engine has the tokens that are decided, one or more for each request."""
        drawn = result.next_token_ids.numpy().reshape(len(batch.reqs), batch.window)[batch.places]
        counts = result.accept_lens.numpy()[batch.places]
        is_decided = tokens >= 0
        decided = is_decided.sum(axis=1)
        is_drawn = np.arange(batch.window) < np.where(decided == 0, 0, counts)[:, None]
        same = (counts == np.maximum(decided, 1)).all()
        if same and (drawn[is_drawn] == tokens[is_decided]).all():
            return
        for column, place in enumerate(batch.places):
            mine, theirs = (
                tokens[column][is_decided[column]].tolist(),
                drawn[column][: counts[column]].tolist(),
            )
            if mine and mine != theirs:
                self._check_in_time()
                raise RuntimeError(
                    f"step {batch.step}, request {batch.reqs[place].rid}: the engine has {theirs}, the "
                    f"daemon {mine}"
                )

    def _logprobs_of(self, batch: Batch) -> dict[str, Any]:
        if not batch.is_drafted:
            return super()._logprobs_of(batch)
        count = len(batch.reqs) * batch.window
        tops = [req.logprob.top_logprobs_num if req.return_logprob else 0 for req in batch.reqs]
        width = 1 + max(1, *tops)
        tokens = np.zeros((count, width), dtype=np.int32)
        logprobs = np.zeros((count, width), dtype=np.float32)
        if batch.answer is not None:
            rows = self._rows_in_order(batch)
            found, values, _ = batch.answer.ranked(width, rows=rows, count=count, fills=True)
            tokens, logprobs = (np.asarray(array).reshape(count, width) for array in (found, values))
        made: dict[str, Any] = {"next_token_logprobs": logprobs[:, 0].reshape(-1, batch.window)}
        if any(tops):
            each = [(row, top) for row, top in enumerate(np.repeat(tops, batch.window))]
            made["next_token_top_logprobs_val"] = [logprobs[row, 1 : 1 + top] for row, top in each]
            made["next_token_top_logprobs_idx"] = [tokens[row, 1 : 1 + top] for row, top in each]
        return made

    @staticmethod
    def _rows_in_order(batch: Batch) -> list[int]:
        """Of each decision: its row where each request's accepted ones come first, as SGLang reads them."""
        is_rejected = np.asarray(batch.answer.tokens).reshape(-1, batch.window) < 0
        order = is_rejected.argsort(axis=1, kind="stable").argsort(axis=1)
        return (order + np.array(batch.places)[:, None] * batch.window).ravel().tolist()
