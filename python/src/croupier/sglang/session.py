"""The session of an engine, in the process of TP rank 0 of the last pipeline stage."""

from __future__ import annotations

import contextlib
import random
from dataclasses import replace
from logging import getLogger
from typing import Any

import numpy as np
import torch

from croupier import Error, Session
from croupier.serving.keeper import Keeper
from croupier.serving.opening import Opening
from croupier.serving.private_daemon import lean_samplers_of
from croupier.serving.shared_memory import room_of
from croupier.serving.verify import Verifier

from .admission import Admission
from .batches import Batch, Masks
from .options import Options
from .sequences import Sequence, Sequences

logger = getLogger("sglang.srt.croupier")

_FEWER = "a smaller --max-running-requests"


def slots_of(server_args: Any) -> int:
    """The session's steps in flight. A batch's slot is free two steps after its tokens are there.

    Two batches are in flight where SGLang overlaps them. With pipeline stages they are those that the last
    one has not sent.
    """
    return 2 + max(2, 1 + server_args.pp_async_batch_depth)


class OpenSession:
    def __init__(
        self,
        scheduler: Any,
        options: Options,
        admission: Admission,
        geometry: dict[str, Any],
        replica: int,
        window: int,
    ) -> None:
        """`window`: the most rows of a request in a step."""
        limits = admission.limits
        most = scheduler.max_running_requests
        # Room for the tokens of steps that the engine has in flight beyond a sequence's last one.
        slots = slots_of(scheduler.server_args)
        longest = scheduler.model_config.context_len + slots * window
        own, alone = options, options
        if limits.transport == "lean":
            engines = scheduler.server_args.dp_size
            own = replace(options, samplers=lean_samplers_of(options, engines))
            alone = replace(options, samplers=lean_samplers_of(options, 1))
        # Retracted ones stay in the table.
        sequences_at_once = 2 * most + 16
        self._opening = Opening(options, own, logger, _FEWER)
        self._ends = contextlib.ExitStack()
        with contextlib.ExitStack() as ends:
            ends.callback(self._leave)
            self.session: Session = self._opening.open(
                lambda at: at(),
                name=options.session_name(replica),
                max_batch=most * window,
                steps_in_flight=slots,
                max_sequences=sequences_at_once,
                max_length=longest,
                max_bias=limits.max_bias,
                max_stop_ids=limits.max_stop_ids,
                max_list_tokens=limits.max_list_tokens,
                mask_rows=most * window,
                max_logprobs=limits.max_logprobs,
                # A lean step has them in another way.
                summaries=int(options.summaries and limits.transport != "lean"),
                transport=limits.transport,
                **({"hotness_file": options.hotness_file} if options.hotness_file else {}),
                **geometry,
            )
            ends.callback(self._close_session)
            keeper = Keeper(self.session.segment_path, alone, self._opening.daemon, logger.warning)
            ends.callback(keeper.close)
            self._verifier = None
            if options.verify_every:
                self._verifier = Verifier(geometry["vocab"], longest, options.verify_report, logger.info)
                ends.callback(self._verifier.close)
            self._ends = ends.pop_all()
        seeds = random.Random(f"{scheduler.server_args.random_seed} {replica}")
        self.sequences = Sequences(self.session, geometry["vocab"], seeds)
        self._vocab = geometry["vocab"]
        self._words = -(-self._vocab // 32)
        self._last: list[Any] = []
        self._last_sequences: list[Sequence] = []
        self._last_uids: list[int] = []
        logger.info(
            "Croupier decides the tokens: %s, %s, %s", self.session.segment_path, limits.transport, geometry
        )
        cached = scheduler.max_total_num_tokens
        room = room_of(self.session.segment_path, sequences_at_once, cached, longest, _FEWER)
        logger.warning(room.advice) if room.advice else logger.info(room.text)

    def submit(self, batch: Batch, masks: Masks | None, is_verified: bool) -> int:
        """Publishes the columns of an admitted batch."""
        drawing = [batch.reqs[place] for place in batch.places]
        if batch.coming or drawing != self._last:
            self._last_sequences = [self._sequence_of(req) for req in drawing]
            self._last_uids = [sequence.uid for sequence in self._last_sequences]
            self._last = drawing
        batch.sequences = self._last_sequences
        windows = None if batch.window == 1 else [batch.window] * len(drawing)
        if masks is None:
            return self.session.submit(self._last_uids, rows=windows)
        if is_verified:
            batch.masks = [
                None if first is None else masks.bits[first + number]
                for first in masks.first
                for number in range(batch.window)
            ]
        return self.session.submit(self._last_uids, masks=masks.bits, mask_rows=masks.first, rows=windows)

    def _sequence_of(self, req: Any) -> Sequence:
        if (known := self.sequences.get(req)) is not None:
            return known
        raise RuntimeError(
            f"request {req.rid} decodes and its prompt was never computed; "
            "this SGLang works otherwise than Croupier's plugin knows"
        )

    def masks_of(self, batch: Batch, grammars: Any) -> Masks | None:
        """`grammars` are SGLang's, one for each request of the batch, or None."""
        if grammars is None:
            return None
        from sglang.srt.constrained.base_grammar_backend import GrammarRow

        entries, rows = [], []
        for place in batch.places:
            grammar = grammars[place]
            wants = grammar is not None and not grammar.finished and not grammar.is_terminated()
            rows.append(len(entries) if wants else None)
            if wants:
                entries.append(GrammarRow(row=len(entries), grammar=grammar))
        if not entries:
            return None
        first = entries[0].grammar
        bits = first.allocate_vocab_mask(vocab_size=32 * self._words, batch_size=len(entries), device="cpu")
        first.fill_vocab_mask_batched(entries, bits)
        return Masks(self._of_all_ids(bits.numpy()), rows)

    def masks_of_nodes(self, batch: Batch, bits: torch.Tensor | None) -> Masks | None:
        """`bits` are of each node of each request of the batch; None: no request has a grammar."""
        if bits is None:
            return None
        asking = [place for place in batch.places if batch.reqs[place].grammar is not None]
        first = {place: number * batch.window for number, place in enumerate(asking)}
        nodes = bits.numpy().reshape(len(batch.reqs), batch.window, -1)[asking]
        masks = self._of_all_ids(nodes.reshape(-1, nodes.shape[-1]))
        return Masks(masks, [first.get(place) for place in batch.places])

    def _of_all_ids(self, bits: np.ndarray) -> np.ndarray:
        """A tokenizer may have fewer ids than the model, and the rest is not allowed then; or more."""
        masks = np.zeros((len(bits), self._words), dtype=np.int32)
        words = min(self._words, bits.shape[-1])
        masks[:, :words] = bits[:, :words]
        return masks

    def verify(self, batch: Batch, answer: Any) -> None:
        names = [batch.reqs[place].rid for place in batch.places for _ in range(batch.window)]
        sequences = [sequence for sequence in batch.sequences for _ in range(batch.window)]
        # Ranks' parts are padded.
        rows = batch.rows[:, : self._vocab]
        self._verifier.look(batch.step, names, sequences, batch.masks, rows, answer, self.session)

    def close(self) -> None:
        """A second call does nothing."""
        self._ends.close()

    def _leave(self) -> None:
        if self._opening.daemon is not None:
            self._opening.daemon.leave()

    def _close_session(self) -> None:
        try:
            self.session.close()
        except Error as error:
            # The session has no client any more, which the next daemon sees.
            logger.warning(
                "the daemon was not told that %s is done with, and the next one removes it, as "
                "`croupier cleanup` does: %s",
                self.session.segment_path,
                error,
            )
