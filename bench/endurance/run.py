#!/usr/bin/env python3
"""Runs two croupierds for an hour while they and processes around them are killed.

    run.py build/release/bin OUT.json [--seconds 3600] [--seed 1] [--work DIR]

The daemon `steady` lives all the time, and its sampler 0 too: what leaks would grow in them. It serves an
engine whose work is always the same, in rounds of some 40 s, beside one of random shapes; writers, schedulers
and its sampler 1 are killed. The daemon `struck` serves engines of random shapes, and is itself killed or
told to hand over, as are its samplers, writers and schedulers. Each token is verified. OUT.json has a sample
each ten seconds, every round's options and report, and the totals; picture.py draws it.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from plant import Plant
from rounds import Round, random_shape, reference_shape
from samples import Follower

SAMPLE_EVERY_S = 10.0
PAUSE_S = (8.0, 24.0)
# For rounds still running at the end; a longer one is aborted and reported.
LAST_ROUNDS_S = 120.0
SAMPLER_KILL_EVERY_S = (20.0, 60.0)
DAEMON_END_EVERY_S = (15.0, 45.0)
COUNTED = (
    *("tokens", "verified", "mismatched", "lost", "duplicated", "recovered", "readmitted", "truncated"),
    *("unfinished", "left_in_shm", "kills"),
)
Shape = Callable[[random.Random, tuple[str, ...]], list[str]]


class Hour:
    def __init__(self, programs: Path, work: Path, seed: int) -> None:
        self.programs, self.work, self.seed = programs, work, seed
        self.over = threading.Event()
        self.lock = threading.Lock()
        self.rounds: list[dict[str, Any]] = []
        self.samples: list[dict[str, Any]] = []
        self.kills: list[dict[str, Any]] = []
        self.reference: str | None = None
        self.faults: list[str] = []
        self.steady = Plant("steady", programs, work, samplers=2)
        self.struck = Plant("struck", programs, work, samplers=2)
        self.began = time.monotonic()

    def now(self) -> float:
        return round(time.monotonic() - self.began, 1)

    def note_kill(self, plant: str, what: str) -> None:
        with self.lock:
            self.kills.append({"at": self.now(), "plant": plant, "what": what})

    def fail(self, what: str) -> None:
        print(f"{self.now()} s: {what}", file=sys.stderr, flush=True)
        with self.lock:
            self.faults.append(f"{self.now()} s: {what}")

    def stream(self, name: str, plant: Plant, shape: Shape, chaos: tuple[str, ...]) -> None:
        """Runs rounds; the options of each are a function of the seed, the stream's name and its number."""
        try:
            self._rounds(name, plant, shape, chaos)
        except Exception as failure:  # a thread that ends unseen would look like an hour without faults
            self.fail(f"the stream {name} ended: {failure!r}")

    def _rounds(self, name: str, plant: Plant, shape: Shape, chaos: tuple[str, ...]) -> None:
        number = 0
        while not self.over.is_set():
            draw = random.Random(f"{self.seed} {name} {number}")
            options = [*shape(draw, chaos), "--seed", str(draw.randrange(1, 1 << 31))]
            began = self.now()
            one = Round(self.programs, plant.endpoint, options, self.work / f"{name}-{number}.txt")
            if name == "reference":
                self.reference = one.session
            watch = threading.Thread(target=self._cut_when_over, args=(one,), daemon=True)
            watch.start()
            report = one.finish()
            self._note_round({"stream": name, "number": number, "began": began, "ended": self.now()} | report)
            number += 1
            if name != "reference":
                self.over.wait(draw.uniform(*PAUSE_S))

    def _cut_when_over(self, one: Round) -> None:
        """Waits for running rounds to end, because the daemons must end after them."""
        self.over.wait()
        try:
            one.process.wait(LAST_ROUNDS_S)
        except subprocess.TimeoutExpired:
            one.cut = True
            one.kill()

    def _note_round(self, report: dict[str, Any]) -> None:
        with self.lock:
            self.rounds.append(report)
        if not report.get("ok") and not report.get("cut"):
            self.fail(f"round {report['stream']}-{report['number']} is not sound: {json.dumps(report)}")
            self._keep_evidence(f"{report['stream']}-{report['number']}")

    def _keep_evidence(self, name: str) -> None:
        for plant in (self.steady, self.struck):
            try:
                (self.work / f"{name}.{plant.name}.json").write_text(plant.fetch("/snapshot.json"))
            except OSError:
                continue

    def strike(self, plant: Plant, every: tuple[float, float], what: Callable[[random.Random], str]) -> None:
        draw = random.Random(f"{self.seed} strike {plant.name}")
        while not self.over.wait(draw.uniform(*every)):
            try:
                if struck := what(draw):
                    self.note_kill(plant.name, struck)
            except Exception as failure:
                self.fail(f"{plant.name} was not struck: {failure!r}")

    def strike_sampler(self, _: random.Random) -> str:
        return "sampler" if self.steady.kill_sampler(1) else ""

    def strike_daemon(self, draw: random.Random) -> str:
        if draw.random() < 0.6:
            self.struck.kill()
            return "daemon"
        self.struck.hand_over()
        return "hand-over"

    def take_samples(self, seconds: float) -> None:
        followers = [Follower(self.steady), Follower(self.struck)]
        stream = (self.work / "samples.jsonl").open("w")
        due = time.monotonic()
        while self.now() < seconds and not self.over.is_set():
            sample: dict[str, Any] = {"at": self.now(), "load": os.getloadavg()[0]}
            for follower in followers:
                plant = follower.plant
                try:
                    plant.check_alive()
                    reference = self.reference if plant is self.steady else None
                    sample[plant.name] = follower.sample(reference)
                except (OSError, ValueError, RuntimeError) as failure:
                    self.fail(f"no sample of {plant.name}: {failure}")
            self.samples.append(sample)
            stream.write(json.dumps(sample) + "\n")
            stream.flush()
            due += SAMPLE_EVERY_S
            self.over.wait(max(0.0, due - time.monotonic()))

    def run(self, seconds: float) -> None:
        gentle = ("none", "writer", "client")
        harsh = ("samplers", "writer", "client")
        work = [
            threading.Thread(target=self.stream, args=("reference", self.steady, reference_shape, gentle)),
            threading.Thread(target=self.stream, args=("shapes", self.steady, random_shape, gentle)),
            threading.Thread(target=self.stream, args=("storm", self.struck, random_shape, harsh)),
            threading.Thread(
                target=self.strike, args=(self.steady, SAMPLER_KILL_EVERY_S, self.strike_sampler)
            ),
            threading.Thread(target=self.strike, args=(self.struck, DAEMON_END_EVERY_S, self.strike_daemon)),
        ]
        for thread in work:
            thread.start()
        try:
            self.take_samples(seconds)
        finally:
            self.over.set()
            for thread in work:
                thread.join()

    def result(self) -> dict[str, Any]:
        ended = {plant.name: plant.end() for plant in (self.steady, self.struck)}
        by_kind: dict[str, int] = {}
        for one in self.rounds:
            if one.get("kills"):
                target = one["options"].split("--chaos ")[1].split()[0]
                by_kind[target] = by_kind.get(target, 0) + one["kills"]
        for kill in self.kills:
            by_kind[kill["what"]] = by_kind.get(kill["what"], 0) + 1
        totals: dict[str, Any] = {key: sum(one.get(key, 0) for one in self.rounds) for key in COUNTED}
        totals |= {
            "seconds": self.samples[-1]["at"] if self.samples else 0.0,
            "rounds": len(self.rounds),
            "rounds_cut": sum(one.get("cut", False) for one in self.rounds),
            "rounds_not_sound": sum(not one.get("ok") and not one.get("cut") for one in self.rounds),
            "kills_by_kind": by_kind,
            "left_in_shm_at_the_end": sum(len(each["left_in_shm"]) for each in ended.values()),
            "processes_at_the_end": sum(len(each["left_processes"]) for each in ended.values()),
        }
        return {"totals": totals, "ended": ended, "faults": self.faults, "kills": self.kills}


def environment(programs: Path) -> dict[str, Any]:
    cpuinfo = Path("/proc/cpuinfo").read_text()
    model = next(
        (line.partition(": ")[2] for line in cpuinfo.splitlines() if line.startswith("model name")), ""
    )
    version = subprocess.run([programs / "croupierd", "--version"], capture_output=True, text=True).stdout
    return {
        "cpu": model,
        "cores": len(os.sched_getaffinity(0)),
        "memory_kib": int(Path("/proc/meminfo").read_text().split()[1]),
        "kernel": os.uname().release,
        "nice": os.nice(0),
        "croupierd": version.strip(),
        "began": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def written(result: dict[str, Any]) -> str:
    """JSON with one round or sample per line."""
    parts = []
    for key, value in result.items():
        if isinstance(value, list):
            lines = ",\n".join(json.dumps(each, separators=(",", ":")) for each in value)
            parts.append(f"{json.dumps(key)}: [\n{lines}\n]")
        else:
            parts.append(f"{json.dumps(key)}: {json.dumps(value, indent=1)}")
    return "{" + ",\n".join(parts) + "}\n"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("programs", type=Path, help="the folder of croupier, croupier-sim and croupierd")
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--work",
        type=Path,
        help="folder for logs and reports; by default a temporary one, removed after success",
    )
    arguments = parser.parse_args()
    programs = arguments.programs.resolve()
    missing = [name for name in ("croupier", "croupier-sim", "croupierd") if not (programs / name).exists()]
    if missing:
        parser.error(f"{programs} has no {', '.join(missing)}: build them first, or name another folder")
    work = arguments.work or Path(tempfile.mkdtemp(prefix="croupier-endurance-"))
    work.mkdir(parents=True, exist_ok=True)
    found = {"environment": environment(programs), "seed": arguments.seed}
    hour = Hour(programs, work, arguments.seed)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: hour.over.set())
    hour.run(arguments.seconds)
    found |= hour.result()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    found["environment"] |= {"cpu_s_of_all": round(used.ru_utime + used.ru_stime, 1)}
    found |= {"rounds": hour.rounds, "samples": hour.samples}
    arguments.out.write_text(written(found))
    print(json.dumps(found["totals"], indent=1))
    faults = hour.faults + hour.steady.faults + hour.struck.faults
    for fault in faults:
        print("FAULT", fault, file=sys.stderr)
    left = ("left_in_shm_at_the_end", "processes_at_the_end")
    sound = not faults and not any(found["totals"][each] for each in left)
    if sound and not arguments.work:
        shutil.rmtree(work)
    elif not arguments.work:
        print(f"kept: {work}", file=sys.stderr)
    return 0 if sound else 1


if __name__ == "__main__":
    sys.exit(main())
