"""A session with a tokenizer: stop strings, JSON values, and the text that is released; and loops."""

import base64
import json
from pathlib import Path
from random import Random

import numpy as np
import pytest

import croupier
from support import GREEDY, PATIENCE, VOCAB, Daemon, fails

PIECES = [b"one", b" two", "\u20ac".encode()[:2], "\u20ac".encode()[2:], b" thr", b"ee"]
PIECES += [b' {"one', b'": [1,', b' "two\xe2\x82', b'\xac"]} x']


@pytest.fixture
def tokenizer(tmp_path: Path) -> Path:
    path = tmp_path / "tokens.tiktoken"
    lines = [f"{base64.b64encode(piece).decode()} {token}\n" for token, piece in enumerate(PIECES)]
    path.write_text("".join(lines))
    return path


def decide(session: croupier.Session, writer: croupier.Writer, token: int) -> croupier.Decision:
    """The sequence's next token, which is the best of its row."""
    step = session.submit([1])
    assert writer.begin(step)
    row = np.zeros((1, VOCAB), np.float32)
    row[0, token] = 9
    writer.enqueue(row)
    decided = session.wait(PATIENCE)
    assert decided is not None
    assert decided.decisions[0].token == token
    return decided.decisions[0]


def test_a_stop_string_ends_a_sequence_and_its_text(daemon: Daemon, name: str, tokenizer: Path) -> None:
    with daemon.open(name, tokenizer=tokenizer) as session:
        writer = croupier.Writer(session.segment_path)
        session.add(1, [0], params=GREEDY, stop_strings=["zzz", "two\u20ac", " three"])
        assert session.text(1) == b""
        decisions = [decide(session, writer, token) for token in (0, 1, 2)]
        # The end may become a stop string, and half a character is none.
        assert [each.text_bytes for each in decisions] == [3, 4, 4]
        assert [each.stopped for each in decisions] == [None] * 3
        assert session.text(1) == b"one "
        assert session.text(1, 3) == b" "
        assert session.text_stop(1) is None
        ended = decide(session, writer, 3)
        assert (ended.stopped, ended.stop_string, ended.stop_begin) == ("stop_string", 1, 4)
        assert "stopped by stop_string" in repr(ended)
        stop = session.text_stop(1)
        assert (stop.flag, stop.stopped, stop.stop_string, stop.begin) == (64, "stop_string", 1, 4)
        assert repr(stop) == "TextStop(stopped='stop_string', stop_string=1, begin=4)"
        assert session.text(1) == b"one "
        session.truncate(1, 2)
        ended = [decide(session, writer, token) for token in (4, 5)][-1]
        assert (ended.stop_string, ended.stop_begin, ended.text_bytes) == (2, 7, 7)
        assert session.text(1).decode() == "one two"


def test_the_text_ends_behind_the_stop_string_where_a_request_asks_for_it(
    daemon: Daemon, name: str, tokenizer: Path
) -> None:
    with daemon.open(name, tokenizer=str(tokenizer)) as session:
        writer = croupier.Writer(session.segment_path)
        params = croupier.Params(temperature=0, include_stop=True)
        session.add(1, [0], params=params, stop_strings=("tw",), output=[0])
        assert decide(session, writer, 1).stopped == "stop_string"
        assert session.text(1) == b"one tw"


def test_a_json_value_ends_a_sequence_and_its_text(daemon: Daemon, name: str, tokenizer: Path) -> None:
    with daemon.open(name, tokenizer=tokenizer) as session:
        writer = croupier.Writer(session.segment_path)
        session.add(1, [0], params=croupier.Params(temperature=0, stop_at_json=True))
        decisions = [decide(session, writer, token) for token in (6, 7, 8, 9)]
        assert [each.stopped for each in decisions] == [None, None, None, "json"]
        ended = decisions[-1]
        assert (ended.stop_string, ended.stop_begin, ended.text_bytes) == (None, 1, 23)
        stop = session.text_stop(1)
        assert (stop.stopped, stop.stop_string, stop.begin) == ("json", None, 1)
        assert repr(stop) == "TextStop(stopped='json', begin=1)"
        assert json.loads(session.text(1, ended.stop_begin)) == {"one": [1, "two\u20ac"]}
        assert "stopped by json" in repr(ended)
    with daemon.open(name) as session:
        params = croupier.Params(stop_at_json=True)
        fails("bad_argument", lambda: session.add(1, [0], params=params), "the option tokenizer")


def test_a_loop_ends_a_sequence(daemon: Daemon, name: str) -> None:
    with daemon.open(name) as session:
        writer = croupier.Writer(session.segment_path)
        params = croupier.Params(temperature=0, loop_max_period=2, loop_count=2)
        session.add(1, [0], params=params)
        decisions = [decide(session, writer, token) for token in (0, 1, 0, 1)]
        assert [each.stopped for each in decisions] == [None, None, None, "loop"]
        # An engine leads it out.
        session.append(1, [2, 3])
        assert decide(session, writer, 0).stopped is None
        params = croupier.Params(loop_max_period=2)
        fails("bad_argument", lambda: session.add(2, [0], params=params), "loop_count is 0")
    with pytest.raises(croupier.Error, match="loop_max_period is 257"):
        croupier.Params(loop_max_period=257)


def test_json_values_end_where_pythons_decoder_finds_their_ends(
    daemon: Daemon, name: str, tmp_path: Path
) -> None:
    pieces = ['"', "a", "[]", "{}", " ", "1", "12 ", '{"', '":', "[", "]", "}", ",", "\n", "0", "-", ".5"]
    pieces += ["e3", "true", "false ", "null", "\\", "u00e9", '\\"', "[1,", "2]", '"}', '","', '"]', "\u20ac"]
    path = tmp_path / "json.json"
    vocabulary = {piece: token for token, piece in enumerate(pieces)}
    path.write_text(json.dumps({"decoder": {"type": "Fuse"}, "model": {"vocab": vocabulary}}))
    random = Random(5)
    found = 0
    with daemon.open(name, tokenizer=path, max_sequences=4) as session:
        for uid in range(1, 10_001):
            output = [random.randrange(len(pieces)) for _ in range(random.randrange(1, 8))]
            params = croupier.Params(stop_at_json=True)
            session.add(uid, [0], params=params, output=output)
            text = "".join(pieces[token] for token in output)
            before = "".join(pieces[token] for token in output[:-1])
            expected = [begin for begin, complete in values_of(text) if complete > len(before.encode())][:1]
            stop = session.text_stop(uid)
            assert ([] if stop is None else [stop.begin]) == expected, (text, stop)
            found += stop is not None
            session.finish(uid)
    assert found > 500


def values_of(text: str) -> list[tuple[int, int]]:
    """The bytes at which JSON values begin and are complete."""
    values = []
    at = 0
    while (begin := len(text) - len(text[at:].lstrip(" \t\n\r"))) < len(text):
        try:
            _, at = json.JSONDecoder().raw_decode(text, begin)
        except ValueError:
            break
        complete = at
        if text[begin] not in '{["':
            # Python's decoder takes any end for the end of a number.
            if at == len(text) or text[at] not in " \t\n\r,:[]{}":
                break
            complete += 1
        values.append((len(text[:begin].encode()), len(text[:complete].encode())))
    return values


def test_a_client_without_texts_has_the_samplers_stops(daemon: Daemon, name: str, tokenizer: Path) -> None:
    with daemon.open(name, tokenizer=tokenizer, without_texts=1) as session:
        writer = croupier.Writer(session.segment_path)
        session.add(1, [0], params=GREEDY, stop_strings=["zzz", "two\u20ac"])
        decisions = [decide(session, writer, token) for token in (0, 1, 2, 3)]
        assert [each.stopped for each in decisions] == [None] * 3 + ["stop_string"]
        assert decisions[-1].text_bytes == 0
        fails("bad_argument", lambda: session.text(1), "this client keeps no texts")
        fails("bad_argument", lambda: session.text_stop(1), "with the option without_texts 0")
        fails("bad_argument", lambda: session.add(2, [0], stop_strings=["a", ""]), "stop_strings[1] is empty")
        # Another one of the same session may keep them.
        session.detach()
    with daemon.open(name, tokenizer=tokenizer, resume=1) as session:
        assert session.text(1) == b"one "


def test_what_is_no_stop_string_is_refused(daemon: Daemon, name: str, tokenizer: Path) -> None:
    with daemon.open(name, tokenizer=tokenizer) as session:
        fails("bad_argument", lambda: session.add(1, [0], stop_strings="abc"), "stop_strings is 'abc'")
        fails("bad_argument", lambda: session.add(1, [0], stop_strings=[b"a"]), "stop_strings[0] is b'a'")
        fails("bad_argument", lambda: session.add(1, [0], stop_strings=["a", "\ud800"]), "stop_strings[1]")
        fails("bad_argument", lambda: session.add(1, [0], stop_strings=[""]), "stop_strings[0] is empty")
        fails("bad_argument", lambda: session.add(1, [0], stop_strings=["a"] * 17), "17 strings")
        fails("unknown_sequence", lambda: session.text(1))
        fails("unknown_sequence", lambda: session.text_stop(1))
    with daemon.open(name) as session:
        fails("bad_argument", lambda: session.add(1, [0], stop_strings=["a"]), "the option tokenizer")
        session.add(1, [0])
        fails("bad_argument", lambda: session.text(1), "the option tokenizer")
    fails("bad_argument", lambda: daemon.open(name, tokenizer="/nowhere"), "tokenizer '/nowhere'")
