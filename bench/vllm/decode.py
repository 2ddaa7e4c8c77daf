"""vLLM decodes with its own sampler and with Croupier, both on one GPU host, kind by kind in turns.

    decode.py FOLDER --size 7b --layers 28 --batches 256,64,8,1 --budget 300

It makes a model of Qwen2.5's shape, gives both engines the same random weights, with an LM head such that
rows are about as peaked as a model's, and leaves in FOLDER: native.json and croupier.json (greedy tokens, and
microseconds a step of each kind), verify.json (decisions made again) and summary.json. Each is written anew
behind each measurement, and a kind is measured on both sides before the next one begins: a run that is cut
has pairs. --beside is a third engine, Croupier with other options, and beside.json.

The engines live at once, and the others are idle while one is timed. --one-at-a-time ends the first before
the second starts, as a check that the idle one costs nothing; then the second has what is left of the budget.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import hot_spots
import kinds
import stages
from engines import (
    SETTLE,
    Run,
    add_engine_options,
    croupier_options,
    folder_model,
    make_apart,
    prompt_length,
    token_lists,
)
from shapes import make_model
from sides import (
    Budget,
    Side,
    SideFailedError,
    end_by_signal,
    end_llm,
    environment,
    last_line,
    read_json,
    write_json,
)

TIMED_SIDES = ("native", "croupier", "beside")


def batches_of(arguments: argparse.Namespace) -> list[int]:
    return [int(text) for text in arguments.batches.split(",")]


def sizes_of(arguments: argparse.Namespace) -> list[int]:
    return sorted({*batches_of(arguments), arguments.equal})


def length_of(arguments: argparse.Namespace, side: str, batch: int) -> int:
    return prompt_length(arguments, side, max(sizes_of(arguments)), batch)


def start(side: str, arguments: argparse.Namespace) -> Side:
    options = None
    if side == "croupier":
        options = croupier_options(arguments)
    if side == "beside":
        options = croupier_options(arguments, **arguments.beside)
    if side == "verify":
        report = str(arguments.folder / "verify.json")
        options = croupier_options(
            arguments, **arguments.beside, verify_every=arguments.verify_every, verify_report=report
        )
    model, sizes = folder_model(arguments.folder), sizes_of(arguments)
    runtime = arguments.folder / f"runtime-{side}"
    return Side(side, make_apart, end_llm, runtime, arguments, side, model, sizes, options)


# What the engines' processes do.


def greedy_tokens(llm: Any, count: int, tokens: int) -> list[list[int]]:
    return token_lists(llm, [kinds.GREEDY] * count, tokens)


def likeliest(llm: Any) -> list[list[float]]:
    """How peaked rows are: the best log-prob of each of a few."""
    flat = Run(llm, [{"temperature": 1.0, "logprobs": 5}] * 8, SETTLE).outputs()
    return [[max(found.logprob for found in top.values()) for top in output.logprobs] for output in flat]


def time_kind(llm: Any, kind: str, batch: int, steps: int, runs: int, length: int) -> dict[str, Any]:
    """Of one run each: from the step in which all requests have drawn SETTLE tokens to the last one.

    Prompts are over by then and kernels compiled, so that no run is needed to warm up and none to subtract.
    """
    found = []
    before = stages.totals()
    for _ in range(runs):
        run = Run(llm, kinds.batch_of(kind, batch), SETTLE + steps, length)
        run.outputs()
        found.append(run.us_per_step())
    daemon = stages.per_column(before, stages.totals())
    return {"best": min(found), "runs": found, **({"daemon": daemon} if daemon else {})}


def verify_round(llm: Any, turn: int, count: int, tokens: int, length: int) -> int:
    mixtures = kinds.mixtures()
    mixed = [dict(mixtures[place % len(mixtures)]) for place in range(count)]
    for given in mixed:
        if "seed" in given:
            given["seed"] += 1000003 * turn
    return sum(len(found) for found in token_lists(llm, mixed, tokens, length))


class Table:
    """What was found so far, side by side; on the disk behind each measurement."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._arguments = arguments
        self._folder: Path = arguments.folder
        self.sides: dict[str, dict[str, Any]] = {side: {"side": side} for side in arguments.sides.split(",")}
        self.skipped: list[str] = []
        self._environment = environment()

    def set(self, side: str, key: str, value: Any) -> None:
        self.sides[side][key] = value
        self.write(side)

    def failed(self, side: str, error: SideFailedError) -> None:
        print(f"{side}: {last_line(error)}", file=sys.stderr, flush=True)
        self.set(side, "error", str(error))

    def timed(self, side: str, name: str, found: dict[str, Any]) -> None:
        self.sides[side].setdefault("us_per_step", {})[name] = found
        daemon = "".join(f", {key} {value}" for key, value in found.get("daemon", {}).items())
        print(f"{side:9} {name:20} {found['best']:9.0f} us a step{daemon}", flush=True)
        self.write(side)

    def write(self, side: str) -> None:
        write_json(self._folder / f"{side}.json", self.sides[side])
        write_json(self._folder / "summary.json", self.summary())

    def summary(self) -> dict[str, Any]:
        given = {name: str(value) for name, value in vars(self._arguments).items()}
        found = compare(self._folder)
        return {"arguments": given, "environment": self._environment, **found, "skipped": self.skipped}


def compare(folder: Path) -> dict[str, Any]:
    sides = {side: read_json(folder / f"{side}.json") for side in (*TIMED_SIDES, "verify")}
    theirs, native = (
        sides["native"].get(key, default) for key, default in (("greedy", []), ("us_per_step", {}))
    )
    compared, differing, ratios = 0, [], {}
    for side in TIMED_SIDES[1:]:
        ours, times = sides[side].get("greedy", []), sides[side].get("us_per_step", {})
        compared += min(len(ours), len(theirs))
        for place, (one, other) in enumerate(zip(ours, theirs, strict=False)):
            at = next((i for i, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), None)
            if at is not None:
                differing.append(
                    {"request": place, "first_difference": at, "native": other[at], side: one[at]}
                )
        ratios[f"native_over_{side}"] = {
            kind: round(native[kind]["best"] / times[kind]["best"], 3) for kind in native if kind in times
        }
    return {
        "greedy_sequences": compared,
        "greedy_sequences_that_differ": len(differing),
        "differing": differing[:50],
        **ratios,
        "verify": {name: sides["verify"][name] for name in sides["verify"] if name not in ("side", "error")},
        "errors": {side: found["error"] for side, found in sides.items() if "error" in found},
    }


def wanted_kinds(arguments: argparse.Namespace) -> list[str]:
    known = [
        *kinds.kinds(),
        *kinds.long_kinds(),
        *kinds.MIXED,
        *kinds.grammar_kinds(),
        *kinds.training_kinds(),
        *kinds.own_kinds(),
    ]
    if not arguments.kinds:
        return [kind for kind in known if kind not in kinds.NEED_TOKENIZER or arguments.tokenizer]
    asked = arguments.kinds.split(",")
    if unknown := sorted(set(asked) - set(known)):
        raise SystemExit(f"--kinds has {', '.join(unknown)}; known are {', '.join(known)}")
    if (need := sorted(set(asked) & set(kinds.NEED_TOKENIZER))) and not arguments.tokenizer:
        raise SystemExit(f"--kinds has {', '.join(need)}, which needs --tokenizer")
    return asked


def can(side: str, kind: str) -> bool:
    return side != "native" or kind not in kinds.own_kinds()


def started(table: Table, alive: dict[str, Side], name: str) -> None:
    try:
        table.set(name, "seconds_to_start", alive[name].answer())
    except SideFailedError as error:
        table.failed(name, error)
        alive.pop(name).kill()


def measure(arguments: argparse.Namespace, table: Table, names: list[str], budget: Budget) -> None:
    """The timed sides of `names`, all alive at once."""
    alive: dict[str, Side] = {}
    turns = 0

    def ask(name: str, function: Any, *given: Any) -> Any:
        try:
            return alive[name].ask(function, *given)
        except SideFailedError as error:
            table.failed(name, error)
            alive.pop(name).kill()
            return None

    try:
        for name in names:
            alive[name] = start(name, arguments)
            # One that measures the GPU's free memory must not see the other's allocations come.
            if not arguments.cache_gib:
                started(table, alive, name)
        for name in list(alive):
            if arguments.cache_gib:
                started(table, alive, name)
        equal = arguments.equal, arguments.equal_tokens
        if arguments.equal_tokens:
            for name in list(alive):
                found = ask(name, greedy_tokens, *equal)
                table.set(name, "greedy", found or [])
        for name in list(alive):
            table.set(name, "likeliest", ask(name, likeliest) or [])
        for batch in batches_of(arguments) if arguments.steps else ():
            for kind in wanted_kinds(arguments):
                if budget.over():
                    table.skipped.append(f"{batch}/{kind}")
                    continue
                # The sides take turns at being first.
                turns += 1
                able = [name for name in alive if can(name, kind)]
                for name in able if turns % 2 else able[::-1]:
                    length = length_of(arguments, name, batch)
                    given = kind, batch, arguments.steps, arguments.runs, length
                    if found := ask(name, time_kind, *given):
                        table.timed(name, f"{batch}/{kind}", found)
                    if not arguments.hot_spots:
                        continue
                    if found := ask(name, hot_spots.of_kind, kind, batch, arguments.steps, length):
                        table.sides[name].setdefault("hot_spots", {})[f"{batch}/{kind}"] = found
                        table.write(name)
    finally:
        for side in alive.values():
            side.close()


def verify(arguments: argparse.Namespace, table: Table, budget: Budget) -> None:
    """Rounds of mixed requests, until so many decisions were asked for or the time is over."""
    side = start("verify", arguments)
    length = length_of(arguments, "verify", arguments.equal)
    begun, tokens, turn, longest = time.monotonic(), 0, 0, 0.0
    try:
        table.sides["verify"]["seconds_to_start"] = side.answer()
        begun = time.monotonic()
        # A round that does not fit would cost the counts of all, which the engine writes when it ends.
        while not budget.over(longest) and tokens < arguments.decisions * arguments.verify_every:
            since = time.monotonic()
            tokens += side.ask(verify_round, turn, arguments.equal, arguments.verify_tokens, length)
            longest = max(longest, time.monotonic() - since)
            turn += 1
            print(f"verify    {tokens} tokens in {time.monotonic() - begun:.0f} s", flush=True)
    except SideFailedError as error:
        table.failed("verify", error)
    finally:
        side.close()
    # The engine wrote its counts when it ended.
    counts = read_json(arguments.folder / "verify.json")
    seconds = round(time.monotonic() - begun, 1)
    table.sides["verify"] |= {"mixed_tokens": tokens, "seconds": seconds, **counts}
    table.write("verify")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--batches", default="1,8,64,256", help="in this order: what matters most first")
    parser.add_argument("--kinds", default="", help="with commas; none: all (kinds.py)")
    parser.add_argument("--steps", type=int, default=100, help="timed steps; 0: nothing is timed")
    parser.add_argument("--runs", type=int, default=2, help="of each kind; the best one counts")
    parser.add_argument("--equal", type=int, default=64, help="requests whose greedy tokens are compared")
    parser.add_argument("--equal-tokens", type=int, default=128, help="0: none are compared")
    parser.add_argument("--decisions", type=int, default=8192, help="that verify mode makes again")
    parser.add_argument("--verify-every", type=int, default=1, help="makes each so manieth step again")
    parser.add_argument("--verify-tokens", type=int, default=64, help="of each mixed request")
    parser.add_argument("--budget", type=float, default=0, help="seconds; then nothing new begins")
    parser.add_argument("--sides", default="native,croupier,verify")
    parser.add_argument(
        "--beside",
        type=json.loads,
        default={},
        help="JSON of options that the sides `beside` and `verify` have, and `croupier` has not; "
        "give `beside` in --sides too",
    )
    parser.add_argument(
        "--hot-spots", action="store_true", help="where the engines' processes spend the timed kinds' steps"
    )
    parser.add_argument("--one-at-a-time", action="store_true", help="no two engines at once")
    add_engine_options(parser)
    arguments = parser.parse_args()
    wanted_kinds(arguments)
    end_by_signal()
    budget = Budget(arguments.budget)
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for side in (*TIMED_SIDES, "verify"):
        (arguments.folder / f"{side}.json").unlink(missing_ok=True)
    make_model(arguments.folder / "model", arguments.size, arguments.layers)
    table = Table(arguments)
    asked = arguments.sides.split(",")
    timed = [side for side in TIMED_SIDES if side in asked]
    for names in [[side] for side in timed] if arguments.one_at_a_time else [timed] if timed else []:
        measure(arguments, table, names, budget)
    if "verify" in asked:
        verify(arguments, table, budget)
    summary = table.summary()
    write_json(arguments.folder / "summary.json", summary)
    for key in (
        "greedy_sequences",
        "greedy_sequences_that_differ",
        "native_over_croupier",
        "native_over_beside",
        "verify",
    ):
        print(f"{key}: {summary[key]}", flush=True)
    return 1 if summary["errors"] else 0


if __name__ == "__main__":
    sys.exit(main())
