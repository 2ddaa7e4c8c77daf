"""vLLM's asynchronous engine, as a server has it, and what arrivals.py asks of its process."""

from __future__ import annotations

import argparse
import asyncio
import time
from pathlib import Path
from typing import Any

import kinds
from engines import engine_arguments, prompt_tokens, sampling_of, stay_apart, use_graphs
from shapes import spread_head, spread_inputs
from traffic import summed
from workers import memory_of

# CUDA graphs of these sizes, for batches come in all of them.
_SIZES = [1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 160, 192, 224, 256]


class Engine:
    """With a note of when each request's tokens came."""

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
    runtime: Path, arguments: argparse.Namespace, side: str, model: str, croupier: dict[str, Any] | None
) -> Engine:
    stay_apart(runtime)
    use_graphs(arguments)
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.v1.engine.async_llm import AsyncLLM

    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    sizes = [size for size in _SIZES if size < arguments.concurrent] + [arguments.concurrent]
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


async def one_request(
    engine: Engine, given: dict[str, Any], one: dict[str, Any], begun: float, name: str
) -> dict[str, Any]:
    delay = begun + one["at"] - time.perf_counter()
    if delay > 0:
        await asyncio.sleep(delay)
    asked = sampling_of(given, one["place"], one["tokens"])
    prompt = {"prompt_token_ids": prompt_tokens(one["place"], one["prompt"])}
    drawn = 0
    async for output in engine.llm.generate(prompt, asked, name):
        drawn = len(output.outputs[0].token_ids)
    return {**one, "name": name, "drawn": drawn}


async def all_requests(
    engine: Engine, kind: str, requests: list[dict[str, Any]]
) -> tuple[float, list[dict[str, Any] | BaseException]]:
    begun = time.perf_counter() + 0.2
    asked = kinds.batch_of(kind, len(requests))
    tasks = [
        one_request(engine, given, one, begun, f"request-{one['place']}")
        for given, one in zip(asked, requests, strict=True)
    ]
    return begun, await asyncio.gather(*tasks, return_exceptions=True)


def run_load(engine: Engine, kind: str, requests: list[dict[str, Any]]) -> dict[str, Any]:
    engine.came.clear()
    begun, answers = engine.call(all_requests(engine, kind, requests))
    return summed(begun, answers, engine.came)


def daemon_directory(engine: Engine) -> Path:
    """Of the private daemon, where this process has one."""
    from croupier.serving.place import default_directory

    return default_directory()


def memory(engine: Engine) -> list[dict[str, Any]]:
    return engine.call(engine.llm.collective_rpc(memory_of))
