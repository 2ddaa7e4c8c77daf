"""The engine's requests as the session's sequences."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from croupier import Error, Params

from .parameters import Limits, Request, translate
from .texts import Texts

_TABLE_FULL = 16
NO_PROMPT_IDS = "prompt_embeds has no token ids, which penalties need; send a prompt of tokens"


@dataclass
class Sequence:
    uid: int
    sampling: Any
    request: Request
    prompt: list[int]
    """As the session has it: ids of the vocabulary alone."""
    prompt_len: int
    """As vLLM counts it."""
    prefill_len: int
    """So many tokens the workers must have seen before the next one is drawn: those it was admitted with."""
    due: int
    """So many tokens vLLM counts when the next one is drawn: the prompt, and what is drawn or in flight.
    Out of date while the plane keeps columns that have the sequence: see Columns.expected."""
    width: int = 0
    """Of its row of log-probs: the drawn token and the best; 0: it wants none."""
    counted_at: int = 0
    """The last step at its admission. What was in flight then is no part of `due`, and may be void."""
    ended_at: int | None = None
    """The step in which a stop string ended it. Its columns of later steps are void."""
    live: bool = True
    """In the session's table."""
    parked: bool = False
    """Preempted: nothing of it is scheduled."""
    left_out: int = field(init=False)
    """So much lower are the session's positions than vLLM's."""

    def __post_init__(self) -> None:
        self.left_out = self.prompt_len - len(self.prompt)

    @property
    def drawn(self) -> int:
        return self.due - self.prompt_len


def ended_by_count(name: str, theirs: int, sequence: Sequence) -> RuntimeError:
    return RuntimeError(
        f"request {name}: vLLM counts {theirs} output tokens, those in flight among them, and the session "
        f"{sequence.drawn}; equal counts would be right. vLLM or Croupier's plugin has dropped or repeated a "
        "token, and this engine cannot go on, because later tokens would be other ones"
    )


class Sequences:
    """Adds, truncates and finishes; a uid is never used again, so that a name may be."""

    def __init__(
        self,
        session: Any,
        vocab: int,
        limits: Limits,
        seeds: random.Random,
        log: Callable[[str], None],
        window: int = 1,
        texts: Texts | None = None,
    ) -> None:
        self._session = session
        self._vocab = vocab
        self._limits = limits
        self._seeds = seeds
        self._log = log
        self._next_uid = 1
        self._by_name: dict[str, Sequence] = {}
        self.refused: dict[str, str] = {}
        """Requests that the session did not take, with the reason; they end with an error."""
        self.in_flight: deque[list[Sequence]] = deque()
        """Of each step that is submitted and not collected, the oldest first."""
        self._window = window
        """So many tokens may a step bring a request."""
        self._most_in_flight = 0
        self.texts = texts
        """None: the session looks for no stop strings."""

    def get(self, name: str) -> Sequence | None:
        return self._by_name.get(name)

    def drawing(self, name: str, counted: int) -> Sequence | None:
        """The sequence of a scheduled request, if a batch with its tokens up to so many draws the next one.

        A part of a prompt draws none. The workers' runner asks the same of the same numbers
        (seq_len < prefill_len).
        """
        if name in self.refused:
            return None
        sequence = self._by_name.get(name)
        if sequence is None:
            raise RuntimeError(
                f"request {name} is scheduled and was never among scheduled_new_reqs; "
                "this vLLM announces requests otherwise than Croupier's plugin knows"
            )
        if counted < sequence.prefill_len:
            return None
        if counted != sequence.due:
            raise ended_by_count(name, counted - sequence.prompt_len, sequence)
        return sequence

    def all_drawing(self, names: list[str], counted: list[int]) -> list[Sequence] | None:
        """drawing() of many at once, where all of them draw; None: some may not."""
        if self.refused:
            return None
        try:
            sequences = [self._by_name[name] for name in names]
        except KeyError:
            return None
        # Whose due count is reached has all that it was admitted with.
        return sequences if [sequence.due for sequence in sequences] == counted else None

    def count_back(self, names: list[str], sequences: list[Sequence], fewer: list[int], step: int) -> None:
        """vLLM counts so many tokens of each less than it did, as this step has not brought them."""
        get = self._by_name.get
        for name, sequence, count in zip(names, sequences, fewer, strict=True):
            if count and get(name) is sequence and step > sequence.counted_at:
                sequence.due -= count

    def submitted(self, sequences: list[Sequence]) -> None:
        """Each has a step more in flight."""
        self.in_flight.append(sequences)
        self._most_in_flight = max(self._most_in_flight, len(self.in_flight) * self._window)

    def finish(self, name: str) -> None:
        self.refused.pop(name, None)
        sequence = self._by_name.pop(name, None)
        if sequence is not None and sequence.live:
            self._session.finish(sequence.uid)

    def park(self, name: str) -> None:
        if (sequence := self._by_name.get(name)) is not None:
            sequence.parked = True

    def admit(self, new: Any, last_step: int) -> None:
        """A request that is new, or comes back from a preemption with what it has drawn so far."""
        prompt = new.prompt_token_ids
        if prompt is None or getattr(new, "prompt_embeds", None) is not None:
            self._refuse(new.req_id, NO_PROMPT_IDS)
            return
        tokens = new.prefill_token_ids or prompt
        outputs = tokens[len(prompt) :]
        known = self._by_name.get(new.req_id)
        if known is not None and (
            known.sampling is not new.sampling_params or known.prompt_len != len(prompt)
        ):
            self.finish(new.req_id)  # A request of streamed input: its prompt has grown.
            known = None
        # A reset of the prefix cache drops what was in flight then, and nothing else is ever lost. How much
        # that was is not told here: at most as many as there have ever been.
        if known is not None and not 0 <= known.drawn - len(outputs) <= self._most_in_flight:
            raise ended_by_count(new.req_id, len(outputs), known)
        try:
            if known is None:
                known = self._translated(new, prompt)
                self._add(known, outputs)
                self._by_name[new.req_id] = known
            elif not known.live:
                self._add(known, outputs)
            else:
                # The engine may have dropped tokens that were in flight (reset_prefix_cache).
                self._session.truncate(known.uid, len(outputs))
        except (Error, ValueError) as error:
            self._refuse(new.req_id, str(error))
            return
        known.parked = False
        known.prefill_len = known.due = len(tokens)
        known.counted_at = last_step
        known.ended_at = None

    def _refuse(self, name: str, reason: str) -> None:
        self.refused[name] = reason
        self._log(f"request {name} is refused: {reason}")

    def _translated(self, new: Any, prompt: Any) -> Sequence:
        request = translate(new.sampling_params, self._limits)
        if request.seed is None:
            request.seed = self._seeds.getrandbits(64)
        # No such token can be drawn, and so none needs a ban.
        request.stop_ids = self._inside(request.stop_ids)
        # Of a prompt that may grow vLLM goes on behind a stop string, as its client sends more.
        if self.texts is not None and not getattr(new, "croupier_resumable", False):
            room = self._limits.max_list_tokens - request.list_words
            request.stop_strings = self.texts.stops_of(new.sampling_params, prompt, room)
            request.params["keep_special"] = not new.sampling_params.skip_special_tokens
        count = len(prompt)
        width = 0 if request.wanted_logprobs is None else 1 + request.wanted_logprobs
        return Sequence(0, new.sampling_params, request, self._inside(prompt), count, count, count, width)

    def _inside(self, ids: Any) -> list[int]:
        """Without ids beyond the vocabulary, which some models have for the parts of an image: no penalty can
        count them, in vLLM neither."""
        return [token for token in ids if 0 <= token < self._vocab]

    def _add(self, sequence: Sequence, outputs: list[int]) -> None:
        request = sequence.request
        params = Params(seed=request.seed, **request.params)
        lists = request.lists()
        if request.stop_strings:
            lists["stop_strings"] = request.stop_strings
        while True:
            uid = self._next_uid
            self._next_uid += 1
            try:
                self._session.add(uid, sequence.prompt, output=outputs, params=params, **lists)
            except Error as error:
                if error.code == _TABLE_FULL and self._evict():
                    continue
                raise
            sequence.uid = uid
            sequence.live = True
            return

    def _evict(self) -> bool:
        """Takes a preempted sequence out of the table; when it comes back it is added with its outputs."""
        # With pipeline stages a sequence may be preempted while its token is under way.
        busy = {id(sequence) for sequences in self.in_flight for sequence in sequences}
        for sequence in self._by_name.values():
            if sequence.parked and sequence.live and id(sequence) not in busy:
                self._session.finish(sequence.uid)
                sequence.live = False
                return True
        return False
