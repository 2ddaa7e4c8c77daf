"""The plane of one rank with a real session, where SGLang's scheduler starts the next batch early.

A request that cannot be sampled ends alone: the batches that it is in go on.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("sglang")

import torch  # noqa: E402
from sglang_parameters_test import NEUTRAL  # noqa: E402

from croupier import Error, Writer  # noqa: E402
from croupier.sglang.admission import Admission  # noqa: E402
from croupier.sglang.options import Options  # noqa: E402
from croupier.sglang.plane import Plane  # noqa: E402
from croupier.sglang.session import OpenSession  # noqa: E402
from croupier.sglang.stages import EarlierStage, LastStage  # noqa: E402

VOCAB, CONTEXT, MOST = 64, 32, 4


class Req:
    """SGLang's, as far as the plane looks at it."""

    logprob = SimpleNamespace(top_logprobs_num=0, token_ids_logprob=None)
    custom_logit_processor = input_embeds = tokenizer = None
    return_sampling_mask = is_retracted = False

    def __init__(self, rid: str, prompt: int = 4, returns_logprob: bool = False, **sampling: Any) -> None:
        self.rid = rid
        self.origin_input_ids = list(range(prompt))
        self.output_ids: list[int] = []
        self.return_logprob = returns_logprob
        self.sampling_params = SimpleNamespace(**{**NEUTRAL, "temperature": 0.0, **sampling})
        self.to_finish: Any = None
        self.ended: Any = None

    def finished(self) -> bool:
        return self.ended is not None


class Engine:
    """Batches start and end when the test says so."""

    def __init__(self, plane: Plane) -> None:
        self.plane = plane

    def start(self, reqs: list[Req], is_decode: bool) -> tuple[Any, Any]:
        mode = SimpleNamespace(is_decode=lambda: is_decode)
        scheduled = SimpleNamespace(
            reqs=reqs,
            forward_mode=mode,
            decoding_reqs=None,
            return_logprob=any(req.return_logprob for req in reqs),
        )
        self.plane.begin(scheduled, None)
        logits = torch.zeros(len(reqs), VOCAB)
        logits[:, 7] = 9.0
        output = SimpleNamespace(next_token_logits=logits, next_token_logprobs=None)
        info = SimpleNamespace(grammars=None)
        tokens = self.plane.sample(output, SimpleNamespace(sampling_info=info))
        return scheduled, SimpleNamespace(next_token_ids=tokens, copy_done=None, logits_output=output)

    def end(self, scheduled: Any, result: Any) -> list[int]:
        self.plane.collect(scheduled, result)
        tokens = result.next_token_ids.tolist()
        for req, token in zip(scheduled.reqs, tokens, strict=True):
            if not req.finished():
                req.output_ids.append(token)
                req.ended = req.to_finish
        self.plane.settle(scheduled)
        return tokens


OPTIONS = Options(private=True, samplers=1, stand_in=False, timeout=20)


def planes(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    of_first: list[Callable[[Any], Any]],
    window: int = 1,
    make: Callable[..., Plane] = Plane,
) -> list[Plane]:
    """Of the ranks of one engine; `of_first` has what each rank's plane takes."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    server_args = SimpleNamespace(
        device="cpu",
        enable_deterministic_inference=False,
        dp_size=1,
        random_seed=1,
        pp_async_batch_depth=0,
    )
    scheduler = SimpleNamespace(
        max_running_requests=MOST,
        max_total_num_tokens=1000,
        model_config=SimpleNamespace(context_len=CONTEXT),
        server_args=server_args,
    )
    admission = Admission(OPTIONS, server_args, VOCAB)
    geometry = {"vocab": VOCAB, "tp": len(of_first), "dtype": "fp32"}
    session = OpenSession(scheduler, OPTIONS, admission, geometry, 0, window)
    made = []
    for rank, shared in enumerate(of_first):
        writer = Writer(session.session.segment_path, rank=rank, device=-1)
        own = None if rank else session
        made.append(make(admission, writer, own, torch.device("cpu"), OPTIONS, shared))
    return made


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    [plane] = planes(tmp_path, monkeypatch, [lambda value: value])
    try:
        yield Engine(plane)
    finally:
        plane.close()


def test_a_request_that_only_the_scheduler_refuses_ends_alone_under_overlap(engine: Engine) -> None:
    good = Req("good")
    bad = Req("bad", custom_params={"dry_multiplier": 0.8, "dry_breakers": [[999999999]]})
    prefill = engine.start([bad, good], is_decode=False)
    decode = engine.start([bad, good], is_decode=True)
    assert engine.end(*prefill)[1] == 7
    assert bad.ended.status_code == 400
    assert "dry_breakers[0][0] is 999999999" in bad.ended.message
    assert engine.end(*decode)[1] == 7
    assert good.output_ids == [7, 7]
    assert not good.finished()


def test_a_request_that_the_session_cannot_take_ends_alone_under_overlap(engine: Engine) -> None:
    good, long = Req("good"), Req("long", prompt=2 * CONTEXT)
    prefill = engine.start([good, long], is_decode=False)
    decode = engine.start([good, long], is_decode=True)
    assert engine.end(*prefill)[0] == 7
    assert "bad_argument" in long.ended.message
    assert engine.end(*decode)[0] == 7
    assert good.output_ids == [7, 7]


def test_batches_of_refused_requests_have_the_logprobs_that_sglang_reads(engine: Engine) -> None:
    bad = Req("bad", returns_logprob=True, custom_params={"nonsense": 1})
    batches = [engine.start([bad], is_decode=False), engine.start([bad], is_decode=True)]
    for scheduled, result in batches:
        engine.end(scheduled, result)
        assert result.logits_output.next_token_logprobs.tolist() == [0.0]
    assert bad.ended.status_code == 400


def test_other_errors_of_the_session_end_the_engine(engine: Engine) -> None:
    engine.plane._session.session.close()
    with pytest.raises(Error, match="closed"):
        engine.start([Req("any")], is_decode=False)


def test_all_ranks_leave_out_what_the_session_cannot_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: Queue[Any] = Queue()

    def send(value: Any) -> Any:
        sent.put(value)
        return value

    def receive(value: Any) -> Any:
        return sent.get(timeout=OPTIONS.timeout)

    def serve(plane: Plane) -> list[int]:
        # Each rank's scheduler has Reqs of its own.
        engine, reqs = Engine(plane), [Req("long", prompt=2 * CONTEXT), Req("good")]
        prefill = engine.start(reqs, is_decode=False)
        decode = engine.start(reqs, is_decode=True)
        engine.end(*prefill)
        engine.end(*decode)
        assert "bad_argument" in reqs[0].ended.message
        return reqs[1].output_ids

    ranks = planes(tmp_path, monkeypatch, [send, receive])
    try:
        with ThreadPoolExecutor(2) as pool:
            assert list(pool.map(serve, ranks)) == [[7, 7], [7, 7]]
    finally:
        for plane in reversed(ranks):
            plane.close()


def test_all_stages_end_the_same_requests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [last] = planes(tmp_path, monkeypatch, [lambda value: value], make=LastStage)
    engine, first = Engine(last), EarlierStage()

    def requests() -> list[Req]:
        """Each stage's scheduler has its own."""
        nonsense = {"custom_params": {"nonsense": 1}}
        return [Req("long", prompt=2 * CONTEXT), Req("good", returns_logprob=True), Req("bad", **nonsense)]

    try:
        scheduled, result = engine.start(requests(), is_decode=False)
        outputs = {"next_token_ids": result.next_token_ids}
        last.send(scheduled, SimpleNamespace(synchronize=lambda: None), outputs)
        assert [len(outputs["next_token_logprobs"]), outputs["next_token_ids"][1]] == [3, 7]
        for stage in (first, last):
            # As SGLang sends what is no tensor.
            sent = pickle.loads(pickle.dumps(outputs))
            received, own = SimpleNamespace(), SimpleNamespace(reqs=requests())
            stage.receive(received, sent)
            stage.collect(own, received)
            ends = [req.to_finish for req in own.reqs]
            assert "bad_argument" in ends[0].message
            assert ends[1] is None
            assert "'nonsense'" in ends[2].message
    finally:
        last.close()


def test_a_batch_of_which_nothing_is_sent_ends_no_request() -> None:
    req = Req("chunked")
    EarlierStage().collect(SimpleNamespace(reqs=[req]), SimpleNamespace(skipped_output_comm=True))
    assert req.to_finish is None
