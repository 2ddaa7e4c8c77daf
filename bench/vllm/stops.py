"""Requests with stop strings, all at once: vLLM alone and with Croupier, the engine core in its own process.

    stops.py FOLDER --size 1.5b --layers 28 --memory 0.3 --cache-gib 8 --budget 150

How many steps are computed for requests that have ended, and whether the texts are the same. Each request has
three stop strings of two letters, which random weights and a generated tokenizer (byte-level, words of random
letters) meet after some fifty tokens. Workers count the tokens that they compute: a request with P tokens of
prompt and T of output needs P + T - 1 of them, and each one more is a step for a request that has ended.

FOLDER/stops.json has, of each kind and side: those steps, the seconds, how requests ended, and how many of
them vLLM's own detokenizer ends with the same token and the same text; and how many have the same text on
both sides, and how many the same tokens. Batches differ, and with them a few greedy tokens; seeded ones are
others.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from async_engine import end_engine
from engines import (
    PROMPT,
    add_engine_options,
    croupier_options,
    engine_arguments,
    folder_model,
    prompt_tokens,
    sampling_of,
    stay_apart,
)
from shapes import VOCAB, make_model, spread_head, spread_inputs
from sides import Budget, Side, SideFailedError, end_by_signal, environment, last_line, write_json
from workers import computed, count_computed

LETTERS = "abcdefghijklmnopqrstuvwxyz"
# More than any request of a kind needs to settle: kernels are compiled at their first use.
_WARM_UP = 16
KINDS: dict[str, dict[str, Any]] = {
    "greedy": {"temperature": 0.0},
    "seeded": {"temperature": 0.8, "top_p": 0.95, "seed": 5},
}


def words(count: int) -> list[str]:
    """Tokens as a byte-level vocabulary writes them: all bytes, then words, some behind a space."""
    chance, found = random.Random(13), dict.fromkeys(_byte_pieces())
    while len(found) < count:
        word = "".join(chance.choices(LETTERS, k=chance.randint(2, 8)))
        found["\u0120" * (chance.random() < 0.5) + word] = None
    return list(found)


def _byte_pieces() -> list[str]:
    """GPT-2's alphabet: printable Latin-1 as itself, other bytes from U+0100 on."""
    own = {*range(0x21, 0x7F), *range(0xA1, 0x100)} - {0xAD}
    others = iter(range(0x100, 0x200))
    return [chr(byte) if byte in own else chr(next(others)) for byte in range(0x100)]


def make_tokenizer(folder: Path, size: int = VOCAB) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    vocabulary = {piece: place for place, piece in enumerate(words(size))}
    file = {
        "version": "1.0",
        "added_tokens": [],
        "pre_tokenizer": byte_level,
        "decoder": byte_level,
        "model": {"type": "BPE", "vocab": vocabulary, "merges": []},
    }
    (folder / "tokenizer.json").write_text(json.dumps(file), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"}))


def stops_of(place: int) -> list[str]:
    chance = random.Random(1000 + place)
    return ["".join(chance.choices(LETTERS, k=2)) for _ in range(3)]


def make_engine(arguments: argparse.Namespace, side: str, croupier: dict[str, Any] | None) -> Any:
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.v1.engine.async_llm import AsyncLLM

    runtime = arguments.folder / f"runtime-{side}"
    stay_apart(runtime)
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    sizes = sorted({*range(16, arguments.requests, 16), arguments.requests, 1, 8})
    given = engine_arguments(arguments, side, folder_model(arguments.folder), sizes, croupier)
    del given["skip_tokenizer_init"]
    given["max_num_batched_tokens"] = 2 * PROMPT * arguments.requests

    async def made() -> Any:
        llm = AsyncLLM.from_engine_args(AsyncEngineArgs(**given))
        await llm.collective_rpc(spread_inputs)
        await llm.collective_rpc(spread_head, args=(arguments.deviation,))
        await llm.collective_rpc(count_computed)
        return SimpleNamespace(llm=llm, loop=loop)

    return loop.run_until_complete(made())


async def one_request(llm: Any, kind: str, place: int, tokens: int) -> dict[str, Any]:
    given = {**KINDS[kind], "detokenize": True, "stop": stops_of(place)}
    prompt = {"prompt_token_ids": prompt_tokens(place)}
    last = None
    async for output in llm.generate(prompt, sampling_of(given, place, tokens), f"{kind}-{place}"):
        last = output.outputs[0]
    return {
        "tokens": list(last.token_ids),
        "text": last.text,
        "end": last.finish_reason,
        "stop": last.stop_reason,
    }


def ask_all(engine: Any, kind: str, count: int, tokens: int) -> dict[str, Any]:
    """The answers to so many requests at once, and what was computed for them."""

    async def run() -> dict[str, Any]:
        [before] = await engine.llm.collective_rpc(computed)
        begun = time.perf_counter()
        answers = await asyncio.gather(
            *(one_request(engine.llm, kind, place, tokens) for place in range(count))
        )
        seconds = time.perf_counter() - begun
        # A step that was under way when the last request ended is over by then.
        await asyncio.sleep(0.5)
        [after] = await engine.llm.collective_rpc(computed)
        return {"answers": answers, "computed": after - before, "seconds": round(seconds, 3)}

    return engine.loop.run_until_complete(run())


def alone(tokenizer: Any, answers: list[dict[str, Any]], kind: str, tokens: int) -> int:
    """How many of the answers are those of vLLM's detokenizer for the same tokens, one by one."""
    from vllm.v1.engine.detokenizer import IncrementalDetokenizer

    equal = 0
    for place, answer in enumerate(answers):
        sampling = sampling_of({**KINDS[kind], "detokenize": True, "stop": stops_of(place)}, place, tokens)
        request = SimpleNamespace(
            request_id="", sampling_params=sampling, prompt_token_ids=prompt_tokens(place), prompt_embeds=None
        )
        detokenizer = IncrementalDetokenizer.from_new_request(tokenizer, request)
        found = [detokenizer.update([token], False) for token in answer["tokens"]]
        is_end = answer["stop"] == found[-1] and not any(found[:-1])
        equal += is_end and detokenizer.get_next_output_text(True, False) == answer["text"]
    return equal


def summed(found: dict[str, Any]) -> dict[str, Any]:
    answers = found["answers"]
    needed = sum(PROMPT + len(answer["tokens"]) - 1 for answer in answers)
    lengths = sorted(len(answer["tokens"]) for answer in answers)
    return {
        "requests": len(answers),
        "ended_by_a_stop_string": sum(isinstance(answer["stop"], str) for answer in answers),
        "ended_otherwise": sorted({answer["end"] for answer in answers} - {"stop"}),
        "output_tokens": sum(lengths),
        "median_tokens": lengths[len(lengths) // 2],
        "steps_for_ended_requests": found["computed"] - needed,
        "seconds": found["seconds"],
    }


def compared(native: dict[str, Any], croupier: dict[str, Any]) -> dict[str, int]:
    pairs = list(zip(native["answers"], croupier["answers"], strict=True))
    same = [(one, other) for one, other in pairs if one["tokens"] == other["tokens"]]
    return {
        "requests": len(pairs),
        "equal_tokens": len(same),
        "equal_answers_of_equal_tokens": sum(one == other for one, other in same),
        "equal_texts": sum(one["text"] == other["text"] for one, other in pairs),
    }


class Bench:
    def __init__(self, arguments: argparse.Namespace) -> None:
        self._arguments = arguments
        self._found: dict[str, dict[str, dict[str, Any]]] = {kind: {} for kind in KINDS}
        self.results: dict[str, Any] = {
            "arguments": {name: str(value) for name, value in vars(arguments).items()},
            "environment": environment(),
            "seconds_to_start": {},
            "kinds": {kind: {} for kind in KINDS},
            "errors": {},
        }

    def write(self) -> None:
        write_json(self._arguments.folder / "stops.json", self.results)

    def run(self, budget: Budget) -> None:
        names = self._arguments.sides.split(",")
        sides = {name: self._side(name) for name in names}
        try:
            for name, side in sides.items():
                self.results["seconds_to_start"][name] = side.answer()
            for kind in KINDS:
                for name, side in sides.items():
                    if budget.over(10.0):
                        self.results["errors"][f"{kind}/{name}"] = "the budget was over"
                    else:
                        self._measure(kind, name, side)
        except SideFailedError as error:
            print(last_line(error), file=sys.stderr, flush=True)
            self.results["errors"]["engine"] = str(error)
        finally:
            for side in sides.values():
                side.close()
            self.write()

    def _side(self, name: str) -> Side:
        options = None if name == "native" else croupier_options(self._arguments)
        return Side(name, make_engine, end_engine, self._arguments, name, options)

    def _measure(self, kind: str, name: str, side: Side) -> None:
        given = kind, self._arguments.requests, self._arguments.tokens
        side.ask(ask_all, kind, self._arguments.requests, _WARM_UP)
        found = self._found[kind][name] = side.ask(ask_all, *given)
        cell = self.results["kinds"][kind]
        cell[name] = summed(found)
        cell[name]["as_vllms_detokenizer_alone"] = alone(
            self._tokenizer(), found["answers"], kind, self._arguments.tokens
        )
        print(kind, name, cell[name], flush=True)
        if set(self._found[kind]) == {"native", "croupier"}:
            cell["compared"] = compared(self._found[kind]["native"], self._found[kind]["croupier"])
            print(kind, cell["compared"], flush=True)
        self.write()

    def _tokenizer(self) -> Any:
        from transformers import AutoTokenizer

        if not hasattr(self, "_known"):
            self._known = AutoTokenizer.from_pretrained(folder_model(self._arguments.folder))
        return self._known


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--requests", type=int, default=256)
    parser.add_argument("--tokens", type=int, default=256, help="the longest output")
    parser.add_argument("--sides", default="native,croupier")
    parser.add_argument("--budget", type=float, default=0, help="seconds; then nothing new begins")
    add_engine_options(parser)
    arguments = parser.parse_args()
    end_by_signal()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    make_model(arguments.folder / "model", arguments.size, arguments.layers)
    make_tokenizer(arguments.folder / "model")
    bench = Bench(arguments)
    bench.run(Budget(arguments.budget))
    return 1 if bench.results["errors"] else 0


if __name__ == "__main__":
    sys.exit(main())
