"""`rng: vllm` against vLLM 0.33's random numbers: restated in bench/vllm/noise.py, and by vLLM's own kernel.

0.26 draws from Philox, and no `rng` of Croupier's has its numbers.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from croupier import Decider, Params
from croupier.vllm import compat

sys.path.append(str(Path(__file__).parents[2] / "bench" / "vllm"))
import noise  # noqa: E402

VOCAB = 700
# Of two scores in fp32 whose logarithms two libraries have computed.
NEAR = 1e-5


def rows(count: int, spread: float) -> np.ndarray:
    return np.random.Generator(np.random.PCG64(5)).normal(0, spread, (count, VOCAB)).astype(np.float32)


SEEDS = np.random.Generator(np.random.PCG64(9)).integers(-(2**63), 2**63, 94)
CASES = [
    # Seed (vLLM's are signed), tokens before the drawn one, temperature.
    (seed, 1 + 37 * place % 500, temperature)
    for place, seed in enumerate([0, 1, -1, -(2**63), 2**63 - 1, 2**32, *map(int, SEEDS)])
    for temperature in (0.3, 0.7, 1.0, 1.8)
]


def token_of(row: np.ndarray, seed: int, before: int, temperature: float) -> int:
    params = Params(temperature=temperature, rng="vllm", seed=seed & (1 << 64) - 1)
    return Decider(VOCAB, max_length=1024).decide(row, [3] * (before - 1), [4], params=params).token


@pytest.mark.parametrize("spread", [0.5, 4.0])
def test_rng_vllm_draws_as_the_algorithm_of_0_33_says(spread: float) -> None:
    for row, (seed, before, temperature) in zip(rows(len(CASES), spread), CASES, strict=True):
        scores = row.astype(np.float64) / temperature + noise.noise(seed, before - 1, np.arange(VOCAB))
        drawn = token_of(row, seed, before, temperature)
        assert drawn == scores.argmax() or scores.max() - scores[drawn] < NEAR, (seed, before, temperature)


def test_the_gpu_hosts_script_decides_here_as_its_restatement_says() -> None:
    drawer = noise.Drawer(argparse.Namespace(vocab=VOCAB, threads=2))
    cases = noise.cases_of(np.random.Generator(np.random.PCG64(4)), 300)
    assert max(case["position"] for case in cases) > 4096
    logits = rows(len(cases), 2.0)
    for row, case, token in zip(logits, cases, drawer.here(logits, cases), strict=True):
        scores = row.astype(np.float64) / case["temperature"]
        scores += noise.noise(case["seed"], case["position"], np.arange(VOCAB))
        best = int(scores.argmax())
        found = noise.difference(row, case, best, token)
        assert found["scores"][0] == pytest.approx(scores[best], abs=1e-9)
        assert token == best or found["gap"] < NEAR, found


# In a process of its own: Triton's interpreter is chosen before Triton is imported, and vLLM takes Triton for
# absent where there is no GPU.
BY_KERNEL = """
import importlib.metadata, importlib.util, json, sys, types
import torch, triton, triton.language as tl
from triton.language.extra import libdevice

@triton.jit
def log1p(x):
    return tl.log(1.0 + x)

stand_in = types.ModuleType("vllm.triton_utils")
stand_in.tl, stand_in.triton, stand_in.HAS_TRITON = tl, triton, True
stand_in.tldevice = types.SimpleNamespace(log1p=log1p)
package = types.ModuleType("vllm")
package.__path__ = []
sys.modules.update({"vllm": package, "vllm.triton_utils": stand_in})
file = importlib.metadata.distribution("vllm").locate_file("vllm/v1/worker/gpu/sample/gumbel.py")
spec = importlib.util.spec_from_file_location("gumbel", file)
gumbel = importlib.util.module_from_spec(spec)
spec.loader.exec_module(gumbel)
given = json.load(sys.stdin)
kind = {"is_drafting": False} if "murmur3_hash32" in dir(gumbel) else {}
count = len(given["rows"])
tokens = gumbel.gumbel_sample(
    torch.tensor(given["rows"]), torch.arange(count, dtype=torch.int32), torch.tensor(given["temperatures"]),
    torch.tensor(given["seeds"]), torch.tensor(given["positions"]), apply_temperature=True, **kind,
)
print(json.dumps(tokens.tolist()))
"""


def drawn_by_kernel(logits: np.ndarray) -> list[int]:
    given = {
        "rows": logits.tolist(),
        "seeds": [seed for seed, _, _ in CASES],
        "positions": [before - 1 for _, before, _ in CASES],
        "temperatures": [temperature for _, _, temperature in CASES],
    }
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", BY_KERNEL],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "TRITON_INTERPRET": "1"},
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    return json.loads(ran.stdout.splitlines()[-1])


def has_kernel() -> bool:
    try:
        file = importlib.metadata.distribution("vllm").locate_file("vllm/v1/worker/gpu/sample/gumbel.py")
    except importlib.metadata.PackageNotFoundError:
        return False
    return Path(str(file)).exists() and importlib.util.find_spec("triton") is not None


@pytest.mark.skipif(not has_kernel(), reason="no vLLM with Triton is installed")
def test_vllms_own_kernel_draws_the_tokens_that_the_release_says() -> None:
    logits = rows(len(CASES), 1.0)
    by_kernel = drawn_by_kernel(logits)
    differ = []
    for row, case, token in zip(logits, CASES, by_kernel, strict=True):
        seed, before, temperature = case
        drawn = token_of(row, seed, before, temperature)
        if drawn != token:
            scores = row.astype(np.float64) / temperature + noise.noise(seed, before - 1, np.arange(VOCAB))
            differ.append((case, token, drawn, abs(scores[token] - scores[drawn])))
    if compat.current().rng == "vllm":
        assert all(gap < NEAR for *_, gap in differ), differ
    else:
        # Its numbers are others: two draws of 700 tokens seldom agree.
        assert len(differ) > len(CASES) // 2
