"""When requests arrive, and how many run at once: the same requests in other batches."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from engine import Engine, Request


@dataclass(frozen=True)
class Batching:
    name: str
    # In the order of arrival, and the engine's step before which each arrives.
    arrivals: list[tuple[int, Request]]
    running: int


def batchings(requests: list[Request]) -> Iterator[Batching]:
    """Ten of the same requests."""
    count = len(requests)
    shuffled = random.Random(1).sample(requests, count)
    yield _arriving("one at a time", requests, 0, running=1)
    yield _arriving("all together", requests, 0, running=count)
    yield _arriving("two at a time", requests, 0, running=2)
    yield _arriving("five at a time", requests, 0, running=5)
    yield _arriving("sixteen at a time", requests, 0, running=16)
    yield _arriving("one each step", requests, 1, running=count)
    yield _arriving("one each nine steps", requests, 9, running=count)
    yield _arriving("together, in reverse", requests[::-1], 0, running=count)
    yield _arriving("one each three steps, in reverse", requests[::-1], 3, running=count)
    yield _arriving("one each two steps, shuffled, eight at a time", shuffled, 2, running=8)


def _arriving(name: str, requests: list[Request], every: int, running: int) -> Batching:
    return Batching(name, [(number * every, one) for number, one in enumerate(requests)], running)


def run(engine: Engine, batching: Batching) -> None:
    """Until all have ended."""
    arrivals, step = iter(batching.arrivals), 0
    coming = next(arrivals, None)
    while coming is not None or not engine.idle:
        while coming is not None and coming[0] <= step:
            engine.add(coming[1])
            coming = next(arrivals, None)
        engine.step()
        step += 1
