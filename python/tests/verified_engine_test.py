"""The engine of bench/verified: what the fast path gets wrong changes no text of a verified request."""

import itertools
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import croupier
from noisy_model import Noise, NoisyModel, Spoil, exact, reference
from support import Daemon

# noisy_model has put bench/verified in the path.
from batchings import batchings, run  # isort: skip
from engine import Counts, Engine, Request  # isort: skip
from passes import FixedShape  # isort: skip
from workload import KINDS, requests, unverified  # isort: skip

VOCAB = 300
TOKENS = 40
CONTEXT = 160
PROMPTS = FixedShape(3, 8)
GREEDY = croupier.Params(temperature=0, max_tokens=20)


class Front:
    """What users were told."""

    def __init__(self) -> None:
        self.texts: dict[int, list[int]] = {}
        self.ends: dict[int, str] = {}

    def release(self, uid: int, tokens: list[int], stopped: str | None) -> None:
        assert uid not in self.ends
        self.texts.setdefault(uid, []).extend(tokens)
        if stopped is not None:
            self.ends[uid] = stopped


@contextmanager
def serving(
    daemon: Daemon,
    name: str,
    front: Front,
    windows: FixedShape,
    spoil: Spoil = exact,
    slots: int = 8,
    transport: str = "rows",
) -> Iterator[tuple[Engine, NoisyModel]]:
    model = NoisyModel(slots=slots, context=CONTEXT, vocab=VOCAB, spoil=spoil)
    with (
        daemon.open(name, vocab=VOCAB, steps_in_flight=3, max_batch=256, transport=transport) as session,
        croupier.Writer(session.segment_path) as writer,
    ):
        yield (
            Engine(session, writer, model, prompts=PROMPTS, windows=windows, release=front.release),
            model,
        )
        assert session.list() == []


def serve(
    daemon: Daemon, name: str, asked: list[Request], windows: FixedShape, spoil: Spoil = exact
) -> tuple[Front, Counts]:
    front = Front()
    with serving(daemon, name, front, windows, spoil) as (engine, _):
        for request in asked:
            engine.add(request)
        while not engine.idle:
            engine.step()
        return front, engine.counts


@cache
def workload() -> list[Request]:
    return requests(3 * len(KINDS), vocab=VOCAB, tokens=TOKENS, prompt=(1, 20), seed=4)


@cache
def expected() -> dict[int, tuple[list[int], str]]:
    return {request.uid: reference(request, VOCAB) for request in workload()}


def assert_expected(front: Front) -> None:
    assert {uid: (text, front.ends[uid]) for uid, text in front.texts.items()} == expected()


def test_the_workload_stops_in_every_way_and_does_not_repeat_itself() -> None:
    ends = [stopped for _, stopped in expected().values()]
    assert {"token", "length"} == set(ends)
    assert np.mean([len(set(text)) / len(text) for text, _ in expected().values()]) > 0.5


@pytest.mark.parametrize("noise", [0, 0.05, 1, 100])
@pytest.mark.parametrize(
    "windows", [FixedShape(1, 2), FixedShape(4, 5), FixedShape(8, 16), FixedShape(2, 64)]
)
def test_streams_are_those_of_exact_rows_whatever_the_fast_path_errs(
    daemon: Daemon, name: str, windows: FixedShape, noise: float
) -> None:
    front, counts = serve(daemon, name, workload(), windows, Noise(noise))
    assert_expected(front)
    if noise == 0:
        assert (counts.rollbacks, counts.discarded) == (0, 0)
    if noise == 100:
        # Almost every token of the fast path is thrown away, and each window brings one all the same.
        assert counts.discarded > 0.9 * counts.decoded
        assert counts.rollbacks > 0.9 * counts.windows


@pytest.mark.parametrize("noise", [0, 0.3])
def test_lean_steps_bring_the_same_streams(daemon: Daemon, name: str, noise: float) -> None:
    front = Front()
    with serving(daemon, name, front, FixedShape(4, 8), Noise(noise), transport="lean") as (engine, _):
        for request in workload():
            engine.add(request)
        while not engine.idle:
            engine.step()
    assert_expected(front)


@pytest.mark.parametrize("noise", [0.02, 1])
def test_the_longest_windows_keep_what_mirostat_and_adaptive_p_carry(
    daemon: Daemon, name: str, noise: float
) -> None:
    params = [
        croupier.Params(seed=1, mirostat=2, mirostat_tau=3, max_tokens=150),
        croupier.Params(seed=2, mirostat=1, mirostat_tau=4, max_tokens=140),
        croupier.Params(seed=3, adaptive_target=0.4, max_tokens=130),
    ]
    asked = [Request(uid, [uid], {"params": each}, verified=True) for uid, each in enumerate(params, 1)]
    front, counts = serve(daemon, name, asked, FixedShape(3, 64), Noise(noise))
    assert front.texts == {request.uid: reference(request, VOCAB)[0] for request in asked}
    assert counts.rollbacks > 0


def test_streams_are_the_same_in_ten_batchings(daemon: Daemon, name: str) -> None:
    names = set()
    for number, batching in enumerate(batchings(workload())):
        front = Front()
        with serving(daemon, name, front, FixedShape(4, 8), Noise(0.3), batching.running) as (engine, _):
            run(engine, batching)
        assert_expected(front)
        names.add(batching.name)
        assert len(names) == number + 1
    assert len(names) == 10


def test_without_verification_an_erring_fast_path_changes_streams(daemon: Daemon, name: str) -> None:
    asked = [unverified(request) for request in workload()]
    front, _ = serve(daemon, name, asked, FixedShape(4, 8), Noise(1))
    differing = sum(front.texts[uid] != text for uid, (text, _) in expected().items())
    assert differing > len(asked) / 2
    front, _ = serve(daemon, name, asked, FixedShape(4, 8))
    assert_expected(front)


def test_only_verified_requests_stand_in_windows_and_they_alone_change_nothing_for_others(
    daemon: Daemon, name: str
) -> None:
    asked = [request if request.uid % 3 else unverified(request) for request in workload()]
    front, windows = Front(), FixedShape(4, 8)
    with serving(daemon, name, front, windows, slots=len(asked)) as (engine, model):
        for request in asked:
            engine.add(request)
        while not engine.idle:
            engine.step()
    assert_expected(front)
    # Slots are taken in the order of the requests, and none is taken twice.
    members = {member.slot for shape, members in model.passes if shape == windows for member in members}
    assert members == {number for number, request in enumerate(asked) if request.verified}


def boosted(place: int, token: int, times: int = 1) -> Spoil:
    """The fast path decides `token` the first times that it decides at this position."""
    left = itertools.count(times, -1)

    def spoil(position: int, row: np.ndarray, batch: int) -> None:
        if position == place and next(left) > 0:
            row[token] = row.max() + 50

    return spoil


def greedy_request() -> tuple[Request, list[int]]:
    request = Request(1, [14, 9, 4], {"params": GREEDY}, verified=True)
    text, _ = reference(request, VOCAB)
    assert len(set(text[:15])) == 15
    return request, text


WIDE = FixedShape(2, 8)


@pytest.mark.parametrize("place", range(1, 15))
def test_a_window_is_rolled_back_at_any_of_its_places(daemon: Daemon, name: str, place: int) -> None:
    request, text = greedy_request()
    wrong = (text[place] + 1) % VOCAB
    # The row at the position of the token before it.
    spoil = boosted(len(request.prompt) + place - 1, wrong)
    front, counts = serve(daemon, name, [request], WIDE, spoil)
    assert front.texts == {1: text}
    # A window checks seven tokens of the fast path; its last row brings the eighth, after the prompt's one.
    if place % 8 == 0:
        assert counts.rollbacks == 0
    else:
        assert counts.rollbacks == 1
        assert counts.discarded == 8 - place % 8


@pytest.mark.parametrize("place", range(1, 15))
def test_a_stop_that_is_not_verified_is_taken_back(daemon: Daemon, name: str, place: int) -> None:
    request, text = greedy_request()
    stop = next(token for token in range(VOCAB) if token not in text)
    request.asked["stop_ids"] = [stop]
    spoil = boosted(len(request.prompt) + place - 1, stop)
    front, counts = serve(daemon, name, [request], WIDE, spoil)
    assert front.texts == {1: text}
    assert front.ends == {1: "length"}
    assert counts.rollbacks == (place % 8 != 0)


@pytest.mark.parametrize("place", range(1, 15))
def test_a_stop_that_the_fast_path_misses_ends_the_sequence(daemon: Daemon, name: str, place: int) -> None:
    request, text = greedy_request()
    request.asked["stop_ids"] = [text[place]]
    spoil = boosted(len(request.prompt) + place - 1, (text[place] + 1) % VOCAB)
    front, _ = serve(daemon, name, [request], WIDE, spoil)
    assert front.texts == {1: text[: place + 1]}
    assert front.ends == {1: "token"}


# A client that serves verified requests, says what it releases, and dies in its n-th pass of windows (0: in
# its first step): when the sequences are truncated, before the decisions are there, or before they are taken.
DOOMED = """
import os, signal, sys
sys.path.insert(0, sys.argv[3])
import verified_engine_test as test
passes, when = int(sys.argv[4]), sys.argv[5]
def die_if(now):
    if now == when and engine.counts.window_passes == passes:
        os.kill(os.getpid(), signal.SIGKILL)
class Session(test.croupier.Session):
    def submit(self, uids, rows=None):
        if rows:
            die_if("truncated")
        return super().submit(uids, rows=rows)
    def wait(self, timeout=None):
        die_if("submitted")
        decided = super().wait(timeout)
        die_if("decided")
        return decided
session = Session(endpoint=sys.argv[1], name=sys.argv[2], **test.OPTIONS)
engine = test.engine_of_few(session, lambda uid, tokens, stopped: print(uid, stopped, *tokens, flush=True))
for request in test.few():
    engine.add(request)
while not engine.idle:
    engine.step()
"""
OPTIONS = {"vocab": VOCAB, "dtype": "fp32", "steps_in_flight": 3, "max_batch": 256}
FEW = 10


def few() -> list[Request]:
    return workload()[:FEW]


def engine_of_few(session: croupier.Session, release: Callable[[int, list[int], str | None], None]) -> Engine:
    model = NoisyModel(slots=FEW, context=CONTEXT, vocab=VOCAB, spoil=Noise(0.2))
    writer = croupier.Writer(session.segment_path)
    return Engine(session, writer, model, prompts=PROMPTS, windows=FixedShape(4, 8), release=release)


@pytest.mark.parametrize(
    ("passes", "when"),
    [
        (0, "submitted"),
        (0, "decided"),
        *itertools.product([1, 2, 5, 11], ["truncated", "submitted", "decided"]),
    ],
)
def test_a_client_that_dies_loses_no_released_token(
    daemon: Daemon, name: str, passes: int, when: str
) -> None:
    arguments = [daemon.endpoint, name, str(Path(__file__).parent), str(passes), when]
    client = subprocess.run([sys.executable, "-c", DOOMED, *arguments], stdout=subprocess.PIPE, text=True)
    assert client.returncode == -9
    front = Front()
    for line in client.stdout.splitlines():
        uid, stopped, *tokens = line.split()
        front.release(int(uid), [int(token) for token in tokens], None if stopped == "None" else stopped)
    with daemon.open(name, resume=True, mask_rows=0, max_logprobs=0, **OPTIONS) as session:
        assert session.resumed
        engine = engine_of_few(session, front.release)
        engine.resume(few(), front.texts, front.ends)
        while not engine.idle:
            engine.step()
    assert {uid: (text, front.ends[uid]) for uid, text in front.texts.items()} == {
        uid: expected()[uid] for uid in range(1, FEW + 1)
    }


def test_samplers_that_are_killed_change_no_text(own_daemon: Daemon, name: str) -> None:
    front = Front()
    with serving(own_daemon, name, front, FixedShape(4, 8), Noise(0.3)) as (engine, _):
        for request in workload():
            engine.add(request)
        for step in itertools.count():
            if engine.idle:
                break
            if step % 20 == 10 and (pids := own_daemon.sampler_pids()):
                with suppress(ProcessLookupError):
                    os.kill(pids[0], signal.SIGKILL)
            engine.step()
    assert step > 40
    assert_expected(front)


def test_requests_that_do_not_fit_are_refused(daemon: Daemon, name: str) -> None:
    with serving(daemon, name, Front(), FixedShape(4, 8)) as (engine, _):
        for prompt, tokens in (([], 5), ([1], 0), ([1] * 156, 5)):
            asked = {"params": croupier.Params(max_tokens=tokens)}
            with pytest.raises(ValueError, match="allowed: at least 1 of each, and together up to 160"):
                engine.add(Request(1, prompt, asked))
    for width in (1, 65):
        with (
            pytest.raises(ValueError, match=f"windows have {width} rows; allowed: 2 to 64"),
            serving(daemon, name, Front(), FixedShape(1, width)),
        ):
            pass


def test_random_mixtures(daemon: Daemon, name: str) -> None:
    """Verified and other requests, noise, windows and running sequences, all at random."""
    for seed in range(8):
        drawn = random.Random(seed)
        windows = FixedShape(drawn.randint(1, 6), drawn.randint(2, 24))
        front, noise = Front(), Noise(drawn.choice([0.01, 0.1, 0.5, 3]), seed)
        asked = [one if drawn.random() < 0.6 else unverified(one) for one in workload()]
        with serving(daemon, name, front, windows, noise, slots=drawn.randint(1, 12)) as (engine, _):
            arriving = drawn.sample(asked, len(asked))
            while arriving or not engine.idle:
                for _ in range(drawn.choice([0, 0, 1, 3])):
                    if arriving:
                        engine.add(arriving.pop())
                engine.step()
        for request in asked:
            if request.verified:
                assert (front.texts[request.uid], front.ends[request.uid]) == expected()[request.uid]
