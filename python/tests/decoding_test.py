"""The daemon's tokens are those that croupier.decide() gives for the same row."""

import numpy as np
import pytest

import croupier
from support import PATIENCE, VOCAB, Daemon, Engine, mask_of, row

FULL = {
    "params": croupier.Params(
        seed=7,
        temperature=0.8,
        top_k=200,
        top_p=0.95,
        min_p=0.001,
        repetition_penalty=1.2,
        frequency_penalty=0.3,
        presence_penalty=0.2,
        typical_p=0.98,
        top_n_sigma=4.0,
        xtc_probability=0.5,
        dry_multiplier=0.8,
        logprobs=5,
    ),
    "bias": {5: 2.5, 700: -3.0},
    "stop_ids": [999],
    "bad_words": [[11], [12, 13]],
    "dry_breakers": [[3]],
}


@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp32"])
@pytest.mark.parametrize("tp", [1, 2])
def test_tokens_are_those_of_decide(daemon: Daemon, name: str, dtype: str, tp: int) -> None:
    with daemon.open(name, dtype=dtype, tp=tp) as session:
        engine = Engine(session, dtype)
        engine.add(1, params=croupier.Params(temperature=0))
        engine.add(2, params=croupier.Params(seed=3))
        engine.add(3, **FULL)
        engine.add(4, params=croupier.Params(seed=5, logprobs=8, logprob_mode="processed", top_k=20))
        engine.add(5, params=croupier.Params(order=["top_k", "temperature"], top_k=3, temperature=2.0))
        engine.add(6, allowed_ids=[3, 4, 5], params=croupier.Params(seed=1, no_logprob=True))
        for _ in range(6):
            engine.step()
        assert all(token in (3, 4, 5) for token in engine.outputs[6])


def test_masks_are_obeyed_and_may_differ_by_column(daemon: Daemon, name: str) -> None:
    with daemon.open(name) as session:
        engine = Engine(session)
        for uid in (1, 2, 3):
            engine.add(uid, params=croupier.Params(seed=uid))
        even = np.arange(VOCAB) % 2 == 0
        for _ in range(4):
            engine.step([mask_of(even), None, mask_of(~even).view(np.int32)])
        assert all(token % 2 == 0 for token in engine.outputs[1])
        assert all(token % 2 == 1 for token in engine.outputs[3])


def test_masks_may_be_rows_of_one_array(daemon: Daemon, name: str) -> None:
    with daemon.open(name) as session:
        engine = Engine(session)
        for uid in (1, 2, 3, 4):
            engine.add(uid, params=croupier.Params(seed=uid))
        thirds = [mask_of(np.arange(VOCAB) % 3 == rest) for rest in range(3)]
        # Its rows are further apart than they are long.
        masks = np.zeros((3, 2 * len(thirds[0])), np.int32)[:, : len(thirds[0])]
        masks[:] = np.array(thirds).view(np.int32)
        for mask_rows in ([2, None, 0, 2], [0, 1, None, 2], [None] * 4, (1, 1, 1, 1)):
            submitted = session.submit([1, 2, 3, 4], masks=masks, mask_rows=mask_rows)
            rows = [row(uid, len(engine.outputs[uid])) for uid in engine.asked]
            engine.write(submitted, rows)
            tokens = session.wait(PATIENCE).tokens.tolist()
            for place, (uid, of) in enumerate(zip(engine.asked, mask_rows, strict=True)):
                mask = None if of is None else thirds[of]
                assert tokens[place] == engine.in_process(uid, rows[place], mask).token
                engine.outputs[uid].append(tokens[place])


def test_a_row_without_a_token_says_why(daemon: Daemon, name: str) -> None:
    with daemon.open(name) as session:
        engine = Engine(session)
        engine.add(1)
        engine.add(2)
        bad = row(1, 0)
        bad[3] = np.nan
        engine.write(engine.submit([1, 2]), [bad, row(2, 0)])
        step = session.wait(PATIENCE)
        assert step.tokens.tolist()[0] == -1
        assert step.errors.tolist() == [1, 0]
        assert "NaN" in step.decisions[0].error_text or "nan" in step.decisions[0].error_text
        assert "error" in repr(step.decisions[0])
        assert repr(step) == f"Step(step={step.step}, columns=2)"


def test_what_ends_a_sequence_is_told(daemon: Daemon, name: str) -> None:
    with daemon.open(name) as session:
        engine = Engine(session)
        best = int(np.argmax(row(1, 0)))
        greedy = {"temperature": 0.0}
        engine.add(1, params=croupier.Params(eos_token_id=best, **greedy))
        engine.add(2, params=croupier.Params(max_tokens=1, **greedy))
        engine.add(3, params=croupier.Params(**greedy), stop_ids=[int(np.argmax(row(3, 0)))])
        engine.add(4, params=croupier.Params(**greedy))
        assert [each.stopped for each in engine.step().decisions] == ["eos", "length", "token", None]


def test_sequences_without_a_seed_draw_one_each_and_tell_it(daemon: Daemon, name: str) -> None:
    params = croupier.Params(top_p=0.95)
    with daemon.open(name) as session:
        engine = Engine(session)
        for uid in range(1, 9):
            engine.add(uid, [5], params=params)
        engine.add(9, [5], params=croupier.Params(seed=3))
        engine.add(10, [5])
        assert engine.seeds[9] == 3
        assert len(set(engine.seeds.values())) == 10
        # Each is decided here by the seed that add() told.
        for _ in range(3):
            engine.step()
    assert params.seed is None


def test_a_step_is_a_copy_of_numbers(daemon: Daemon, name: str) -> None:
    with daemon.open(name) as session:
        engine = Engine(session)
        engine.add(8, params=croupier.Params(logprobs=2))
        first = engine.step()
        kept = first.tokens
        second = engine.step()
        assert len(second) == 1
        assert kept.format == "i"
        assert np.asarray(kept).dtype == np.int32
        assert kept.tolist() == engine.outputs[8][:1]
        assert first.uids.tolist() == [8]
        assert first.logprobs.tolist() == [first.decisions[0].logprob]
        assert first.flags.tolist() == [first.decisions[0].flags]
        first.decisions[0].best.clear()
        assert len(first.decisions[0].best) == 2


def test_a_decider_answers_support_and_feedback() -> None:
    decider = croupier.Decider(4, max_length=16)
    assert decider.vocab == 4
    logits = np.array([1, 3, 2, 0], np.float32)
    answer = decider.decide(logits, params=croupier.Params(top_k=2, seed=7), wants_support=True)
    assert [token for token, _ in answer.support] == [1, 2]
    assert sum(probability for _, probability in answer.support) == pytest.approx(1)
    mirostat = croupier.Params(mirostat=2)
    first = decider.decide(logits, [0], params=mirostat)
    assert first.feedback != (0.0, 0.0)
    second = decider.decide(logits, [0], [first.token], params=mirostat, feedback=first.feedback)
    assert second.feedback != first.feedback
    assert second.output_index == 1
    with pytest.raises(croupier.Error, match=r"\(5,\)|is \(5\)"):
        decider.decide(np.zeros(5, np.float32))


def test_ids_come_as_lists_and_as_arrays() -> None:
    logits = row(1, 0)
    asked = {"params": croupier.Params(temperature=0, repetition_penalty=3.0)}
    ids = [int(np.argmax(logits)), 4]
    answers = {
        croupier.decide(logits, given, **asked).token
        for given in (ids, tuple(ids), np.array(ids), np.array(ids, np.int32), np.array([9, *ids])[1:])
    }
    assert len(answers) == 1
    assert answers != {ids[0]}


def test_decide_keeps_a_decider_for_each_vocabulary() -> None:
    for vocab in (3, 4, 5, 6, 7, 3):
        greedy = croupier.Params(temperature=0)
        assert croupier.decide(np.arange(vocab, dtype=np.float32), params=greedy).token == vocab - 1


def test_decide_takes_a_history_of_any_length() -> None:
    rows, greedy = np.arange(3, dtype=np.float32), croupier.Params(temperature=0)
    for length in (8190, 8191, 8192, 20_000, 5):
        assert croupier.decide(rows, [1] * length, [2], params=greedy).token == 2


def test_params_in_the_place_of_a_history_are_named() -> None:
    rows = np.arange(3, dtype=np.float32)
    with pytest.raises(
        croupier.Error, match="prompt is Params.*allowed: a sequence or an array of whole numbers"
    ):
        croupier.decide(rows, croupier.Params(temperature=0))
    with pytest.raises(croupier.Error, match="output is 5; allowed: a sequence or an array of whole numbers"):
        croupier.decide(rows, [], 5)


def test_no_log_prob_is_above_0() -> None:
    """Where a mask leaves one token, rounding alone could put it there."""
    random = np.random.default_rng(8)
    for _ in range(300):
        vocab = int(random.integers(2, 300))
        rows = random.normal(0, 6, vocab).astype(np.float32)
        mask = np.zeros((vocab + 31) // 32, dtype=np.uint32)
        token = int(random.integers(vocab))
        mask[token // 32] = 1 << (token % 32)
        for processed in (0, 1):
            params = croupier.Params(temperature=0.7, logprobs=2, logprob_mode=processed)
            answer = croupier.decide(rows, params=params, mask=mask)
            assert answer.token == token
            assert answer.logprob <= 0


@pytest.mark.parametrize("shares", [None, [300, 700]])
def test_the_support_is_that_of_decide(daemon: Daemon, name: str, shares: list[int] | None) -> None:
    with daemon.open(name, tp=2, shard_ids=shares, max_support=16) as session:
        engine = Engine(session)
        assert engine.writers[0].info.ids == (500 if shares is None else 300)
        engine.add(1, params=croupier.Params(seed=3, top_k=40, support=16))
        engine.add(2, params=croupier.Params(seed=4, top_k=5, support=16))
        engine.add(3, params=croupier.Params(seed=5))
        for _ in range(3):
            rows = [row(uid, len(engine.outputs[uid])) for uid in engine.asked]
            answers = [engine.in_process(uid, rows[place]) for place, uid in enumerate(engine.asked)]
            decisions = engine.step().decisions
            assert [decision.support for decision in decisions] == [answer.support for answer in answers]
            assert [decision.support_total for decision in decisions] == [40, 5, 0]
            assert [len(decision.support) for decision in decisions] == [16, 5, 0]


def test_ranked_views_are_the_decisions_best(daemon: Daemon, name: str) -> None:
    with daemon.open(name) as session:
        engine = Engine(session)
        engine.add(1, params=croupier.Params(seed=3, logprobs=4))
        engine.add(2, params=croupier.Params(seed=4, logprobs=8, logprob_mode="processed", top_k=3))
        engine.add(3, params=croupier.Params(seed=5))
        step = engine.step()
        tokens, logprobs, ranks = (np.asarray(view) for view in step.ranked(6))
        assert ranks.tolist() == [decision.rank for decision in step.decisions]
        for column, decision in enumerate(step.decisions):
            expected = [(decision.token, np.float32(decision.logprob))]
            expected += [(token, np.float32(logprob)) for token, logprob, _ in decision.best[:5]]
            expected += [(-1, -np.inf)] * (6 - len(expected))
            part = slice(6 * column, 6 * column + 6)
            assert list(zip(tokens[part].tolist(), logprobs[part], strict=True)) == expected
        assert [len(view) for view in step.ranked(0)] == [0, 0, 3]


def rows_of(step: croupier.Step, width: int, places: list[int], count: int) -> list[list[tuple[int, float]]]:
    """What ranked() answers with `fills`, from the decisions."""
    rows = [[(0, -np.inf)] * width for _ in range(count)]
    for place, decision in zip(places, step.decisions, strict=True):
        row = [] if decision.error else [(decision.token, np.float32(decision.logprob))]
        row = (row + [(token, np.float32(logprob)) for token, logprob, _ in decision.best])[:width]
        present = {token for token, _ in row}
        absent = (token for token in range(2 * width) if token not in present)
        rows[place] = row + [(next(absent), -np.inf) for _ in range(width - len(row))]
    return rows


@pytest.mark.parametrize("width", [1, 3, 6, 9])
def test_an_engines_rows_are_filled_where_it_has_them(daemon: Daemon, name: str, width: int) -> None:
    with daemon.open(name) as session:
        engine = Engine(session)
        engine.add(1, params=croupier.Params(seed=3, logprobs=4))
        engine.add(2, params=croupier.Params(seed=4, logprobs=8, logprob_mode="processed", top_k=3))
        engine.add(3, params=croupier.Params(seed=5))
        # Few are left, with the smallest ids among them; and none.
        engine.add(4, params=croupier.Params(seed=6, logprobs=8), allowed_ids=[0, 1, 3])
        engine.add(5, params=croupier.Params(seed=6, logprobs=8), allowed_ids=[7], bad_words=[[7]])
        step = engine.step()
        assert [decision.error != 0 for decision in step.decisions] == [False] * 4 + [True]
        for places, count in [([0, 1, 2, 3, 4], 5), ([4, 1, 3, 0, 2], 5), ([6, 0, 2, 5, 3], 7)]:
            tokens, logprobs, ranks = map(
                np.asarray, step.ranked(width, rows=places, count=count, fills=True)
            )
            found = [
                list(zip(*row, strict=True))
                for row in zip(
                    tokens.reshape(count, width).tolist(), logprobs.reshape(count, width), strict=True
                )
            ]
            assert found == rows_of(step, width, places, count)
            assert [ranks[place] for place in places] == [decision.rank for decision in step.decisions]
        assert step.ranked(width) == step.ranked(width, rows=[0, 1, 2, 3, 4], count=5)


def test_mismatches_are_columns_without_a_token_and_those_with_another(daemon: Daemon, name: str) -> None:
    with daemon.open(name) as session:
        engine = Engine(session)
        for uid in range(1, 8):
            engine.add(uid, params=croupier.Params(seed=uid))
        engine.add(8, allowed_ids=[7], bad_words=[[7]])
        step = engine.step()
        sampled = [[decision.token] for decision in step.decisions]
        assert step.mismatches(sampled) == [7]
        for column, other in enumerate(
            [[], [sampled[1][0] + 1], [2**70], [-1], [None], sampled[5] * 2, None]
        ):
            assert step.mismatches([*sampled[:column], other, *sampled[column + 1 :]]) == [column, 7]
        # Of a larger batch, in another order.
        places = [9, 3, 0, 7, 8, 1, 2, 5]
        rows = [[0]] * 10
        for place, row in zip(places, sampled, strict=True):
            rows[place] = row
        assert step.mismatches(rows, rows=places) == [7]
        rows[3] = [sampled[1][0] + 1]
        assert step.mismatches(rows, rows=places) == [1, 7]
        for bad in [places[:-1], [*places[:-1], 10], [*places[:-1], -1], ["a"] * 8]:
            with pytest.raises(croupier.Error, match="row"):
                step.mismatches(rows, rows=bad)
        with pytest.raises(croupier.Error, match="7 rows for 8 columns"):
            step.mismatches(sampled[:-1])
