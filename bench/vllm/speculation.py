"""vLLM 0.33 decodes with drafts, with its own sampler and with Croupier, both on one GPU, in turns.

    speculation.py FOLDER --methods draft_model,eagle3,ngram --batches 256,64,8,1 --budget 500

For each method, kind of request and batch: microseconds a step, tokens a second, and how many drafts are
accepted. For each method: how many requests have the tokens that they have without drafts. drafters.py has
the drafters. Where vLLM refuses a kind of request, its side is asked for the same without what it refuses.
Croupier's side is then asked for both: `croupier_nearest` is what native was asked for.

FOLDER/speculation.json is written anew behind each measurement; FOLDER/steps.json has each step. An engine
that fails is started anew, up to twice, and `errors` has why.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import drafted
import kinds
from decode import likeliest
from drafters import METHODS, add_drafter_options, make_drafter
from engines import add_engine_options
from figures import HEAD, compared, differences, line_of, summed
from shapes import make_model
from sides import Budget, Side, SideFailedError, end_by_signal, end_llm, environment, last_line, write_json

SIDES = ("native", "croupier")
KINDS = ("greedy", "temperature", "topp_penalties", "full", "mixed")
# Below it no method is begun: engines start in about 40 seconds.
_METHOD = 70.0
_CELL = 8.0
_STARTS = 3
# What takes seconds may take so many before its engine counts as stuck. A start compiles kernels.
_PATIENCE = 80.0
_START_PATIENCE = 200.0


class Table:
    """What was found so far; on the disk behind each measurement."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._folder: Path = arguments.folder
        given = {name: str(value) for name, value in vars(arguments).items()}
        self.found: dict[str, Any] = {
            "arguments": given,
            "environment": environment(),
            "seconds_to_start": {},
            "refused": {},
            "streams": {},
            "cells": [],
            "skipped": [],
            "errors": [],
        }
        self._steps: dict[str, Any] = {}

    def cell(self, cell: dict[str, Any], runs: dict[str, list[dict[str, Any]]]) -> None:
        name = f"{cell['method']}/{cell['batch']}/{cell['kind']}"
        self._steps[name] = {side: [run["steps_us"] for run in found] for side, found in runs.items()}
        self.found["cells"].append(cell)
        print(line_of(cell), flush=True)
        self.write()
        write_json(self._folder / "steps.json", self._steps)

    def failed(self, where: str, error: SideFailedError) -> None:
        print(f"{where}: {last_line(error)}", file=sys.stderr, flush=True)
        self.found["errors"].append({"where": where, "error": str(error)})
        self.write()

    def write(self) -> None:
        write_json(self._folder / "speculation.json", self.found)


class Engines:
    """The sides of one method; of `plain`, none that drafts."""

    def __init__(
        self, arguments: argparse.Namespace, method: str, speculative: dict[str, Any] | None, table: Table
    ) -> None:
        self.method = method
        self._arguments, self._speculative, self._table = arguments, speculative, table
        self._alive: dict[str, Side] = {}
        self._starts: Counter[str] = Counter()
        for side in arguments.sides.split(","):
            self._begin(side)

    def names(self) -> list[str]:
        return list(self._alive)

    def _begin(self, side: str) -> None:
        self._starts[side] += 1
        runtime = self._arguments.folder / f"runtime-{self.method}.{side}{self._starts[side]}"
        given = runtime, self._arguments, side, self.method, self._speculative
        self._alive[side] = Side(f"{self.method} {side}", drafted.make, end_llm, *given)

    def ready(self) -> None:
        for side in self.names():
            self._await(side)

    def _await(self, side: str) -> None:
        try:
            seconds = self._alive[side].answer(_START_PATIENCE)
        except SideFailedError as error:
            self._table.failed(f"{self.method} {side} starts", error)
            self._alive.pop(side).kill()
            return
        self._table.found["seconds_to_start"][f"{self.method} {side}"] = seconds
        self._table.write()

    def ask(self, side: str, what: str, function: Any, *given: Any) -> Any:
        """None where it failed: then the side is another one, or none."""
        if side not in self._alive:
            return None
        try:
            return self._alive[side].ask(function, *given, patience=_PATIENCE)
        except SideFailedError as error:
            self._table.failed(f"{self.method} {side} {what}", error)
            # Its requests may still be under way.
            self._alive.pop(side).kill()
            if self._starts[side] < _STARTS:
                self._begin(side)
                self._await(side)
            return None

    def close(self) -> None:
        for side in self._alive.values():
            side.close()
        self._alive.clear()


class Bench:
    def __init__(self, arguments: argparse.Namespace, table: Table, budget: Budget) -> None:
        self._arguments, self._table, self._budget = arguments, table, budget
        self._plain: dict[str, dict[str, Any]] = {}
        self._turns = 0

    def run(self) -> None:
        methods = self._arguments.methods.split(",")
        for place, method in enumerate(methods):
            if self._budget.over(_METHOD):
                self._table.found["skipped"].append(method)
                continue
            plain = None
            if place == 0 and self._arguments.equal:
                # Beside the first method's engines: only streams are asked of it, and no times.
                plain = Engines(self._arguments, "plain", None, self._table)
            speculative = make_drafter(self._arguments.folder, method, self._arguments)
            engines = Engines(self._arguments, method, speculative, self._table)
            try:
                if plain:
                    plain.ready()
                    self._ask_plain(plain, methods)
                engines.ready()
                self._one(engines)
            finally:
                for started in (plain, engines):
                    if started:
                        started.close()

    def _ask_plain(self, engines: Engines, methods: list[str]) -> None:
        for side in engines.names():
            if side == "native":
                self._table.found["likeliest"] = engines.ask(side, "likeliest", likeliest)
            given = side, methods, self._arguments
            self._plain[side] = engines.ask(side, "streams", drafted.plain_streams, *given) or {}
        engines.close()

    def _one(self, engines: Engines) -> None:
        arguments = self._arguments
        if arguments.equal:
            for side in engines.names():
                self._streams(engines, side)
        for batch in (int(text) for text in arguments.batches.split(",")):
            for kind in arguments.kinds.split(","):
                if self._budget.over(_CELL):
                    self._table.found["skipped"].append(f"{engines.method}/{batch}/{kind}")
                    continue
                self._cell(engines, batch, kind)
        self._table.write()

    def _streams(self, engines: Engines, side: str) -> None:
        arguments = self._arguments
        given = side, engines.method, arguments.equal, arguments.equal_tokens
        found = engines.ask(side, "streams", drafted.streams, *given)
        plain = self._plain.get(side, {}).get(drafted.text_of(engines.method))
        if not found or not plain:
            return
        rows = {
            kind: {
                "with_and_without_drafts": differences(found[kind], plain["all"][kind]),
                "without_drafts_all_and_half_at_once": differences(plain["half"][kind], plain["all"][kind]),
            }
            for kind in drafted.STREAMS
        }
        self._table.found["streams"].setdefault(engines.method, {})[side] = rows
        for kind, row in rows.items():
            told = ", ".join(f"{name} {one['equal']} of {one['requests']}" for name, one in row.items())
            print(f"{engines.method:12} {side:9} {kind:8} equal: {told}", flush=True)
        self._table.write()

    def _refused(self, engines: Engines, kind: str) -> str:
        """What native vLLM says to this kind, asked for once."""
        refused = self._table.found["refused"].setdefault(engines.method, {})
        if kind not in refused and "native" in engines.names():
            said = engines.ask("native", f"{kind} refused", drafted.refusal, kind)
            if said is not None:
                refused[kind] = said
        return refused.get(kind) or ""

    def _cell(self, engines: Engines, batch: int, kind: str) -> None:
        arguments = self._arguments
        cell: dict[str, Any] = {"method": engines.method, "batch": batch, "kind": kind}
        asked = {side: kinds.batch_of(kind, batch) for side in engines.names()}
        if (refused := self._refused(engines, kind)) and "native" in asked:
            cell |= {"native_refuses": refused, "without": list(drafted.REFUSED)}
            asked["native"] = drafted.nearest(asked["native"])
            # As many drafts are only accepted where requests ask for the same.
            asked["croupier_nearest"] = asked["native"]
        runs: dict[str, list[dict[str, Any]]] = {}
        how = arguments.steps, 1 + arguments.drafts, engines.method
        for _ in range(arguments.runs):
            # The sides take turns at being first.
            self._turns += 1
            for name in list(asked) if self._turns % 2 else list(asked)[::-1]:
                side = name.removesuffix("_nearest")
                if found := engines.ask(side, f"{batch}/{kind}", drafted.time_kind, asked[name], *how):
                    runs.setdefault(name, []).append(found)
        cell |= {name: summed(found) for name, found in runs.items()}
        if runs.keys() >= set(SIDES):
            cell["compared"] = compared(cell)
        if arguments.hot_spots:
            cell["hot_spots"] = {
                name: engines.ask(name, "hot spots", drafted.where_time_goes, asked[name], *how)
                for name in engines.names()
            }
        self._table.cell(cell, runs)


def check(arguments: argparse.Namespace) -> None:
    known = {*kinds.kinds(), *kinds.long_kinds(), "mixed"}
    for name, given, right in (
        ("--methods", arguments.methods, METHODS),
        ("--kinds", arguments.kinds, sorted(known)),
        ("--sides", arguments.sides, SIDES),
    ):
        if unknown := sorted(set(given.split(",")) - set(right)):
            raise SystemExit(f"{name} has {', '.join(unknown)}; known are {', '.join(right)}")
    if not all(text.isdigit() and int(text) for text in arguments.batches.split(",")):
        raise SystemExit(
            f"--batches is {arguments.batches!r}; numbers of requests with commas would be right"
        )
    if arguments.tp * arguments.pp > 1 or arguments.core_process or arguments.worker_process:
        raise SystemExit("one GPU and one process are supported: the drafts are counted in the scheduler")
    if not 1 <= arguments.draft_layers <= arguments.layers:
        raise SystemExit(
            f"--draft-layers is {arguments.draft_layers}; 1 to {arguments.layers} would be right"
        )


def parsed(given: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--methods", default=",".join(METHODS), help="in this order")
    parser.add_argument("--kinds", default=",".join(KINDS), help="of kinds.py")
    parser.add_argument("--batches", default="256,64,8,1", help="in this order")
    parser.add_argument("--sides", default=",".join(SIDES))
    parser.add_argument("--steps", type=int, default=50, help="timed steps of each run")
    parser.add_argument("--runs", type=int, default=2, help="of each side and cell, in turns")
    parser.add_argument("--equal", type=int, default=64, help="requests whose tokens are compared; 0: none")
    parser.add_argument("--equal-tokens", type=int, default=96)
    parser.add_argument("--hot-spots", action="store_true", help="where a step's time goes, in every cell")
    parser.add_argument("--budget", type=float, default=0, help="seconds; then nothing new begins")
    add_drafter_options(parser)
    add_engine_options(parser)
    parser.set_defaults(memory=0.15, cache_gib=2.0, deviation=5.5)
    arguments = parser.parse_args(given)
    check(arguments)
    return arguments


def main() -> int:
    arguments = parsed()
    end_by_signal()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    make_model(arguments.folder / "model", arguments.size, arguments.layers)
    table = Table(arguments)
    bench = Bench(arguments, table, Budget(arguments.budget))
    print(HEAD, flush=True)
    try:
        bench.run()
    finally:
        table.write()
    print(HEAD)
    for cell in table.found["cells"]:
        print(line_of(cell))
    for error in table.found["errors"]:
        print(f"failed: {error['where']}: {error['error'].strip().splitlines()[-1][:300]}")
    if table.found["skipped"]:
        print(f"skipped, for the time was over: {', '.join(table.found['skipped'])}")
    return 1 if table.found["errors"] else 0


if __name__ == "__main__":
    sys.exit(main())
