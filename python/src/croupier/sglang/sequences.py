"""The engine's requests as the session's sequences: of the scheduler of TP rank 0, which owns the session."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from croupier import Error, Params
from croupier.serving.parameters import Request

from .parameters import counts_prompt

_TABLE_FULL = 16


@dataclass(eq=False)
class Sequence:
    req: Any
    """SGLang's Req."""
    request: Request
    prompt: list[int]
    """As the session has it."""
    uid: int = 0
    live: bool = False
    """In the session's table."""

    @property
    def width(self) -> int:
        """Of its row of log-probs: the drawn token and the best; 0: it wants none."""
        wanted = self.request.wanted_logprobs
        return 0 if wanted is None else 1 + wanted


class Sequences:
    def __init__(self, session: Any, vocab: int, seeds: random.Random) -> None:
        self._session = session
        self._vocab = vocab
        self._seeds = seeds
        self._next_uid = 1
        self._by_rid: dict[str, Sequence] = {}

    def come(self, req: Any, request: Request) -> Sequence:
        """The sequence of a request whose prompt has been computed: a new one, or one that was retracted.

        SGLang drops the tokens that were in flight when it retracts a request.
        """
        known = self._by_rid.get(req.rid)
        if known is not None and known.req is not req:
            self.finish(req.rid)
            known = None
        if known is None:
            prompt = self._inside(req.origin_input_ids) if counts_prompt(request.params) else []
            if request.seed is None:
                request.seed = self._seeds.getrandbits(64)
            # No such token can be drawn, and so none needs a ban.
            request.stop_ids = self._inside(request.stop_ids)
            known = self._by_rid[req.rid] = Sequence(req, request, prompt)
        if known.live:
            self._session.truncate(known.uid, len(req.output_ids))
        else:
            self._add(known)
        return known

    def get(self, req: Any) -> Sequence | None:
        known = self._by_rid.get(req.rid)
        return known if known is not None and known.req is req and known.live else None

    def finish(self, rid: str) -> None:
        known = self._by_rid.pop(rid, None)
        if known is not None and known.live:
            self._session.finish(known.uid)

    def _inside(self, ids: Iterable[int]) -> list[int]:
        """Without ids beyond the vocabulary, which stand for parts of an image: no penalty counts them."""
        return [token for token in ids if 0 <= token < self._vocab]

    def _add(self, sequence: Sequence) -> None:
        request = sequence.request
        params = Params(seed=request.seed, **request.params)
        outputs = list(sequence.req.output_ids)
        while True:
            uid, self._next_uid = self._next_uid, self._next_uid + 1
            try:
                self._session.add(uid, sequence.prompt, output=outputs, params=params, **request.lists())
            except Error as error:
                if error.code == _TABLE_FULL and self._evict():
                    continue
                raise
            sequence.uid, sequence.live = uid, True
            return

    def _evict(self) -> bool:
        """Takes what was retracted out of the table. What comes back is added again; some were aborted."""
        gone = [one for one in self._by_rid.values() if one.live and one.req.is_retracted]
        for sequence in gone:
            self._session.finish(sequence.uid)
            sequence.live = False
        return bool(gone)
