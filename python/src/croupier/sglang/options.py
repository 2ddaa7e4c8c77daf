"""What the environment variable CROUPIER_SGLANG may say: a dictionary in JSON, `{}` for the defaults."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

from croupier.serving import options

VARIABLE = "CROUPIER_SGLANG"


@dataclass(frozen=True)
class Options(options.Options):
    """The options of one engine; all have a default."""

    engine: ClassVar[str] = "sglang"
    where: ClassVar[str] = VARIABLE

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Self | None:
        """None where Croupier is not asked for."""
        text = environment.get(VARIABLE)
        if text is None:
            return None
        try:
            given = json.loads(text)
        except ValueError as error:
            raise ValueError(f"{VARIABLE} is {text!r}, which is no JSON: {error}") from error
        if not isinstance(given, dict):
            raise ValueError(f"{VARIABLE} is {text}; a dictionary of options would be right, as '{{}}'")
        return cls.parse(given)
