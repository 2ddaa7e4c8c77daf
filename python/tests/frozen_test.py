"""What the package shows is what 1.x promises (docs/one-point-zero.md)."""

from __future__ import annotations

import sys
from pathlib import Path

FROZEN = Path(__file__).resolve().parents[2] / "tests/frozen"


def test_names_and_arguments_are_those_that_were_kept() -> None:
    sys.path.insert(0, str(FROZEN))
    try:
        import python_names
        from facts import Kept, broken
    finally:
        sys.path.remove(str(FROZEN))
    found = broken(Kept("python").facts, python_names.facts())
    assert not found, "\n".join([*found, python_names.RULE])
