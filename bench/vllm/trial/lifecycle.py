"""The end of a server, by a signal: what is left of it, and whether another one can begin."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Any

from .checks import Row, Side, prompts
from .client import COMPLETIONS, ServerGoneError
from .compare import DIFFERENT, EQUAL, EXPLAINED, Verdict
from .server import Host, Server, await_true, gpu_used_mib

# After the signal, all of it must be gone.
WITHIN = 10.0


class Traffic:
    """Requests that are under way when a server ends: each must end too, in an answer or in an error."""

    def __init__(self, side: Side, count: int = 16) -> None:
        self._ended = [""] * count
        given = {"max_tokens": 30000, "ignore_eos": True, "temperature": 0.9, "stream": True}
        bodies = [side.client.completion_body(one, **given) for one in prompts(side.model, count, 20, 60)]
        self._threads = [
            threading.Thread(target=self._work, args=(side, place, body), daemon=True)
            for place, body in enumerate(bodies)
        ]
        for thread in self._threads:
            thread.start()

    def _work(self, side: Side, place: int, body: dict[str, Any]) -> None:
        try:
            came = side.client.leave_after(COMPLETIONS, body, 10**9)
            self._ended[place] = f"answered, {came} events"
        except ServerGoneError as error:
            self._ended[place] = f"closed: {error}"[:120]

    def hanging(self, patience: float) -> int:
        deadline = time.monotonic() + patience
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        return sum(not ended for ended in self._ended)


def end_of(server: Server, number: int, others: list[Server], pid: int | None = None) -> dict[str, Any]:
    """Sends the signal and looks what is there WITHIN seconds later; then sweeps it away.

    `pid`: of a process of the server's that gets it instead.
    """
    memory = gpu_used_mib()
    begun = time.monotonic()
    if pid is None:
        server.signal(number)
    else:
        os.kill(pid, number)

    def left() -> dict[str, Any]:
        living = {pid: name for other in others for pid, name in other.processes().items()}
        ours = server.processes()
        return {"processes": sorted(ours.values()), **Host.now().left_since(server.before, living | ours)}

    found: dict[str, Any] = {}

    def gone() -> bool:
        ended = server.process.poll() is not None
        found.update(left())
        return ended and not (found["processes"] or found["dev_shm"] or found["croupiers"])

    seconds = await_true(gone, WITHIN, every=0.2)
    code = server.process.poll()
    return {
        "signal": signal.Signals(number).name,
        "seconds": seconds,
        "waited": round(time.monotonic() - begun, 1),
        "status": code,
        "left": found,
        "swept": server.sweep(),
        "gpu_mib": [memory, gpu_used_mib()],
    }


def verdict_of(native: dict[str, Any] | None, croupier: dict[str, Any]) -> Verdict:
    """Nothing may be left. What vLLM leaves without Croupier too is named, and is not Croupier's."""
    says = [_said(native) if native else "not tried", _said(croupier)]
    ours = _things(croupier)
    if not ours and croupier["seconds"] is not None:
        return Verdict(EQUAL if not native or not _things(native) else EXPLAINED, *says)
    notes = [f"left {WITHIN:.0f} s after {croupier['signal']}: {thing}" for thing in ours[:8]]
    also = bool(native and _things(native))
    only_vllms = also and all("croupier" not in thing.lower() for thing in ours)
    if only_vllms:
        notes.append("native leaves these as well")
    return Verdict(EXPLAINED if only_vllms else DIFFERENT, *says, notes)


def _things(found: dict[str, Any]) -> list[str]:
    left = found["left"]
    return [*left["processes"], *left["dev_shm"], *left["croupiers"]]


def _said(found: dict[str, Any]) -> str:
    count = len(_things(found))
    gone = f"gone after {found['seconds']} s" if found["seconds"] is not None else f"{count} things left"
    return f"{found['signal']}: {gone}, status {found['status']}"


def row_of(name: str, native: dict[str, Any] | None, croupier: dict[str, Any], begun: float) -> Row:
    found = {"native": native, "croupier": croupier}
    return Row(name, verdict_of(native, croupier), round(time.monotonic() - begun, 1), found)
