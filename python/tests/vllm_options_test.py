"""What the option's dictionary may say, and how it is refused."""

from __future__ import annotations

from typing import Any

import pytest

from croupier.vllm.options import TRANSPORTS, Options


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_transport_is_taken_by_its_name(transport: str) -> None:
    assert Options.parse({"transport": transport}).transport == transport


@pytest.mark.parametrize(
    ("given", "right"),
    [("fast", "auto, rows, lean"), ("Lean", "auto, rows, lean"), ("", "auto, rows, lean"), (2, "a str")],
)
def test_another_transport_is_refused_by_name(given: Any, right: str) -> None:
    with pytest.raises(ValueError, match=rf"\['transport'\] is {given!r}; {right} would be right"):
        Options.parse({"transport": given})
    assert Options.parse({}).transport == "auto"
