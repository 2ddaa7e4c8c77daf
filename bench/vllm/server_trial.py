"""Compares `vllm serve` with and without Croupier over HTTP.

    server_trial.py FOLDER --tokenizer tokenizer.json[.gz] [--budget 280]

Both servers get only the folder of a model; Croupier's also gets its flag. While both run on one GPU, each
gets a share of its memory (--share). The servers are ended by SIGTERM and by SIGKILL during requests, and one
is restarted, alone and with only the model and the flag. FOLDER/table.txt is a summary, FOLDER/trial.json has
all results, and FOLDER/*.log are the logs of the servers. Exits with 1 if there is an unexplained difference.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sides import Budget, end_by_signal, environment, write_json
from trial import checks, lifecycle, load, own, scores, texts
from trial.arguments import parsed, parser_of
from trial.checks import Check, Row, Side
from trial.client import at_once
from trial.compare import FAILED, Judge, Verdict
from trial.model import Model, make_model
from trial.server import Host, Server, ServerFailedError, croupier_flags, gpu_used_mib
from trial.table import as_json, missing_modules, needed_by, table

ALL: list[Check] = [*texts.CHECKS, *scores.CHECKS, *own.CHECKS, *load.CHECKS, load.LAST]
AGAIN = ("greedy, one request at a time", "min_tokens with ignore_eos: fixed lengths")
# What a later part needs at least: a start, some checks and an end.
PART = 70.0


class Trial:
    def __init__(self, arguments: argparse.Namespace) -> None:
        self._arguments = arguments
        self._folder: Path = arguments.folder
        self._budget = Budget(arguments.budget)
        self._begun = time.monotonic()
        self._servers: list[Server] = []
        self.rows: list[Row] = []
        self._facts: dict[str, Any] = {
            "arguments": {name: str(value) for name, value in vars(arguments).items()},
            "environment": environment(),
            "seconds": {},
        }
        self._before = Host.now()
        self._first: dict[str, Any] = {}
        self._native_killed: dict[str, Any] | None = None

    def say(self, text: str) -> None:
        print(f"[{time.monotonic() - self._begun:5.1f} s] {text}", flush=True)

    def write(self) -> None:
        self._facts["seconds"]["all"] = round(time.monotonic() - self._begun, 1)
        write_json(self._folder / "trial.json", as_json(self.rows, self._facts))
        (self._folder / "table.txt").write_text(table(self.rows) + "\n")

    def add(self, row: Row) -> None:
        self.rows.append(row)
        verdict = row.verdict
        self.say(f"{verdict.how:<9} {row.check}: {verdict.native} | {verdict.croupier}"[:300])
        for note in verdict.notes[:3] if not verdict.good else ():
            self.say(f"          {note}"[:300])
        self.write()

    def failed(self, name: str, why: str) -> None:
        self.add(Row(name, Verdict(FAILED, "", "", [why[:2000]]), 0.0))

    def start(self, name: str, model: Model, more: list[str]) -> Server:
        server = Server(name, self._folder, model.folder, more)
        self._servers.append(server)
        return server

    def await_ready(self, server: Server) -> None:
        seconds = server.await_ready(max(5.0, min(self._arguments.start, self._budget.left())))
        self._facts["seconds"][f"{server.name} ready"] = seconds
        self.say(f"{server.name} is ready after {seconds} s; the GPUs' memory in use: {gpu_used_mib()} MiB")

    def run(self) -> None:
        if missing := missing_modules(needed_by(environment()["vllm"] or "")):
            self.failed("modules that a server imports", "missing: " + ", ".join(missing))
        begun = time.monotonic()
        model = make_model(self._folder / "model", self._arguments.tokenizer, self._arguments.shape)
        self._facts["seconds"]["model"] = round(time.monotonic() - begun, 1)
        self.say(f"the model is written: {model.vocab} ids")
        native, croupier = self._both(model)
        self.part("the checks", lambda: self._checks(native, croupier, model))
        self.part("the first ends", lambda: self._end_both(native, croupier, model))
        self.part("the restart", lambda: self._again("croupier-again", signal.SIGKILL, model))
        if not self._budget.over(PART):
            self.part("the engine core's end", lambda: self._engine_killed(model))
        self._facts["left_at_the_end"] = Host.now().left_since(self._before, {})

    def part(self, name: str, work: Callable[[], None]) -> None:
        """What goes wrong in one part keeps no other one from its turn."""
        try:
            work()
        except Exception as error:
            self.failed(name, f"{type(error).__name__}: {error}")

    def _both(self, model: Model) -> tuple[Server, Server]:
        """At once. A memory profile would count the other server's memory, so the cache's size is given."""
        share = []
        if self._arguments.share:
            share = ["--gpu-memory-utilization", str(self._arguments.share)]
            share += ["--kv-cache-memory-bytes", str(int(self._arguments.cache_gib * 2**30))]
        plain = [*share, *self._arguments.more]
        native = self.start("native", model, plain)
        croupier = self.start("croupier", model, [*plain, *self._croupier()])
        self._facts["commands"] = [server.process.args for server in (native, croupier)]
        for server in (native, croupier):
            self.await_ready(server)
        return native, croupier

    def _croupier(self) -> list[str]:
        return [] if self._arguments.native_twice else croupier_flags()

    def _checks(self, native: Server, croupier: Server, model: Model) -> None:
        sides = Side("native", native.client, model), Side("croupier", croupier.client, model)
        for check in ALL:
            if self._arguments.only and self._arguments.only not in check.name:
                continue
            if self._budget.over():
                self.failed(check.name, "left out: the budget was over")
                continue
            row = checks.run(check, *sides)
            if check.name in AGAIN and row.verdict.how != FAILED:
                self._first[check.name] = row.found.get("native")
            self.add(row)
            for server in (native, croupier):
                if server.process.poll() is not None:
                    raise ServerFailedError(f"{server.name} has ended in {check.name!r}: {server.tail()}")

    def _end_both(self, native: Server, croupier: Server, model: Model) -> None:
        """Croupier by SIGTERM, while native goes on; then native by SIGKILL, as what vLLM itself leaves."""
        begun = time.monotonic()
        traffic = lifecycle.Traffic(Side("croupier", croupier.client, model))
        time.sleep(1.0)
        ended = lifecycle.end_of(croupier, signal.SIGTERM, [native])
        ended["requests_that_hang"] = traffic.hanging(5.0)
        traffic = lifecycle.Traffic(Side("native", native.client, model))
        time.sleep(1.0)
        self._native_killed = lifecycle.end_of(native, signal.SIGKILL, [])
        self._native_killed["requests_that_hang"] = traffic.hanging(5.0)
        self.add(lifecycle.row_of("SIGTERM with requests under way", None, ended, begun))

    def _again(self, name: str, number: int, model: Model) -> None:
        """Once more, alone: nothing but the model and the flag. Its first answers must be the first ones."""
        if self._budget.over(PART):
            self.failed("restart", f"left out: {self._budget.left():.0f} s are left")
            return
        begun = time.monotonic()
        server = self.start(name, model, [*self._croupier(), *self._arguments.more])
        self.await_ready(server)
        side = Side("croupier", server.client, model)
        for check in ALL:
            if check.name in AGAIN and check.name in self._first and not self._arguments.only:
                try:
                    found = check.observe(side)
                except Exception as error:
                    self.failed(f"after a restart: {check.name}", f"{type(error).__name__}: {error}")
                    continue
                verdict = check.compare(self._first[check.name], found, Judge(server.client))
                seconds = round(time.monotonic() - begun, 1)
                both = {"native": self._first[check.name], "croupier": found}
                self.add(Row(f"after a restart, at vLLM's defaults: {check.name}", verdict, seconds, both))
        traffic = lifecycle.Traffic(side)
        time.sleep(1.0)
        begun = time.monotonic()
        ended = lifecycle.end_of(server, number, [])
        ended["requests_that_hang"] = traffic.hanging(5.0)
        self.add(lifecycle.row_of("SIGKILL with requests under way", self._native_killed, ended, begun))

    def _engine_killed(self, model: Model) -> None:
        """The engine core dies, as by the kernel's hand where memory is short."""
        begun = time.monotonic()
        server = self.start("croupier-core", model, [*self._croupier(), *self._arguments.more])
        self.await_ready(server)
        cores = [pid for pid, name in server.processes().items() if "EngineCore" in name]
        if not cores:
            raise ServerFailedError(f"no engine core among {sorted(server.processes().values())}")
        traffic = lifecycle.Traffic(Side("croupier", server.client, model))
        time.sleep(1.0)
        ended = lifecycle.end_of(server, signal.SIGKILL, [], pid=cores[0])
        ended["requests_that_hang"] = traffic.hanging(5.0)
        self.add(lifecycle.row_of("SIGKILL of the engine core", None, ended, begun))

    def close(self) -> None:
        at_once([server.close for server in self._servers], 30)
        self.write()


def main() -> int:
    parser = parser_of(__doc__, 280)
    parser.add_argument(
        "--share", type=float, default=0.35, help="each one's part of the GPU while both are up; 0: none"
    )
    parser.add_argument("--cache-gib", type=float, default=4.0, help="of keys and values, while both are up")
    parser.add_argument("--only", default="", help="checks that have this in their names, and no others")
    parser.add_argument(
        "--native-twice", action="store_true", help="without Croupier: what the checks find of vLLM alone"
    )
    parser.add_argument("--start", type=float, default=170, help="seconds; a server's first one compiles")
    arguments = parsed(parser)
    end_by_signal()
    os.environ.pop("VLLM_ALLOW_INSECURE_SERIALIZATION", None)
    trial = Trial(arguments)
    try:
        trial.run()
    except Exception as error:
        trial.failed("the trial itself", f"{type(error).__name__}: {error}")
    finally:
        trial.close()
    print(table(trial.rows))
    return 0 if trial.rows and all(row.verdict.good for row in trial.rows) else 1


if __name__ == "__main__":
    sys.exit(main())
