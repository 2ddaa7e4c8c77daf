"""vLLM with a pipeline stage on each of two hosts (--nnodes 2), and on one, with Croupier and without.

    hosts.py FOLDER --pp 2 --size 1.5b --layers 28 --budget 500

The hosts are network namespaces of this machine (two_hosts.py), each with its own /dev/shm and half of the
GPUs; the launch is vLLM's own. FOLDER/hosts.json has microseconds a step of each kind on one host and on two,
the requests whose tokens differ between the two, and those that differ from a round without faults while the
link is cut for two seconds, and while the daemon of the last stage's host is killed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from decode import time_kind
from engines import (
    add_engine_options,
    croupier_options,
    engine_arguments,
    folder_model,
    llm_of,
    prompt_length,
    stay_apart,
)
from kills import differing, mixed_tokens
from shapes import make_model
from sides import Budget, Side, SideFailedError, end_by_signal, end_llm, environment, last_line, write_json
from two_hosts import CannotError, OneNetwork, Place, TwoHosts

PORT = 29600
CUT = 2.0


def make_on_host(place: Place, arguments: argparse.Namespace, given: dict[str, Any]) -> Any:
    place.enter()
    return llm_of(arguments, given)


def make_on_one(runtime: Path, arguments: argparse.Namespace, given: dict[str, Any]) -> Any:
    stay_apart(runtime)
    return llm_of(arguments, given)


def of_hosts(hosts: TwoHosts, rank: int) -> dict[str, Any]:
    return {"nnodes": 2, "node_rank": rank, "master_addr": hosts.addresses[0], "master_port": PORT}


def follow(given: dict[str, Any]) -> None:
    """What `vllm serve --headless` does with these arguments."""
    from unittest import mock

    from vllm import AsyncEngineArgs
    from vllm.entrypoints.cli import serve

    engine = AsyncEngineArgs(**given)
    with mock.patch.object(AsyncEngineArgs, "from_cli_args", return_value=engine):
        serve.run_headless(argparse.Namespace(api_server_count=0, reasoning_parser_plugin=""))


def gpus_of(host: int, arguments: argparse.Namespace) -> dict[str, str]:
    each = arguments.tp * arguments.pp // 2
    return {"CUDA_VISIBLE_DEVICES": ",".join(str(host * each + place) for place in range(each))}


class OnTwoHosts:
    """An engine on both; `options` are Croupier's, or None for vLLM's own sampler."""

    def __init__(self, hosts: TwoHosts, name: str, arguments: argparse.Namespace, options: Any) -> None:
        self.folder: Path = arguments.folder
        given = given_for(arguments, name, options)
        place = hosts.place(0)
        place = place._replace(environment=place.environment | gpus_of(0, arguments))
        self._log = (self.folder / f"{name}-host1.txt").open("w")
        self._follower = hosts.start(
            1,
            [sys.executable, __file__, "--follow", json.dumps(given | of_hosts(hosts, 1))],
            env=gpus_of(1, arguments),
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
        )
        self.side = Side(name, make_on_host, end_llm, place, arguments, given | of_hosts(hosts, 0))
        self._closing = False
        threading.Thread(target=self._end_with_follower, daemon=True).start()

    def _end_with_follower(self) -> None:
        """The first host would wait for minutes for a second one that has failed."""
        self._follower.wait()
        if not self._closing:
            print(f"host 1 has ended: {self._log.name} says why", file=sys.stderr, flush=True)
            self.side.kill()

    def close(self) -> None:
        self._closing = True
        self.side.close()
        for how in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self._follower.pid, how)
                self._follower.wait(20)
            except ProcessLookupError:
                break
            except subprocess.TimeoutExpired:
                continue
        self._log.close()


def given_for(arguments: argparse.Namespace, side: str, options: Any) -> dict[str, Any]:
    sizes = sorted({*arguments.sizes, arguments.equal})
    given = engine_arguments(arguments, side, folder_model(arguments.folder), sizes, options)
    # Both a LLM and an AsyncEngineArgs take it, and it can be sent as text.
    return given | {"distributed_executor_backend": "mp"}


def timed(side: Side, arguments: argparse.Namespace, found: dict[str, Any], budget: Budget) -> None:
    most = max(*arguments.sizes, arguments.equal)
    for batch in arguments.sizes:
        length = prompt_length(arguments, side.name, most, batch)
        for kind in arguments.kinds.split(","):
            if budget.over(20):
                return
            result = side.ask(time_kind, kind, batch, arguments.steps, arguments.runs, length)
            found.setdefault(f"{kind} {batch}", {})[side.name] = result
            print(f"{side.name:12} {kind:16} {batch:4} {result['best']:9.0f} us a step", flush=True)


def rounds(side: Side, arguments: argparse.Namespace) -> list[list[int]]:
    return side.ask(mixed_tokens, arguments.equal, arguments.tokens)


def under(
    what: Callable[[], dict[str, Any]], side: Side, arguments: argparse.Namespace
) -> tuple[list[list[int]], Any]:
    """A round's tokens, and what `what` gives, which is done while the round goes on."""
    side.begin(mixed_tokens, arguments.equal, arguments.tokens)
    done: list[Any] = []

    def do() -> None:
        try:
            done.append(what())
        except Exception as error:
            done.append(error)

    fault = threading.Timer(arguments.after, do)
    fault.start()
    tokens = side.answer()
    finished = time.monotonic()
    fault.join()
    if isinstance(done[0], Exception):
        raise done[0]
    return tokens, {"found": done[0], "before_the_end": done[0]["at"] < finished}


def cut(hosts: TwoHosts) -> dict[str, Any]:
    at = time.monotonic()
    hosts.cut(CUT)
    return {"at": at, "seconds": CUT}


def kill_daemon(folder: Path) -> dict[str, Any]:
    from croupier.serving.place import daemon_pid

    pid = daemon_pid(folder / "runtime-1" / "croupier-private")
    if not pid:
        raise CannotError("the last stage's host has no daemon to kill")
    os.kill(pid, signal.SIGKILL)
    return {"at": time.monotonic(), "pid": pid}


def faults(
    hosts: TwoHosts, side: Side, arguments: argparse.Namespace, whole: list[list[int]]
) -> dict[str, Any]:
    found = {}
    for name, what in {
        "link cut": partial(cut, hosts),
        "daemon killed": partial(kill_daemon, arguments.folder),
    }.items():
        begun = time.monotonic()
        if name == "link cut" and isinstance(hosts, OneNetwork):
            found[name] = "not done: there is one network, without a link to cut"
            continue
        tokens, fault = under(what, side, arguments)
        found[name] = {
            **fault,
            "seconds": round(time.monotonic() - begun, 2),
            "requests": len(tokens),
            "tokens": sum(map(len, tokens)),
            "differing": differing(whole, tokens),
        }
        print(f"{name}: {found[name]}", flush=True)
    return found


def on_one_host(
    arguments: argparse.Namespace, found: dict[str, Any], budget: Budget, two: Side
) -> list[list[int]]:
    """The tokens of a round, once both engines have started."""
    one = Side(
        "one host",
        make_on_one,
        end_llm,
        arguments.folder / "runtime-one",
        arguments,
        given_for(arguments, "one host", croupier_options(arguments, private=True)),
    )
    try:
        print(f"one host: started in {one.answer()} s", flush=True)
        # What starts beside it would take its time.
        print(f"two hosts: started in {two.answer()} s", flush=True)
        expected = rounds(one, arguments)
        found["one host again"] = {"differing": differing(expected, rounds(one, arguments))}
        timed(one, arguments, found["us_per_step"], budget)
        return expected
    finally:
        one.close()


def measure(arguments: argparse.Namespace, found: dict[str, Any]) -> None:
    budget, steps = Budget(arguments.budget), found.setdefault("us_per_step", {})

    def noted() -> None:
        write_json(arguments.folder / "hosts.json", found)

    with contextlib.ExitStack() as ends:
        try:
            hosts = ends.enter_context(TwoHosts(arguments.folder, "8g"))
        except CannotError as error:
            found["network"] = f"one, because this machine makes no namespaces: {error}"
            print(found["network"], file=sys.stderr)
            hosts = OneNetwork(arguments.folder, "8g")
        found["delay"] = arguments.delay if hosts.delay(arguments.delay) else "none: there is no netem here"
        # Both start at once, which takes most of the time; the two idle meanwhile.
        two = OnTwoHosts(hosts, "two hosts", arguments, croupier_options(arguments, private=True))
        try:
            expected = on_one_host(arguments, found, budget, two.side)
            noted()
            whole = rounds(two.side, arguments)
            found["two hosts"] = {"requests": len(whole), "differing": differing(expected, whole)}
            print(f"two hosts: {found['two hosts']}", flush=True)
            noted()
            found["faults"] = faults(hosts, two.side, arguments, whole)
            noted()
            timed(two.side, arguments, steps, budget)
        finally:
            two.close()
        noted()
        if budget.over(100):
            return
        native = OnTwoHosts(hosts, "native", arguments, None)
        try:
            print(f"native: started in {native.side.answer()} s", flush=True)
            timed(native.side, arguments, steps, budget)
        finally:
            native.close()
            noted()


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kinds", default="greedy,full", help="of kinds.py")
    parser.add_argument("--batches", default="64,8")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--equal", type=int, default=16, help="requests whose tokens are compared")
    parser.add_argument("--tokens", type=int, default=800, help="of each of them")
    parser.add_argument("--after", type=float, default=1.0, help="seconds from a round's begin to its fault")
    parser.add_argument("--delay", type=float, default=0.2, help="of the link, one way, in ms")
    parser.add_argument("--budget", type=float, default=0)
    add_engine_options(parser)
    arguments = parser.parse_args()
    arguments.sizes = [int(text) for text in arguments.batches.split(",")]
    # For functions of decode.py.
    arguments.beside = {}
    return arguments


def main() -> None:
    end_by_signal()
    if sys.argv[1] == "--follow":
        follow(json.loads(sys.argv[2]))
        return
    arguments = parsed()
    # A runtime folder's path is absolute.
    arguments.folder = arguments.folder.resolve()
    make_model(arguments.folder / "model", arguments.size, arguments.layers)
    asked = {name: str(value) for name, value in vars(arguments).items()}
    found: dict[str, Any] = {"environment": environment(), "arguments": asked}
    try:
        measure(arguments, found)
    except (SideFailedError, CannotError) as error:
        found["error"] = str(error)
        print(last_line(error), file=sys.stderr)
    write_json(arguments.folder / "hosts.json", found)
    sys.exit("error" in found)


if __name__ == "__main__":
    main()
