"""A session through a relay, as of a scheduler on another host: real processes, over 127.0.0.1 with keys."""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import croupier
from croupier import FanOut, Session, Writer
from croupier.serving import relay as relays
from croupier.serving import relayed_opening
from croupier.serving.options import Options
from croupier.serving.processes import readable
from croupier.serving.relay import Relay
from croupier.serving.relayed_opening import RelayedOpening, reserved_port
from support import GREEDY, PATIENCE, VOCAB, Daemon, best, eventually, fails, row

GIVEN = {"vocab": VOCAB, "dtype": "fp32", "timeout": PATIENCE}


@pytest.fixture
def programs(croupierd: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The relay beside that daemon's program."""
    monkeypatch.setattr(relays, "find_croupierd", lambda: str(croupierd))


class Way:
    """To a relay beside the daemon."""

    def __init__(self, daemon: Daemon) -> None:
        self.public, self.secret = FanOut.make_keys()
        with reserved_port("127.0.0.1", 0) as port:
            self.root = f"tcp://127.0.0.1:{port.getsockname()[1]}"
            self.relay = Relay(daemon.endpoint, self.root, self.public)
            self.fan_out = self.join(self.relay.key)

    def join(self, relay_key: str, timeout: float = PATIENCE) -> FanOut:
        return FanOut(
            self.root, public_key=self.public, secret_key=self.secret, relay_key=relay_key, timeout=timeout
        )


@pytest.fixture
def way(daemon: Daemon, programs: None) -> Iterator[Way]:
    made = Way(daemon)
    yield made
    made.fan_out.close()
    made.relay.close()


def decide(session: Session, writer: Writer, uid: int, position: int) -> int:
    step = session.submit([uid])
    # The record may still be on its way.
    wanted = writer.wait_step(PATIENCE)
    assert (wanted.step, wanted.rows) == (step, 1)
    assert writer.begin(step)
    writer.enqueue(row(uid, position)[np.newaxis])
    found = session.wait(PATIENCE)
    assert found is not None
    [decision] = found.decisions
    return decision.token


def test_a_session_through_a_relay_draws_the_tokens_of_a_local_one(way: Way, name: str) -> None:
    with Session(relay=way.fan_out, name=name, **GIVEN) as session:
        assert session.segment_path.startswith("/dev/shm/croupier-py-")
        session.add(1, [3, 4], params=GREEDY)
        with Writer(session.segment_path) as writer:
            tokens = [decide(session, writer, 1, position) for position in range(5)]
        assert tokens == [best(1, position) for position in range(5)]
        assert session.output(1) == tokens


def test_a_session_keeps_its_way_and_says_when_that_is_closed(way: Way, name: str) -> None:
    session = Session(relay=way.fan_out, name=name, **GIVEN)
    session.add(1, [3], params=GREEDY)
    way.fan_out.close()
    assert not way.fan_out.is_open
    fails("session_closed", lambda: session.add(2, [3]), "this fan-out was closed")
    session.detach()


def test_a_relay_that_dies_is_told_to_the_scheduler(way: Way, name: str) -> None:
    session = Session(relay=way.fan_out, name=name, **GIVEN)
    way.relay.close()

    def is_told() -> bool:
        try:
            session.add(1, [3])
            session.finish(1)
        except croupier.Error as error:
            return error.name == "peer_gone"
        return False

    eventually(is_told)
    session.detach()


def test_an_engine_s_relay_ends_with_its_scheduler(way: Way, name: str) -> None:
    ended = os.dup(way.relay.ended)
    Session(relay=way.fan_out, name=name, **GIVEN).close()
    assert not readable([ended], 0)
    way.fan_out.close()
    assert readable([ended], PATIENCE)
    os.close(ended)


def test_an_engine_s_relay_ends_with_the_process_that_started_it(daemon: Daemon, croupierd: Path) -> None:
    code = f"""
        from croupier.serving import relay
        relay.find_croupierd = lambda: {str(croupierd)!r}
        made = relay.Relay({daemon.endpoint!r}, "tcp://127.0.0.1:9", relay.FanOut.make_keys()[0])
        print(made._process.pid, flush=True)
        input()
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as engine:
        relay = os.pidfd_open(int(engine.stdout.readline()))
        assert not readable([relay], 0)
        engine.kill()
    assert readable([relay], PATIENCE)
    os.close(relay)


def test_a_relay_s_secret_key_is_in_no_argument_variable_or_folder(
    daemon: Daemon, programs: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    public, secret = FanOut.make_keys()
    monkeypatch.setattr(relays.FanOut, "make_keys", lambda: (public, secret), raising=False)
    relay = Relay(daemon.endpoint, "tcp://127.0.0.1:9", "k" * 40)
    monkeypatch.undo()
    process = Path(f"/proc/{relay._process.pid}")
    for told in ("cmdline", "environ"):
        assert secret.encode() not in (process / told).read_bytes()
    [key_file] = [word for word in (process / "cmdline").read_text().split("\0") if word.startswith("/proc/")]
    assert key_file.startswith("/proc/self/fd/")
    relay.close()


def test_a_relay_takes_no_option_from_the_engine_s_environment(
    daemon: Daemon, programs: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CROUPIER_RELAY_PORT", "tcp://10.0.0.7:80")
    relay = Relay(daemon.endpoint, "tcp://127.0.0.1:9", "k" * 40)
    assert not readable([relay.ended], 0)
    relay.close()


def test_a_relay_that_ends_at_its_start_is_told_at_once(daemon: Daemon, programs: None) -> None:
    with pytest.raises(RuntimeError, match="ended with status 1 at its start"):
        Relay(daemon.endpoint, "tcp://", "k" * 40)


def test_a_relay_with_another_key_is_not_let_in(way: Way) -> None:
    way.fan_out.close()
    fails("timed_out", lambda: way.join(FanOut.make_keys()[0], timeout=0.5), "did not join within")


def test_what_is_no_way_is_refused() -> None:
    fails("bad_argument", lambda: Session(vocab=VOCAB, relay=7), "allowed: a croupier.FanOut, or None")
    fails("bad_argument", lambda: FanOut("tcp://127.0.0.1:1", timeout=0), "allowed: seconds above 0")


def test_a_reserved_port_is_another_program_s_no_more_and_the_fan_out_s_yet() -> None:
    with reserved_port("127.0.0.1", 0) as port:
        place = port.getsockname()
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(place)
        public, secret = FanOut.make_keys()
        fails(
            "timed_out",
            lambda: FanOut(
                f"tcp://127.0.0.1:{place[1]}",
                public_key=public,
                secret_key=secret,
                relay_key=public,
                timeout=0.1,
            ),
        )
    with pytest.raises(RuntimeError, match="cannot listen at 192.0.2.1:0"):
        reserved_port("192.0.2.1", 0)
    with pytest.raises(RuntimeError, match=r"cannot listen at 127.0.0.1:65536.*relay_port"):
        reserved_port("127.0.0.1", 65536)


def test_a_relay_reaches_a_scheduler_by_its_ipv6_address(daemon: Daemon, programs: None, name: str) -> None:
    try:
        reserved_port("::1", 0).close()
    except (OSError, RuntimeError) as error:
        pytest.skip(f"this machine has no IPv6 loopback address: {error}")
    begin = Begun([daemon.endpoint])
    opening = RelayedOpening(Options(), "::1", begin, logging.getLogger("test"), "fewer rows")
    session = opening.open(lambda session: session(), name=name, vocab=VOCAB, dtype="fp32")
    assert begin.roots[0].startswith("tcp://[::1]:")
    session.add(1, [3])
    session.close()
    opening.daemon.leave()
    [relay] = begin.relays
    assert readable([relay.ended], PATIENCE)
    relay.close()


def test_where_no_relay_comes_the_user_is_told_what_may_be_in_its_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(relayed_opening, "_JOIN_PATIENCE", 0.2)
    roots = []

    def begin(root: str, root_key: str, private: bool) -> tuple[str, str]:
        roots.append(root)
        return "ipc:///nowhere", root_key

    opening = RelayedOpening(Options(), "127.0.0.1", begin, logging.getLogger("test"), "fewer rows")
    with pytest.raises(RuntimeError) as told:
        opening.open(lambda session: session(), vocab=VOCAB, dtype="fp32")
    [root] = roots
    for words in (
        f"did not reach this one at {root} within 0.2 s",
        "the option relay_port",
        "VLLM_HOST_IP",
        f"`croupier doctor --peer {root.removeprefix('tcp://')}`",
    ):
        assert words in str(told.value)
    assert opening.daemon is None


class Begun:
    """SessionHost.begin() of a host whose first daemon refuses every session."""

    def __init__(self, daemons: list[str]) -> None:
        self.daemons = daemons
        self.asked: list[bool] = []
        self.roots: list[str] = []
        self.relays: list[Relay] = []

    def __call__(self, root: str, root_key: str, private: bool) -> tuple[str, str]:
        endpoint = self.daemons[private]
        self.asked.append(private)
        self.roots.append(root)
        self.relays.append(Relay(endpoint, root, root_key))
        return endpoint, self.relays[-1].key


@pytest.mark.parametrize("asks_at_once", [False, True])
def test_where_the_other_host_s_daemon_refuses_a_private_one_is_asked(
    asks_at_once: bool, daemon: Daemon, narrow_daemon: Daemon, programs: None, name: str
) -> None:
    begin = Begun([narrow_daemon.endpoint, daemon.endpoint])
    options = Options(private=asks_at_once)
    opening = RelayedOpening(options, "127.0.0.1", begin, logging.getLogger("test"), "fewer rows")
    # Too large a request for the first one: an order of all blocks.
    order = np.arange(2000, dtype=np.uint32)

    def at(session: Callable[..., Session]) -> Session:
        return session(order=order)

    given: dict[str, Any] = {"vocab": 128000, "dtype": "fp32", "max_batch": 1, "name": name}
    session = opening.open(at, **given)
    assert begin.asked == ([True] if asks_at_once else [False, True])
    session.close()
    opening.daemon.leave()
    for relay in begin.relays:
        assert readable([relay.ended], PATIENCE)
        relay.close()


def test_the_engine_s_own_endpoint_is_not_left_for_another(
    narrow_daemon: Daemon, programs: None, name: str
) -> None:
    begin = Begun([narrow_daemon.endpoint])
    options = Options(endpoint=narrow_daemon.endpoint)
    opening = RelayedOpening(options, "127.0.0.1", begin, logging.getLogger("test"), "fewer rows")
    order = np.arange(2000, dtype=np.uint32)
    with pytest.raises(croupier.Error, match="max_message_bytes"):
        opening.open(lambda session: session(order=order), vocab=128000, dtype="fp32", name=name)
    [relay] = begin.relays
    assert readable([relay.ended], PATIENCE)
    relay.close()
