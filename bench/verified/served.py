"""A batching that is served: its texts, its time, and what verification cost."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field
from typing import Any

from batchings import Batching, run
from daemon_process import Daemon
from engine import Counts, Engine
from passes import FixedShape, Model

import croupier

# One step of each kind of pass.
STEPS_IN_FLIGHT = 3


@dataclass(frozen=True)
class Place:
    """Where batchings are served."""

    daemon: Daemon
    model: Model
    vocab: int
    dtype: str
    transport: str
    # Of CUDA; -1: the rows are a host's.
    device: int
    prompts: FixedShape


@dataclass
class Served:
    texts: dict[int, list[int]] = field(default_factory=dict)
    counts: Counts = field(default_factory=Counts)
    seconds: float = 0.0
    # Of the engine and of a host's model, not of the daemon: on a busy host, what they compute.
    cpu_seconds: float = 0.0

    @property
    def tokens(self) -> int:
        return sum(len(text) for text in self.texts.values())

    def report(self) -> dict[str, Any]:
        return {
            "tokens": self.tokens,
            "seconds": round(self.seconds, 3),
            "cpu_seconds": round(self.cpu_seconds, 3),
            **asdict(self.counts),
        }


def serve(place: Place, batching: Batching, windows: FixedShape) -> Served:
    served = Served()

    def release(uid: int, tokens: list[int], _stopped: str | None) -> None:
        served.texts.setdefault(uid, []).extend(tokens)

    with (
        place.daemon.open(
            name="verified",
            vocab=place.vocab,
            dtype=place.dtype,
            transport=place.transport,
            steps_in_flight=STEPS_IN_FLIGHT,
            max_batch=max(batching.running, windows.groups * windows.width),
            max_windows=max(batching.running, windows.groups),
            max_sequences=batching.running + 1,
        ) as session,
        croupier.Writer(session.segment_path, device=place.device) as writer,
    ):
        engine = Engine(
            session,
            writer,
            place.model,
            prompts=place.prompts,
            windows=windows,
            running=batching.running,
            release=release,
        )
        begun, begun_cpu = time.perf_counter(), time.process_time()
        run(engine, batching)
        served.seconds = time.perf_counter() - begun
        served.cpu_seconds = time.process_time() - begun_cpu
        served.counts = engine.counts
    return served
