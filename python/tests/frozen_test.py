"""What the package shows is what releases promised (docs/one-point-zero.md), and what goes is named."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

import croupier
from croupier.vllm.options import Options

FROZEN = Path(__file__).resolve().parents[2] / "tests/frozen"


@pytest.fixture(scope="module")
def frozen() -> tuple[ModuleType, ModuleType]:
    sys.path.insert(0, str(FROZEN))
    try:
        import facts
        import python_names
    finally:
        sys.path.remove(str(FROZEN))
    return facts, python_names


def test_the_package_shows_what_releases_promised(frozen: tuple[ModuleType, ModuleType]) -> None:
    facts, python_names = frozen
    found = facts.broken(facts.Kept("python").facts, python_names.facts())
    assert not found, "\n".join(found)


def test_a_name_an_argument_and_an_option_that_go_are_named(
    frozen: tuple[ModuleType, ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    facts, python_names = frozen
    kept = python_names.facts()
    monkeypatch.setattr(croupier, "__all__", [name for name in croupier.__all__ if name != "Decider"])
    monkeypatch.setattr(croupier, "decide", lambda logits, prompt: None)
    monkeypatch.delitem(Options.__dataclass_fields__, "summaries")
    found = "\n".join(facts.broken(kept, python_names.facts()))
    assert "croupier: names has lost Decider" in found
    assert "croupier.Decider" in found
    assert "croupier.decide(): arguments has lost" in found
    assert 'additional_config["croupier"] has lost summaries' in found
