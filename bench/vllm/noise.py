"""vLLM's seeded draws on a GPU against Croupier's `rng: vllm`, token by token. 0.33 draws so; 0.26 does not.

    noise.py FOLDER [--draws 100000] [--vocab 152064] [--rows 256]

vLLM's gumbel_sample() draws from rows of random logits in a model's dtype, with seeds of all 64 bits,
positions up to 131,071 and temperatures from 0.2 to 1.8. Croupier decides about the same rows on the CPU.

Ends with 1 where a token differs, and with 2 where this vLLM does not draw as `rng: vllm` does. A difference
is shown with both tokens' scores, computed in fp64: a gap below --near is of two tokens whose scores the
rounding of logarithms and divisions may exchange, and --allow-near counts those without failing.
FOLDER/noise.json has all of it.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from sides import write_json

_SHOWN = 20
_LONGEST = 131_072
_WORD = np.uint64((1 << 32) - 1)


def mix(state: np.ndarray, word: np.ndarray) -> np.ndarray:
    word = word * np.uint64(0xCC9E2D51) & _WORD
    word = (word << np.uint64(15) | word >> np.uint64(17)) & _WORD
    state = state ^ (word * np.uint64(0x1B873593) & _WORD)
    state = (state << np.uint64(13) | state >> np.uint64(19)) & _WORD
    return (state * np.uint64(5) + np.uint64(0xE6546B64)) & _WORD


def noise(seed: int, position: int, tokens: np.ndarray) -> np.ndarray:
    """The noise of these tokens in fp64: MurmurHash3 of the seed, the position and the token."""
    tokens = np.asarray(tokens, dtype=np.uint64)
    state = np.zeros_like(tokens)
    for word in (seed & int(_WORD), seed >> 32 & int(_WORD), position & int(_WORD)):
        state = mix(state, np.full_like(tokens, word))
    state = mix(state, tokens) ^ np.uint64(16)
    state = (state ^ state >> np.uint64(16)) * np.uint64(0x85EBCA6B) & _WORD
    state = (state ^ state >> np.uint64(13)) * np.uint64(0xC2B2AE35) & _WORD
    hashes = (state ^ state >> np.uint64(16)).astype(np.float64)
    return -np.log(-np.log1p(-(hashes + 0.5) * 2.0**-32))


def difference(row: np.ndarray, case: dict[str, Any], by_vllm: int, here: int) -> dict[str, Any]:
    tokens = np.array([by_vllm, here])
    temperature = float(np.float32(case["temperature"]))
    scores = row[tokens].astype(np.float64) / temperature + noise(case["seed"], case["position"], tokens)
    return {
        **case,
        "vllm": by_vllm,
        "croupier": here,
        "scores": [float(score) for score in scores],
        "gap": abs(float(scores[0] - scores[1])),
    }


def cases_of(generator: np.random.Generator, count: int) -> list[dict[str, Any]]:
    seeds = generator.integers(-(2**63), 2**63, count)
    positions = generator.integers(0, 4096, count)
    # Long prompts are copied for each decision: a few of them are enough.
    positions[::64] = generator.integers(0, _LONGEST, len(positions[::64]))
    temperatures = generator.choice(np.array([0.2, 0.7, 1.0, 1.3, 1.8], dtype=np.float32), count)
    return [
        {"seed": int(seed), "position": int(position), "temperature": float(temperature)}
        for seed, position, temperature in zip(seeds, positions, temperatures, strict=True)
    ]


class Drawer:
    """vLLM's kernel, and Croupier beside it."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        from croupier import Decider

        self._threads = ThreadPoolExecutor(arguments.threads)
        # A decider takes one call at a time. Of a history only the length matters: no penalty looks at it.
        self._deciders = [Decider(arguments.vocab, max_length=_LONGEST + 8) for _ in range(arguments.threads)]
        self._histories = np.zeros(_LONGEST, dtype=np.int32)

    def by_vllm(self, rows: Any, cases: list[dict[str, Any]]) -> list[int]:
        """As Sampler.sample() calls it: temperatures are applied to fp32 rows before."""
        import torch
        from vllm.v1.worker.gpu.sample.gumbel import apply_temperature, gumbel_sample

        count = len(cases)
        mapping = torch.arange(count, dtype=torch.int32, device="cuda")

        def column(name: str, dtype: Any) -> Any:
            return torch.tensor([case[name] for case in cases], dtype=dtype, device="cuda")

        temperatures = column("temperature", torch.float32)
        logits = rows.to(torch.float32, copy=True)
        apply_temperature(logits, mapping, temperatures)
        tokens = gumbel_sample(
            logits,
            mapping,
            temperatures,
            column("seed", torch.int64),
            column("position", torch.int64),
            apply_temperature=False,
            is_drafting=False,
        )
        return tokens.tolist()

    def here(self, rows: np.ndarray, cases: list[dict[str, Any]]) -> list[int]:
        from croupier import Params

        def decide(thread: int) -> list[tuple[int, int]]:
            drawn = []
            for place in range(thread, len(cases), len(self._deciders)):
                case = cases[place]
                params = Params(
                    temperature=case["temperature"], rng="vllm", seed=case["seed"] & (1 << 64) - 1
                )
                # The position is that of the input token: the prompt's last one.
                prompt = self._histories[: case["position"] + 1]
                drawn.append((place, self._deciders[thread].decide(rows[place], prompt, params=params).token))
            return drawn

        tokens = [-1] * len(cases)
        for drawn in self._threads.map(decide, range(len(self._deciders))):
            for place, token in drawn:
                tokens[place] = token
        return tokens


def draws_as_rng_vllm() -> bool:
    from croupier.vllm import compat

    return compat.current().rng == "vllm"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--draws", type=int, default=100_000)
    parser.add_argument("--vocab", type=int, default=152_064)
    parser.add_argument("--rows", type=int, default=256, help="a call of the kernel")
    parser.add_argument("--threads", type=int, default=12)
    parser.add_argument("--dtype", default="bfloat16", choices=("bfloat16", "float16", "float32"))
    parser.add_argument("--near", type=float, default=2e-5)
    parser.add_argument("--allow-near", action="store_true")
    parser.add_argument("--budget", type=float, default=0, help="seconds; 0: until all are drawn")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)

    import torch
    import vllm

    if not draws_as_rng_vllm():
        print(f"vLLM {vllm.__version__} has random numbers of its own; `rng: vllm` is vLLM 0.33's")
        return 2
    generator, begun = np.random.Generator(np.random.PCG64(33)), time.monotonic()
    drawer = Drawer(arguments)
    on_gpu = torch.Generator(device="cuda").manual_seed(33)
    differ: list[dict[str, Any]] = []
    drawn = 0
    distinct: set[int] = set()
    while drawn < arguments.draws:
        if arguments.budget and time.monotonic() - begun > arguments.budget:
            break
        count = min(arguments.rows, arguments.draws - drawn)
        cases = cases_of(generator, count)
        # Flat rows and steep ones: noise decides about the first.
        spread = torch.rand(count, 1, device="cuda", generator=on_gpu) * 5
        rows = torch.randn(count, arguments.vocab, device="cuda", generator=on_gpu) * spread
        rows = rows.to(getattr(torch, arguments.dtype))
        by_vllm = drawer.by_vllm(rows, cases)
        host = rows.float().cpu().numpy()
        here = drawer.here(host, cases)
        for row, case, theirs, ours in zip(host, cases, by_vllm, here, strict=True):
            if theirs != ours:
                differ.append(difference(row, case, theirs, ours))
        distinct.update(by_vllm)
        drawn += count
    near = sum(each["gap"] < arguments.near for each in differ)
    for each in differ[:_SHOWN]:
        print(json.dumps(each))
    seconds = time.monotonic() - begun
    print(
        f"vLLM {vllm.__version__} on {torch.cuda.get_device_name()}: {drawn} draws of {arguments.vocab} "
        f"tokens in {seconds:.0f} s, {len(distinct)} distinct; {len(differ)} differ, {near} of them by a gap "
        f"below {arguments.near:g}"
    )
    write_json(
        arguments.folder / "noise.json",
        {
            "vllm": vllm.__version__,
            "device": torch.cuda.get_device_name(),
            "dtype": arguments.dtype,
            "vocab": arguments.vocab,
            "draws": drawn,
            "asked": arguments.draws,
            "distinct": len(distinct),
            "differ": len(differ),
            "near": near,
            "seconds": round(seconds, 1),
            "differences": differ[:1000],
        },
    )
    if drawn < arguments.draws:
        print(f"only {drawn} of {arguments.draws} draws: the budget is spent")
        return 1
    return 1 if len(differ) > (near if arguments.allow_near else 0) else 0


if __name__ == "__main__":
    sys.exit(main())
