#!/usr/bin/env python3
"""From logits in a GPU's memory to tokens there, for each kind of request of bench/vllm/kinds.py.

    kind_steps.py OUT.json [--kinds all] [--columns 256,64] [--dtypes bf16,fp32] [--steps 1000] [--wait spin]

PYTHONPATH as for bench/windows/gpu_steps.py, and bench/windows itself. Microseconds of the GPU's stream, from
the enqueue on; a session's first steps, and those of new requests, are counted apart.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import kinds
import torch
from daemon_process import Daemon
from gpu_steps import LENGTH, PATIENCE, Clock, check_errors, row_number, rows_of

import croupier
from croupier.vllm.parameters import Limits, Request, translate

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
# A request's fields as vLLM's SamplingParams has them where it names none.
NOTHING_ASKED = {
    "temperature": 1.0,
    "top_p": 1.0,
    "top_k": 0,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
    "frequency_penalty": 0.0,
    "presence_penalty": 0.0,
    "min_tokens": 0,
    "seed": None,
    "logprobs": None,
    "logit_bias": None,
    "allowed_token_ids": None,
    "bad_words": None,
    "bad_words_token_ids": None,
    "stop_token_ids": (),
    "extra_args": None,
}
PROMPT = 100


def all_kinds() -> list[str]:
    return [*kinds.kinds(), *kinds.long_kinds(), *kinds.own_kinds(), "nine", "mixed"]


def asked(given: dict[str, Any]) -> Request:
    fields = {**NOTHING_ASKED, **given}
    return translate(SimpleNamespace(**fields, all_stop_token_ids=set(fields["stop_token_ids"])), Limits())


def open_lean(
    daemon: Daemon, name: str, vocab: int, dtype: str, columns: int, **others: int
) -> croupier.Session:
    """A session for requests of any kind, with room for those that come and those that go."""
    return daemon.open(
        name=name,
        vocab=vocab,
        dtype=dtype,
        transport="lean",
        steps_in_flight=3,
        max_batch=columns,
        max_sequences=2 * columns,
        max_length=PROMPT + LENGTH + 10,
        max_bias=Limits.max_bias,
        max_stop_ids=Limits.max_stop_ids,
        max_list_tokens=Limits.max_list_tokens,
        max_logprobs=Limits.max_logprobs,
        **others,
    )


def admit(session: croupier.Session, requests: list[Request], first: int, vocab: int) -> list[int]:
    for place, request in enumerate(requests):
        uid = first + place
        prompt = [(uid * 31 + at * 7919) % vocab for at in range(PROMPT)]
        seed = uid if request.seed is None else request.seed
        params = croupier.Params(seed=seed, ignore_eos=True, **request.params)
        session.add(uid, prompt, params=params, **request.lists())
    return list(range(first, first + len(requests)))


def measure(daemon: Daemon, place: argparse.Namespace, kind: str, columns: int, dtype: str) -> dict[str, Any]:
    device, on_gpu = place.device, place.device != "cpu"
    rows = rows_of(place.rows, place.vocab, device).to(DTYPES[dtype])
    gathered = torch.empty(columns, place.vocab, dtype=DTYPES[dtype], device=device)
    tokens = torch.empty(columns, dtype=torch.int32, device=device)
    stream = torch.cuda.current_stream().cuda_stream if on_gpu else 0
    requests = [asked(given) for given in kinds.batch_of(kind, columns)]
    clock, done, first = Clock(device), 0, 1
    with open_lean(daemon, f"{kind}-{columns}-{dtype}", place.vocab, dtype, columns) as session:
        writer = croupier.Writer(session.segment_path, device=torch.cuda.current_device() if on_gpu else -1)
        while done < place.steps:
            uids = admit(session, requests, first, place.vocab)
            first += columns
            clock.begin_session()
            for position in range(LENGTH):
                numbers = torch.tensor([row_number(uid, position, place.rows) for uid in uids])
                torch.index_select(rows, 0, numbers.to(device), out=gathered)
                step = session.submit(uids)
                assert writer.begin(step)
                if on_gpu:
                    torch.cuda.synchronize()

                def enqueue(step: int = step) -> None:
                    writer.enqueue(gathered, stream)
                    if on_gpu:
                        writer.enqueue_awaited_tokens(step, tokens, stream, timeout=PATIENCE)

                clock.time(enqueue, lambda: check_errors(session.wait(PATIENCE)))
                done += 1
            for uid in uids:
                session.finish(uid)
        writer.detach()
    return {"kind": kind, "columns": columns, "dtype": dtype, **clock.result()}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--kinds", default="all", help=", ".join(all_kinds()))
    parser.add_argument("--columns", default="256,64")
    parser.add_argument("--dtypes", default="bf16", help=", ".join(DTYPES))
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--samplers", type=int, default=12)
    parser.add_argument("--wait", default="spin", help="samplers.wait of the daemon")
    parser.add_argument("--vocab", type=int, default=151936)
    parser.add_argument("--rows", type=int, default=1024, help="different rows of logits")
    parser.add_argument("--device", default="cuda", help="or cpu: the host's calls are timed, not the GPU")
    place = parser.parse_args()
    chosen = all_kinds() if place.kinds == "all" else place.kinds.split(",")
    found: dict[str, Any] = {
        "device": torch.cuda.get_device_name() if place.device != "cpu" else "cpu",
        "samplers": place.samplers,
        "wait": place.wait,
        "results": [],
    }
    with Daemon(place.samplers, pin=place.device != "cpu", wait=place.wait) as daemon:
        for dtype in place.dtypes.split(","):
            for columns in map(int, place.columns.split(",")):
                for kind in chosen:
                    found["results"].append(measure(daemon, place, kind, columns, dtype))
                    print(json.dumps(found["results"][-1]), flush=True)
                    place.out.write_text(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
