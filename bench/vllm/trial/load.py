"""Checks with many requests at once, and with clients that go away."""

from __future__ import annotations

import time
from typing import Any

import kinds

from .checks import PATIENCE, Check, Side, prompts
from .client import CHAT, COMPLETIONS, Answer, at_once
from .compare import DIFFERENT, EQUAL, EXPLAINED, Judge, Verdict
from .server import await_true
from .texts import CONVERSATIONS

CROWD = 384
_RUNNING = "vllm:num_requests_running"
_WAITING = "vllm:num_requests_waiting"
_CACHE = "vllm:kv_cache_usage_perc"
# From the last client's leaving until nothing of it runs.
_FREE_WITHIN = 10.0


def _crowd(side: Side) -> dict[str, Any]:
    """Mixed parameters, half of them streamed, a fifth of them chats; each must have its own length."""
    client, asked = side.client, prompts(side.model, CROWD, 24, 50)
    mixture = kinds.mixed_batch(CROWD, grammar=False)
    calls, lengths = [], []
    for place, (prompt, given) in enumerate(zip(asked, mixture, strict=True)):
        length = 24 + place % 40
        plain = {name: value for name, value in given.items() if name != "logprobs"}
        more = {**plain, "max_tokens": length, "min_tokens": length, "ignore_eos": True}
        if "seed" in more:
            more["seed"] += place
        if place % 5 == 4:
            path, body = CHAT, client.chat_body(CONVERSATIONS[place % 3], **more)
        else:
            path, body = COMPLETIONS, client.completion_body(prompt, **more, **_only(given, "logprobs"))
        send = client.stream if place % 2 else client.post
        calls.append(lambda send=send, path=path, body=body: send(path, body))
        lengths.append(length)
    begun = time.monotonic()
    found = at_once(calls, PATIENCE)
    seconds = round(time.monotonic() - begun, 2)
    faults = [fault for one, length in zip(found, lengths, strict=True) if (fault := _fault(one, length))]
    return {"answered": len(found) - len(faults), "faults": faults[:10], "seconds": seconds}


def _only(given: dict[str, Any], name: str) -> dict[str, Any]:
    return {name: given[name]} if name in given else {}


def _fault(answer: Any, length: int) -> str | None:
    if isinstance(answer, Exception):
        return f"{type(answer).__name__}: {answer}"[:300]
    if answer.status != 200 or not answer.body["choices"]:
        return f"status {answer.status}: {answer.message[:300]}"
    counts = len(answer.tokens[0]), answer.body["usage"]["completion_tokens"]
    return None if counts == (length, length) else f"{counts} tokens, and {length} were asked for"


def _all_answered(native: dict[str, Any], croupier: dict[str, Any], judge: Judge) -> Verdict:
    says = [f"{found['answered']} of {CROWD}, {found['seconds']} s" for found in (native, croupier)]
    faults = [*native["faults"][:3], *croupier["faults"][:3]]
    good = native["answered"] == croupier["answered"] == CROWD
    return Verdict(EQUAL if good else DIFFERENT, *says, [*faults, "both servers were at work at once"])


def _leaving(side: Side) -> dict[str, Any]:
    """Clients of long requests go away; the requests must go too, and the server must be as before."""
    client, [prompt] = side.client, prompts(side.model, 1, 30, 51)
    before = client.complete(prompt, max_tokens=16, ignore_eos=True).tokens[0]
    long = {"max_tokens": 20000, "ignore_eos": True, "temperature": 0.9, "seed": 3}
    asked = prompts(side.model, 64, 40, 52)
    bodies = [client.completion_body(one, **long) for one in asked]
    chat = client.chat_body(CONVERSATIONS[1], **long)
    calls = [lambda body=body: client.leave_after(COMPLETIONS, body, 3) for body in bodies[:40]]
    calls += [lambda: client.leave_after(CHAT, chat, 3) for _ in range(8)]
    calls += [lambda body=body: client.leave_unanswered(COMPLETIONS, body, 1.0) for body in bodies[48:]]
    # One of several choices, and beams, are several requests of the engine.
    calls.append(lambda: client.leave_after(COMPLETIONS, {**bodies[0], "n": 4}, 3))
    calls.append(
        lambda: client.leave_unanswered(
            COMPLETIONS,
            client.completion_body(prompt, use_beam_search=True, n=4, max_tokens=20000, ignore_eos=True),
            1.0,
        )
    )
    found = at_once(calls, PATIENCE)
    errors = [repr(one)[:200] for one in found if isinstance(one, Exception)]
    free = await_true(lambda: not _busy(side), _FREE_WITHIN)
    after = client.complete(prompt, max_tokens=16, ignore_eos=True).tokens[0]
    metrics = client.metrics()
    return {
        "left": len(found),
        "errors": errors,
        "seconds_to_free": free,
        "still": {name: metrics.get(name) for name in (_RUNNING, _WAITING)},
        "cache_in_use": metrics.get(_CACHE),
        "same_after": before == after,
    }


def _busy(side: Side) -> bool:
    # The counts are those of the engine's last step: an engine that has nothing to do would show old ones.
    side.client.complete([5], max_tokens=1)
    metrics = side.client.metrics()
    return metrics.get(_RUNNING, 0) + metrics.get(_WAITING, 0) > 0


def _all_left(native: dict[str, Any], croupier: dict[str, Any], judge: Judge) -> Verdict:
    says = [
        f"{found['left']} clients left, free after {found['seconds_to_free']} s"
        for found in (native, croupier)
    ]
    wrong = []
    for name, found in (("native", native), ("croupier", croupier)):
        if found["seconds_to_free"] is None:
            wrong.append(f"{name}: still {found['still']} after {_FREE_WITHIN:.0f} s")
        if found["errors"]:
            wrong.append(f"{name}: {found['errors'][:3]}")
        if not found["same_after"]:
            wrong.append(f"{name}: a greedy request before and after has other tokens")
    if not wrong:
        return Verdict(EQUAL, *says)
    # What native does as well is vLLM's own.
    ours = any(line.startswith("croupier") for line in wrong)
    return Verdict(DIFFERENT if ours else EXPLAINED, *says, wrong)


def _counted(side: Side) -> dict[str, Any]:
    """The server's own counts, once all is answered: what ended for which reason."""
    await_true(lambda: not _busy(side), _FREE_WITHIN)
    answer: Answer = side.client.get("/metrics")
    ends = {}
    for line in answer.body.splitlines():
        if line.startswith("vllm:request_success_total{"):
            reason = line.split('finished_reason="')[1].split('"')[0]
            ends[reason] = ends.get(reason, 0) + int(float(line.rsplit(" ", 1)[1]))
    health = side.client.get("/health").status
    return {"ends": {name: ends.get(name, 0) for name in sorted(ends)}, "health": health}


def _counts_alike(native: dict[str, Any], croupier: dict[str, Any], judge: Judge) -> Verdict:
    says = [f"{found['ends']}, health {found['health']}" for found in (native, croupier)]
    if croupier["ends"].get("error") or croupier["health"] != 200:
        return Verdict(DIFFERENT, *says, ["no request may end with an error"])
    if native == croupier:
        return Verdict(EQUAL, *says)
    notes = ["drawn texts end where they end, and requests that only one side refuses are not counted there"]
    return Verdict(EXPLAINED, *says, notes)


CHECKS = [
    Check(f"{CROWD} requests at once", _crowd, _all_answered),
    Check("clients that go away", _leaving, _all_left),
]
# Behind all others.
LAST = Check("the server's own counts", _counted, _counts_alike)
