"""Requests that come by chance, as users send them: vLLM with its own sampler and with Croupier.

    arrivals.py FOLDER --size 7b --layers 28 --cache-gib 16 --budget 200

There are three loads. First each side's peak: all requests at once, tokens a second in the middle of the run.
The loads are parts of native's peak, the same for both sides, with the same arrivals, prompts, lengths and
seeds. All controls are on, as in the paper. Times are those at which tokens come to the front end, before
they would be made text.

FOLDER/arrivals.json has, of each load and side: tokens a second, P50, P95 and P99 of the time to the first
token, of the time between two tokens and of a request's mean of it, quantiles for a picture, and what the
daemon took of the host; and each engine's GPU memory, with what vLLM's sampler keeps there for its requests.
FOLDER/arrivals.svg is the picture.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import time
from pathlib import Path
from typing import Any

import kinds
from engines import add_engine_options, croupier_options, engine_arguments, prompt_tokens, sampling_of
from picture import picture
from shapes import make_model, spread_head, spread_inputs
from sides import Budget, Side, SideFailedError, end_by_signal, environment, last_line, write_json
from watch import Watch
from workers import memory_of

QUANTILES = 201
# CUDA graphs of these sizes, for batches come in all of them.
SIZES = [1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 160, 192, 224, 256]


def requests_of(count: int, rate: float, seed: int) -> list[dict[str, Any]]:
    """Arrivals, in seconds from the beginning, prompts and lengths; a rate of 0 is all at once."""
    chance = random.Random(seed)
    at, found = 0.0, []
    for place in range(count):
        at += chance.expovariate(rate) if rate else 0.0
        prompt = min(256, max(16, round(chance.lognormvariate(4.2, 0.6))))
        tokens = min(512, max(16, round(chance.lognormvariate(4.85, 0.6))))
        found.append({"place": place, "at": at, "prompt": prompt, "tokens": tokens})
    return found


def mean_tokens() -> float:
    return sum(one["tokens"] for one in requests_of(20000, 0.0, 1)) / 20000


class Engine:
    """vLLM's asynchronous engine, with a note of when each request's tokens came."""

    def __init__(self, llm: Any, loop: asyncio.AbstractEventLoop) -> None:
        self.llm, self.loop = llm, loop
        self.came: dict[str, list[tuple[float, int]]] = {}
        process = llm.output_processor.process_outputs

        def noted(outputs: Any, *given: Any, **named: Any) -> Any:
            now = time.perf_counter()
            for output in outputs:
                if output.new_token_ids:
                    times = self.came.setdefault(output.request_id, [])
                    times.append((now, len(output.new_token_ids)))
            return process(outputs, *given, **named)

        llm.output_processor.process_outputs = noted

    def call(self, awaited: Any) -> Any:
        return self.loop.run_until_complete(awaited)


def make_engine(
    arguments: argparse.Namespace, side: str, model: str, croupier: dict[str, Any] | None
) -> Engine:
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.v1.engine.async_llm import AsyncLLM

    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    sizes = [size for size in SIZES if size < arguments.concurrent] + [arguments.concurrent]
    given = engine_arguments(arguments, side, model, sizes, croupier)
    given.setdefault("max_num_batched_tokens", 8192)

    async def made() -> Engine:
        llm = AsyncLLM.from_engine_args(AsyncEngineArgs(**given))
        await llm.collective_rpc(spread_inputs)
        await llm.collective_rpc(spread_head, args=(arguments.deviation,))
        return Engine(llm, loop)

    return loop.run_until_complete(made())


def end_engine(engine: Engine) -> None:
    engine.llm.shutdown()


async def one_request(engine: Engine, one: dict[str, Any], begun: float, name: str) -> dict[str, Any]:
    delay = begun + one["at"] - time.perf_counter()
    if delay > 0:
        await asyncio.sleep(delay)
    asked = sampling_of({**kinds.FULL, "seed": 7}, one["place"], one["tokens"])
    prompt = {"prompt_token_ids": prompt_tokens(one["place"], one["prompt"])}
    drawn = 0
    async for output in engine.llm.generate(prompt, asked, name):
        drawn = len(output.outputs[0].token_ids)
    return {**one, "name": name, "drawn": drawn}


async def all_requests(engine: Engine, requests: list[dict[str, Any]]) -> tuple[float, list[Any]]:
    begun = time.perf_counter() + 0.2
    tasks = [one_request(engine, one, begun, f"request-{one['place']}") for one in requests]
    return begun, await asyncio.gather(*tasks, return_exceptions=True)


def quantile(ordered: list[float], part: float) -> float:
    return ordered[min(len(ordered) - 1, round(part * (len(ordered) - 1)))] if ordered else 0.0


def percentiles(values: list[float]) -> dict[str, float]:
    ordered = sorted(values)
    return {
        name: round(quantile(ordered, part), 3) for name, part in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))
    }


def tokens_a_second(times: list[tuple[float, int]]) -> float:
    """In the middle of the run: neither its first prompts nor its last, lonely requests."""
    ordered = sorted(times)
    total, seen, kept = sum(count for _, count in ordered), 0, []
    for now, count in ordered:
        seen += count
        if 0.15 * total <= seen <= 0.75 * total:
            kept.append((now, count))
    if len(kept) < 2 or kept[-1][0] == kept[0][0]:
        return 0.0
    return sum(count for _, count in kept[1:]) / (kept[-1][0] - kept[0][0])


def summed(begun: float, answers: list[Any], came: dict[str, list[tuple[float, int]]]) -> dict[str, Any]:
    """Of one run: `came` has times by the engine's own names, which begin with ours."""
    failed = [str(answer) for answer in answers if isinstance(answer, BaseException)]
    answers = [answer for answer in answers if not isinstance(answer, BaseException)]
    named = {name.rsplit("-", 1)[0] if name.count("-") > 1 else name: times for name, times in came.items()}
    first, between, means, rows = [], [], [], []
    for answer in answers:
        times = [now for now, _ in named.get(answer["name"], [])]
        if not times:
            continue
        first.append((times[0] - begun - answer["at"]) * 1e3)
        gaps = [(later - now) * 1e3 for now, later in zip(times, times[1:], strict=False)]
        between += gaps
        mean = sum(gaps) / len(gaps) if gaps else 0.0
        means.append(mean)
        rows.append([round(answer["at"], 3), answer["drawn"], round(first[-1], 2), round(mean, 3)])
    all_times = [pair for times in named.values() for pair in times]
    tokens = sum(count for _, count in all_times)
    seconds = max((now for now, _ in all_times), default=begun) - begun
    ordered = sorted(between)
    return {
        "requests": len(answers),
        "failed": failed[:5],
        "tokens": tokens,
        "short": sum(answer["drawn"] != answer["tokens"] for answer in answers),
        "seconds": round(seconds, 2),
        "tokens_per_second": round(tokens / seconds, 1) if seconds > 0 else 0.0,
        "steady_tokens_per_second": round(tokens_a_second(all_times), 1),
        "ttft_ms": percentiles(first),
        "itl_ms": percentiles(between),
        "tpot_ms": percentiles(means),
        "itl_quantiles_ms": [
            round(quantile(ordered, place / (QUANTILES - 1)), 3) for place in range(QUANTILES)
        ],
        "rows": rows,
    }


def run_load(engine: Engine, requests: list[dict[str, Any]]) -> dict[str, Any]:
    engine.came.clear()
    begun, answers = engine.call(all_requests(engine, requests))
    return summed(begun, answers, engine.came)


def memory(engine: Engine) -> list[dict[str, Any]]:
    return engine.call(engine.llm.collective_rpc(memory_of))


def ours(side: str, directory: Path, segments: Path, ask: Any) -> tuple[Any, dict[str, Any]]:
    """What `ask` finds, and what the host was doing meanwhile."""
    with Watch(directory, segments) as watch:
        answer = ask()
    found = watch.found()
    if side == "native":
        found = {name: value for name, value in found.items() if not name.startswith(("daemon", "segments"))}
    return answer, found


class Arrivals:
    def __init__(self, arguments: argparse.Namespace, budget: Budget) -> None:
        from croupier.serving.place import default_directory

        self._arguments, self._budget = arguments, budget
        self._directory = default_directory()
        self.alive: dict[str, Side] = {}
        self.results: dict[str, Any] = {
            "arguments": {name: str(value) for name, value in vars(arguments).items()},
            "environment": environment(),
            "mean_tokens": round(mean_tokens(), 1),
            "seconds_to_start": {},
            "gpu_memory": {},
            "peak": {},
            "loads": [],
            "errors": {},
        }

    def write(self) -> None:
        folder = self._arguments.folder
        write_json(folder / "arrivals.json", self.results)
        (folder / "arrivals.svg").write_text(picture(self.results), encoding="utf-8")

    def start(self) -> None:
        model = make_model(self._arguments.folder / "model", self._arguments.size, self._arguments.layers)
        for name in self._arguments.sides.split(","):
            options = None if name == "native" else croupier_options(self._arguments)
            self.alive[name] = Side(name, make_engine, end_engine, self._arguments, name, model, options)
            if not self._arguments.cache_gib:
                self._started(name)
        for name in list(self.alive):
            if self._arguments.cache_gib:
                self._started(name)

    def _started(self, name: str) -> None:
        try:
            self.results["seconds_to_start"][name] = self.alive[name].answer()
        except SideFailedError as error:
            self._failed(name, error)

    def _failed(self, name: str, error: SideFailedError) -> None:
        print(f"{name}: {last_line(error)}", file=sys.stderr, flush=True)
        self.results["errors"][name] = str(error)
        self.alive.pop(name).kill()
        self.write()

    def run(self, name: str, requests: list[dict[str, Any]]) -> dict[str, Any] | None:
        from croupier.serving.private_daemon import names_in

        side = self.alive[name]
        names = names_in(self._directory)
        segments = Path(names.shm_dir if names else "/nonexistent")
        try:
            found, host = ours(
                name, self._directory, segments, lambda: side.ask(run_load, requests, patience=120)
            )
        except SideFailedError as error:
            self._failed(name, error)
            return None
        figures = found["steady_tokens_per_second"], found["itl_ms"], found["ttft_ms"]
        print(f"{name:9} {len(requests)} requests: {figures}", flush=True)
        return {**found, "host": host}

    def measure(self) -> None:
        for name in list(self.alive):
            # Kernels are compiled at their first use, and Poisson's arrivals are no place for it.
            self.run(name, requests_of(self._arguments.concurrent // 2, 0.0, 3))
        for name in list(self.alive):
            self.results["gpu_memory"][name] = {"started": self.alive[name].ask(memory)}
            peak = self.run(name, requests_of(3 * self._arguments.concurrent, 0.0, 4))
            if peak:
                peak.pop("rows")
                self.results["peak"][name] = peak
                self.results["gpu_memory"][name]["at_peak"] = self.alive[name].ask(memory)
            self.write()
        known = [peak["steady_tokens_per_second"] for peak in self.results["peak"].values()]
        peak = self._arguments.peak or (known[0] if known else 0.0)
        for fraction in (float(text) for text in self._arguments.loads.split(",")):
            # Both sides of a load, or none of it.
            if not peak or self._budget.over(2.6 * self._arguments.seconds):
                self.results["errors"][f"load {fraction}"] = "there was no time or no peak"
                continue
            rate = fraction * peak / self.results["mean_tokens"]
            requests = requests_of(round(rate * self._arguments.seconds), rate, round(1000 * fraction))
            load: dict[str, Any] = {"fraction": fraction, "requests_per_second": round(rate, 2), "sides": {}}
            self.results["loads"].append(load)
            for name in list(self.alive):
                if found := self.run(name, requests):
                    load["sides"][name] = found
                self.write()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--loads", default="0.75,0.5,0.9", help="parts of native's peak, in this order")
    parser.add_argument("--seconds", type=float, default=12, help="of arrivals, for each load and side")
    parser.add_argument("--concurrent", type=int, default=256, help="max_num_seqs")
    parser.add_argument("--peak", type=float, default=0, help="tokens a second; 0: native's is measured")
    parser.add_argument("--budget", type=float, default=0, help="seconds; then nothing new begins")
    parser.add_argument(
        "--sides", default="native,croupier", help="the first one's peak is the loads' measure"
    )
    add_engine_options(parser)
    arguments = parser.parse_args()
    end_by_signal()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    arrivals = Arrivals(arguments, Budget(arguments.budget))
    try:
        arrivals.start()
        arrivals.measure()
    finally:
        for side in arrivals.alive.values():
            side.close()
        arrivals.write()
    return 1 if arrivals.results["errors"] else 0


if __name__ == "__main__":
    sys.exit(main())
