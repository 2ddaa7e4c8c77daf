"""Pipeline stages: the last one draws the tokens, and the others learn which requests end without one.

SGLang's last stage sends a batch's tokens to the first, and each stage sends them on until the last has them
again. A stage takes the batch's result when it has received them. What only the decisions say goes with them.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from .batches import end_with_errors
from .plane import Plane

# Among what SGLang sends: the batch's faults.
_FAULTS = "croupier_faults"


class _Stage:
    """What all stages do alike, so that the same requests end on all of them."""

    def receive(self, result: Any, outputs: Any) -> None:
        """A batch's `outputs` came from the stage before, and SGLang has made its result of them."""
        result.croupier_faults = outputs[_FAULTS]

    def collect(self, scheduled: Any, result: Any) -> None:
        """Before the scheduler takes a batch's result."""
        # SGLang may be told to send nothing for a batch that draws nothing.
        end_with_errors(scheduled.reqs, getattr(result, "croupier_faults", {}))


class EarlierStage(_Stage):
    """The plane of a rank that draws no tokens: it has no writer and no session."""

    def begin(self, batch: Any, chunked: Any) -> None:
        """The last stage looks at the batch's requests."""

    def settle(self, scheduled: Any) -> None:
        """The last stage ends their sequences."""

    def close(self) -> None:
        """There is nothing to close."""


class LastStage(_Stage, Plane):
    """The plane of a rank that draws."""

    def send(self, scheduled: Any, has_run: Any, outputs: dict[str, Any]) -> None:
        """Before a batch's `outputs` are sent: waits for its decisions. `has_run` is its event."""
        batch = self._oldest(scheduled)
        if batch.step is not None:
            has_run.synchronize()
        self._take_decisions(batch, SimpleNamespace(next_token_ids=outputs["next_token_ids"]))
        outputs[_FAULTS] = batch.faults
        if scheduled.return_logprob:
            outputs.update(self._logprobs_of(batch))
