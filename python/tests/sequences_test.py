"""What a session does with a sequence: windows, forks, truncates, and its end."""

import numpy as np

import croupier
from support import GREEDY, PATIENCE, VOCAB, Daemon, Engine, best, fails, row


def test_a_fork_goes_on_as_its_parent(daemon: Daemon, name: str) -> None:
    with daemon.open(name) as session:
        engine = Engine(session)
        engine.add(1, params=croupier.Params(seed=5, temperature=0.7, mirostat=2))
        same = [row(7, position) for position in range(6)]
        for position in range(3):
            engine.write(session.submit([1]), [same[position]])
            session.wait(PATIENCE)
        session.fork(1, 2, outputs=2, child=0)
        session.fork(1, 3, outputs=2, child=1)
        assert session.output(2) == session.output(3) == session.output(1)[:2]
        for position in range(2, 6):
            of_first = same[min(position + 1, 5)]
            engine.write(session.submit([1, 2, 3]), [of_first, same[position], same[position]])
            session.wait(PATIENCE)
        assert session.output(2) == session.output(1)[:6]
        assert session.output(3) != session.output(2)
        fails("bad_argument", lambda: session.fork(1, 9, outputs=99, child=0), "99 of them cannot be kept")
        fails("bad_argument", lambda: session.fork(1, 9, outputs=1, child=-1), "child is -1")
        fails("unknown_sequence", lambda: session.fork(8, 9, outputs=0, child=0))


def test_a_window_brings_the_tokens_that_were_drafted_right(daemon: Daemon, name: str) -> None:
    with daemon.open(name, max_batch=8) as session:
        engine = Engine(session)
        engine.add(1, params=GREEDY)
        engine.add(2, params=GREEDY)
        step = session.submit([1, 2], rows=[3, 2])
        wanted = engine.writers[0].wait_step(PATIENCE)
        assert (wanted.step, wanted.rows) == (step, 5)
        inputs = [-2, best(1, 0), best(1, 1), -2, best(2, 0) ^ 1]
        # The second sequence's rows come first among the logits.
        rows = [row(2, 0), row(2, 1), row(1, 0), row(1, 1), row(1, 2)]
        engine.write(
            step,
            rows,
            inputs=np.array(inputs, np.int32),
            row_of=np.array([2, 3, 4, 0, 1], np.int32),
        )
        decided = session.wait(PATIENCE)
        assert decided.tokens.tolist() == [best(1, 0), best(1, 1), best(1, 2), best(2, 0), -1]
        assert decided.errors.tolist() == [0, 0, 0, 0, croupier.DecisionError.REJECTED]
        assert [each.output_index for each in decided.decisions[:4]] == [0, 1, 2, 0]
        assert session.output(1) == [best(1, position) for position in range(3)]
        assert session.output(2) == [best(2, 0)]
        first, second = decided.tokens.tolist()[:3], [best(2, 0)]
        assert decided.mismatches([second, first], rows=[1, 0], windows=[3, 2]) == []
        for column, other in (
            (0, first[:2]),
            (0, [*first, 1]),
            (0, [first[0], first[1] ^ 1, first[2]]),
            (1, []),
            (1, [*second, -1]),
            (1, None),
        ):
            sampled = [other if column == 0 else first, other if column == 1 else second]
            assert decided.mismatches(sampled, windows=[3, 2]) == [column]
        for bad in ([3], [3, 3], [5, 0], [3, 2, 1], ["a", 2], 5, []):
            fails(
                "bad_argument", lambda bad=bad: decided.mismatches([first, second], windows=bad), "5 in all"
            )
        step = session.submit([2])
        engine.write(step, [row(2, 1)])
        assert session.wait(PATIENCE).tokens.tolist() == [best(2, 1)]


def test_a_windows_rows_and_arrays_may_lie_at_addresses(daemon: Daemon, name: str) -> None:
    with daemon.open(name, max_batch=8) as session, croupier.Writer(session.segment_path) as writer:
        session.add(1, [1], params=GREEDY)
        step = session.submit([1], rows=[3])
        rows = np.stack([row(1, 1), row(1, 0)])
        row_of, inputs, parents = np.array([[1, 0, -1], [-2, best(1, 0), -1], [0, 0, 1]], np.int32)
        assert writer.begin(step)
        fails(
            "bad_argument",
            lambda: writer.enqueue_pointer(rows.ctypes.data, VOCAB, row_of=0),
            "row_of is 0; allowed: an address",
        )
        writer.enqueue_pointer(
            rows.ctypes.data,
            rows.strides[0] // rows.itemsize,
            row_of=row_of.ctypes.data,
            inputs=inputs.ctypes.data,
            parents=parents.ctypes.data,
        )
        assert session.wait(PATIENCE).tokens.tolist() == [best(1, 0), best(1, 1), -1]


def test_a_window_says_what_is_wrong_with_it(daemon: Daemon, name: str) -> None:
    with daemon.open(name, max_batch=8) as session:
        engine = Engine(session)
        engine.add(1, params=GREEDY)
        fails("bad_argument", lambda: session.submit([1], rows=[0]), "rows[0] is 0; allowed: 1 to 64")
        fails("bad_argument", lambda: session.submit([1], rows=[1, 2]), "a list of 1 numbers, one a column")
        fails("bad_argument", lambda: session.submit([1], rows=[9]), "a step has 1 to 8 columns")
        step = session.submit([1], rows=[2])
        writer = engine.writers[0]
        assert writer.begin(step)
        rows = np.stack([row(1, 0), row(1, 1)])
        fails("bad_argument", lambda: writer.enqueue(rows), "`inputs` is null")
        short = np.zeros(1, np.int32)
        fails("bad_argument", lambda: writer.enqueue(rows, inputs=short), "at least the step's 2")
        fails("bad_argument", lambda: writer.enqueue(rows, inputs=np.zeros(2)), "allowed: int32")
        fed, beyond = np.zeros(2, np.int32), np.array([0, 2], np.int32)
        fails("bad_argument", lambda: writer.enqueue(rows, inputs=fed, row_of=beyond), "row_of[1] is 2")
        writer.enqueue(rows, inputs=np.array([999, best(1, 0)], np.int32))
        assert session.wait(PATIENCE).tokens.tolist() == [best(1, 0), best(1, 1)]
        # After an output the head must follow it.
        step = session.submit([1], rows=[2])
        engine.write(step, [row(1, 2), row(1, 3)], inputs=np.array([best(1, 1) ^ 1, 5], np.int32))
        decided = session.wait(PATIENCE)
        assert decided.errors.tolist() == [croupier.DecisionError.BAD_INPUT, croupier.DecisionError.VOID]
        assert session.output(1) == [best(1, 0), best(1, 1)]


def test_truncate_voids_what_is_in_flight(daemon: Daemon, name: str) -> None:
    with daemon.open(name) as session:
        engine = Engine(session)
        engine.add(1, params=GREEDY)
        for _ in range(3):
            engine.step()
        step = session.submit([1])
        session.truncate(1, 1)
        engine.write(step, [row(1, 3)])
        void = session.wait(PATIENCE)
        assert void.tokens.tolist() == [-1]
        assert void.errors.tolist() == [13]
        assert session.output(1) == [best(1, 0)]
        engine.outputs[1] = session.output(1)
        assert engine.step().decisions[0].output_index == 1
        fails("bad_argument", lambda: session.truncate(1, 99))
        fails("unknown_sequence", lambda: session.truncate(2, 0))
        fails("bad_argument", lambda: session.truncate(1, -1), "outputs is -1")


def test_sequences_come_and_go(daemon: Daemon, name: str) -> None:
    with daemon.open(name, max_sequences=2) as session:
        engine = Engine(session)
        engine.add(1, output=[4, 5], params=GREEDY)
        engine.add(2, params=GREEDY)
        assert sorted(session.list()) == [1, 2]
        assert session.output(1) == [4, 5]
        fails("table_full", lambda: session.add(3, [1]))
        fails("bad_argument", lambda: session.add(2, [1]))
        session.finish(1)
        assert session.list() == [2]
        fails("unknown_sequence", lambda: session.output(1), "sequence 1 is not live")
        fails("unknown_sequence", lambda: session.finish(1))
        fails("unknown_sequence", lambda: session.submit([1]))
