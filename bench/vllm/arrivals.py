"""Requests that come by chance, as users send them: vLLM with its own sampler and with Croupier.

    arrivals.py FOLDER --size 7b --layers 28 --cache-gib 16 --budget 200
    arrivals.py FOLDER --layouts 4x1:native+sharded+croupier,2x2:native+croupier

A layout is tensor-parallel ranks x pipeline stages. Its sides are `native`, `sharded` (native with
batch-sharded sampling), and others, which have Croupier with the --options of their names. All engines start
at once, and one at a time works. Of each layout, in this order of value, as long as the budget lasts:
- equal: microseconds a step of as many equal requests as --batches says, for each of --kinds, and with kinds
  but the first the first batch alone;
- peaks: tokens a second when three times as many requests as an engine takes come at once, in the middle of
  the run, and the times between tokens then, for each of --peaks;
- loads: arrivals at parts of native's peak with the same prompts, lengths and seeds on all sides, for the
  first of --peaks.
Times are those at which tokens come to the front end, before they would be made text.

FOLDER/LAYOUT.json has P50, P95 and P99 of the time to the first token, of the time between two tokens and of
a request's mean of it, quantiles for pictures, what GPUs, host and daemon did meanwhile, and the memory.
"""

from __future__ import annotations

import argparse
import copy
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from async_engine import daemon_directory, end_engine, make_engine, memory, run_load
from engines import NATIVE_SIDES, add_engine_options, croupier_options, prompt_length
from shapes import make_model
from sides import PATIENCE, Budget, Side, SideFailedError, end_by_signal, environment, last_line, write_json
from traffic import equal_requests, mean_tokens, requests_of
from watch import Watch, memory_of_host

# A job, most valuable first: its rank, the seconds that it needs and what it does.
Job = tuple[int, float, Callable[[], None]]


class Layout:
    """The engines of one layout, and what was found of them so far."""

    def __init__(self, arguments: argparse.Namespace, place: int, text: str) -> None:
        self.name, _, sides = text.partition(":")
        self._place = place
        self._arguments = copy.copy(arguments)
        self._arguments.tp, self._arguments.pp = (int(part) for part in self.name.split("x"))
        self._sides = sides.split("+")
        self._turns = 0
        self.alive: dict[str, Side] = {}
        self._directories: dict[str, Path] = {}
        self.results: dict[str, Any] = {
            "arguments": {name: str(value) for name, value in vars(self._arguments).items()},
            "environment": environment(),
            "mean_tokens": round(mean_tokens(), 1),
            "seconds_to_start": {},
            "memory": {},
            "equal": {},
            "peaks": {},
            "loads": [],
            "errors": {},
        }

    def write(self) -> None:
        write_json(self._arguments.folder / f"{self.name}.json", self.results)

    def _runtime(self, side: str) -> Path:
        return self._arguments.folder / f"runtime-{side}-{self.name}"

    def start(self, model: str) -> None:
        for side in self._sides:
            options = None
            if side not in NATIVE_SIDES:
                options = croupier_options(self._arguments) | self._arguments.options.get(side, {})
            given = self._runtime(side), self._arguments, side, model, options
            self.alive[side] = Side(side, make_engine, end_engine, *given)
            if not self._arguments.cache_gib:
                self._started(side)

    def started(self) -> None:
        for side in list(self.alive):
            if side not in self.results["seconds_to_start"]:
                self._started(side)

    def _started(self, side: str) -> None:
        try:
            seconds = self.alive[side].answer(self._arguments.patience)
            self.results["seconds_to_start"][side] = seconds
            self._directories[side] = self.alive[side].ask(daemon_directory)
        except SideFailedError as error:
            self._failed(side, error)

    def _failed(self, side: str, error: SideFailedError) -> None:
        print(f"{self.name} {side}: {last_line(error)}", file=sys.stderr, flush=True)
        self.results["errors"][side] = str(error)
        self.alive.pop(side).kill()
        self.write()

    def _run(self, side: str, kind: str, requests: list[dict[str, Any]], watched: bool) -> dict[str, Any]:
        """Nothing where the side has failed."""
        from croupier.serving.private_daemon import names_in

        engine = self.alive[side]
        directory = self._directories[side]
        names = names_in(directory)
        segments = Path(names.shm_dir if names else "/nonexistent")
        try:
            if not watched:
                return engine.ask(run_load, kind, requests, patience=120)
            with Watch(directory, segments, engine.pid) as watch:
                found = engine.ask(run_load, kind, requests, patience=120)
            return {**found, "host": watch.found()}
        except SideFailedError as error:
            self._failed(side, error)
            return {}

    def _in_turns(self) -> list[str]:
        """The sides take turns at being first."""
        self._turns += 1
        return list(self.alive)[:: 1 if self._turns % 2 else -1]

    def _say(self, what: str, side: str, found: dict[str, Any]) -> None:
        figures = found["us_per_step"], found["steady_tokens_per_second"], found["tpot_ms"]
        print(f"{self.name} {side:9} {what:24} {found['requests']:4} requests: {figures}", flush=True)

    def warm_up(self) -> None:
        """Kernels are compiled at their first use, and Poisson's arrivals are no place for it."""
        for side in list(self.alive):
            for kind in self._arguments.kinds:
                self._run(side, kind, equal_requests(self._arguments.concurrent, 64, 24), False)
        for side in list(self.alive):
            gpu = self.alive[side].ask(memory)
            host = memory_of_host(self._directories[side], self.alive[side].pid)
            self.results["memory"][side] = {"gpu": gpu, "host": host}
        self.write()

    def equal(self, kind: str, batch: int) -> None:
        for _ in range(self._arguments.runs):
            for side in self._in_turns():
                most = self._arguments.concurrent
                prompt = prompt_length(self._arguments, side, most, batch)
                requests = equal_requests(batch, prompt, self._arguments.steps)
                if found := self._run(side, kind, requests, False):
                    kept = {name: found[name] for name in ("us_per_step", "itl_ms", "failed", "short")}
                    cell = self.results["equal"].setdefault(f"{batch}/{kind}", {})
                    cell.setdefault(side, []).append(kept)
                    self._say(f"equal {batch}/{kind}", side, found)
        self.write()

    def peak(self, kind: str) -> None:
        for side in self._in_turns():
            if found := self._run(side, kind, requests_of(3 * self._arguments.concurrent, 0.0, 4), True):
                self.results["peaks"].setdefault(kind, {})[side] = found
                self._say(f"peak {kind}", side, found)
            self.write()

    def load(self, fraction: float) -> None:
        kind = self._arguments.peaks[0]
        peaks = self.results["peaks"].get(kind, {})
        peak = self._arguments.peak or peaks.get(self._sides[0], {}).get("steady_tokens_per_second")
        if not peak:
            self.results["errors"][f"load {fraction}"] = "there was no peak"
            return
        rate = fraction * peak / self.results["mean_tokens"]
        requests = requests_of(round(rate * self._arguments.seconds), rate, round(1000 * fraction))
        load: dict[str, Any] = {"fraction": fraction, "requests_per_second": round(rate, 2), "sides": {}}
        self.results["loads"].append(load)
        for side in self._in_turns():
            if side == "sharded":
                continue
            if found := self._run(side, kind, requests, True):
                load["sides"][side] = found
                self._say(f"load {fraction:g}", side, found)
            self.write()

    def jobs(self) -> Iterator[Job]:
        given, count = self._arguments, len(self._sides)
        yield 0, 0.0, self.warm_up
        for place, kind in enumerate(given.kinds):
            for batch in given.batches if place == 0 else given.batches[:1]:
                rank = 1 if place == 0 else 3
                yield rank, 2.0 * count * given.runs, lambda k=kind, b=batch: self.equal(k, b)
        for place, kind in enumerate(given.peaks):
            yield (2 if place == 0 else 6), 8.0 * count, lambda k=kind: self.peak(k)
        for fraction in given.loads:
            # Those of the first layout are worth more than the kinds of the others.
            rank = 4 if self._place == 0 else 5
            loaded = len(set(self._sides) - {"sharded"})
            yield rank, (given.seconds + 3) * loaded, lambda f=fraction: self.load(f)


def measure(layouts: list[Layout], budget: Budget) -> None:
    jobs = [job for layout in layouts for job in layout.jobs()]
    skipped = 0
    for rank, seconds, job in sorted(jobs, key=lambda job: job[0]):
        # Engines that took the budget to start have at least their first times.
        if rank > 1 and budget.over(seconds):
            skipped += 1
        else:
            job()
    for layout in layouts:
        layout.results["skipped"] = skipped
        layout.write()


def words(text: str) -> list[str]:
    return text.split(",") if text else []


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--layouts", type=words, default=[], help="TPxPP:SIDE+SIDE, with commas")
    parser.add_argument("--sides", default="native,croupier", help="of the one layout --tp x --pp")
    parser.add_argument("--kinds", type=words, default=["full"], help="of equal requests (kinds.py)")
    parser.add_argument("--batches", type=lambda text: [int(one) for one in words(text)], default=[])
    parser.add_argument("--steps", type=int, default=60, help="of equal requests")
    parser.add_argument("--runs", type=int, default=2, help="of equal requests")
    parser.add_argument("--peaks", type=words, default=["full"], help="kinds; loads are of the first")
    parser.add_argument(
        "--loads",
        type=lambda text: [float(one) for one in words(text)],
        default=[0.75, 0.5, 0.9],
        help="parts of native's peak, in this order",
    )
    parser.add_argument("--seconds", type=float, default=12, help="of arrivals, for each load and side")
    parser.add_argument("--concurrent", type=int, default=256, help="max_num_seqs")
    parser.add_argument("--peak", type=float, default=0, help="tokens a second; 0: the first side's")
    parser.add_argument("--budget", type=float, default=0, help="seconds; then nothing new begins")
    parser.add_argument("--options", type=json.loads, default={}, help="JSON: the plugin's, by sides")
    parser.add_argument("--patience", type=float, default=PATIENCE, help="seconds that an engine may start")
    add_engine_options(parser)
    arguments = parser.parse_args()
    end_by_signal()
    budget = Budget(arguments.budget)
    arguments.folder.mkdir(parents=True, exist_ok=True)
    model = make_model(arguments.folder / "model", arguments.size, arguments.layers)
    one = f"{arguments.tp}x{arguments.pp}:{'+'.join(words(arguments.sides))}"
    layouts = [Layout(arguments, place, text) for place, text in enumerate(arguments.layouts or [one])]
    try:
        for layout in layouts:
            layout.start(model)
        for layout in layouts:
            layout.started()
        measure(layouts, budget)
    finally:
        alive = [side for layout in layouts for side in layout.alive.values()]
        for side in alive:
            side.begin_close()
        for side in alive:
            side.close(patience=15)
        for layout in layouts:
            layout.write()
    return 1 if any(layout.results["errors"] for layout in layouts) else 0


if __name__ == "__main__":
    sys.exit(main())
