"""Checks of what only Croupier has, and of requests that are wrong."""

from __future__ import annotations

from typing import Any

from .checks import Check, Side, prompts
from .client import CHAT, COMPLETIONS
from .compare import DIFFERENT, EQUAL, EXPLAINED, Judge, Verdict

_DRY = {"dry_multiplier": 20.0, "dry_base": 2.0, "dry_allowed_length": 2}
_XTC = {"xtc_probability": 1.0, "xtc_threshold": 0.01}


def _dry(side: Side) -> dict[str, Any]:
    """A prompt that is the model's own greedy text and its beginning: greedy repeats it, and DRY must not."""
    client, [start] = side.client, prompts(side.model, 1, 8, 30)
    chain = client.complete(start, max_tokens=24, ignore_eos=True).tokens[0]
    prompt = start + chain + chain[:6]
    given = {"max_tokens": 12, "ignore_eos": True}
    plain = client.complete(prompt, **given)
    dry = client.complete(prompt, **given, vllm_xargs=_DRY)
    return {
        "repeated_plain": _alike(plain.tokens[0], chain[6:]),
        "repeated_dry": _alike(dry.tokens[0], chain[6:]),
        "changed": plain.tokens != dry.tokens,
    }


def _alike(tokens: list[int], chain: list[int]) -> int:
    return sum(one == other for one, other in zip(tokens, chain, strict=False))


def _dry_seen(native: dict[str, Any], croupier: dict[str, Any], judge: Judge) -> Verdict:
    return _own(
        native,
        croupier,
        lambda found: f"{found['repeated_dry']} of {found['repeated_plain']} repeated tokens stay",
        works=croupier["changed"] and croupier["repeated_dry"] < croupier["repeated_plain"],
        ignored=not native["changed"],
    )


def _xtc(side: Side) -> dict[str, Any]:
    """How many of the drawn tokens are the likeliest ones, without XTC and with it."""
    client, asked = side.client, prompts(side.model, 6, 20, 31)
    counts = {}
    for name, more in (("plain", {}), ("xtc", {"vllm_xargs": _XTC})):
        likeliest = total = 0
        for seed, prompt in enumerate(asked):
            answer = client.complete(
                prompt, temperature=0.7, seed=seed, max_tokens=16, ignore_eos=True, logprobs=1,
                return_tokens_as_token_ids=True, **more,
            )  # fmt: skip
            for token, best in zip(
                answer.tokens[0], answer.choices[0]["logprobs"]["top_logprobs"], strict=True
            ):
                likeliest += max(best, key=best.get) == f"token_id:{token}"
                total += 1
        counts[name] = round(likeliest / total, 3)
    return counts


def _xtc_seen(native: dict[str, Any], croupier: dict[str, Any], judge: Judge) -> Verdict:
    return _own(
        native,
        croupier,
        lambda found: f"likeliest tokens: {found['plain']:.0%} without, {found['xtc']:.0%} with",
        works=croupier["xtc"] < 0.5 * croupier["plain"],
        ignored=native["xtc"] > 0.8 * native["plain"],
    )


def _own(native: Any, croupier: Any, says: Any, works: bool, ignored: bool) -> Verdict:
    shown = says(native), says(croupier)
    if not works:
        return Verdict(DIFFERENT, *shown, ["croupier: no effect was seen"])
    if not ignored:
        return Verdict(DIFFERENT, *shown, ["native: an effect was seen, where none was expected"])
    return Verdict(EXPLAINED, *shown, ["native takes vllm_xargs and ignores them"])


# Requests that are wrong: a name that the answer has to have, and what is wrong. A word before the name says
# whom it is wrong for: native takes what only Croupier refuses by name.
_LONG = {"max_tokens": 4}
WRONG: list[tuple[str, dict[str, Any]]] = [
    ("temperature", {"temperature": -1.0}),
    ("top_p", {"top_p": 0.0}),
    ("top_p", {"top_p": 1.5}),
    ("top_k", {"top_k": -5}),
    ("min_p", {"min_p": 2.0}),
    ("repetition_penalty", {"repetition_penalty": 0.0}),
    ("presence_penalty", {"presence_penalty": 3.0}),
    ("frequency_penalty", {"frequency_penalty": -3.0}),
    ("n", {"n": 0}),
    ("n", {"n": 2, "temperature": 0}),
    ("max_tokens", {"max_tokens": 0}),
    ("max_tokens", {"max_tokens": -4}),
    ("min_tokens", {"min_tokens": 50, "max_tokens": 4}),
    ("logprobs", {"logprobs": 21}),
    ("logprobs", {"logprobs": 100}),
    ("logprobs", {"logprobs": -2}),
    ("seed", {"seed": "eleven"}),
    ("seed", {"seed": 2**70}),
    ("stop_token_ids", {"stop_token_ids": ["x"]}),
    ("logit_bias", {"logit_bias": {"99999999": 1.0}}),
    ("logit_bias", {"logit_bias": {"x": 1.0}}),
    ("allowed_token_ids", {"allowed_token_ids": []}),
    ("allowed_token_ids", {"allowed_token_ids": [99999999]}),
    ("bad_words", {"bad_words": [""]}),
    ("stop", {"stop": [""]}),
    ("prompt", {"prompt": []}),
    ("prompt", {"prompt": [99999999]}),
    ("prompt", {"prompt": [7] * 40000}),
    ("model", {"model": "no-such-model"}),
    ("priority", {"priority": 5}),
    ("structured_outputs", {"structured_outputs": {"regex": "("}}),
    ("structured_outputs", {"structured_outputs": {"choice": []}}),
    ("structured_outputs", {"structured_outputs": {"json": {"type": "no such type"}}}),
    ("own logprobs", {"logprobs": -1}),
    ("own logprob_token_ids", {"logprobs": 1, "logprob_token_ids": [5, 6]}),
    ("own thinking_token_budget", {"thinking_token_budget": 8}),
    ("own dry_multiplier", {"vllm_xargs": {"dry_multiplier": -1.0}}),
    ("own xtc_probability", {"vllm_xargs": {"xtc_probability": 2.0}}),
    ("own xtc_treshold", {"vllm_xargs": {"xtc_treshold": 0.1}}),
    ("own temperature", {"vllm_xargs": {"temperature": 0.5}}),
    ("own mirostat", {"vllm_xargs": {"mirostat": 7}}),
    ("own order", {"vllm_xargs": {"order": "no such order"}}),
]


def _wrong(side: Side) -> list[dict[str, Any]]:
    client, [prompt] = side.client, prompts(side.model, 1, 10, 40)
    found = []
    for name, given in WRONG:
        answer = client.complete(given.get("prompt", prompt), **{**_LONG, **_without(given, "prompt")})
        found.append({"name": name, "status": answer.status, "message": _said(answer)})
    for name, data in (("JSON", b"{"), ("prompt", b"{}"), ("body", b"[1]")):
        answer = client.post(COMPLETIONS, data)
        found.append({"name": f"body {name}", "status": answer.status, "message": _said(answer)})
    for name, given in (("messages", {"messages": "hello"}), ("top_logprobs", {"top_logprobs": 40})):
        body = {**client.chat_body([{"role": "user", "content": "Hello."}], **_LONG), **given}
        answer = client.post(CHAT, {"logprobs": True, **body})
        found.append({"name": f"chat {name}", "status": answer.status, "message": _said(answer)})
    # A request with nothing wrong, behind all of them.
    found.append({"name": "right", "status": client.complete(prompt, **_LONG).status, "message": ""})
    return found


def _said(answer: Any) -> str:
    return "" if answer.status == 200 else answer.message[:300]


def _without(given: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in given.items() if key != name}


def _refused_alike(native: list[Any], croupier: list[Any], judge: Judge) -> Verdict:
    """The same class of status; and whatever Croupier refuses itself has a name in it."""
    wrong, explained = [], []
    for one, other in zip(native, croupier, strict=True):
        name = other["name"].split()[-1]
        line = f"{one['name']}: native {one['status']}, croupier {other['status']}: {other['message'][:160]}"
        if one["status"] // 100 != other["status"] // 100:
            refuses = other["name"].startswith("own ") and one["status"] == 200 and other["status"] == 400
            (explained if refuses else wrong).append(line)
        elif other["name"].startswith("own ") and other["status"] == 200:
            wrong.append(f"{line}: croupier should refuse it")
        if other["message"] != one["message"] and other["status"] >= 400 and name not in other["message"]:
            wrong.append(f"{line}: the message does not name {name}")
    says = [
        f"{sum(400 <= one['status'] < 500 for one in found)} of {len(found)} refused"
        for found in (native, croupier)
    ]
    if wrong:
        return Verdict(DIFFERENT, *says, wrong)
    if explained:
        return Verdict(EXPLAINED, *says, ["only Croupier looks at these:", *explained])
    return Verdict(EQUAL, *says)


CHECKS = [
    Check("DRY by vllm_xargs", _dry, _dry_seen),
    Check("XTC by vllm_xargs", _xtc, _xtc_seen),
    Check("wrong parameters", _wrong, _refused_alike),
]
