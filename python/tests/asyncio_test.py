"""Steps come back in an event loop, and what ends a session ends those who wait."""

import asyncio
import signal

import pytest

import croupier
from support import PATIENCE, Daemon, Engine, row

GREEDY = croupier.Params(temperature=0)


async def within_patience(what):  # noqa: ANN001, ANN201
    return await asyncio.wait_for(what, PATIENCE)


def test_steps_come_in_order_until_none_is_in_flight(daemon: Daemon, name: str) -> None:
    async def serve(session: croupier.Session) -> list[int]:
        engine = Engine(session)
        engine.add(1, params=GREEDY)
        steps = [session.submit([1]) for _ in range(2)]

        async def write() -> None:
            for position, step in enumerate(steps):
                await asyncio.sleep(0)
                engine.write(step, [row(1, position)])

        writing = asyncio.create_task(write())
        seen = [step.step async for step in session]
        await writing
        assert seen == steps
        assert [step.step async for step in session] == []
        with pytest.raises(croupier.Error, match="no step is in flight"):
            await session.next_step()
        return session.output(1)

    with daemon.open(name) as session:
        tokens = asyncio.run(within_patience(serve(session)))
        assert tokens == [int(row(1, position).argmax()) for position in range(2)]


def test_two_tasks_share_the_steps(daemon: Daemon, name: str) -> None:
    async def serve(session: croupier.Session) -> None:
        engine = Engine(session)
        engine.add(1, params=GREEDY)
        steps = [session.submit([1]) for _ in range(2)]
        tasks = [asyncio.create_task(session.next_step()) for _ in steps]
        await asyncio.sleep(0)
        for position, step in enumerate(steps):
            engine.write(step, [row(1, position)])
        assert sorted([(await task).step for task in tasks]) == steps

    with daemon.open(name) as session:
        asyncio.run(within_patience(serve(session)))


def test_a_task_that_is_cancelled_leaves_the_step(daemon: Daemon, name: str) -> None:
    async def serve(session: croupier.Session) -> None:
        engine = Engine(session)
        engine.add(1, params=GREEDY)
        step = session.submit([1])
        waiting = asyncio.create_task(session.next_step())
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        engine.write(step, [row(1, 0)])
        assert (await session.next_step()).step == step

    with daemon.open(name) as session:
        asyncio.run(within_patience(serve(session)))


def test_closing_ends_a_task_that_waits(daemon: Daemon, name: str) -> None:
    async def serve(session: croupier.Session) -> None:
        session.add(1, [1])
        session.submit([1])
        waiting = asyncio.create_task(session.next_step())
        await asyncio.sleep(0)
        session.close()
        with pytest.raises(croupier.Error) as failed:
            await waiting
        assert failed.value.name == "session_closed"

    asyncio.run(within_patience(serve(daemon.open(name))))


def test_a_daemon_that_dies_is_seen(own_daemon: Daemon, name: str) -> None:
    async def serve(session: croupier.Session) -> None:
        session.add(1, [1])
        session.submit([1])
        waiting = asyncio.create_task(session.next_step())
        await asyncio.sleep(0)
        own_daemon.end(signal.SIGKILL)
        with pytest.raises(croupier.Error) as failed:
            await waiting
        assert failed.value.name == "daemon_gone"

    session = own_daemon.open(name)
    asyncio.run(within_patience(serve(session)))
    session.detach()


def test_a_daemon_that_comes_back_goes_unnoticed(own_daemon: Daemon, name: str) -> None:
    async def serve(session: croupier.Session) -> list[int]:
        engine = Engine(session)
        engine.add(1, params=GREEDY)
        step = session.submit([1])
        looks, look = asyncio.Semaphore(0), session.wait

        def counted(timeout: float) -> croupier.Step | None:
            try:
                return look(timeout)
            except croupier.Error:
                looks.release()
                raise

        session.wait = counted
        waiting = asyncio.create_task(session.next_step())
        await asyncio.sleep(0)
        own_daemon.end(signal.SIGKILL)
        # Two looks of the task find no daemon.
        await looks.acquire()
        await looks.acquire()
        own_daemon.start()
        engine.write(step, [row(1, 0)])
        return (await waiting).tokens.tolist()

    session = own_daemon.open(name)
    tokens = asyncio.run(within_patience(serve(session)))
    assert tokens == [int(row(1, 0).argmax())]
    session.close()
