"""Which stop strings the session looks for: those that vLLM's front end finds with the same token.

The front end looks for them in the text that Hugging Face's DecodeStream gives it, and cuts the text there.
The session looks for them in the same bytes, and the engine core knows as soon as a token is decided. Where
the two might end a request with different tokens, the front end alone looks, as without Croupier:

- DecodeStream keeps back a text that ends within a character, or with U+FFFD, until a token goes on. So the
  session looks for no stop string that some token of the vocabulary could complete and leave the text so.
- Behind a prompt whose text ends so, it gives the prompt's text too.
- Only with the decoder ByteLevel does it give the text of all tokens, whatever they are.

Of vLLM this module needs what loads tokenizers.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

# CROUPIER_MAX_STOP_STRINGS and CROUPIER_MAX_STOP_STRING_BYTES.
_MOST_STRINGS, _MOST_BYTES = 16, 256
_REPLACEMENT = "\ufffd"
_WORD = 4
_MOST_KNOWN = 4096


class Texts:
    """Of one engine's tokenizer."""

    def __init__(self, backend: Any) -> None:
        """`backend` is a Tokenizer of Hugging Face's library, with the decoder ByteLevel."""
        self._backend = backend
        self._unfinished = Unfinished(unfinished_parts(backend.get_vocab(with_added_tokens=True)))
        self._known: dict[str, bool] = {}

    @classmethod
    def of(cls, vllm_config: Any, log: Callable[[str], None]) -> Texts | None:
        """None where the front end alone looks for stop strings: why is logged, if it could look for some."""
        if vllm_config.model_config.skip_tokenizer_init:
            return None
        try:
            return cls(_backend_of(vllm_config.model_config))
        except Exception as error:
            log(f"vLLM's front end alone looks for stop strings, one or more steps late: {error}")
            return None

    @contextlib.contextmanager
    def file(self) -> Iterator[str]:
        """The path of a tokenizer.json, which is what the front end has made of the model's files."""
        with tempfile.NamedTemporaryFile("w", prefix="croupier-tokenizer-", encoding="utf-8") as file:
            file.write(self._backend.to_str())
            file.flush()
            yield file.name

    def stops_of(self, sampling: Any, prompt: list[int], room: int) -> list[str]:
        """The request's stop strings, or none if the front end alone looks for them.

        `room` is in words of the session's lists.
        """
        stops = [sampling.stop] if isinstance(sampling.stop, str) else list(sampling.stop or ())
        if not stops or not sampling.detokenize or len(stops) > _MOST_STRINGS:
            return []
        # Else it leaves out spaces between special tokens.
        if not (sampling.skip_special_tokens or sampling.spaces_between_special_tokens):
            return []
        if not all(map(self._shows_at_once, stops)):
            return []
        if sum(1 + -(-len(stop.encode()) // _WORD) for stop in stops) > room:
            return []
        return stops if self._ends_whole(prompt, sampling.skip_special_tokens) else []

    def _shows_at_once(self, stop: str) -> bool:
        """Whether no token can complete it and leave the text unfinished behind it."""
        known = self._known.get(stop)
        if known is None:
            if len(self._known) == _MOST_KNOWN:
                self._known.clear()
            known = self._known[stop] = self._unfinished.shows_at_once(stop)
        return known

    def _ends_whole(self, prompt: list[int], skips_special: bool) -> bool:
        # Special tokens have no text: their number is known only when some text is found.
        count = 16
        while not (text := self._backend.decode(prompt[-count:], skip_special_tokens=skips_special)):
            if count >= len(prompt):
                return True
            count *= 8
        return not text.endswith(_REPLACEMENT)


def _backend_of(model_config: Any) -> Any:
    """The tokenizer that the front end decodes with; raises what says why there is none for the session."""
    from tokenizers.decoders import ByteLevel
    from transformers import TokenizersBackend
    from vllm.tokenizers import cached_tokenizer_from_config

    for name in ("VLLM_USE_RUST_FRONTEND", "VLLM_USE_FASTOKENS"):
        if os.environ.get(name, "0") not in ("", "0"):
            raise ValueError(f"{name} is set, which decodes in another way")
    # The engine core takes it from the same cache later, for grammars.
    tokenizer = cached_tokenizer_from_config(model_config)
    if not isinstance(tokenizer, TokenizersBackend):
        raise ValueError(f"its tokenizer is {type(tokenizer).__name__}, none of Hugging Face's fast ones")
    if not isinstance(tokenizer._tokenizer.decoder, ByteLevel):
        kind = type(tokenizer._tokenizer.decoder).__name__
        raise ValueError(f"its tokenizer's decoder is {kind}; with ByteLevel Croupier would look too")
    return tokenizer._tokenizer


class Unfinished:
    """What tokens have before an unfinished character: found in many tokens as fast as in one."""

    def __init__(self, parts: Collection[bytes]) -> None:
        # No UTF-8 has the byte between them.
        self._parts = b"\xff".join(parts)
        looked_at = [part[:_MOST_BYTES] for part in parts]
        self._beginnings = {part[:count] for part in looked_at for count in range(1, len(part) + 1)}
        self._longest = max(map(len, self._beginnings), default=0)

    def shows_at_once(self, stop: str) -> bool:
        """Whether it is in no part, and ends with no part's beginning."""
        if _REPLACEMENT in stop:
            return False
        try:
            wanted = stop.encode()
        except UnicodeEncodeError:
            return False
        if not 0 < len(wanted) <= _MOST_BYTES or wanted in self._parts:
            return False
        longest = min(len(wanted), self._longest)
        return not any(wanted[-count:] in self._beginnings for count in range(1, longest + 1))


def unfinished_parts(pieces: Iterable[str]) -> frozenset[bytes]:
    """Of tokens that may leave the text unfinished: what they have before that, wherever they stand."""
    # Behind an ASCII character nothing is unfinished.
    may_be = (piece for piece in pieces if piece and _ALPHABET.get(piece[-1], 0xFF) >= 0x80)
    return frozenset(part for piece in may_be for part in _parts_of(bytes_of(piece)))


def _parts_of(token: bytes) -> Iterator[bytes]:
    """One for each number of its first bytes that may belong to a character before it."""
    before = 0
    while True:
        rest = token[before:]
        whole = _whole_bytes(rest)
        if whole < len(rest) and before + whole > 0:
            yield token[: before + whole]
        if before == 3 or before == len(token) or not 0x80 <= token[before] < 0xC0:
            return
        before += 1


def _whole_bytes(text: bytes) -> int:
    """So many bytes are before an unfinished character, or a U+FFFD, with which it ends."""
    count = len(text)
    while count and text[:count].decode(errors="replace").endswith(_REPLACEMENT):
        count -= 1
    return count


def _alphabet() -> dict[str, int]:
    """GPT-2's: printable Latin-1 as itself, other bytes from U+0100 on (text/decoder_chain.cpp)."""
    own = {*range(0x21, 0x7F), *range(0xA1, 0x100)} - {0xAD}
    others = [byte for byte in range(0x100) if byte not in own]
    return {chr(byte): byte for byte in own} | {chr(0x100 + at): byte for at, byte in enumerate(others)}


_ALPHABET = _alphabet()


def bytes_of(piece: str) -> bytes:
    """A piece with any other character is used as it is."""
    try:
        return bytes(_ALPHABET[character] for character in piece)
    except KeyError:
        return piece.encode()
