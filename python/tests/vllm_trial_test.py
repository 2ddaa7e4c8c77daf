"""What the trial of a server works out for itself: its client, its comparisons, what a server leaves behind.

Over a real HTTP server of this folder (toy_server.py) that stands where vLLM's module would be.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parents[2] / "bench" / "vllm"))
from trial import checks, compare, lifecycle, load, own, server, table, texts  # noqa: E402
from trial.checks import Check, Side  # noqa: E402
from trial.client import COMPLETIONS, Answer, Client, ServerGoneError, at_once, joined  # noqa: E402
from trial.model import Model  # noqa: E402
from trial.server import Host, Server, ServerFailedError  # noqa: E402

MODEL = Model("toy", 512, 500)


@pytest.fixture
def start(tmp_path: Path, monkeypatch: Any) -> Iterator[Callable[..., Server]]:
    """Servers by the trial's own command, with the toy as the module that it names."""
    place = tmp_path / "modules" / "vllm" / "entrypoints" / "cli"
    place.mkdir(parents=True)
    for folder in (place, place.parent, place.parent.parent):
        (folder / "__init__.py").touch()
    (place / "main.py").write_text((Path(__file__).parent / "toy_server.py").read_text())
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "modules"))
    # Other tests of this host have daemons and segments of their own meanwhile.
    memory = Path(f"/dev/shm/croupier-trial-test-{os.getpid()}")
    memory.mkdir()
    monkeypatch.setattr(server, "SHARED_MEMORY", memory)
    monkeypatch.setattr(server, "croupiers", dict)
    started: list[Server] = []

    def begin(name: str = "native", *more: str, model: str = "toy") -> Server:
        started.append(Server(name, tmp_path, model, list(more)))
        return started[-1]

    yield begin
    for one in started:
        one.sweep()
    shutil.rmtree(memory)


def ready(one: Server) -> Server:
    one.await_ready(30)
    return one


def test_an_answer_that_is_streamed_is_the_one_in_one_piece(start: Callable[..., Server]) -> None:
    client = ready(start()).client
    body = client.completion_body([5, 6, 7], max_tokens=9)
    whole, streamed = client.post(COMPLETIONS, body), client.stream(COMPLETIONS, body)
    assert streamed.shown() == whole.shown()
    assert whole.shown()["usage"] == {"prompt_tokens": 3, "completion_tokens": 9}
    assert len(streamed.events) == 10


def test_an_error_within_a_stream_is_an_error_and_no_short_answer() -> None:
    part = {"choices": [{"index": 0, "text": "a", "token_ids": [1], "finish_reason": None}]}
    found = joined([part, {"error": {"message": "it broke"}}])
    assert found["error"] == {"message": "it broke"}
    assert load._fault(Answer(200, found), 4) == "status 200: it broke"


def test_a_server_that_is_not_there_is_told_and_an_error_takes_an_answers_place() -> None:
    client = Client(server.free_port(), "toy")
    with pytest.raises(ServerGoneError, match="refused"):
        client.get("/health")
    found = at_once([lambda: 1, lambda: client.get("/health"), lambda: time.sleep(9)], patience=4.0)
    assert found[0] == 1
    assert isinstance(found[1], ServerGoneError)
    assert "no answer within 4 s" in str(found[2])


def test_a_request_ends_when_its_client_goes(start: Callable[..., Server]) -> None:
    client = ready(start()).client
    body = client.completion_body([1], max_tokens=5000)
    calls = [lambda: client.leave_after(COMPLETIONS, body, 3) for _ in range(40)]
    assert at_once(calls, 30) == [3] * 40
    side = Side("native", client, MODEL)
    assert server.await_true(lambda: not load._busy(side), 10) is not None
    assert client.leave_unanswered(COMPLETIONS, body, 0.5)
    assert not client.leave_unanswered(COMPLETIONS, {**body, "max_tokens": 3}, 20)


def test_greedy_checks_tell_a_wrong_token_from_a_near_tie(start: Callable[..., Server]) -> None:
    right, wrong = ready(start()), ready(start("croupier", "--wrong"))
    check = Check("crowd", texts._greedy_crowd, texts._judged)
    sides = [Side("native", right.client, MODEL), Side("croupier", wrong.client, MODEL)]
    assert checks.run(check, sides[0], sides[0]).verdict.how == compare.EQUAL
    row = checks.run(check, *sides)
    assert row.verdict.how == compare.DIFFERENT
    assert "2.5 apart" in row.verdict.notes[0]
    near = compare.Judge(right.client)
    near.gap = lambda *_: 0.1
    judged = near.tokens([[1], [2]], [[7, 8], [9]], [[7, 9], [9]])
    assert judged.how == compare.EXPLAINED
    assert near.tokens([[1]], [[7, 8]], [[7]]).how == compare.DIFFERENT


def test_an_exception_in_a_check_is_that_checks_finding(start: Callable[..., Server]) -> None:
    side = Side("native", ready(start()).client, MODEL)

    def observe(_: Side) -> Any:
        raise RuntimeError("no such thing")

    row = checks.run(Check("bad", observe, lambda *_: compare.same(1, 1)), side, side)
    assert row.verdict.how == compare.FAILED
    assert "no such thing" in row.verdict.native
    row = checks.run(Check("worse", lambda _: 1, lambda *_: {}["x"]), side, side)
    assert row.verdict.how == compare.FAILED
    shown = table.table([row])
    assert shown.startswith("FAILED     worse")
    assert shown.endswith("1 FAILED")


def test_wrong_parameters_must_have_the_same_class_of_status_and_a_name() -> None:
    def found(name: str, status: int, message: str = "") -> list[dict[str, Any]]:
        return [{"name": name, "status": status, "message": message}]

    judge: Any = None
    refused = found("top_p", 400, "top_p must be in (0, 1]")
    assert own._refused_alike(refused, refused, judge).how == compare.EQUAL
    assert own._refused_alike(refused, found("top_p", 500, "top_p"), judge).how == compare.DIFFERENT
    assert own._refused_alike(refused, found("top_p", 400, "it is wrong"), judge).how == compare.DIFFERENT
    taken, named = found("own order", 200), found("own order", 400, "order is not one")
    assert own._refused_alike(taken, named, judge).how == compare.EXPLAINED
    assert own._refused_alike(taken, taken, judge).how == compare.DIFFERENT
    taken = found("seed", 200)
    assert own._refused_alike(taken, found("seed", 400, "seed"), judge).how == compare.DIFFERENT


def test_log_probs_may_differ_by_a_tolerance_and_at_ties_of_a_lists_end() -> None:
    native = [{"a": -0.5, "b": -2.0, "c": -3.0}]
    near = [{"a": -0.5004, "b": -2.0, "d": -3.0}]
    assert compare.near_logprobs(native, near, 1e-3).how == compare.EQUAL
    assert compare.near_logprobs(native, [{"a": -0.6, "b": -2.0, "c": -3.0}], 1e-3).how == compare.DIFFERENT
    assert compare.near_logprobs(native, [{"a": -0.5, "b": -2.0, "d": -2.5}], 1e-3).how == compare.DIFFERENT


def test_a_server_that_cannot_begin_is_told_with_its_error(start: Callable[..., Server]) -> None:
    with pytest.raises(ServerFailedError, match="this model is broken"):
        start("native", model="broken").await_ready(30)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_server_that_leaves_nothing_is_gone_and_one_under_way_closes_its_requests(
    start: Callable[..., Server], number: int
) -> None:
    one, other = ready(start("croupier")), ready(start("native"))
    traffic = lifecycle.Traffic(Side("croupier", one.client, MODEL), 4)
    found = lifecycle.end_of(one, number, [other])
    assert found["seconds"] is not None
    assert found["left"]["processes"] == []
    assert lifecycle.verdict_of(None, found).how == compare.EQUAL
    assert traffic.hanging(10) == 0
    assert other.client.get("/health").status == 200


def test_what_a_server_leaves_behind_is_found_and_swept(
    start: Callable[..., Server], monkeypatch: Any
) -> None:
    monkeypatch.setattr(lifecycle, "WITHIN", 1.0)
    leaf = str(server.SHARED_MEMORY / "segment")
    one = ready(start("croupier", "--leave", leaf))
    found = lifecycle.end_of(one, signal.SIGKILL, [])
    assert found["seconds"] is None
    assert found["left"]["dev_shm"] == [leaf]
    assert found["left"]["processes"] == ["sleep 60"]
    assert found["swept"] == ["sleep 60"]
    assert one.processes() == {}
    assert lifecycle.verdict_of(None, found).how == compare.DIFFERENT
    # What native leaves too is vLLM's, but for what has Croupier's name.
    assert lifecycle.verdict_of(found, found).how == compare.DIFFERENT
    found["left"]["dev_shm"] = []
    assert lifecycle.verdict_of(found, found).how == compare.EXPLAINED


def test_a_living_servers_semaphore_is_not_left_by_the_one_that_ended() -> None:
    other = {4321: "VLLM::EngineCore"}
    after = Host(frozenset({"/dev/shm/sem.loky-4321-x1", "/dev/shm/sem.mp-77-x2"}), frozenset(), frozenset())
    nothing = Host(frozenset(), frozenset(), frozenset())
    assert after.left_since(nothing, other)["dev_shm"] == ["/dev/shm/sem.mp-77-x2"]
    assert len(after.left_since(nothing, {})["dev_shm"]) == 2


def test_modules_without_a_file_are_stand_ins(monkeypatch: Any) -> None:
    from types import ModuleType

    monkeypatch.setitem(sys.modules, "stood_in", ModuleType("stood_in"))
    found = table.missing_modules(["json", "stood_in", "not_there_at_all"])
    assert found == ["stood_in (a stand-in)", found[1]]
    assert found[1].startswith("not_there_at_all (ModuleNotFoundError")


def test_a_newer_vllm_needs_more_modules() -> None:
    assert "orjson" not in table.needed_by("0.26.0")
    assert {"orjson", "uvicorn"} <= set(table.needed_by("0.33.0"))
    assert table.needed_by("1.0") == table.needed_by("0.33.0")
    assert table.needed_by("") == table.NEEDED
