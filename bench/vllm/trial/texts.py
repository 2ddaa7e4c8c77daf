"""Checks of what a client reads: tokens, texts, streams, ends and counts."""

from __future__ import annotations

from typing import Any

from .checks import Check, Side, everybody, prompts
from .client import CHAT, COMPLETIONS, Answer
from .compare import DIFFERENT, EXPLAINED, Judge, Verdict, equal_in, same

TOKENS = 32
CONVERSATIONS = [
    [{"role": "user", "content": "What is a croupier?"}],
    [
        {"role": "system", "content": "Answer in one sentence."},
        {"role": "user", "content": "Name three primes."},
    ],
    [
        {"role": "user", "content": "Hello."},
        {"role": "assistant", "content": "Hello, how can I help?"},
        {"role": "user", "content": "Ça va? 你好 🙂"},
    ],
]


def _greedy_alone(side: Side) -> list[dict[str, Any]]:
    asked = prompts(side.model, 6, 40, 1) + prompts(side.model, 1, 700, 2)
    found = [side.client.complete(prompt, max_tokens=TOKENS, ignore_eos=True).shown() for prompt in asked]
    text = side.client.complete("The dealer spins the wheel and", max_tokens=TOKENS).shown()
    return [*found, text]


def _crowd(side: Side) -> list[list[int]]:
    """Of all lengths; the last one is longer than a step's tokens, and so is computed in parts."""
    asked = [prompt for place in range(40) for prompt in prompts(side.model, 1, 8 + 17 * place, 3)]
    return asked + prompts(side.model, 1, 9000, 3)


def _greedy_crowd(side: Side) -> dict[str, Any]:
    asked = _crowd(side)
    bodies = [
        (COMPLETIONS, side.client.completion_body(one, max_tokens=TOKENS, ignore_eos=True)) for one in asked
    ]
    return {"prompts": asked, "tokens": [answer.tokens[0] for answer in everybody(side, bodies)]}


def _judged(native: dict[str, Any], croupier: dict[str, Any], judge: Judge) -> Verdict:
    return judge.tokens(native["prompts"], native["tokens"], croupier["tokens"])


def _chat(side: Side) -> list[dict[str, Any]]:
    return [side.client.chat(one, max_tokens=TOKENS).shown() for one in CONVERSATIONS]


def _stream(side: Side) -> dict[str, Any]:
    """Each answer streamed and in one piece."""
    client = side.client
    bodies = [
        (COMPLETIONS, client.completion_body(prompt, max_tokens=TOKENS, ignore_eos=True))
        for prompt in prompts(side.model, 3, 30, 4)
    ]
    bodies += [(CHAT, client.chat_body(one, max_tokens=TOKENS)) for one in CONVERSATIONS]
    streamed = [client.stream(path, body) for path, body in bodies]
    whole = [client.post(path, body) for path, body in bodies]
    return {
        "streamed": [one.shown() for one in streamed],
        "whole": [one.shown() for one in whole],
        "events": min(len(one.events) for one in streamed),
    }


def _streams_alike(native: dict[str, Any], croupier: dict[str, Any], judge: Judge) -> Verdict:
    for name, found in (("native", native), ("croupier", croupier)):
        verdict = same(found["whole"], found["streamed"], lambda _: "")
        if not verdict.good:
            note = f"{name}: streamed (as 'croupier' here) is not what came in one piece (as 'native')"
            return Verdict(DIFFERENT, "", "", [note, *verdict.notes])
    verdict = same(native["whole"], croupier["whole"], lambda found: f"{len(found)} answers, both ways")
    verdict.notes.append(f"at least {native['events']} and {croupier['events']} events in a stream")
    return verdict


def _prefix(side: Side) -> dict[str, Any]:
    """One prefix and many tails: not in the cache, in the cache one by one, and in the cache at once."""
    [prefix] = prompts(side.model, 1, 1600, 5)
    asked = [prefix + tail for tail in prompts(side.model, 12, 24, 6)]
    client, given = side.client, {"max_tokens": 24, "ignore_eos": True}
    # A salt of its own keeps each prompt from what is in the cache.
    fresh = [client.complete(one, **given, cache_salt=f"fresh {place}") for place, one in enumerate(asked)]
    before = _hits(side)
    client.complete(asked[0], **given)
    cached = [client.complete(one, **given) for one in asked]
    bodies = [(COMPLETIONS, client.completion_body(one, **given)) for one in asked]
    crowd = everybody(side, bodies)
    return {
        "prompts": asked,
        "fresh": [answer.tokens[0] for answer in fresh],
        "cached": [answer.tokens[0] for answer in cached],
        "crowd": [answer.tokens[0] for answer in crowd],
        "tokens_from_the_cache": _hits(side) - before,
    }


def _hits(side: Side) -> int:
    return int(side.client.metrics().get("vllm:prefix_cache_hits_total", 0))


def _prefixes_alike(native: dict[str, Any], croupier: dict[str, Any], judge: Judge) -> Verdict:
    asked = native["prompts"]
    for name in ("fresh", "cached"):
        if not (verdict := same(native[name], croupier[name], str)).good:
            return verdict
    for found in (native, croupier):
        # A tail alone is computed by other kernels than the whole prompt.
        if not (verdict := judge.tokens(asked, found["fresh"], found["cached"])).good:
            return verdict
    verdict = judge.tokens(asked, native["crowd"], croupier["crowd"])
    hits = native["tokens_from_the_cache"], croupier["tokens_from_the_cache"]
    least = len(asked) * 1500
    if min(hits) < least:
        verdict.how = DIFFERENT
        verdict.notes.append(f"the cache gave {hits} tokens, and {least} at least were expected")
    verdict.native, verdict.croupier = (f"{count} tokens from the cache" for count in hits)
    return verdict


def _seeds(side: Side) -> dict[str, Any]:
    """Seeded requests twice alone, and n of one request twice."""
    client, [prompt, other] = side.client, prompts(side.model, 2, 30, 7)
    given = {"max_tokens": 24, "ignore_eos": True, "temperature": 1.0}
    seeded = {**given, "seed": 11, "top_p": 0.95, "top_k": 50}
    alone = [client.complete(prompt, **seeded).tokens[0] for _ in range(2)]
    more = [client.complete(prompt, **{**seeded, "seed": seed}).tokens[0] for seed in range(12, 16)]
    four = [client.complete(other, **given, seed=5, n=4) for _ in range(2)]
    free = client.complete(other, **given, n=4)
    # The same request in a crowd of others.
    bodies = [(COMPLETIONS, client.completion_body(prompt, **seeded))]
    bodies += [
        (COMPLETIONS, client.completion_body(one, **given, seed=place))
        for place, one in enumerate(prompts(side.model, 31, 20, 8))
    ]
    crowd = everybody(side, bodies)[0].tokens[0]
    return {
        "repeats": alone[0] == alone[1],
        "other_seeds_differ": len({tuple(one) for one in [alone[0], *more]}) == 5,
        "n_repeats": four[0].tokens == four[1].tokens,
        "n_distinct": len({tuple(one) for one in four[0].tokens}),
        "free_distinct": len({tuple(one) for one in free.tokens}),
        "counts": [four[0].shown()["usage"], free.shown()["usage"]],
        "same_in_a_crowd": crowd == alone[0],
    }


def _seeds_alike(native: dict[str, Any], croupier: dict[str, Any], judge: Judge) -> Verdict:
    wanted = {"repeats": True, "other_seeds_differ": True, "n_repeats": True, "n_distinct": 4}
    wanted["free_distinct"] = 4
    wrong = [f"croupier: {name} is {croupier[name]}" for name in wanted if croupier[name] != wanted[name]]
    if native["counts"] != croupier["counts"]:
        wrong.append(f"usage: native {native['counts']}, croupier {croupier['counts']}")
    shown = [
        ", ".join(f"{name}={found[name]}" for name in ("n_distinct", "repeats", "same_in_a_crowd"))
        for found in (native, croupier)
    ]
    notes = ["the tokens of a seed are not native's: each has a generator of its own"]
    if not croupier["same_in_a_crowd"]:
        notes.append("a crowd's logits are rounded otherwise than a single request's, on either side")
    return Verdict(DIFFERENT if wrong else EXPLAINED, *shown, [*wrong, *notes])


def _stops(side: Side) -> list[dict[str, Any]]:
    """Stops are taken from the same greedy text, so that they come."""
    client, [prompt] = side.client, prompts(side.model, 1, 30, 9)
    whole = client.complete(prompt, max_tokens=48, ignore_eos=True)
    piece = _piece(whole.texts[0])
    given = {"max_tokens": 48, "ignore_eos": True}
    body = client.completion_body(prompt, **given, stop=["never in it \u2603", piece])
    found: list[Answer] = [
        client.post(COMPLETIONS, body),
        client.post(COMPLETIONS, {**body, "include_stop_str_in_output": True}),
        client.stream(COMPLETIONS, body),
        client.complete(prompt, **given, stop_token_ids=[whole.tokens[0][20]]),
        client.complete(prompt, **given, stop="never in it \u2603"),
    ]
    return [{"stop": piece, "text": whole.texts[0]}, *(answer.shown() for answer in found)]


def _piece(text: str) -> str:
    """Some characters from the middle of a text that are whole, and stand there first."""
    for at in range(len(text) // 3, len(text) - 4):
        piece = text[at : at + 4]
        if "\ufffd" not in piece and piece.strip() == piece and text.find(piece) == at:
            return piece
    raise RuntimeError(f"no four characters of {text!r} would do as a stop")


def _ends(side: Side) -> list[dict[str, Any]]:
    """Each of the three EOS ids made to come; then under min_tokens, and under ignore_eos with it."""
    client, [prompt] = side.client, prompts(side.model, 1, 30, 10)
    found = []
    for eos in side.model.eos:
        bias = {"logit_bias": {str(eos): 60.0}}
        for given in (
            {"max_tokens": 24},
            {"max_tokens": 24, "min_tokens": 8},
            {"max_tokens": 24, "min_tokens": 8, "ignore_eos": True},
        ):
            found.append(client.complete(prompt, **bias, **given).shown())
    return found


def _fixed_lengths(side: Side) -> dict[str, Any]:
    """As benchmarks ask for a fixed length, greedy and drawn, completions and chats."""
    client, length = side.client, 40
    given = {"max_tokens": length, "min_tokens": length, "ignore_eos": True}
    # Each EOS id is likely enough that one of them would end most of these texts.
    bias = {"logit_bias": {str(eos): 11.0 for eos in side.model.eos}}
    asked = prompts(side.model, 24, 20, 11)
    bodies = [
        (COMPLETIONS, client.completion_body(one, **given, **bias, temperature=1.0, seed=place))
        for place, one in enumerate(asked)
    ]
    bodies += [(CHAT, client.chat_body(CONVERSATIONS[0], **given, temperature=0.9)) for _ in range(4)]
    answers = everybody(side, bodies)
    greedy = client.complete(asked[0], **given).shown()
    eos = set(side.model.eos)
    return {
        "counts": sorted({answer.body["usage"]["completion_tokens"] for answer in answers}),
        "ends": sorted({choice["finish_reason"] for answer in answers for choice in answer.choices}),
        "banned_ids_that_came": sum(
            token in eos for answer in answers for tokens in answer.tokens for token in tokens
        ),
        "greedy": greedy,
    }


CHECKS = [
    Check(
        "greedy, one request at a time",
        _greedy_alone,
        equal_in(lambda found: f"{len(found)} answers"),
    ),
    Check("greedy, 41 requests at once, one of 9,000 tokens", _greedy_crowd, _judged),
    Check(
        "chats",
        _chat,
        equal_in(lambda found: f"{len(found)} answers"),
    ),
    Check("streams", _stream, _streams_alike),
    Check("shared prefixes", _prefix, _prefixes_alike),
    Check("seeds and n", _seeds, _seeds_alike),
    Check(
        "stop strings and stop ids",
        _stops,
        equal_in(lambda found: f"{len(found) - 1} answers"),
    ),
    Check(
        "three EOS ids, min_tokens, ignore_eos",
        _ends,
        equal_in(lambda found: f"{len(found)} answers"),
    ),
    Check(
        "min_tokens with ignore_eos: fixed lengths",
        _fixed_lengths,
        equal_in(lambda found: f"{found['counts']} tokens, {found['ends']}"),
    ),
]
