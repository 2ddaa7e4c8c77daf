"""vLLM decodes while samplers, the daemon and workers are killed: the same tokens, or vLLM's own error.

    kills.py FOLDER --tp 2 --budget 170

    kills    requests without kills, then again and again while samplers and the private daemon get SIGKILL
    dead     the daemon of another engine, started here, is killed for good: the same tokens still
    worker   a worker gets SIGKILL: vLLM says so, and of Croupier nothing is left in /dev/shm

All requests are mixed and have seeds. FOLDER/kills.json has what was killed, how long the daemon was away,
and each request whose tokens differ. Only processes that this script started are killed, by their ids.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import kinds
from engines import add_engine_options, croupier_options, make_llm, token_lists
from shapes import make_model
from sides import Budget, Side, SideFailedError, end_by_signal, end_llm, environment, last_line, write_json
from watch import children_of, daemon_pid, lives
from workers import pid_of

PARTS = ("kills", "dead", "worker")


def requests_of(count: int) -> list[dict[str, Any]]:
    mixtures = kinds.seeded_mixtures()
    return [mixtures[place % len(mixtures)] for place in range(count)]


def mixed_tokens(llm: Any, count: int, tokens: int) -> list[list[int]]:
    return token_lists(llm, requests_of(count), tokens)


def worker_pids(llm: Any) -> list[int]:
    return llm.collective_rpc(pid_of)


def differing(expected: list[list[int]], found: list[list[int]]) -> list[dict[str, Any]]:
    out = []
    for place, (one, other) in enumerate(zip(expected, found, strict=True)):
        if one != other:
            at = next((i for i, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), None)
            out.append({"request": place, "at": at, "lengths": [len(one), len(other)]})
    return out


class Killer:
    """Kills samplers and the daemon of one folder, in turns and spaced, while `decoding` is set."""

    def __init__(self, directory: Path, samplers: int, daemons: int, gap: float) -> None:
        self._directory, self._gap = directory, gap
        each = max(1, samplers // max(daemons, 1))
        self.left = []
        for place in range(max(samplers, daemons)):
            self.left += ["sampler"] if place < samplers else []
            self.left += ["daemon"] if place % each == each - 1 and place // each < daemons else []
        self.decoding = threading.Event()
        self.done: list[dict[str, Any]] = []
        self._end = threading.Event()
        self._chance = random.Random(5)
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def _work(self) -> None:
        while self.left and not self._end.wait(self._gap * self._chance.uniform(0.5, 1.5)):
            if self.decoding.is_set() and self._kill(self.left[0]):
                self.left.pop(0)

    def _kill(self, what: str) -> bool:
        daemon = daemon_pid(self._directory)
        samplers = children_of(daemon) if daemon else []
        if not daemon or not samplers:
            return False
        victim = daemon if what == "daemon" else self._chance.choice(samplers)
        begun = time.monotonic()
        with contextlib.suppress(ProcessLookupError):
            os.kill(victim, signal.SIGKILL)
        back = self._await(lambda: self._is_back(what, daemon, victim, len(samplers)))
        self.done.append({"killed": what, "back": back, "seconds": round(time.monotonic() - begun, 3)})
        return True

    def _is_back(self, what: str, daemon: int, victim: int, count: int) -> bool:
        now = daemon_pid(self._directory)
        if now is None or (what == "daemon" and now == daemon):
            return False
        return len([pid for pid in children_of(now) if pid != victim and lives(pid)]) >= count

    def _await(self, true: Any, patience: float = 20.0) -> bool:
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline and not self._end.is_set():
            if true():
                return True
            time.sleep(0.02)
        return False

    def end(self) -> None:
        self._end.set()
        self._thread.join()

    def counts(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for what in ("sampler", "daemon"):
            of = [one for one in self.done if one["killed"] == what]
            seconds = [one["seconds"] for one in of if one["back"]]
            found[f"{what}s_killed"] = len(of)
            found[f"{what}s_back"] = len(seconds)
            if seconds:
                mean = round(sum(seconds) / len(seconds), 3)
                found[f"{what}_seconds_away"] = {"mean": mean, "most": max(seconds)}
        return found


class Kills:
    def __init__(self, arguments: argparse.Namespace, place: Path, budget: Budget) -> None:
        self._arguments, self._budget = arguments, budget
        self._place = place
        self._directory = place / "croupier-private"
        self._segments = Path(f"/dev/shm/croupier-kills-{os.getpid()}")
        self._expected: list[list[int]] | None = None
        self.results: dict[str, Any] = {
            "arguments": {name: str(value) for name, value in vars(arguments).items()},
            "environment": environment(),
            "errors": {},
        }

    def write(self) -> None:
        write_json(self._arguments.folder / "kills.json", self.results)

    def engine(self, **more: Any) -> Side:
        arguments = self._arguments
        options = croupier_options(arguments, **more)
        model = make_model(arguments.folder / "model", arguments.size, arguments.layers)
        given = arguments, "croupier", model, [arguments.requests], options
        side = Side("croupier", make_llm, end_llm, *given)
        try:
            side.answer()
        except SideFailedError:
            side.kill()
            raise
        return side

    def ask(self, side: Side) -> list[list[int]]:
        return side.ask(mixed_tokens, self._arguments.requests, self._arguments.tokens)

    def round(self, side: Side, found: dict[str, Any]) -> None:
        """One more run of the requests, which must be as the first one was."""
        tokens = self.ask(side)
        found["rounds"] = found.get("rounds", 0) + 1
        found["tokens"] = found.get("tokens", 0) + sum(map(len, tokens))
        found.setdefault("differing", [])
        if different := differing(self._expected or tokens, tokens):
            found["differing"].append({"round": found["rounds"], "requests": different[:10]})

    def part(self, name: str) -> None:
        found: dict[str, Any] = {}
        self.results[name] = found
        try:
            getattr(self, name)(found)
        except SideFailedError as error:
            self.results["errors"][name] = str(error)
            print(f"{name}: {last_line(error)}", file=sys.stderr, flush=True)
        print(
            name, {key: value for key, value in found.items() if key not in ("each", "all_of_it")}, flush=True
        )
        self.write()

    def kills(self, found: dict[str, Any]) -> None:
        arguments = self._arguments
        side = self.engine(shm_dir=str(self._segments))
        killer = None
        try:
            self._expected = self.ask(side)
            control: dict[str, Any] = {}
            self.round(side, control)
            found["without_kills"] = control
            self.write()
            under: dict[str, Any] = {}
            found["with_kills"] = under
            killer = Killer(
                self._directory, arguments.samplers_killed, arguments.daemons_killed, arguments.gap
            )
            killer.decoding.set()
            while killer.left and not self._budget.over():
                self.round(side, under)
                under |= killer.counts()
                self.write()
            killer.decoding.clear()
            found["not_killed"] = killer.left
            after: dict[str, Any] = {}
            self.round(side, after)
            found["behind_them"] = after
        finally:
            if killer is not None:
                killer.end()
                found.setdefault("with_kills", {}).update(killer.counts())
                found["each"] = killer.done
            side.close()
            found["left_in_shm"] = self.left(self._segments)

    def dead(self, found: dict[str, Any]) -> None:
        """With the option `endpoint` nobody starts the daemon again."""
        directory = self._place / "own"
        daemon, segments = own_daemon(directory, self._arguments.samplers)
        side = None
        try:
            side = self.engine(
                endpoint=f"ipc://{directory}/control.sock", timeout=self._arguments.timeout or 5.0
            )
            before: dict[str, Any] = {}
            first = self.ask(side)
            self._expected = self._expected or first
            begun = time.monotonic()
            self.round(side, before)
            half = (time.monotonic() - begun) / 2
            found["alive"] = before
            begun = time.monotonic()
            side.begin(mixed_tokens, self._arguments.requests, self._arguments.tokens)
            time.sleep(half)
            for pid in [daemon.pid, *children_of(daemon.pid)]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            found["killed_after_seconds"] = round(half, 2)
            tokens = side.answer()
            found["seconds"] = round(time.monotonic() - begun, 1)
            found["differing"] = differing(self._expected, tokens)
            # And a request that begins when there is no daemon at all.
            begun = time.monotonic()
            later: dict[str, Any] = {}
            self.round(side, later)
            found["behind_it"] = {**later, "seconds": round(time.monotonic() - begun, 1)}
        finally:
            if side is not None:
                side.close()
            if daemon.poll() is None:
                daemon.terminate()
                daemon.wait(30)
            # A daemon that was killed for good removes nothing: the next one of its instance would.
            found["left_by_the_dead"] = self.left(segments, 1.0)
            shutil.rmtree(segments, ignore_errors=True)

    def worker(self, found: dict[str, Any]) -> None:
        side = self.engine(shm_dir=str(self._segments))
        try:
            pids = side.ask(worker_pids)
            found["workers"] = len(pids)
            side.begin(mixed_tokens, self._arguments.requests, 4 * self._arguments.tokens)
            time.sleep(0.5)
            begun = time.monotonic()
            os.kill(pids[-1], signal.SIGKILL)
            try:
                side.answer(90)
                found["error"] = "none: the requests ended well"
            except SideFailedError as error:
                found["error"] = last_line(error)
                found["all_of_it"] = str(error)[-3000:]
            found["seconds_to_error"] = round(time.monotonic() - begun, 1)
        finally:
            side.close()
            # An engine core that was killed could not end its daemon: the next engine would, and here is
            # none.
            pid = daemon_pid(self._directory)
            found["daemon_left"] = pid is not None
            found["segments_before_its_end"] = self.left(self._segments)
            if pid is not None:
                os.kill(pid, signal.SIGTERM)
            found["left_in_shm"] = self.left(self._segments)

    @staticmethod
    def left(segments: Path, patience: float = 10.0) -> list[str]:
        """What is there still, a moment after all has ended."""
        deadline = time.monotonic() + patience
        while True:
            names = sorted(str(path) for path in segments.glob("**/*") if not path.is_dir())
            if not names or time.monotonic() > deadline:
                return names
            time.sleep(0.2)


def own_daemon(directory: Path, samplers: int) -> tuple[subprocess.Popen, Path]:
    from croupier.serving.private_daemon import Names, configuration, find_croupierd
    from croupier.vllm.options import Options

    options = Options(samplers=samplers, shm_dir=f"/dev/shm/croupier-kills-own-{os.getpid()}")
    segments = Path(options.shm_dir)
    directory.mkdir(mode=0o700)
    config = directory / "croupierd.yaml"
    config.write_text(configuration(options, directory, Names.fresh(options)))
    with open(directory / "croupierd.log", "wb") as log:
        daemon = subprocess.Popen([find_croupierd(), "--config", str(config)], stdout=log, stderr=log)
    deadline = time.monotonic() + 20
    while not (directory / "control.sock").exists():
        if daemon.poll() is not None or time.monotonic() > deadline:
            raise SideFailedError(
                "croupierd did not start: " + (directory / "croupierd.log").read_text()[-500:]
            )
        time.sleep(0.05)
    return daemon, segments


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--parts", default=",".join(PARTS), help="in this order")
    parser.add_argument("--dead", action="store_true", help="the part `dead` alone")
    parser.add_argument("--requests", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--samplers-killed", type=int, default=20)
    parser.add_argument("--daemons-killed", type=int, default=5)
    parser.add_argument("--gap", type=float, default=0.4, help="seconds between two kills, on the average")
    parser.add_argument("--budget", type=float, default=0, help="seconds; then nothing new begins")
    add_engine_options(parser)
    arguments = parser.parse_args()
    end_by_signal()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    # What is killed has to be a process of its own: vLLM's front end waits for ever on a core that is killed.
    arguments.core_process = arguments.worker_process = True
    # A private daemon of this run alone: others of this user are not touched. A socket's path has to be
    # short.
    place = Path(tempfile.mkdtemp(prefix="kills-", dir="/tmp"))
    os.environ["XDG_RUNTIME_DIR"] = str(place)
    kills = Kills(arguments, place, Budget(arguments.budget))
    budget = Budget(arguments.budget)
    try:
        for name in ["dead"] if arguments.dead else arguments.parts.split(","):
            if budget.over():
                kills.results["errors"][name] = "the budget was over"
            else:
                kills.part(name)
    finally:
        if pid := daemon_pid(place / "croupier-private"):
            os.kill(pid, signal.SIGTERM)
        for log in place.glob("*/croupierd.log"):
            shutil.copy(log, arguments.folder / f"{log.parent.name}.log")
        shutil.rmtree(place, ignore_errors=True)
        kills.write()
    return 1 if kills.results["errors"] else 0


if __name__ == "__main__":
    sys.exit(main())
