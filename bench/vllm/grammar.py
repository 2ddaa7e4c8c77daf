"""Structured outputs under both samplers: how many texts are what their grammar asks for.

    grammar.py FOLDER --tokenizer FOLDER_WITH_TOKENIZER --requests 96 --budget 90

A third of the requests each has a JSON schema, a regular expression and a choice (kinds.py), with llguidance
behind vLLM's backend "guidance". They are drawn greedily, where both sides' texts must be the same, and with
seeds and all controls, where each text must be the grammar's. FOLDER/grammar.json has the counts and what
went wrong.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import kinds
from engines import Run, add_engine_options, croupier_options, make_llm
from shapes import make_model
from sides import Budget, Side, SideFailedError, end_by_signal, end_llm, environment, write_json

WAYS = {"greedy": kinds.GREEDY, "seeded": {**kinds.FULL, "seed": 11}}


def names_of(count: int) -> list[str]:
    """The grammar of each request."""
    known = list(kinds.GRAMMARS)
    return [known[place % len(known)] for place in range(count)]


def structured(llm: Any, way: str, count: int, tokens: int) -> list[dict[str, Any]]:
    asked = [
        {**WAYS[way], "ignore_eos": False, "structured_outputs": kinds.GRAMMARS[name]}
        for name in names_of(count)
    ]
    outputs = Run(llm, asked, tokens).outputs()
    return [{"tokens": list(output.token_ids), "end": output.finish_reason} for output in outputs]


def judged(found: list[dict[str, Any]], decode: Any) -> dict[str, Any]:
    """Texts that were cut by their length count for themselves: a part of a JSON text parses as nothing."""
    texts = [decode(one["tokens"]) for one in found]
    counts = {"finished": 0, "as_the_grammar_asks": 0, "cut_by_length": 0, "failed": 0}
    wrong = []
    for name, one, text in zip(names_of(len(found)), found, texts, strict=True):
        if one["end"] == "length":
            counts["cut_by_length"] += 1
        elif one["end"] != "stop":
            counts["failed"] += 1
            wrong.append({"grammar": name, "end": one["end"], "text": text})
        else:
            counts["finished"] += 1
            if kinds.is_text_of(name, text):
                counts["as_the_grammar_asks"] += 1
            else:
                wrong.append({"grammar": name, "end": one["end"], "text": text})
    return {**counts, "wrong": wrong[:20], "texts": texts[:9]}


def differences(found: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    if set(found) != {"native", "croupier"}:
        return {}
    pairs = list(zip(found["native"], found["croupier"], strict=True))
    differing = [
        {"request": place, "native": one["tokens"], "croupier": other["tokens"]}
        for place, (one, other) in enumerate(pairs)
        if one["tokens"] != other["tokens"]
    ]
    return {"compared": len(pairs), "differ": len(differing), "differing": differing[:5]}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--requests", type=int, default=96)
    parser.add_argument("--tokens", type=int, default=96, help="the longest text")
    parser.add_argument("--budget", type=float, default=0, help="seconds; then nothing new begins")
    parser.add_argument("--sides", default="native,croupier")
    add_engine_options(parser)
    arguments = parser.parse_args()
    if not arguments.tokenizer:
        raise SystemExit("grammars are made of a tokenizer's tokens: --tokenizer FOLDER")
    end_by_signal()
    budget = Budget(arguments.budget)
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(arguments.tokenizer)

    def decode(tokens: list[int]) -> str:
        return tokenizer.decode(tokens, skip_special_tokens=True)

    arguments.folder.mkdir(parents=True, exist_ok=True)
    model = make_model(arguments.folder / "model", arguments.size, arguments.layers)
    found: dict[str, dict[str, list[dict[str, Any]]]] = {way: {} for way in WAYS}
    results: dict[str, Any] = {"requests": arguments.requests, "sides": {}, "errors": {}}
    results["environment"] = environment()
    for name in arguments.sides.split(","):
        options = None if name == "native" else croupier_options(arguments)
        side = Side(name, make_llm, end_llm, arguments, name, model, [arguments.requests], options)
        try:
            side.answer()
            for way in WAYS:
                if budget.over():
                    results["errors"][f"{name}/{way}"] = "the budget was over"
                    continue
                found[way][name] = side.ask(structured, way, arguments.requests, arguments.tokens)
                results["sides"][f"{name}/{way}"] = judged(found[way][name], decode)
                results["greedy_differences"] = differences(found["greedy"])
                write_json(arguments.folder / "grammar.json", results)
        except SideFailedError as error:
            results["errors"][name] = str(error)
        finally:
            side.close()
    write_json(arguments.folder / "grammar.json", results)
    for name, counts in results["sides"].items():
        print(name, {key: value for key, value in counts.items() if isinstance(value, int)})
    print(
        "greedy",
        {key: value for key, value in results.get("greedy_differences", {}).items() if key != "differing"},
    )
    for name, error in results["errors"].items():
        print(f"{name}: {error.strip().splitlines()[-1][:400]}", file=sys.stderr)
    return 1 if results["errors"] else 0


if __name__ == "__main__":
    sys.exit(main())
