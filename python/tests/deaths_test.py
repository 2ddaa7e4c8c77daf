"""Processes that die with SIGKILL, and forked children."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import croupier
from support import PATIENCE, Daemon, Engine, eventually, row

GREEDY = croupier.Params(temperature=0)

# A client that leaves a step in flight, says so, and waits for its end.
DOOMED = """
import sys
sys.path.insert(0, sys.argv[3])
import croupier, numpy, support
session = croupier.Session(endpoint=sys.argv[1], name=sys.argv[2], vocab=support.VOCAB, dtype="fp32")
engine = support.Engine(session)
engine.add(1, params=croupier.Params(seed=6, top_p=0.9))
engine.step()
session.submit([1])
print("submitted", flush=True)
session.wait()
"""


def test_a_session_is_resumed_after_its_client_was_killed(daemon: Daemon, name: str) -> None:
    client = subprocess.Popen(
        [sys.executable, "-c", DOOMED, daemon.endpoint, name, str(Path(__file__).parent)],
        stdout=subprocess.PIPE,
    )
    assert client.stdout.readline() == b"submitted\n"
    client.kill()
    client.wait()
    client.stdout.close()
    with daemon.open(name, mask_rows=0, max_logprobs=0, resume=True) as session:
        assert session.resumed
        assert session.list() == [1]
        assert session.in_flight == 1
        engine = Engine(session)
        engine.asked[1] = {"prompt": [1, 2, 3], "params": croupier.Params(seed=6, top_p=0.9)}
        engine.outputs[1] = session.output(1)
        assert engine.outputs[1] == [croupier.decide(row(1, 0), **engine.asked[1]).token]
        wanted = engine.writers[0].wait_step(PATIENCE)
        assert wanted.rows == 1
        engine.write(wanted.step, [row(1, 1)])
        decided = session.wait(PATIENCE)
        assert decided.tokens[0] == engine.in_process(1, row(1, 1)).token


def test_samplers_that_are_killed_cost_no_token(own_daemon: Daemon, name: str) -> None:
    with own_daemon.open(name) as session:
        engine = Engine(session)
        for uid in range(1, 9):
            engine.add(uid, params=croupier.Params(seed=uid, top_p=0.9, repetition_penalty=1.1))
        for kill in range(6):
            before = own_daemon.sampler_pids()
            victim = before[kill % len(before)]
            os.kill(victim, signal.SIGKILL)
            engine.step()
            eventually(lambda victim=victim: len(set(own_daemon.sampler_pids()) - {victim}) == 2)


def test_a_daemon_that_is_back_in_time_goes_unnoticed(own_daemon: Daemon, name: str) -> None:
    with own_daemon.open(name) as session:
        engine = Engine(session)
        engine.add(1, params=GREEDY)
        step = session.submit([1])
        own_daemon.end(signal.SIGKILL)
        with pytest.raises(croupier.Error) as failed:
            session.wait(0.05)
        assert failed.value.name == "daemon_gone"
        got: list[croupier.Step] = []
        waiting = threading.Thread(target=lambda: got.append(session.wait(PATIENCE)))
        waiting.start()
        own_daemon.start()
        engine.write(step, [row(1, 0)])
        waiting.join()
        assert got[0].tokens[0] == int(np.argmax(row(1, 0)))


def test_a_forked_child_holds_nothing(daemon: Daemon, name: str) -> None:
    with daemon.open(name) as session:
        engine = Engine(session)
        engine.add(1, params=GREEDY)
        writer = engine.writers[0]
        context = multiprocessing.get_context("fork")
        receiving, sending = context.Pipe(duplex=False)

        def child() -> None:
            for call in (session.list, session.close, session.wait, lambda: writer.state, writer.detach):
                try:
                    call()
                    sending.send("nothing")
                except croupier.Error as failure:
                    sending.send(failure.name)
            sending.send(croupier.decide(row(2, 0), params=GREEDY).token)

        process = context.Process(target=child)
        process.start()
        sending.close()
        said = [receiving.recv() for _ in range(6)]
        process.join()
        assert process.exitcode == 0
        assert said == ["forked"] * 5 + [int(np.argmax(row(2, 0)))]
        engine.step()


def test_a_wait_is_interrupted(daemon: Daemon, name: str) -> None:
    class Interrupted(Exception):
        pass

    def interrupt(_number: int, _frame: object) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with daemon.open(name) as session:
            session.add(1, [1])
            session.submit([1])
            poke = threading.Timer(0.02, lambda: os.kill(os.getpid(), signal.SIGUSR1))

            def wait_for_the_poke() -> None:
                poke.start()
                session.wait()

            with pytest.raises(Interrupted):
                wait_for_the_poke()
            poke.join()
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_session_that_nobody_holds_any_more_is_let_go(daemon: Daemon, name: str) -> None:
    session = daemon.open(name)
    session.add(1, [1])
    del session
    with daemon.open(name, resume=True) as session:
        assert session.list() == [1]
