"""A rank's part of each batch: its logits go into the session's segment, its tokens come from there.

SGLang has a scheduler in each rank's process, and all of them run the same batches in the same order. So each
rank counts the session's steps by itself. That of TP rank 0 submits them, and compares the engine's tokens
with the decisions.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from croupier import DecisionError, Error, Writer
from croupier.serving.reasons import ASKED_FOR
from croupier.serving.shared_memory import status_of

from . import logits as own_logits
from .admission import Admission
from .batches import Batch, Fault, Masks, end_with_errors, fault_of
from .options import Options
from .parameters import Asked
from .session import OpenSession
from .trees import Rows

# Between a rank's sight of a decision and the session's.
_MOMENT = 1.0


class Plane:
    def __init__(
        self,
        admission: Admission,
        writer: Writer,
        session: OpenSession | None,
        device: torch.device,
        options: Options,
        of_first: Callable[[Any], Any],
    ) -> None:
        """`session`: of TP rank 0; `of_first`: what that rank has, on all ranks."""
        self._admission = admission
        self._writer = writer
        self._session = session
        self._device = device
        self._timeout = options.timeout
        self._verify_every = options.verify_every
        self._of_first = of_first
        self._dtype = own_logits.TYPES[writer.info.dtype]
        self._steps = 0
        self._current: Batch | None = None
        """Between its begin() and its sample()."""
        self._pending: deque[Batch] = deque()
        """Those whose results are to come, the oldest first."""

    def begin(self, batch: Any, chunked: Any) -> None:
        """A batch starts; `chunked` is a request whose prompt goes on in the next one: it draws nothing."""
        reqs, coming = list(batch.reqs), []
        if not batch.forward_mode.is_decode():
            # Of a mixed batch, some only decode.
            decoding = {id(req) for req in batch.decoding_reqs or ()}
            coming = [req for req in reqs if req is not chunked and id(req) not in decoding]
            for req in coming:
                self._translate(req)
        # With overlap SGLang starts the next batch of a request before it knows of the fault.
        places = [place for place, req in enumerate(reqs) if req is not chunked and fault_of(req) is None]
        self._current = Batch(reqs, places, frozenset(id(req) for req in coming))
        self._pending.append(self._current)

    def _translate(self, req: Any) -> None:
        """The same on all ranks."""
        if hasattr(req, "croupier_request") or fault_of(req) is not None:
            return
        try:
            req.croupier_request = self._admission.request_of(Asked.of_req(req))
        except ValueError as error:
            req.croupier_fault = Fault(str(error), is_refused=True)

    def sample(self, logits_output: Any, forward_batch: Any) -> torch.Tensor:
        """The tokens of the batch that was begun last, once the current stream has waited for them."""
        batch = self._begun(logits_output, rows=1)
        self._admit(batch)
        sampled = torch.zeros(len(batch.reqs), dtype=torch.int64, device=self._device)
        if not batch.places:
            return sampled
        logits = own_logits.part_of(logits_output.next_token_logits, self._writer.info, self._dtype)
        rows = None
        if not batch.is_whole:
            rows = self._sent(batch.places)
            logits = logits[rows]
        self._submit(batch, lambda session: session.masks_of(batch, forward_batch.sampling_info.grammars))
        self._write(batch, logits)
        tokens = self._awaited(batch)
        # A column without a decision is -1, and the GPU indexes with tokens.
        drawn = tokens.clamp(min=0).to(torch.int64)
        if rows is None:
            return drawn
        sampled[rows] = drawn
        return sampled

    def _begun(self, logits_output: Any, rows: int) -> Batch:
        """The batch that was begun last. Each of its requests has `rows` rows of logits."""
        batch, self._current = self._current, None
        if batch is None or rows * len(batch.reqs) != len(logits_output.next_token_logits):
            raise RuntimeError(
                "SGLang samples a batch that it has not begun, or another part of it; "
                "this SGLang works otherwise than Croupier's plugin knows"
            )
        # A grammar's batch is sampled when the one before it has been looked at.
        batch.drop(lambda req: req.finished())
        return batch

    def _admit(self, batch: Batch) -> None:
        """Where the session cannot take a request, only that request ends."""
        if not batch.coming:
            return
        faults = self._of_first(self._session.sequences.admit(batch) if self._session is not None else None)
        for place, fault in faults.items():
            batch.reqs[place].croupier_fault = fault
        batch.drop(lambda req: fault_of(req) is not None)

    def _submit(self, batch: Batch, masks_of: Callable[[OpenSession], Masks | None]) -> None:
        batch.step, self._steps = self._steps, self._steps + 1
        if self._session is not None:
            step = self._session.submit(batch, masks_of(self._session), self._is_verified(batch))
            if step != batch.step:
                raise RuntimeError(f"the session's step is {step}, and this rank counts {batch.step}")
            return
        wanted, rows = self._writer.wait_step(self._timeout), batch.window * len(batch.places)
        if wanted is None or (wanted.step, wanted.rows) != (batch.step, rows):
            raise RuntimeError(
                f"the session has {wanted}, and this rank step {batch.step} with {rows} rows: "
                "ranks run different batches, or the one that submits them has ended"
            )

    def _write(self, batch: Batch, logits: torch.Tensor, windows: Rows | None = None) -> None:
        """`windows`: None where the step's rows are `logits`, one for each column."""
        self._check_in_time()
        if logits.stride(-1) != 1:
            logits = logits.contiguous()
        if not self._writer.begin(batch.step):
            raise RuntimeError(
                f"step {batch.step} cannot be begun: it is not scheduled, or its slot is not free"
            )
        arrays = {} if windows is None else windows.pointers()
        self._writer.enqueue_pointer(logits.data_ptr(), logits.stride(0), self._stream(), **arrays)
        if self._is_verified(batch):
            whole = windows is None or windows.row_of is None
            batch.rows = own_logits.on_host(logits if whole else logits[windows.row_of])

    def _check_in_time(self) -> None:
        if self._writer.state.late_steps:
            raise RuntimeError(
                f"tokens did not come within {self._timeout:g} s, and other ranks may have had them: "
                "this engine cannot go on"
            )

    def _awaited(self, batch: Batch) -> torch.Tensor:
        tokens = torch.empty(batch.window * len(batch.places), dtype=torch.int32, device=self._device)
        # Neither this thread nor the GPU hangs on a daemon that is dead: the stream waits so long, no longer.
        self._writer.enqueue_awaited_tokens_pointer(
            batch.step, tokens.data_ptr(), self._stream(), timeout=self._timeout
        )
        batch.tokens = tokens
        return tokens

    def collect(self, scheduled: Any, result: Any) -> None:
        """Before the scheduler takes a batch's result: what only the decisions say."""
        batch = self._oldest(scheduled)
        if batch.step is not None and result.copy_done is not None:
            result.copy_done.synchronize()
        self._take_decisions(batch, result)
        end_with_errors(batch.reqs, batch.faults)
        if scheduled.return_logprob:
            for name, found in self._logprobs_of(batch).items():
                setattr(result.logits_output, name, found)

    def _oldest(self, scheduled: Any) -> Batch:
        batch = self._pending.popleft()
        if batch.reqs != list(scheduled.reqs):
            raise RuntimeError(
                "SGLang takes the results of batches in another order than it runs them; "
                "this SGLang works otherwise than Croupier's plugin knows"
            )
        return batch

    def _take_decisions(self, batch: Batch, result: Any) -> None:
        """`result` has the engine's tokens."""
        for place, req in enumerate(batch.reqs):
            if id(req) in batch.coming and (fault := fault_of(req)) is not None:
                batch.faults[place] = fault
        if batch.step is None:
            return
        if self._session is not None:
            self._compare(batch, result)
            return
        for place, token in zip(batch.places, batch.tokens.tolist(), strict=True):
            if token < 0 and not is_given_up(batch.reqs[place]):
                batch.faults[place] = Fault(f"step {batch.step}", is_refused=False)

    def _compare(self, batch: Batch, result: Any) -> None:
        answer = batch.answer = self._wait(batch.step)
        sampled = [[token] for token in result.next_token_ids.tolist()]
        for column in answer.mismatches(sampled, rows=None if batch.is_whole else batch.places):
            place, decision = batch.places[column], answer.decisions[column]
            if decision.token >= 0:
                self._check_in_time()
                raise RuntimeError(
                    f"step {batch.step}, request {batch.reqs[place].rid}: the engine has {sampled[place]}, "
                    f"the daemon {decision.token}"
                )
            self._look_at(batch, place, decision)
        if batch.rows is not None:
            self._session.verify(batch, answer)

    def _look_at(self, batch: Batch, place: int, decision: Any) -> None:
        """A decision without a token."""
        if decision.error == DecisionError.VOID and is_given_up(batch.reqs[place]):
            return
        reason = f"step {batch.step}: {decision.error_text or decision.error}"
        batch.faults[place] = Fault(reason, decision.error in ASKED_FOR)

    def _wait(self, step: int) -> Any:
        why = "the daemon is alive, and slow or stuck"
        try:
            answer = self._session.session.wait(self._timeout + _MOMENT)
            if answer is not None and answer.step == step:
                return answer
        except Error as error:
            why = str(error)
        raise RuntimeError(
            f"step {step} was not decided within {self._timeout:g} s ({why}); "
            f"`{status_of(self._session.session.segment_path)}` says how the daemon is, and the option "
            "'timeout' is how long to wait"
        )

    def _logprobs_of(self, batch: Batch) -> dict[str, Any]:
        """As SGLang's sampler leaves them, by its names. Only TP rank 0 sends them on."""
        count = len(batch.reqs)
        tops = [req.logprob.top_logprobs_num if req.return_logprob else 0 for req in batch.reqs]
        width = 1 + max(1, *tops)
        tokens = np.zeros((count, width), dtype=np.int32)
        logprobs = np.zeros((count, width), dtype=np.float32)
        if batch.answer is not None:
            places = None if batch.is_whole else batch.places
            found, values, _ = batch.answer.ranked(width, rows=places, count=count, fills=True)
            tokens, logprobs = (np.asarray(array).reshape(count, width) for array in (found, values))
        made: dict[str, Any] = {"next_token_logprobs": logprobs[:, 0]}
        if any(tops):
            made["next_token_top_logprobs_val"] = [logprobs[row, 1 : 1 + top] for row, top in enumerate(tops)]
            made["next_token_top_logprobs_idx"] = [tokens[row, 1 : 1 + top] for row, top in enumerate(tops)]
        return made

    def settle(self, scheduled: Any) -> None:
        """After the scheduler has taken a batch's result."""
        if self._session is not None:
            for req in scheduled.reqs:
                if req.finished():
                    self._session.sequences.finish(req.rid)

    def close(self) -> None:
        try:
            self._writer.detach()
        finally:
            if self._session is not None:
                self._session.close()

    def _is_verified(self, batch: Batch) -> bool:
        return bool(self._verify_every) and batch.step % self._verify_every == 0

    def _sent(self, places: list[int]) -> torch.Tensor:
        numbers = torch.tensor(places, dtype=torch.int64)
        # From pinned memory: another copy would wait for the stream, and so for the tokens before these.
        return numbers.pin_memory().to(self._device, non_blocking=True) if self._on_gpu else numbers

    @property
    def _on_gpu(self) -> bool:
        return self._device.type == "cuda"

    def _stream(self) -> int:
        return torch.cuda.current_stream(self._device).cuda_stream if self._on_gpu else 0


def is_given_up(req: Any) -> bool:
    """Whether SGLang drops the token of a batch that it started before it knew."""
    return req.finished() or req.is_retracted
