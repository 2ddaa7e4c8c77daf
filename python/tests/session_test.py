"""Each method of a session and of a writer, and how it fails."""

import select
import signal
import sys
import threading
import time
from functools import partial

import numpy as np
import pytest

import croupier
from support import GREEDY, PATIENCE, VOCAB, Daemon, Engine, best, error_of, eventually, fails, row


def test_several_steps_are_in_flight(daemon: Daemon, name: str) -> None:
    with daemon.open(name, steps_in_flight=3) as session:
        engine = Engine(session)
        engine.add(1, params=GREEDY)
        steps = [session.submit([1]) for _ in range(3)]
        assert session.in_flight == 3
        fails("ring_full", lambda: session.submit([1]))
        for position, step in enumerate(steps):
            engine.write(step, [row(1, position)])
        decided = [session.wait(PATIENCE) for _ in steps]
        assert [step.step for step in decided] == steps
        assert [step.tokens[0] for step in decided] == [best(1, position) for position in range(3)]
        assert session.output(1) == [best(1, position) for position in range(3)]
        fails("bad_argument", lambda: session.wait(0), "no step is in flight")


def test_a_step_that_is_given_up_is_answered(daemon: Daemon, name: str) -> None:
    with daemon.open(name) as session:
        engine = Engine(session)
        engine.add(1, params=GREEDY)
        step = session.submit([1])
        session.give_up(step)
        assert session.wait(PATIENCE).errors.tolist() == [12]
        fails("bad_argument", lambda: session.give_up(step + 5))
        fails("bad_argument", lambda: session.give_up("now"), "step is 'now'")
        engine.step()


def test_the_descriptor_tells_of_a_decided_step(daemon: Daemon, name: str) -> None:
    with daemon.open(name) as session:
        engine = Engine(session)
        engine.add(1, params=GREEDY)
        assert session.fileno() == session.fileno()
        step = session.submit([1])
        assert session.wait(0) is None
        engine.write(step, [row(1, 0)])
        readable, _, _ = select.select([session], [], [], PATIENCE)
        assert readable == [session]
        assert session.wait(0).tokens[0] == best(1, 0)


def test_a_wait_that_is_over_says_none(daemon: Daemon, name: str) -> None:
    with daemon.open(name) as session:
        session.add(1, [1])
        step = session.submit([1])
        assert session.wait(0) is None
        assert session.wait(0.03) is None
        for timeout in (-1, float("nan"), "soon"):
            fails("bad_argument", lambda timeout=timeout: session.wait(timeout), "timeout is")
        session.give_up(step)
        assert session.wait() is not None


def test_another_thread_has_its_turn_while_one_waits(daemon: Daemon, name: str) -> None:
    with daemon.open(name) as session:
        engine = Engine(session)
        engine.add(1, params=GREEDY)
        step = session.submit([1])
        got: list[croupier.Step] = []
        waiting = threading.Thread(target=lambda: got.append(session.wait(PATIENCE)))
        waiting.start()
        for uid in range(2, 12):
            session.add(uid, [uid])
        assert len(session.list()) == 11
        engine.write(step, [row(1, 0)])
        waiting.join()
        assert got[0].tokens[0] == best(1, 0)


def test_calls_that_do_not_wait_keep_the_gil(daemon: Daemon, name: str) -> None:
    """A thread that lets go of it gets it back when a busy one is interrupted: here after 30 seconds.

    A busy thread takes some 50 us to see that it is free, and the copy of a long prompt lasts longer.
    """
    there, start, over = (threading.Event() for _ in range(3))
    turns, prompt = [0], [3] * 150_000

    def busy() -> None:
        there.set()
        start.wait()
        while not over.is_set():
            turns[0] += 1

    with daemon.open(name, max_length=200_000) as session, croupier.Writer(session.segment_path) as writer:
        session.add(1, [1], params=GREEDY)
        other = threading.Thread(target=busy)
        interval = sys.getswitchinterval()
        other.start()
        there.wait()
        # Before the other thread waits for the GIL: a wait keeps the interval that it began with.
        sys.setswitchinterval(30.0)
        try:
            start.set()
            asks = time.perf_counter() + 0.05
            while time.perf_counter() < asks:
                pass
            before = turns[0]
            step = session.submit([1])
            for uid in range(2, 22):
                session.add(uid, prompt)
                session.truncate(uid, 0)
                session.finish(uid)
            assert session.in_flight == 1
            assert session.wait(0) is None
            assert writer.begin(step)
            assert writer.state.begun == 1
            between = turns[0] - before
        finally:
            sys.setswitchinterval(interval)
            over.set()
            other.join()
        assert between == 0
        # A host's logits are written in the call, which lets others work.
        writer.enqueue(row(1, 0)[None])
        assert session.wait(PATIENCE).tokens.tolist() == [best(1, 0)]


def test_a_session_that_is_closed_elsewhere_ends_a_wait(daemon: Daemon, name: str) -> None:
    session = daemon.open(name)
    session.add(1, [1])
    session.submit([1])
    failures: list[croupier.Error] = []

    def wait() -> None:
        try:
            session.wait()
        except croupier.Error as failure:
            failures.append(failure)

    waiting = threading.Thread(target=wait)
    waiting.start()
    session.close()
    waiting.join()
    assert [failure.name for failure in failures] == ["session_closed"]


def test_a_closed_session_says_so(daemon: Daemon, name: str) -> None:
    session = daemon.open(name)
    path = session.segment_path
    writer = croupier.Writer(path)
    assert session.is_open
    session.close()
    session.close()
    session.detach()
    assert not session.is_open
    assert session.segment_path == path
    for call in (
        session.list,
        session.wait,
        session.fileno,
        lambda: session.in_flight,
        lambda: session.output(1),
        lambda: session.add(1, [1]),
        lambda: session.submit([1]),
        lambda: session.finish(1),
        lambda: session.truncate(1, 0),
        lambda: session.give_up(0),
    ):
        fails("session_closed", call, "this session was closed or detached")
    fails("session_closed", writer.wait_step)
    assert not writer.state.open
    writer.detach()
    writer.detach()
    for call in (
        writer.wait_step,
        writer.abandon,
        lambda: writer.state,
        lambda: writer.begin(0),
        lambda: writer.enqueue(np.zeros((1, VOCAB), np.float32)),
        lambda: writer.wait_tokens(0),
        writer.enqueue_randoms,
    ):
        fails("session_closed", call, "this writer was closed or detached")


def test_who_waits_for_tokens_of_a_closed_session_is_told_so(daemon: Daemon, name: str) -> None:
    session = daemon.open(name)
    with croupier.Writer(session.segment_path) as writer:
        session.add(1, [1])
        step = session.submit([1])
        assert writer.begin(step)
        assert not writer.wait_tokens(step, 0)
        session.close()
        fails("session_closed", lambda: writer.wait_tokens(step, PATIENCE), "it was closed")


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_an_idle_engine_learns_what_became_of_its_daemon(
    own_daemon: Daemon, name: str, how: signal.Signals
) -> None:
    session = own_daemon.open(name, timeout=3600)
    session.add(1, [1])
    fails("bad_argument", lambda: session.wait(0), "no step is in flight")
    own_daemon.end(how)
    if how == signal.SIGKILL:
        # A look at the daemon is good for some milliseconds, and an idle wait does not wait.
        eventually(lambda: error_of(lambda: session.wait(3600)) == "daemon_gone")
        session.detach()
        return
    fails("session_closed", lambda: session.wait(0))
    assert session.output(1) == []
    # Nothing is left to close: it hangs, and fails by its time limit, where it waits for the daemon.
    session.close()


def test_a_detached_session_is_resumed(daemon: Daemon, name: str) -> None:
    first = daemon.open(name)
    engine = Engine(first)
    engine.add(1, params=GREEDY)
    engine.step()
    fails("already_held", lambda: daemon.open(name))
    first.detach()
    with daemon.open(name, resume=True) as session:
        assert session.resumed
        assert session.output(1) == engine.outputs[1]
        engine.session = session
        engine.step()


def test_what_the_daemon_refuses_says_why(daemon: Daemon, name: str) -> None:
    fails("bad_argument", lambda: daemon.open(name, vocab=0), "vocab")
    fails("bad_argument", lambda: daemon.open(name, dtype="int8"), "dtype is 'int8'")
    for transport in ("whole", 2, None):
        wrong = f"transport is {transport!r}; allowed: rows or lean (0 or 1)"
        fails("bad_argument", partial(daemon.open, name, transport=transport), wrong)
    fails("bad_argument", lambda: daemon.open(name, max_bach=3), "did you mean 'max_batch'")
    fails("bad_argument", lambda: daemon.open(name, tp=-1), "tp is -1")
    fails("bad_argument", lambda: daemon.open(name, timeout=0), "timeout is 0")
    fails("bad_argument", lambda: daemon.open(name, hotness_file=3), "hotness_file is 3")
    fails("bad_argument", lambda: daemon.open("a\0b"), "without a null character")
    fails("bad_argument", lambda: daemon.open(name, order=np.arange(3, dtype=np.uint32)), "all 16")
    fails(
        "not_found",
        lambda: croupier.Session(vocab=3, dtype="fp32", endpoint="ipc:///tmp/nowhere", timeout=0.05),
    )


def test_a_hotness_order_changes_no_token(daemon: Daemon, name: str) -> None:
    order = np.arange((VOCAB + 63) // 64, dtype=np.uint32)[::-1].copy()
    with daemon.open(name, order=order, summaries=True) as session:
        engine = Engine(session)
        assert engine.writers[0].info.has_order
        assert engine.writers[0].info.has_summaries
        engine.add(1, params=croupier.Params(seed=9, top_p=0.9))
        for _ in range(3):
            engine.step()


def test_a_writer_tells_of_its_part_and_its_state(daemon: Daemon, name: str) -> None:
    with (
        daemon.open(name, tp=2, padded_vocab=1024) as session,
        croupier.Writer(session.segment_path, rank=1) as writer,
    ):
        info = writer.info
        assert (info.vocab, info.tp, info.rank, info.first_id, info.ids) == (VOCAB, 2, 1, 512, 512)
        assert (info.dtype, info.device, info.max_batch, info.steps_in_flight) == ("fp32", -1, 64, 2)
        assert info.transport == "rows"
        assert (writer.state.open, writer.state.begun, writer.state.finished) == (True, 0, 0)
        assert not writer.begin(0)
        assert writer.wait_step(0) is None
        session.add(1, [1])
        session.add(2, [1])
        step = session.submit([1, 2])
        wanted = writer.wait_step(PATIENCE)
        assert (wanted.step, wanted.rows) == (step, 2)
        assert repr(wanted) == f"WantedStep(step={step}, rows=2)"
        assert writer.begin(step)
        assert writer.state.begun == 1
        writer.abandon()
        assert writer.begin(step)
        writer.enqueue(np.zeros((2, 512), np.float32))
        assert writer.state.finished == 1
        fails("bad_argument", lambda: writer.begin(step))
        fails("already_held", lambda: croupier.Writer(session.segment_path, rank=1))
        fails("bad_argument", lambda: croupier.Writer(session.segment_path, rank=7))
        with pytest.raises(croupier.Error, match="rows is 'kept'; allowed: auto, lent or copied"):
            croupier.Writer(session.segment_path, rows="kept")


def test_a_worker_has_the_tokens_without_the_scheduler(daemon: Daemon, name: str) -> None:
    with daemon.open(name) as session:
        engine = Engine(session)
        writer = engine.writers[0]
        for uid in (1, 2):
            engine.add(uid, params=GREEDY)
        step = session.submit([1, 2])
        fails("bad_argument", lambda: writer.wait_tokens(step, 0))
        engine.write(step, [row(1, 0), row(2, 0)])
        assert writer.wait_tokens(step, PATIENCE)
        tokens = np.zeros(2, np.int32)
        writer.enqueue_tokens(step, tokens)
        assert tokens.tolist() == [best(1, 0), best(2, 0)]
        by_pointer = np.zeros(2, np.int32)
        writer.enqueue_tokens_pointer(step, by_pointer.ctypes.data)
        assert by_pointer.tolist() == tokens.tolist()
        for bad in (
            tokens[:1],
            tokens.astype(np.int64),
            tokens.reshape(1, 2),
            np.zeros(4, np.int32)[::2],
            [0, 0],
        ):
            fails("bad_argument", lambda bad=bad: writer.enqueue_tokens(step, bad), "tokens")
        tokens.flags.writeable = False
        fails("bad_argument", lambda: writer.enqueue_tokens(step, tokens), "make it writable")


def test_rows_may_lie_apart_or_at_an_address(daemon: Daemon, name: str) -> None:
    with daemon.open(name) as session:
        engine = Engine(session)
        writer = engine.writers[0]
        for uid in (1, 2):
            engine.add(uid, params=GREEDY)
        wide = np.full((2, VOCAB + 24), 99, np.float32)
        for position in range(2):
            wide[:, :VOCAB] = [row(1, position), row(2, position)]
            assert writer.begin(session.submit([1, 2]))
            if position == 0:
                writer.enqueue(wide[:, :VOCAB], None)
            else:
                writer.enqueue_pointer(wide.ctypes.data, VOCAB + 24, stream=0)
            assert session.wait(PATIENCE).tokens.tolist() == [best(1, position), best(2, position)]


def test_randoms_of_the_writer_are_those_of_the_samplers(daemon: Daemon, name: str) -> None:
    with daemon.open(name, randoms_supplied=True) as session:
        engine = Engine(session)
        engine.add(1, params=croupier.Params(seed=4, rng="shvs"))
        step = session.submit([1])
        writer = engine.writers[0]
        assert writer.begin(step)
        writer.enqueue_randoms()
        writer.enqueue(row(1, 0)[None])
        decision = session.wait(PATIENCE).decisions[0]
        assert (decision.error, decision.token) == (0, engine.in_process(1, row(1, 0)).token)


def test_logits_that_do_not_fit_are_refused_and_the_step_goes_on(daemon: Daemon, name: str) -> None:
    with daemon.open(name, dtype="bf16") as session:
        engine = Engine(session, "bf16")
        for uid in (1, 2):
            engine.add(uid, params=GREEDY)
        step = session.submit([1, 2])
        writer = engine.writers[0]
        good = np.zeros((2, VOCAB), np.uint16)
        fails("bad_argument", lambda: writer.enqueue(good), "no step is begun")
        assert writer.begin(step)
        for bad, said in (
            (good.astype(np.float32), "float32; allowed: the session's bf16"),
            (good.astype(np.int16), "int16"),
            (good.astype(">u2"), "byte order"),
            (good[0], "2-D"),
            (good[:1], "the step's 2 rows"),
            (good[:0], "the step's 2 rows"),
            (np.zeros((5, VOCAB), np.uint16), "the step's 2 rows"),
            (good[:, :-1], "rows of rank 0's 1000 ids"),
            (np.zeros((2, 2 * VOCAB), np.uint16)[:, ::2], "2 elements apart"),
            (good[::-1], "rows of logits are -1000 elements apart"),
            (np.broadcast_to(good[0], (2, VOCAB)), "rows of logits are 0 elements apart"),
            (np.asfortranarray(good), "neighbours in logits"),
            (good.tolist(), "of type list"),
            (good.tobytes(), "2-D"),
            (np.array([["a"]]), "logits"),
            (None, "of type NoneType"),
        ):
            fails("bad_argument", lambda bad=bad: writer.enqueue(bad), said)
        fails("bad_argument", lambda: writer.enqueue(good, stream=7), "stream")
        fails("bad_argument", lambda: writer.enqueue(good, stream="s"), "0 is CUDA's default stream")
        fails("bad_argument", lambda: writer.enqueue_pointer(0, VOCAB), "pointer is 0")
        fails("bad_argument", lambda: writer.enqueue_pointer(good.ctypes.data, 3), "row_stride")
        fails("bad_argument", lambda: writer.enqueue_randoms(stream=1))
        writer.enqueue(good)
        assert session.wait(PATIENCE).errors.tolist() == [0, 0]


def test_rows_behind_a_refused_enqueue_are_not_laid_for_its_step(daemon: Daemon, name: str) -> None:
    peak = lambda token: np.eye(1, VOCAB, token, dtype=np.float32) * 50  # noqa: E731
    with daemon.open(name, dtype="fp32") as session, croupier.Writer(session.segment_path) as writer:
        for uid in (1, 2):
            session.add(uid, [1], params=croupier.Params(temperature=0.0))
        first, second = session.submit([1]), session.submit([2])
        assert writer.begin(first)
        fails("bad_argument", lambda: writer.enqueue(peak(11).astype(np.float64)), "float64")
        fails("bad_argument", lambda: writer.begin(second), "the last enqueue was refused")
        writer.enqueue(peak(11))
        assert writer.begin(second)
        writer.enqueue(peak(22))
        assert [session.wait(10).tokens.tolist() for _ in range(2)] == [[11], [22]]
        third = session.submit([1])
        assert writer.begin(third)
        fails("bad_argument", lambda: writer.enqueue(np.zeros((2, 2), np.float32)), "shape")
        session.give_up(third)
        assert session.wait(10).tokens.tolist() == [-1]
        writer.abandon()
        assert writer.begin(session.submit([1]))
        writer.enqueue(peak(33))
        assert session.wait(10).tokens.tolist() == [33]


def test_requests_that_do_not_fit_are_refused(daemon: Daemon, name: str) -> None:
    with daemon.open(name) as session:
        for bad, said in (
            ({"prompt": [VOCAB]}, "prompt[0] is 1000; allowed: 0 to 999"),
            ({"prompt": [1, "2"]}, "prompt[1] is '2'"),
            ({"prompt": [1 << 40]}, "prompt[0]"),
            ({"prompt": np.array([1 << 40])}, "prompt[0]"),
            ({"prompt": "abc"}, "prompt is 'abc'"),
            ({"prompt": b"abc"}, "the elements of prompt are uint8"),
            ({"prompt": np.zeros((2, 2), int)}, "1-D"),
            ({"prompt": 3}, "prompt is 3"),
            ({"params": {"top_k": 1}}, "params is of type dict"),
            ({"params": croupier.Params(min_tokens=5, max_tokens=2)}, "min_tokens"),
            ({"bias": [1.0]}, "bias is of type list"),
            ({"bias": {"a": 1.0}}, "bias has the key 'a'"),
            ({"bias": {1: "b"}}, "bias[1] is 'b'"),
            ({"bias": {1: float("nan")}}, "bias"),
            ({"bad_words": [[]]}, "bad_words"),
            ({"bad_words": [1]}, "bad_words[0] is 1"),
            ({"bad_words": 1}, "bad_words is 1"),
            ({"stop_ids": [-1]}, "stop_ids[0] is -1"),
        ):
            fails("bad_argument", lambda bad=bad: session.add(1, **({"prompt": [1]} | bad)), said)
        fails("bad_argument", lambda: session.add(-1, [1]), "uid is -1")
        session.add(1, [1])
        fails("bad_argument", lambda: session.submit(1), "uids is 1")
        fails("bad_argument", lambda: session.submit(["a"]), "uid is 'a'")
        mask = np.zeros((VOCAB + 31) // 32, np.uint32)
        for masks in (
            [],
            [mask, mask],
            mask,
            [mask[1:]],
            [mask.astype(np.int64)],
            [np.zeros(64, np.uint32)[::2]],
            [3],
        ):
            fails("bad_argument", lambda masks=masks: session.submit([1], masks=masks), "masks")
        for masks, mask_rows, said in (
            ([mask], [0], "masks is of type list"),
            (None, [0], "masks is of type NoneType"),
            (mask, [0], "the shape of masks is (32) of uint32; allowed: rows of 32 words"),
            (mask.reshape(1, -1)[:, 1:], [0], "the shape of masks is (1, 31)"),
            (mask.reshape(1, -1).astype(np.int64), [0], "of int64"),
            (np.zeros((1, 64), np.uint32)[:, ::2], [0], "2 elements apart"),
            (mask.reshape(1, -1), [1], "mask_rows[0] is 1; allowed: None, or a row of masks"),
            (mask.reshape(1, -1), [-1], "mask_rows[0] is -1"),
            (mask.reshape(1, -1), ["a"], "mask_rows[0] is 'a'"),
            (mask.reshape(1, -1), [0, 0], "allowed: None, or a list of 1"),
            (mask.reshape(1, -1), 0, "mask_rows is 0"),
        ):
            fails(
                "bad_argument",
                lambda masks=masks, mask_rows=mask_rows: session.submit(
                    [1], masks=masks, mask_rows=mask_rows
                ),
                said,
            )
        assert session.in_flight == 0


def test_a_step_has_no_more_columns_than_the_session_has_windows(daemon: Daemon, name: str) -> None:
    with daemon.open(name, max_batch=8, max_windows=2, transport="lean") as session:
        for uid in (1, 2, 3):
            session.add(uid, [1, 2, 3])
        wrong = "the step has 3 columns, the session was opened for 2; open it with a larger max_windows"
        fails("bad_argument", lambda: session.submit([1, 2, 3]), wrong)
        assert session.submit([1, 2]) == 0
    fails("bad_argument", lambda: daemon.open(name, max_batch=8, max_windows=9), "max_windows is 9")
