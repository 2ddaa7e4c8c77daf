"""Checks of single features: what a server with one more flag does on both sides."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any

from .checks import Check, Side, everybody, prompts
from .client import CHAT, COMPLETIONS
from .compare import DIFFERENT, EQUAL, EXPLAINED, Judge, Verdict, same
from .scores import CHECKS as SCORES
from .server import await_true, gpu_used_mib
from .texts import CHECKS as TEXTS
from .texts import CONVERSATIONS

ADAPTERS = ("layers", "head")
_GIVEN = {"max_tokens": 24, "ignore_eos": True}


def _named(checks: list[Check], *names: str) -> list[Check]:
    found = [check for check in checks if check.name in names]
    if len(found) != len(names):
        raise ValueError(f"no such checks: {names}")
    return found


_ALONE = _named(TEXTS, "greedy, one request at a time")
_FIXED = _named(TEXTS, "min_tokens with ignore_eos: fixed lengths")


def _adapters_alone(side: Side) -> dict[str, Any]:
    [prompt] = prompts(side.model, 1, 40, 80)
    names = [side.client.model, *ADAPTERS]
    found = {name: side.client.complete(prompt, **_GIVEN, model=name).tokens[0] for name in names}
    found["base"] = found.pop(side.client.model)
    return found


def _adapters_differ(native: dict[str, Any], croupier: dict[str, Any], judge: Judge) -> Verdict:
    verdict = same(native, croupier, lambda found: f"{len(found)} models")
    unseen = [name for name in ADAPTERS if native[name] == native["base"]]
    if unseen:
        verdict.notes.append(f"native: {unseen} changes no token, so that nothing was seen of it")
        verdict.how = (
            DIFFERENT if len(unseen) == len(ADAPTERS) else EXPLAINED if verdict.good else verdict.how
        )
    return verdict


def _adapters_at_once(side: Side) -> dict[str, Any]:
    """Requests of the model and of both adapters among each other, some of them longer than a step."""
    names = [side.client.model, *ADAPTERS]
    lengths = [20, 3000, 33, 47, 2500, 61]
    asked = [prompts(side.model, 1, lengths[place % 6] + place, 81)[0] for place in range(24)]
    models = [names[place % 3] for place in range(24)]
    bodies = [
        (COMPLETIONS, side.client.completion_body(prompt, **_GIVEN, model=model))
        for prompt, model in zip(asked, models, strict=True)
    ]
    tokens = [answer.tokens[0] for answer in everybody(side, bodies)]
    models = ["" if model == side.client.model else model for model in models]
    return {"prompts": asked, "models": models, "tokens": tokens}


def _adapters_judged(native: dict[str, Any], croupier: dict[str, Any], judge: Judge) -> Verdict:
    found = []
    for model in sorted(set(native["models"])):
        places = [place for place, name in enumerate(native["models"]) if name == model]
        given = {"model": model} if model else {}
        parts = [[found[place] for place in places] for found in
                 (native["prompts"], native["tokens"], croupier["tokens"])]  # fmt: skip
        found.append(judge.tokens(*parts, **given))
    for how in (DIFFERENT, EXPLAINED, EQUAL):
        if hit := [verdict for verdict in found if verdict.how == how]:
            notes = [note for verdict in hit for note in verdict.notes]
            return Verdict(how, "24 requests of 3 models", hit[0].croupier, notes[:6])
    raise AssertionError("a verdict is one of three")


def _asleep(side: Side) -> dict[str, Any]:
    """Tokens before, memory while asleep, tokens after; and requests under way when it falls asleep."""
    client, asked = side.client, prompts(side.model, 3, 40, 82)

    def tokens() -> list[list[int]]:
        return [client.complete(prompt, **_GIVEN).tokens[0] for prompt in asked]

    before, awake = tokens(), gpu_used_mib()
    statuses = [client.post("/sleep?level=1", None).status]
    sleeps = await_true(lambda: client.get("/is_sleeping").body["is_sleeping"], 20)
    asleep = gpu_used_mib()
    statuses.append(client.post("/wake_up", None).status)
    wakes = await_true(lambda: not client.get("/is_sleeping").body["is_sleeping"], 20)
    after = tokens()
    # Seeded ones too: what the daemon keeps of requests is not what sleeps.
    seeded = [client.complete(asked[0], **_GIVEN, temperature=0.9, seed=4).tokens[0] for _ in range(2)]
    return {
        "before": before,
        "after": after,
        "statuses": statuses,
        "slept": sleeps is not None and wakes is not None,
        "freed_mib": None if awake is None else awake - (asleep or 0),
        "repeats": seeded[0] == seeded[1],
    }


def _slept_alike(native: dict[str, Any], croupier: dict[str, Any], judge: Judge) -> Verdict:
    says = [f"freed {found['freed_mib']} MiB, statuses {found['statuses']}" for found in (native, croupier)]
    wrong = [
        f"{name}: {what}"
        for name, found in (("native", native), ("croupier", croupier))
        for what, good in (
            ("did not sleep and wake", found["slept"]),
            ("other tokens after it", found["before"] == found["after"]),
            ("a seeded request does not repeat", found["repeats"]),
        )
        if not good
    ]
    if native["before"] != croupier["before"]:
        wrong.append("greedy tokens differ")
    notes = ["both servers fell asleep at about the same time on one GPU, whose memory is counted"]
    return Verdict(DIFFERENT if wrong else EQUAL, *says, [*wrong, *notes])


def _forget(side: Side) -> bool:
    """The GPU's cache of prefixes; not while a request or a connector still holds blocks."""
    reset = "/reset_prefix_cache"
    return await_true(lambda: side.client.post(reset, None).body.get("success", False), 10) is not None


def _from_elsewhere(metric: str) -> Check:
    """Prompts are computed, evicted from the GPU's cache, and restored by the connector."""

    def observe(side: Side) -> dict[str, Any]:
        client, asked = side.client, prompts(side.model, 6, 640, 83)

        def tokens() -> list[list[int]]:
            return [client.complete(prompt, **_GIVEN).tokens[0] for prompt in asked]

        first = tokens()
        hits = client.metrics().get(metric, 0.0)
        forgotten = [_forget(side)]
        second = tokens()
        bodies = [(COMPLETIONS, client.completion_body(prompt, **_GIVEN)) for prompt in asked]
        forgotten.append(_forget(side))
        crowd = [answer.tokens[0] for answer in everybody(side, bodies)]
        return {
            "prompts": asked,
            "first": first,
            "second": second,
            "crowd": crowd,
            "forgotten": forgotten,
            "loaded": client.metrics().get(metric, 0.0) - hits,
        }

    def compare(native: dict[str, Any], croupier: dict[str, Any], judge: Judge) -> Verdict:
        for one, other, what in (
            (native["first"], croupier["first"], "computed"),
            (native["first"], native["second"], "native: computed and loaded"),
            (croupier["first"], croupier["second"], "croupier: computed and loaded"),
            (native["crowd"], croupier["crowd"], "loaded at once"),
        ):
            verdict = judge.tokens(native["prompts"], one, other)
            if verdict.how != EQUAL:
                verdict.notes.insert(0, what)
            if not verdict.good:
                return verdict
        loaded = native["loaded"], croupier["loaded"]
        verdict.native, verdict.croupier = (f"{count:.0f} tokens loaded" for count in loaded)
        if min(loaded) <= 0:
            verdict.how = DIFFERENT
            verdict.notes.append("nothing was loaded from outside of the GPU, so that nothing was seen of it")
        return verdict

    return Check("prompts that come back from outside of the GPU", observe, compare)


def _picture(red: int, width: int = 56, height: int = 56) -> str:
    """A PNG of one colour and a diagonal, as a data URL."""
    rows = b"".join(
        b"\0" + b"".join(bytes((red, 4 * x % 256, 255 if x == y else 0)) for x in range(width))
        for y in range(height)
    )

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    data = (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )
    return "data:image/png;base64," + base64.b64encode(data).decode()


def _images(side: Side) -> dict[str, Any]:
    """Chats with a picture: ids of the picture's place stand in the prompt, and count for penalties."""
    client = side.client
    found = {}
    for name, red, more in (
        ("one", 10, {}),
        ("another", 200, {}),
        ("penalties", 10, {"repetition_penalty": 1.3, "presence_penalty": 0.4}),
    ):
        content = [
            {"type": "image_url", "image_url": {"url": _picture(red)}},
            {"type": "text", "text": "What is this?"},
        ]
        answer = client.chat([{"role": "user", "content": content}], max_tokens=16, ignore_eos=True, **more)
        found[name] = answer.shown()
    found["differ"] = found["one"]["tokens"] != found["another"]["tokens"]
    return found


def _replicas(side: Side) -> dict[str, Any]:
    """More requests than one replica would take, and which of the two took how many."""
    client, asked = side.client, prompts(side.model, 96, 24, 84)
    bodies = [(COMPLETIONS, client.completion_body(prompt, **_GIVEN)) for prompt in asked]
    greedy = [answer.tokens[0] for answer in everybody(side, bodies)]
    bodies = [
        (COMPLETIONS, client.completion_body(prompt, **_GIVEN, temperature=1.0, seed=7))
        for prompt in asked[:1] * 16
    ]
    seeded = {tuple(answer.tokens[0]) for answer in everybody(side, bodies)}
    free = [
        (COMPLETIONS, client.completion_body(prompt, **_GIVEN, temperature=1.0)) for prompt in asked[:1] * 16
    ]
    chats = [(CHAT, client.chat_body(one, **_GIVEN)) for one in CONVERSATIONS * 4]
    drawn = {tuple(answer.tokens[0]) for answer in everybody(side, free)}
    ends = {choice["finish_reason"] for answer in everybody(side, chats) for choice in answer.choices}
    taken = {}
    for line in client.get("/metrics").body.splitlines():
        if line.startswith("vllm:request_success_total{"):
            engine = line.split('engine="')[1].split('"')[0]
            taken[engine] = taken.get(engine, 0) + int(float(line.rsplit(" ", 1)[1]))
    return {
        "prompts": asked,
        "tokens": greedy,
        "one_seed": len(seeded),
        "no_seed": len(drawn),
        "ends": sorted(ends),
        "taken": taken,
    }


def _replicas_alike(native: dict[str, Any], croupier: dict[str, Any], judge: Judge) -> Verdict:
    verdict = judge.tokens(native["prompts"], native["tokens"], croupier["tokens"])
    wrong = []
    if len(croupier["taken"]) != 2 or not all(croupier["taken"].values()):
        wrong.append(f"croupier: requests by replica {croupier['taken']}, and both should have some")
    if croupier["no_seed"] < 8:
        wrong.append(f"croupier: 16 requests without a seed have {croupier['no_seed']} different answers")
    if croupier["ends"] != native["ends"]:
        wrong.append(f"ends: native {native['ends']}, croupier {croupier['ends']}")
    if wrong:
        verdict.how = DIFFERENT
    if croupier["one_seed"] > 1:
        wrong.append(f"one seed, 16 requests at once: {croupier['one_seed']} answers (native "
                     f"{native['one_seed']}): batches round otherwise")  # fmt: skip
    verdict.notes += wrong
    verdict.native, verdict.croupier = (
        f"requests by replica: {found['taken']}" for found in (native, croupier)
    )
    return verdict


LORA = [
    Check("the model and two adapters, one at a time", _adapters_alone, _adapters_differ),
    Check("the model and two adapters at once, prompts in parts", _adapters_at_once, _adapters_judged),
    *_FIXED,
]
SLEEP = [*_ALONE, Check("sleep and wake", _asleep, _slept_alike), *_FIXED]
CONNECTOR = [*_ALONE, _from_elsewhere("vllm:external_prefix_cache_hits_total"), *_FIXED]
OFFLOAD = CONNECTOR
IMAGES = [
    *_ALONE,
    *_named(TEXTS, "chats", "streams"),
    Check(
        "chats with a picture",
        _images,
        lambda native, croupier, _: same(
            native, croupier, lambda found: f"{len(found) - 1} answers, pictures matter: {found['differ']}"
        ),
    ),
    *_FIXED,
]
GRAMMARS = [
    *_ALONE,
    *_named(SCORES, "JSON schemas, regular expressions, choices", "a streamed grammar"),
]
REPLICAS = [*_ALONE, Check("requests on both replicas", _replicas, _replicas_alike), *_FIXED]
