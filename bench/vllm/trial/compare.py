"""What two servers answered, held against each other: equal, explained, or different."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from .client import Client

EQUAL, EXPLAINED, DIFFERENT, FAILED = "equal", "explained", "DIFFERENT", "FAILED"
# Of two logits: a step of bfloat16 is a sixteenth where the best logits of the trial's model lie, and either
# side's batch may have moved each of the two by one or two of them.
NEAR = 0.26


@dataclass
class Verdict:
    how: str
    native: str
    croupier: str
    notes: list[str] = field(default_factory=list)
    details: Any = None

    @property
    def good(self) -> bool:
        return self.how in (EQUAL, EXPLAINED)


def same(native: Any, croupier: Any, says: Callable[[Any], str] = str) -> Verdict:
    """Both must be equal in all that they have."""
    how = EQUAL if native == croupier else DIFFERENT
    details = None if how == EQUAL else first_difference(native, croupier)
    return Verdict(how, says(native), says(croupier), [] if details is None else [str(details)[:400]])


def equal_in(says: Callable[[Any], str]) -> Callable[[Any, Any, Any], Verdict]:
    """A check's comparison that asks for all to be equal, and says so much of either side."""
    return lambda native, croupier, _: same(native, croupier, says)


def first_difference(one: Any, other: Any, place: str = "") -> str | None:
    """Where two structures of dictionaries and lists part, and how."""
    if isinstance(one, dict) and isinstance(other, dict) and set(one) == set(other):
        pairs: Iterable[Any] = ((key, one[key], other[key]) for key in one)
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        pairs = ((key, *pair) for key, pair in enumerate(zip(one, other, strict=True)))
    else:
        return None if one == other else f"at {place or '/'}: native {one!r:.120}, croupier {other!r:.120}"
    for key, left, right in pairs:
        if (found := first_difference(left, right, f"{place}/{key}")) is not None:
            return found
    return None


def parted(one: list[int], other: list[int]) -> int | None:
    """The first place where two sequences of tokens differ; None where they do not."""
    for place, pair in enumerate(zip(one, other, strict=False)):
        if pair[0] != pair[1]:
            return place
    return None if len(one) == len(other) else min(len(one), len(other))


class Judge:
    """Asks a server for the gap between two tokens where two greedy answers differ.

    Batches of different shapes round differently, even with the same sampler. If the best two logits of a row
    are within a rounding step, either token is correct. A difference at a larger gap is an error.
    """

    def __init__(self, client: Client) -> None:
        self._client = client

    def gap(self, prompt: list[int], given: dict[str, Any], one: int, other: int) -> float | None:
        """Of the two tokens' log-probs after that prompt; None where the list of the best lacks one."""
        asked = {
            **given,
            "max_tokens": 1,
            "min_tokens": 0,
            "logprobs": 20,
            "return_tokens_as_token_ids": True,
            "ignore_eos": True,
        }
        answer = self._client.complete(prompt, **asked)
        best = answer.choices[0]["logprobs"]["top_logprobs"][0]
        found = [best.get(f"token_id:{token}") for token in (one, other)]
        return None if None in found else round(abs(found[0] - found[1]), 4)

    def tokens(
        self, prompts: list[list[int]], native: list[list[int]], croupier: list[list[int]], **given: Any
    ) -> Verdict:
        """Greedy tokens of batches that were not the same on both sides."""
        near, wrong = [], []
        for place, (prompt, one, other) in enumerate(zip(prompts, native, croupier, strict=True)):
            at = parted(one, other)
            if at is None:
                continue
            if at >= min(len(one), len(other)):
                wrong.append(f"request {place}: {len(one)} and {len(other)} tokens")
                continue
            gap = self.gap(prompt + one[:at], given, one[at], other[at])
            line = f"request {place}, token {at}: {one[at]} and {other[at]}, {gap} apart"
            (near if gap is not None and gap <= NEAR else wrong).append(line)
        count = f"{len(prompts)} sequences"
        if wrong:
            return Verdict(DIFFERENT, count, f"{len(wrong)} differ", wrong[:5])
        if near:
            note = f"rounding: the two tokens' logits lie within {NEAR} of each other on native"
            return Verdict(EXPLAINED, count, f"{len(near)} part at a near tie", [note, *near[:5]])
        return Verdict(EQUAL, count, "all tokens equal")


def near_logprobs(
    native: list[dict[str, float]], croupier: list[dict[str, float]], tolerance: float
) -> Verdict:
    """Lists of the best tokens of each position: the same tokens, but for ties at a list's end."""
    worst, wrong = 0.0, []
    for place, (one, other) in enumerate(zip(native, croupier, strict=True)):
        for token in one.keys() & other.keys():
            worst = max(worst, abs(one[token] - other[token]))
        if len(one) != len(other):
            wrong.append(f"position {place}: {len(one)} and {len(other)} tokens")
        for token in one.keys() ^ other.keys():
            mine, theirs = (one, other) if token in one else (other, one)
            if abs(mine[token] - min(theirs.values())) > tolerance:
                wrong.append(f"position {place}: {token} ({mine[token]:.4f}) is in one list alone")
    if worst > tolerance:
        wrong.append(f"the largest difference is {worst:.5f}, and {tolerance} is tolerated")
    says = f"{sum(map(len, native))} of {len(native)} positions"
    return Verdict(DIFFERENT if wrong else EQUAL, says, f"within {worst:.5f} of native's", wrong[:5])
