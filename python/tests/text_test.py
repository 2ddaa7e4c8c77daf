"""Text decoded token by token, compared with Hugging Face's `tokenizers`.

The tokenizers are trained here. CROUPIER_TOKENIZERS names more (files, separated by colons), and
CROUPIER_TEXT_SEQUENCES the number of sequences for each.
"""

import base64
import json
import os
import random
import re
import subprocess
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from tokenizers.decoders import DecodeStream

SEQUENCES = int(os.environ.get("CROUPIER_TEXT_SEQUENCES", "2000"))
REPLACEMENT = "\ufffd"

REPLACE = {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}
FALLBACK = {"type": "ByteFallback"}
FUSE = {"type": "Fuse"}
STRIP = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
METASPACE = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}


def sequence(*decoders: dict) -> dict:
    return {"type": "Sequence", "decoders": list(decoders)}


# Name: the model that is trained, and the decoder.
KINDS = {
    "byte-level": ("byte-level", BYTE_LEVEL),
    "llama": ("fallback", sequence(REPLACE, FALLBACK, FUSE, STRIP)),
    "gemma": ("fallback", sequence(REPLACE, FALLBACK, FUSE)),
    "metaspace": ("unigram", METASPACE),
    "metaspace-never": ("unigram", {**METASPACE, "prepend_scheme": "never"}),
    "fuse": ("unigram", FUSE),
}


def lines(seed: int) -> Iterator[str]:
    """Words of several scripts, with characters of one to four bytes."""
    draw = random.Random(seed)
    alphabets = [
        "abcdefghij",
        "éèüñßø",
        "абвгдеж",
        "日本語中文字",
        "한국어",
        "🎉🚀👍🏽",
        "עברית",
        "0123456789",
        ".,;!?-",
    ]
    words = ["".join(draw.choices(draw.choice(alphabets), k=draw.randint(1, 8))) for _ in range(400)]
    for _ in range(2000):
        yield " ".join(draw.choices(words, k=draw.randint(1, 12)))


def trained(model: str) -> dict:
    if model == "unigram":
        tokenizer = Tokenizer(models.Unigram())
        trainer = trainers.UnigramTrainer(vocab_size=900, special_tokens=["<unk>"], unk_token="<unk>")
    else:
        tokenizer = Tokenizer(models.BPE(byte_fallback=model == "fallback"))
        trainer = trainers.BpeTrainer(vocab_size=900, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.pre_tokenizer = byte_level if model == "byte-level" else pre_tokenizers.Metaspace()
    tokenizer.train_from_iterator(lines(49), trainer)
    return json.loads(tokenizer.to_str())


def write_tokenizer(path: Path, model: str, decoder: dict) -> None:
    """With tokens that training does not bring: all bytes, a long one, added and special ones."""
    file = trained(model)
    file["decoder"] = decoder
    vocabulary = file["model"]["vocab"]
    known = set(vocabulary) if isinstance(vocabulary, dict) else {piece for piece, _ in vocabulary}
    more = [f"<0x{byte:02X}>" for byte in range(256)] + ["x" * 300, "▁▁", REPLACEMENT, "<0xZZ>", "\ufeff"]
    for piece in more:
        if piece in known:
            continue
        if isinstance(vocabulary, dict):
            vocabulary[piece] = len(vocabulary)
        else:
            vocabulary.append([piece, -20.0])
    size = len(vocabulary)
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    for content, special in [("<|end|>", True), ("<tool call>", False), ("<|é▁|>", True)]:
        file["added_tokens"].append({"id": size, "content": content, "special": special, **plain})
        size += 1
    path.write_text(json.dumps(file))


def program() -> str:
    return str(Path(os.environ["CROUPIER_TEST_PROGRAMS"]) / "text_of_tokens")


def our_texts(
    path: Path, sequences: list[list[int]], skips: bool, prompts: list[list[int]] | None = None
) -> Iterator[tuple[list[int], bytes]]:
    """For each sequence the bytes after each token, and the text."""
    prompts = prompts or [[]] * len(sequences)
    lists = [each for pair in zip(prompts, sequences, strict=True) for each in pair]
    given = b"".join(np.array([len(ids), *ids], np.int32).tobytes() for ids in lists)
    done = subprocess.run([program(), path, *(["skip"] if skips else [])], input=given, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    at = 0
    for ids in sequences:
        ends = np.frombuffer(done.stdout, np.int32, len(ids) + 1, at).tolist()
        at += 4 * len(ends)
        yield ends[:-1], done.stdout[at : at + ends[-1]]
        at += ends[-1]
    assert at == len(done.stdout)


def random_sequences(tokenizer: Tokenizer, count: int) -> list[list[int]]:
    """Half are random ids, also such as have no token; half are encoded text, with one id exchanged."""
    draw = random.Random(50)
    size = tokenizer.get_vocab_size() + 5
    texts = list(lines(51))
    sequences = []
    for i in range(count):
        ids = [draw.randrange(size) for _ in range(draw.randint(1, 12))]
        if i % 2 == 0:
            ids = tokenizer.encode(draw.choice(texts), add_special_tokens=False).ids[:20] or ids
            ids[draw.randrange(len(ids))] = draw.randrange(size)
        sequences.append(ids)
    return sequences


def stream(tokenizer: Tokenizer, ids: list[int], prompt: list[int], skips: bool) -> list[str]:
    """The text after each token, as far as DecodeStream has given it."""
    decoder = DecodeStream(ids=prompt, skip_special_tokens=skips)
    texts, text = [], ""
    for token in ids:
        text += decoder.step(tokenizer, token) or ""
        texts.append(text)
    return texts


class BrokenRuns:
    """Tells which sequences a stream decodes in another way, as it cannot take back what it has given.

    Those are runs of byte tokens that have a whole character and are not UTF-8 as a whole: Hugging Face
    replaces the character too.
    """

    def __init__(self, tokenizer: Tokenizer, path: Path) -> None:
        added = tokenizer.get_added_tokens_decoder().items()
        self.tokenizer = tokenizer
        self.special = {id for id, token in added if token.special}
        self.is_possible = '"ByteFallback"' in path.read_text()
        self.count = 0

    def are_in(self, ids: list[int], skips: bool) -> bool:
        shown = [id for id in ids if not (skips and id in self.special)]
        pieces = [piece for id in shown if (piece := self.tokenizer.id_to_token(id)) is not None]
        found = self.is_possible and any(self.is_broken(run) for run in self.runs(pieces))
        self.count += found
        return found

    @staticmethod
    def runs(pieces: list[str]) -> Iterator[bytes]:
        run = b""
        for piece in [*pieces, ""]:
            if byte := re.fullmatch("<0x([0-9A-F]{2})>", piece):
                run += bytes.fromhex(byte[1])
            else:
                yield run
                run = b""

    @staticmethod
    def is_broken(run: bytes) -> bool:
        try:
            run.decode()
        except UnicodeDecodeError as error:
            return error.start > 0
        return False


def check_streams(
    tokenizer: Tokenizer, path: Path, sequences: list[list[int]], skips: bool, broken: BrokenRuns
) -> None:
    ours = our_texts(path, sequences, skips)
    for ids, (ends, text) in zip(sequences, ours, strict=True):
        if broken.are_in(ids, skips):
            continue
        assert text.decode() == tokenizer.decode(ids, skip_special_tokens=skips), ids
        given = ""
        for end, after in zip(ends, stream(tokenizer, ids, [], skips), strict=True):
            # It keeps back all text before an unfinished character, which is then shorter than ours.
            assert text[:end].decode().startswith(after), ids
            if after != given:
                assert text[:end].decode() == after, ids
            given = after


@pytest.fixture(
    scope="module", params=[*KINDS, *filter(None, os.environ.get("CROUPIER_TOKENIZERS", "").split(":"))]
)
def tokenizer_file(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    if request.param not in KINDS:
        return Path(request.param)
    path = tmp_path_factory.mktemp(request.param) / "tokenizer.json"
    write_tokenizer(path, *KINDS[request.param])
    return path


def test_every_id_has_its_text(tokenizer_file: Path) -> None:
    tokenizer = Tokenizer.from_file(str(tokenizer_file))
    ids = [[id] for id in range(tokenizer.get_vocab_size() + 100)]
    for skips in (False, True):
        for each, (_, text) in zip(ids, our_texts(tokenizer_file, ids, skips), strict=True):
            assert text.decode() == tokenizer.decode(each, skip_special_tokens=skips), each


def test_a_stream_has_the_text_of_the_whole_sequence(tokenizer_file: Path) -> None:
    tokenizer = Tokenizer.from_file(str(tokenizer_file))
    sequences = random_sequences(tokenizer, SEQUENCES)
    broken = BrokenRuns(tokenizer, tokenizer_file)
    check_streams(tokenizer, tokenizer_file, sequences[::2], True, broken)
    check_streams(tokenizer, tokenizer_file, sequences[1::2], False, broken)
    print(f"{tokenizer_file}: {len(sequences) - broken.count} of {len(sequences)} sequences compared")
    assert broken.count < len(sequences) / 10


def test_after_a_prompt_the_text_is_what_decode_stream_adds(tokenizer_file: Path) -> None:
    tokenizer = Tokenizer.from_file(str(tokenizer_file))
    sequences = random_sequences(tokenizer, SEQUENCES // 4)
    lines_of_prompts = [tokenizer.encode(line, add_special_tokens=False).ids for line in lines(52)]
    prompts = [lines_of_prompts[len(ids)] for ids in sequences]
    broken = BrokenRuns(tokenizer, tokenizer_file)
    compared = 0
    ours = our_texts(tokenizer_file, sequences, True, prompts)
    for prompt, ids, (_, text) in zip(prompts, sequences, ours, strict=True):
        if broken.are_in(ids, True):
            continue
        given = stream(tokenizer, ids, prompt, True)[-1]
        assert text.decode().startswith(given), ids
        # It never gives the end of a text that ends with U+FFFD.
        if not text.decode().endswith(REPLACEMENT):
            assert text.decode() == given, ids
            compared += 1
    assert compared > len(sequences) / 4


def test_a_tiktoken_file_has_the_text_of_its_bytes(tmp_path: Path) -> None:
    draw = random.Random(53)
    parts = [unicodedata.lookup("EURO SIGN").encode(), "é🎉".encode(), b"a", b" ", b"\xff", b"\xed\xa0\x80"]
    tokens = {bytes([byte]) for byte in range(256)}
    while len(tokens) < 800:
        piece = b"".join(draw.choices(parts, k=draw.randint(1, 3)))
        begin = draw.randrange(len(piece))
        tokens.add(piece[begin : draw.randint(begin + 1, len(piece))] + bytes([draw.randrange(256)]))
    listed = sorted(tokens)
    path = tmp_path / "model.tiktoken"
    path.write_text("".join(f"{base64.b64encode(token).decode()} {id}\n" for id, token in enumerate(listed)))
    sequences = [[draw.randrange(len(listed)) for _ in range(draw.randint(1, 12))] for _ in range(SEQUENCES)]
    for ids, (_, text) in zip(sequences, our_texts(path, sequences, False), strict=True):
        assert text.decode() == b"".join(listed[id] for id in ids).decode(errors="replace"), ids
