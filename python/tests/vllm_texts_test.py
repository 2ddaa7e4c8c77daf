"""Which stop strings the session looks for: compared with vLLM's own detokenizer, token by token."""

from __future__ import annotations

import codecs
import json
import random
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("vllm")

from tokenizers import Tokenizer  # noqa: E402
from transformers import TokenizersBackend  # noqa: E402
from vllm import SamplingParams  # noqa: E402
from vllm.v1.engine.detokenizer import IncrementalDetokenizer  # noqa: E402

from croupier import Error  # noqa: E402
from croupier.vllm.options import Options  # noqa: E402
from croupier.vllm.texts import Texts, Unfinished, bytes_of, unfinished_parts  # noqa: E402
from support import Daemon  # noqa: E402

ALPHABET = {
    byte: piece for piece in map(chr, range(0x144)) if len(bytes_of(piece)) == 1 for byte in bytes_of(piece)
}
EURO = "\u20ac".encode()
PARTS = [
    b"a",
    b"b",
    b"ab",
    b" ",
    EURO,
    EURO[:1],
    EURO[1:],
    EURO[2:],
    "é".encode(),
    b"\xff",
    "\ufffd".encode(),
]


def tokenizer_of(tokens: list[bytes], added: list[tuple[str, bool]] = ()) -> Tokenizer:
    """Byte-level, with these tokens' bytes."""
    vocabulary = {"".join(ALPHABET[byte] for byte in token): id for id, token in enumerate(tokens)}
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    more = [
        {"id": len(tokens) + at, "content": content, "special": special, **plain}
        for at, (content, special) in enumerate(added)
    ]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return Tokenizer.from_str(
        json.dumps(
            {
                "version": "1.0",
                "added_tokens": more,
                "pre_tokenizer": byte_level,
                "decoder": byte_level,
                "model": {"type": "BPE", "vocab": vocabulary, "merges": []},
            }
        )
    )


def random_tokens(draw: random.Random, nasty: bool) -> list[bytes]:
    """`nasty`: also such as no training makes, with letters before half a character."""
    tokens = {b"a", b"b", b"ab", b"a ", b"bb", EURO, EURO[:1], EURO[1:], "aé".encode(), b"b" + EURO}
    while nasty and len(tokens) < 24:
        tokens.add(b"".join(draw.choices(PARTS, k=draw.randint(1, 3))))
    return sorted(tokens)


def where_vllm_ends(
    tokenizer: Tokenizer, sampling: SamplingParams, prompt: list[int], ids: list[int]
) -> int | None:
    """After how many tokens."""
    request = SimpleNamespace(
        request_id="0", sampling_params=sampling, prompt_token_ids=prompt, prompt_embeds=None
    )
    backend = TokenizersBackend(tokenizer_object=tokenizer)
    detokenizer = IncrementalDetokenizer.from_new_request(backend, request)
    for count, id in enumerate(ids, 1):
        if detokenizer.update([id], False) is not None:
            return count
    return None


def where_bytes_end(tokens: list[bytes], stops: list[str], least: int, ids: list[int]) -> int | None:
    """The rule of text/sequence_text.h in its plainest form."""
    decoder, text = codecs.getincrementaldecoder("utf-8")("replace"), ""
    for count, id in enumerate(ids, 1):
        before = len(text)
        text += decoder.decode(tokens[id] if id < len(tokens) else b"")
        found = any(text.find(stop, max(0, before - len(stop) + 1)) >= 0 for stop in stops)
        if found and count > least:
            return count
    return None


@pytest.mark.parametrize("nasty", [False, True])
def test_where_the_session_looks_it_ends_requests_as_vllms_front_end_does(nasty: bool) -> None:
    draw = random.Random(61)
    looked = late = ended = 0
    for _ in range(60):
        tokens = random_tokens(draw, nasty)
        tokenizer = tokenizer_of(tokens)
        texts = Texts(tokenizer)
        for _ in range(60):
            letters = ["a", "b", "ab", "a ", "\u20ac", "é", "b\u20ac", "aé"]
            stops = ["".join(draw.choices(letters, k=draw.randint(1, 3))) for _ in range(draw.randint(1, 3))]
            least = draw.choice([0, 0, 3])
            sampling = SamplingParams(stop=stops, min_tokens=least, max_tokens=50)
            prompt = draw.choices(range(len(tokens)), k=draw.randint(0, 4))
            ids = draw.choices(range(len(tokens) + 2), k=30)
            expected = where_vllm_ends(tokenizer, sampling, prompt, ids)
            is_same = where_bytes_end(tokens, stops, least, ids) == expected
            if texts.stops_of(sampling, prompt, 1000) != stops:
                late += not is_same
                continue
            assert is_same, (tokens, stops, least, prompt, ids)
            looked += 1
            ended += expected is not None
    assert looked > 500
    assert ended > looked / 3
    # Others would be ended with another token.
    assert late > (50 if nasty else 0)


def shows_at_once(stop: str, parts: set[bytes]) -> bool:
    """The rule in its plainest form."""
    wanted = stop.encode()
    return not any(
        wanted in part or any(wanted.endswith(part[:count]) for count in range(1, len(part) + 1))
        for part in parts
    )


def test_stop_strings_are_compared_with_all_parts_at_once() -> None:
    draw = random.Random(62)
    letters = ["a", "b", "é", "\u20ac", " "]
    shown = 0
    for _ in range(300):
        pieces = [b"a", b"b", b" ", *PARTS[4:]]
        parts = {b"".join(draw.choices(pieces, k=draw.randint(1, 6))) for _ in range(draw.randint(0, 9))}
        parts.add(bytes(draw.choices(b"ab", k=300)))
        unfinished = Unfinished(parts)
        for _ in range(20):
            stop = "".join(draw.choices(letters, k=draw.randint(1, draw.choice([3, 8, 85]))))
            expected = shows_at_once(stop, parts)
            assert unfinished.shows_at_once(stop) == expected, (stop, parts)
            shown += expected
    assert 1000 < shown < 5000


def test_a_stop_string_that_may_show_late_is_the_front_ends() -> None:
    parts = unfinished_parts(
        "".join(ALPHABET[byte] for byte in token) for token in (b" x\xe2\x82", b"\xac\xe2", b"ab")
    )
    assert parts == {b" x", b"\xac"}
    unfinished = Unfinished(parts)
    assert [
        unfinished.shows_at_once(stop) for stop in ("x", "end x", "end ", " x y", "x ", "b", "\u20ac")
    ] == [
        False,
        False,
        False,
        True,
        False,
        True,
        False,
    ]
    assert not unfinished.shows_at_once("")
    assert not unfinished.shows_at_once("a\ufffd")
    assert not unfinished.shows_at_once("\ud800")
    assert not unfinished.shows_at_once("b" * 257)


def given(**more: Any) -> SamplingParams:
    return SamplingParams(**{"stop": ["ab", "b"], **more})


def test_requests_whose_text_is_another_one_are_the_front_ends() -> None:
    tokens = [b"a", b"b", b"c", EURO[:2]]
    texts = Texts(tokenizer_of(tokens, [("<|end|>", True)]))
    assert texts.stops_of(given(), [0], 4) == ["ab", "b"]
    assert texts.stops_of(given(stop="ab"), [], 4) == ["ab"]
    assert texts.stops_of(given(stop=None), [0], 4) == []
    assert texts.stops_of(given(), [0], 3) == []
    assert texts.stops_of(given(stop=["a"] * 17), [0], 99) == []
    assert texts.stops_of(given(skip_special_tokens=False), [0], 4) == ["ab", "b"]
    hidden = given(skip_special_tokens=False, spaces_between_special_tokens=False)
    assert texts.stops_of(hidden, [0], 4) == []
    # Special tokens have no text, however many stand behind what is unfinished.
    assert texts.stops_of(given(), [0, 3, *[4] * 300], 4) == []
    assert texts.stops_of(given(skip_special_tokens=False), [0, 3, *[4] * 300], 4) == ["ab", "b"]
    assert texts.stops_of(given(), [0, 3, 0], 4) == ["ab", "b"]
    assert texts.stops_of(given(), [4, 4], 4) == ["ab", "b"]


def config(**more: Any) -> Any:
    return SimpleNamespace(model_config=SimpleNamespace(skip_tokenizer_init=False, **more))


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"decoder": {"type": "Fuse"}}, "its tokenizer's decoder is Fuse; with ByteLevel"),
        ({"decoder": None}, "its tokenizer's decoder is NoneType"),
    ],
)
def test_an_engine_says_why_the_front_end_alone_looks(
    monkeypatch: Any, change: dict[str, Any], text: str
) -> None:
    file = json.loads(tokenizer_of([b"a"]).to_str()) | change
    backend = TokenizersBackend(tokenizer_object=Tokenizer.from_str(json.dumps(file)))
    monkeypatch.setattr("vllm.tokenizers.cached_tokenizer_from_config", lambda _: backend)
    said: list[str] = []
    assert Texts.of(config(), said.append) is None
    assert len(said) == 1
    assert text in said[0]


def test_other_decoders_of_the_front_end_are_named(monkeypatch: Any) -> None:
    said: list[str] = []
    monkeypatch.setattr("vllm.tokenizers.cached_tokenizer_from_config", lambda _: object())
    assert Texts.of(config(), said.append) is None
    assert "its tokenizer is object" in said.pop()
    monkeypatch.setenv("VLLM_USE_RUST_FRONTEND", "1")
    assert Texts.of(config(), said.append) is None
    assert "VLLM_USE_RUST_FRONTEND is set" in said.pop()
    skipped = SimpleNamespace(model_config=SimpleNamespace(skip_tokenizer_init=True))
    assert Texts.of(skipped, said.append) is None
    assert said == []


class NoFile(Texts):
    def file(self) -> Any:
        raise OSError(28, "No space left on device")


@pytest.mark.parametrize("fails_at", ["the daemon", "the file", "the tokenizer"])
def test_an_engine_starts_without_the_tokenizer_where_that_fails(
    narrow_daemon: Daemon, monkeypatch: Any, fails_at: str
) -> None:
    pytest.importorskip("host_engine", exc_type=ImportError)
    from croupier.serving import opening
    from croupier.vllm import executor

    said: list[str] = []
    monkeypatch.setattr(executor.logger, "warning", lambda text, *given: said.append(text % given))
    monkeypatch.setattr(opening, "system_endpoint", lambda: narrow_daemon.endpoint)
    tokenizer = tokenizer_of([f"token {number}".encode() for number in range(1000)])
    if fails_at == "the tokenizer":
        tokenizer = SimpleNamespace(get_vocab=tokenizer.get_vocab, to_str=lambda: 1 // 0)
    texts = (NoFile if fails_at == "the file" else Texts)(tokenizer)
    engine = executor.WithSession()
    session, looking = engine._opened(Options(), Options(), texts, vocab=1000, dtype="fp32", max_length=64)
    assert session.segment_path.startswith(str(narrow_daemon.shm_folder))
    session.close()
    assert looking is None
    assert engine.croupier_daemon is None
    reason = {
        "the daemon": "control.max_message_bytes, which should be 1MiB or more",
        "the file": "No space left on device",
        "the tokenizer": "modulo by zero",
    }[fails_at]
    assert len(said) == 1
    assert "front end alone looks for stop strings" in said[0]
    assert reason in said[0]
    # What fails without it too is no fault of the tokenizer's.
    options = Options(endpoint=narrow_daemon.endpoint)
    with pytest.raises(Exception, match="vocab"):
        engine._opened(options, options, texts, vocab=0, dtype="fp32", max_length=64)
    assert len(said) == 1


def test_a_host_that_takes_the_tokenizer_has_it(daemon: Daemon, monkeypatch: Any) -> None:
    pytest.importorskip("host_engine", exc_type=ImportError)
    from croupier.serving import opening
    from croupier.vllm import executor

    monkeypatch.setattr(opening, "system_endpoint", lambda: daemon.endpoint)
    texts = Texts(tokenizer_of([b"a", b"b"]))
    asked = {"vocab": 64, "dtype": "fp32", "max_length": 64, "max_list_tokens": 8}
    session, looking = executor.WithSession()._opened(Options(), Options(), texts, **asked)
    assert looking is texts
    session.add(1, [0], stop_strings=["ab"])
    with pytest.raises(Error, match="this client keeps no texts"):
        session.text(1)
    session.close()
