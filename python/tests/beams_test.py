"""Beam searches: the search by itself, and whole ones through a daemon."""

import itertools
import math

import numpy as np
import pytest

import croupier
from support import GREEDY, PATIENCE, VOCAB, Daemon, fails

EOS = 3
OTHER = 1


def row_after(tokens: list[int], vocab: int = VOCAB) -> np.ndarray:
    """The logits after some tokens."""
    row = np.random.default_rng(tokens).normal(0, 3, vocab).astype(np.float32)
    row[EOS] += 6
    return row


def log_softmax(row: np.ndarray) -> np.ndarray:
    wide = row.astype(np.float64)
    return wide - wide.max() - math.log(np.exp(wide - wide.max()).sum())


def searched_in_rows(prompt: list[int], options: dict) -> list[tuple[float, list[int]]]:
    """By the definition, over whole rows: every child of every beam is ranked."""
    width, longest, penalty = options["width"], options["max_tokens"], options["length_penalty"]
    beams: list[tuple[float, list[int]]] = [(0.0, [])]
    finished: list[tuple[float, list[int]]] = []
    for length in range(1, longest + 1):
        children = []
        for logprob, tokens in beams:
            row = log_softmax(row_after(prompt + tokens))
            children += [(logprob + row[token], [*tokens, token]) for token in range(len(row))]
        children.sort(key=lambda child: -child[0])
        ends = [child for child in children[:width] if child[1][-1] == EOS or length == longest]
        finished += [(logprob / length**penalty, tokens) for logprob, tokens in ends]
        finished = sorted(finished, key=lambda each: -each[0])[:width]
        beams = [child for child in children if child[1][-1] != EOS][:width]
        if len(finished) < width or length == longest:
            continue
        never = options["early_stopping"] == "never" and penalty > 0
        possible = beams[0][0] / (longest if never else length) ** penalty
        if options["early_stopping"] is True or possible <= finished[-1][0]:
            break
    return finished


def decode(session: croupier.Session, prompt: list[int], options: dict, first_uid: int) -> croupier.Beams:
    beams = croupier.Beams(**options, stop_ids=[EOS])
    uids = list(range(first_uid, first_uid + options["width"]))
    # A beam goes on, whatever stops its sequence.
    stops = {"stop_ids": [EOS]} if first_uid % 2 else {}
    session.add(uids[0], prompt, params=croupier.Params(temperature=0, logprobs=beams.candidates), **stops)
    outputs: list[list[int]] = [[]]
    with croupier.Writer(session.segment_path) as writer:
        while not beams.is_over:
            live = uids[: len(outputs)]
            assert [session.output(uid) for uid in live] == outputs
            step = session.submit(live)
            assert writer.begin(step)
            writer.enqueue(np.stack([row_after(prompt + output) for output in outputs]))
            # Another sequence, which stays in flight while beams are forked.
            session.submit([OTHER])
            decided = session.wait(PATIENCE)
            assert decided.step == step
            children = beams.step([each.best for each in decided.decisions])
            outputs = [[*outputs[parent], token] for parent, token, _ in children]
            uids = session.fork_beams(beams, uids)
            assert sorted(session.list()) == sorted([OTHER, *uids[: len(outputs)]])
            assert session.in_flight == 1
            assert writer.begin(step + 1)
            writer.enqueue(row_after(session.output(OTHER))[None])
            assert session.wait(PATIENCE).errors.tolist() == [0]
    return beams


@pytest.mark.parametrize("transport", ["rows", "lean"])
def test_a_search_through_a_daemon_finds_the_best_of_whole_rows(
    daemon: Daemon, name: str, transport: str
) -> None:
    widths, penalties = [1, 2, 4], [-0.5, 0.0, 1.0, 2.0]
    cases = list(itertools.product(widths, penalties, [False, True, "never"]))
    with daemon.open(name, transport=transport, max_sequences=5) as session:
        session.add(OTHER, [1], params=GREEDY)
        stopped = 0
        for number, (width, penalty, early) in enumerate(cases):
            options = {"width": width, "max_tokens": 10, "length_penalty": penalty, "early_stopping": early}
            beams = decode(session, [number, 1], options, 100 + number % 2)
            found = beams.hypotheses
            wanted = searched_in_rows([number, 1], options)
            assert [each.tokens for each in found] == [tokens for _, tokens in wanted]
            assert [each.score for each in found] == pytest.approx([score for score, _ in wanted], rel=1e-5)
            assert [each.stopped for each in found] == [tokens[-1] == EOS for _, tokens in wanted]
            stopped += sum(each.stopped for each in found)
        assert stopped > len(cases) / 2
        assert session.list() == [OTHER]
        assert session.in_flight == 0
        output = session.output(OTHER)
        assert output == [int(row_after(output[:place]).argmax()) for place in range(len(output))]


def test_rows_may_bring_fewer_log_probs_where_they_have_no_other_token() -> None:
    beams = croupier.Beams(2, max_tokens=4, stop_ids=[EOS])
    assert beams.candidates == 3
    assert beams.step([[(5, -1.0), (6, -1.0, 1)]], is_all=True) == [(0, 5, -1.0), (0, 6, -1.0)]
    two = [(5, -1.0, 1), (EOS, -0.5, 2)]
    assert beams.step([two, []], is_all=[True, True]) == [(0, 5, -2.0)]
    assert [(each.tokens, each.score) for each in beams.hypotheses] == [([5, EOS], -0.75)]
    assert not beams.is_over
    assert beams.step([[]], is_all=True) == []
    assert beams.is_over
    fails("bad_argument", lambda: beams.step([[]], is_all=True), "the search is over after 3 tokens")


def test_what_a_search_cannot_take_is_told() -> None:
    for options, text in (
        ({"width": 0}, "width is 0; allowed: 1 to 1024"),
        ({"width": -1}, "width is -1"),
        ({"max_tokens": 0}, "max_tokens is 0"),
        ({"length_penalty": math.nan}, "length_penalty is nan"),
        ({"length_penalty": "long"}, "length_penalty is 'long'"),
        ({"early_stopping": "always"}, "early_stopping is 'always'; allowed: False, True and 'never'"),
        ({"stop_ids": [-4]}, "a stop id is -4"),
        ({"stop_ids": 4}, "stop_ids is 4"),
    ):
        given = {"width": 2, "max_tokens": 4, **options}
        fails("bad_argument", lambda given=given: croupier.Beams(given.pop("width"), **given), text)
    beams = croupier.Beams(2, max_tokens=4, stop_ids=[EOS])
    good = [(5, -1.0), (6, -2.0), (7, -3.0)]
    for rows, text in (
        (5, "rows is 5"),
        ([5], "rows[0] is 5"),
        ([[5]], "rows[0] has 5"),
        ([[(5, "x")]], "rows[0] has (5, 'x')"),
        ([good[:2]], "rows[0].best has 2 log-probs, and a search of width 2 with 1 stop ids needs 3"),
        ([good, good], "the step has 2 rows, and the search has 1 beams"),
        ([[*good, (8, math.nan)]], "rows[0].best[3].logprob is nan"),
        ([[*good, (8, -math.inf)]], "rows[0].best[3].logprob is -inf"),
        ([[*good, (8, 7.5)]], "rows[0].best[3].logprob is 7.5"),
        ([[*good, (5, -4.0)]], "rows[0].best has token 5 twice"),
    ):
        fails("bad_argument", lambda rows=rows: beams.step(rows), text)
    fails("bad_argument", lambda: beams.step([good], is_all=[True, False]), "is_all is [True, False]")
    assert [child[:2] for child in beams.step([good])] == [(0, 5), (0, 6)]


def test_what_a_search_cannot_do_in_a_session_is_told(daemon: Daemon, name: str) -> None:
    with daemon.open(name, max_sequences=2) as session:
        session.add(1, [1], output=[5], params=croupier.Params(temperature=0))
        beams = croupier.Beams(4, max_tokens=4)
        fails("bad_argument", lambda: session.fork_beams(beams, [1, 2, 3, 4]), "has made no step yet")
        beams.step([[(5, -1.0), (6, -2.0), (7, -3.0), (8, -4.0)]])
        fails("bad_argument", lambda: session.fork_beams(beams, 5), "uids is 5")
        fails("bad_argument", lambda: session.fork_beams(beams, [1, 2]), "uids has 2 elements")
        fails("table_full", lambda: session.fork_beams(beams, [1, 2, 3, 4]), "4 beams go on")
        assert session.list() == [1]
        many = croupier.Params(
            temperature=0, logprobs=croupier.Beams(8, max_tokens=4, stop_ids=[2]).candidates
        )
        fails("bad_argument", lambda: session.add(2, [1], params=many), "9 best log-probs")
        session.append(1, np.array([7, 8]))
        assert session.output(1) == [5, 7, 8]
        fails("bad_argument", lambda: session.append(1, [VOCAB]), f"tokens[0] is {VOCAB}")
        fails("bad_argument", lambda: session.append(1, [None]), "tokens[0] is None")
        fails("unknown_sequence", lambda: session.append(9, [1]))
