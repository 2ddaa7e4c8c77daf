"""A session with a tokenizer: stop strings, and the text that is released."""

import base64
from pathlib import Path

import numpy as np
import pytest

import croupier
from support import GREEDY, PATIENCE, VOCAB, Daemon, fails

PIECES = [b"one", b" two", "\u20ac".encode()[:2], "\u20ac".encode()[2:], b" thr", b"ee"]


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
        assert session.stop_string(1) is None
        ended = decide(session, writer, 3)
        assert (ended.stopped, ended.stop_string, ended.stop_begin) == ("stop_string", 1, 4)
        assert "stopped by stop_string" in repr(ended)
        assert session.stop_string(1) == (1, 4)
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


def test_what_is_no_stop_string_is_refused(daemon: Daemon, name: str, tokenizer: Path) -> None:
    with daemon.open(name, tokenizer=tokenizer) as session:
        fails("bad_argument", lambda: session.add(1, [0], stop_strings="abc"), "stop_strings is 'abc'")
        fails("bad_argument", lambda: session.add(1, [0], stop_strings=[b"a"]), "stop_strings[0] is b'a'")
        fails("bad_argument", lambda: session.add(1, [0], stop_strings=["a", "\ud800"]), "stop_strings[1]")
        fails("bad_argument", lambda: session.add(1, [0], stop_strings=[""]), "stop_strings[0] is empty")
        fails("bad_argument", lambda: session.add(1, [0], stop_strings=["a"] * 17), "17 strings")
        fails("unknown_sequence", lambda: session.text(1))
        fails("unknown_sequence", lambda: session.stop_string(1))
    with daemon.open(name) as session:
        fails("bad_argument", lambda: session.add(1, [0], stop_strings=["a"]), "the option tokenizer")
        session.add(1, [0])
        fails("bad_argument", lambda: session.text(1), "the option tokenizer")
    fails("bad_argument", lambda: daemon.open(name, tokenizer="/nowhere"), "tokenizer '/nowhere'")
