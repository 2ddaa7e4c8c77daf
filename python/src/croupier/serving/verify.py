"""Verify mode: each k-th step's rows, copied by the engine itself, are decided again in this process."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from croupier import Decider, DecisionError, Params

_TOLD = 20
_KEPT = 100


def as_float32(rows: np.ndarray) -> np.ndarray:
    """Rows of bf16 come as their bits."""
    if rows.dtype == np.uint16:
        return (rows.astype(np.uint32) << 16).view(np.float32)
    return rows.astype(np.float32)


class Verifier:
    """Counts decisions that were made again, those that differ, and those that nobody can make again here."""

    def __init__(self, vocab: int, max_length: int, report: str, log: Callable[[str], None]) -> None:
        self._decider = Decider(vocab, max_length=max_length)
        self._report = report
        self._log = log
        self.verified = 0
        self.skipped = 0
        self.differ = 0
        self.differing: list[dict[str, Any]] = []
        """The first of them; `differ` counts all."""
        # A run that is killed before its first step must not leave another run's report in place.
        try:
            self._save()
        except OSError as error:
            raise ValueError(
                f"verify_report is {report!r}, which cannot be written ({error.strerror}); "
                "a file in a folder that exists would be right"
            ) from error

    def look(
        self,
        step: int,
        names: Sequence[str],
        sequences: Sequence[Any],
        masks: Sequence[Any] | None,
        rows: np.ndarray,
        answer: Any,
        session: Any,
    ) -> None:
        """`rows` are the logits of the step's decisions; of each, its request's name, sequence and mask."""
        rows = as_float32(rows)
        for row, (sequence, decision) in enumerate(zip(sequences, answer.decisions, strict=True)):
            if decision.error == DecisionError.REJECTED:
                continue
            params = sequence.request.params
            # Mirostat and adaptive-p depend on all earlier rows of the sequence, and those are gone.
            if decision.error or params.get("mirostat") or params.get("adaptive_target", -1.0) >= 0:
                self.skipped += 1
                continue
            # The whole of it, where no later row of the step has brought a token.
            history = session.output(sequence.uid)[: decision.output_index + 1]
            if len(history) != decision.output_index + 1:
                self.skipped += 1  # Truncated or finished since: its history is another one by now.
                continue
            again = self._decider.decide(
                rows[row],
                sequence.prompt,
                history[:-1],
                params=Params(seed=sequence.request.seed, **params),
                mask=None if masks is None else masks[row],
                **sequence.request.lists(),
            )
            self.verified += 1
            if again.token != decision.token:
                self._tell(step, names[row], decision, again)
        # Engines may be killed at any time.
        self._save()

    def _tell(self, step: int, name: str, decision: Any, again: Any) -> None:
        found = {
            "step": step,
            "request": name,
            "output_index": decision.output_index,
            "daemon": decision.token,
            "here": again.token,
        }
        self.differ += 1
        if self.differ <= _KEPT:
            self.differing.append(found)
        if self.differ <= _TOLD:
            self._log(f"verify: a decision differs: {json.dumps(found)}")

    def close(self) -> None:
        self._log(f"verify: {json.dumps(self._counts())}")

    def _save(self) -> None:
        if self._report:
            # Whole at any time.
            written = f"{self._report}.{os.getpid()}"
            with open(written, "w", encoding="utf-8") as file:
                json.dump({**self._counts(), "differing": self.differing}, file, indent=1)
            os.replace(written, self._report)

    def _counts(self) -> dict[str, int]:
        return {"verified": self.verified, "skipped": self.skipped, "differ": self.differ}
