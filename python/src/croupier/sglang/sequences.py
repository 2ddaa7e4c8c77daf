"""The engine's requests as the session's sequences: of the scheduler of TP rank 0, which owns the session."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from croupier import Error, Params
from croupier.serving.parameters import Request

from .batches import Batch, Fault
from .parameters import counts_prompt

_TABLE_FULL = 16
# Other requests may still be added after these.
_OF_ONE_REQUEST = ("bad_argument", "no_memory", "table_full")


@dataclass(eq=False)
class Sequence:
    req: Any
    """SGLang's Req."""
    request: Request
    prompt: list[int]
    """As the session has it."""
    uid: int


def prompt_of(req: Any, vocab: int) -> list[int]:
    """A request's, as the session has it."""
    return _inside(req.origin_input_ids, vocab) if counts_prompt(req.croupier_request.params) else []


def _inside(ids: Iterable[int], vocab: int) -> list[int]:
    """Without ids beyond the vocabulary, which stand for parts of an image: no penalty counts them."""
    return [token for token in ids if 0 <= token < vocab]


class Sequences:
    def __init__(self, session: Any, vocab: int, seeds: random.Random) -> None:
        self._session = session
        self._vocab = vocab
        self._seeds = seeds
        self._next_uid = 1
        self._by_rid: dict[str, Sequence] = {}

    def admit(self, batch: Batch) -> dict[int, Fault]:
        """Adds the requests whose prompt the batch completes, and returns the faults of those that fail."""
        faults = {}
        for place in batch.places:
            req = batch.reqs[place]
            if id(req) not in batch.coming:
                continue
            try:
                self._come(req, req.croupier_request)
            except Error as error:
                if error.name not in _OF_ONE_REQUEST:
                    raise
                faults[place] = Fault(str(error), is_refused=error.name == "bad_argument")
        return faults

    def _come(self, req: Any, request: Request) -> Sequence:
        """The sequence of a request whose prompt has been computed: a new one, or one that was retracted.

        SGLang drops the tokens that were in flight when it retracts a request.
        """
        if (known := self.get(req)) is not None:
            self._session.truncate(known.uid, len(req.output_ids))
            return known
        # Of another request with this name, which was aborted while it waited.
        self.finish(req.rid)
        if request.seed is None:
            # It stays with the request, also where its sequence is evicted.
            request.seed = self._seeds.getrandbits(64)
        # No such token can be drawn, and so none needs a ban.
        request.stop_ids = _inside(request.stop_ids, self._vocab)
        prompt = prompt_of(req, self._vocab)
        made = Sequence(req, request, prompt, self._added(req, request, prompt))
        self._by_rid[req.rid] = made
        return made

    def get(self, req: Any) -> Sequence | None:
        known = self._by_rid.get(req.rid)
        return known if known is not None and known.req is req else None

    def finish(self, rid: str) -> None:
        if (known := self._by_rid.pop(rid, None)) is not None:
            self._session.finish(known.uid)

    def _added(self, req: Any, request: Request, prompt: list[int]) -> int:
        params = Params(seed=request.seed, **request.params)
        outputs = list(req.output_ids)
        while True:
            uid, self._next_uid = self._next_uid, self._next_uid + 1
            try:
                self._session.add(uid, prompt, output=outputs, params=params, **request.lists())
            except Error as error:
                if error.code == _TABLE_FULL and self._evict():
                    continue
                raise
            return uid

    def _evict(self) -> bool:
        """Takes what was retracted out of the table. What comes back is added again; some were aborted."""
        gone = [rid for rid, one in self._by_rid.items() if one.req.is_retracted]
        for rid in gone:
            self.finish(rid)
        return bool(gone)
