"""Croupier chooses the next token for LLM servers, off the GPUs.

A scheduler opens a Session with the daemon, each rank's worker puts its logits there by a Writer, and
tokens come back. decide() does the same to one row in this process, without a daemon. Times are seconds;
None is for ever. What fails raises Error.
"""

from ._core import (
    PARAMETER_NAMES,
    Answer,
    Beams,
    Decider,
    Decision,
    DecisionError,
    FanOut,
    Hypothesis,
    Params,
    Step,
    TextStop,
    WantedStep,
    WriterInfo,
    WriterState,
)
from ._core import VERSION as __version__
from ._decide import decide
from ._error import Error
from ._session import Session
from ._writer import Writer

__all__ = [
    "PARAMETER_NAMES",
    "Answer",
    "Beams",
    "Decider",
    "Decision",
    "DecisionError",
    "Error",
    "FanOut",
    "Hypothesis",
    "Params",
    "Session",
    "Step",
    "TextStop",
    "WantedStep",
    "Writer",
    "WriterInfo",
    "WriterState",
    "__version__",
    "decide",
]
