"""Checks of log-probs, beams and grammars."""

from __future__ import annotations

from typing import Any

import kinds

from .checks import Check, Side, everybody, prompts
from .client import CHAT, COMPLETIONS
from .compare import (
    DIFFERENT,
    EQUAL,
    EXPLAINED,
    Judge,
    Verdict,
    equal_in,
    first_difference,
    near_logprobs,
    same,
)
from .texts import CONVERSATIONS

# Of the same logits, by float32 on the one side and by sums of blocks in double on the other.
TOLERANCE = 2e-3
_IDS = {"return_tokens_as_token_ids": True}


def _logprobs(side: Side) -> dict[str, Any]:
    client, [prompt] = side.client, prompts(side.model, 1, 30, 20)
    given = {"max_tokens": 16, "ignore_eos": True, **_IDS}
    greedy = client.complete(prompt, **given, logprobs=20)
    one = client.complete(prompt, **given, logprobs=1)
    # A bias that leaves the greedy token alone: raw log-probs are those before it.
    biased = client.complete(prompt, **given, logprobs=5, logit_bias={"5000": -50.0})
    none = client.complete(prompt, **given, logprobs=0)
    chat = client.chat(CONVERSATIONS[0], max_tokens=12, logprobs=True, top_logprobs=20, **_IDS)
    streamed = client.stream(COMPLETIONS, client.completion_body(prompt, **given, logprobs=3))
    parts = [part for event in streamed.events for part in event["choices"]]
    return {
        "tokens": greedy.tokens[0],
        "best": _best(greedy) + _best(one) + _best(biased),
        "chosen": _chosen(greedy) + _chosen(none),
        "chat": [
            {entry["token"]: entry["logprob"] for entry in place["top_logprobs"]}
            for place in chat.choices[0]["logprobs"]["content"]
        ],
        "streamed": [value for part in parts for value in (part["logprobs"] or {}).get("token_logprobs", [])],
    }


def _best(answer: Any) -> list[dict[str, float]]:
    return answer.choices[0]["logprobs"]["top_logprobs"]


def _chosen(answer: Any) -> list[float]:
    return answer.choices[0]["logprobs"]["token_logprobs"]


def _numbers_near(name: str, native: list[float], croupier: list[float]) -> str | None:
    if len(native) != len(croupier):
        return f"{name}: {len(native)} and {len(croupier)} log-probs"
    worst = max((abs(one - other) for one, other in zip(native, croupier, strict=True)), default=0.0)
    return f"{name}: {worst:.5f} apart" if worst > TOLERANCE else None


def _logprobs_alike(native: dict[str, Any], croupier: dict[str, Any], judge: Judge) -> Verdict:
    if native["tokens"] != croupier["tokens"]:
        return Verdict(DIFFERENT, "", "", [str(first_difference(native["tokens"], croupier["tokens"]))])
    verdict = near_logprobs(native["best"] + native["chat"], croupier["best"] + croupier["chat"], TOLERANCE)
    for name in ("chosen", "streamed"):
        if fault := _numbers_near(name, native[name], croupier[name]):
            verdict.how = DIFFERENT
            verdict.notes.append(fault)
    verdict.notes.append(f"tolerance {TOLERANCE}; ranks of drawn tokens are not shown over HTTP")
    return verdict


def _prompt_logprobs(side: Side) -> list[Any]:
    [prompt] = prompts(side.model, 1, 24, 21)
    answer = side.client.complete(prompt, max_tokens=1, prompt_logprobs=3)
    shown = answer.choices[0].get("prompt_logprobs") or answer.body.get("prompt_logprobs")
    return shown[1:]


def _prompt_logprobs_alike(native: list[Any], croupier: list[Any], judge: Judge) -> Verdict:
    def values(found: list[Any]) -> list[dict[str, float]]:
        return [{token: entry["logprob"] for token, entry in place.items()} for place in found]

    verdict = near_logprobs(values(native), values(croupier), TOLERANCE)
    ranks = [
        [{token: entry["rank"] for token, entry in place.items()} for place in found]
        for found in (native, croupier)
    ]
    if ranks[0] != ranks[1]:
        verdict.how = DIFFERENT
        verdict.notes.append(f"ranks: {first_difference(*ranks)}")
    return verdict


def _beams(side: Side) -> dict[str, Any]:
    """Twice, for a beam's step is as many requests as it has beams, and they may not begin together."""
    client, asked = side.client, prompts(side.model, 2, 20, 22)
    given = {"use_beam_search": True, "n": 4, "max_tokens": 12}
    runs = [[client.complete(one, **given).texts for one in asked] for _ in range(2)]
    chat = [client.chat(CONVERSATIONS[0], **given).texts for _ in range(2)]
    wide = client.complete(asked[0], **{**given, "n": 10, "max_tokens": 4})
    too_wide = client.complete(asked[0], **{**given, "n": 11, "max_tokens": 4})
    return {
        "runs": [{"texts": runs[run], "chat": chat[run]} for run in range(2)],
        "wide": wide.texts,
        "too_wide": too_wide.status,
    }


def _beams_alike(native: dict[str, Any], croupier: dict[str, Any], judge: Judge) -> Verdict:
    says = [f"{len(found['wide'])} beams; n=11: {found['too_wide']}" for found in (native, croupier)]
    if native == croupier:
        return Verdict(EQUAL, *says)
    notes = [str(first_difference(native, croupier))]
    # What native itself does not repeat is no difference between the two.
    shaky = native["runs"][0] != native["runs"][1] or croupier["runs"][0] != croupier["runs"][1]
    alike = any(one == other for one in native["runs"] for other in croupier["runs"])
    if native["too_wide"] == croupier["too_wide"] and (shaky or alike):
        return Verdict(EXPLAINED, *says, ["beams vary from run to run on one server", *notes])
    return Verdict(DIFFERENT, *says, notes)


def _grammars(side: Side) -> dict[str, Any]:
    """vLLM's default backend. Greedy one by one, where texts must be native's; drawn ones at once."""
    client, asked = side.client, prompts(side.model, 3, 20, 23)
    greedy, drawn = {}, []
    for name, grammar in kinds.GRAMMARS.items():
        given = {"max_tokens": 120, "structured_outputs": grammar}
        greedy[name] = [client.complete(one, **given).shown() for one in asked]
        drawn += [
            (name, client.completion_body(one, **given, temperature=0.9, top_p=0.95, seed=place))
            for place, one in enumerate(prompts(side.model, 8, 16, 24))
        ]
    schema = {"type": "json_schema", "json_schema": {"name": "person", "schema": kinds.PERSON}}
    formatted = client.chat(CONVERSATIONS[0], max_tokens=160, response_format=schema)
    answers = everybody(side, [(COMPLETIONS, body) for _, body in drawn])
    texts = [(name, answer.texts[0], answer.choices[0]["finish_reason"]) for (name, _), answer in
             zip(drawn, answers, strict=True)]  # fmt: skip
    texts += [(name, one["texts"][0], one["ends"][0][0]) for name, found in greedy.items() for one in found]
    # Whitespace is free in this one, and may fill it up.
    end = formatted.choices[0]["finish_reason"]
    texts.append(("json", formatted.texts[0], end))
    ended = [(name, text) for name, text, end in texts if end == "stop"]
    return {
        "greedy": greedy,
        "formatted": formatted.shown(),
        "texts": len(texts),
        "ended": len(ended),
        "wrong": [[name, text] for name, text in ended if not kinds.is_text_of(name, text)],
        "ends": sorted({end for _, _, end in texts}),
    }


def _grammars_alike(native: dict[str, Any], croupier: dict[str, Any], judge: Judge) -> Verdict:
    says = [
        f"{found['ended']} of {found['texts']} ended, {len(found['wrong'])} not valid"
        for found in (native, croupier)
    ]
    verdict = same(
        [native["greedy"], native["formatted"]], [croupier["greedy"], croupier["formatted"]], lambda _: ""
    )
    verdict.native, verdict.croupier = says
    if croupier["wrong"] or not set(croupier["ends"]) <= {"stop", "length"}:
        verdict.how = DIFFERENT
        verdict.notes.append(f"croupier: {croupier['wrong'][:3]}, ends {croupier['ends']}")
    return verdict


def _streamed_grammar(side: Side) -> dict[str, Any]:
    body = side.client.chat_body(CONVERSATIONS[1], max_tokens=60, structured_outputs=kinds.GRAMMARS["regex"])
    return side.client.stream(CHAT, body).shown()


CHECKS = [
    Check("log-probs", _logprobs, _logprobs_alike),
    Check("log-probs and ranks of a prompt", _prompt_logprobs, _prompt_logprobs_alike),
    Check("beam search", _beams, _beams_alike),
    Check("JSON schemas, regular expressions, choices", _grammars, _grammars_alike),
    Check(
        "a streamed grammar",
        _streamed_grammar,
        equal_in(lambda found: repr(found["texts"][0])),
    ),
]
