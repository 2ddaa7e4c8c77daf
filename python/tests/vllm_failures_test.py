"""A request without a token: what its client is told, by vLLM's own front end."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("vllm")
pytest.importorskip("host_engine", exc_type=ImportError)

from vllm.outputs import CompletionOutput, RequestOutput  # noqa: E402
from vllm.sampling_params import RequestOutputKind  # noqa: E402
from vllm.v1.engine.async_llm import AsyncLLM, InputStreamError  # noqa: E402
from vllm.v1.engine.output_processor import RequestOutputCollector  # noqa: E402

from croupier.serving import reasons  # noqa: E402
from croupier.vllm import compat, failures  # noqa: E402

if compat.current().name == "0.26":
    from vllm.entrypoints.serve.utils.error_response import create_error_response
else:
    from vllm.entrypoints.serve.exception_handling.error_response import create_error_response


PATCHED = pytest.mark.skipif(
    compat.current().raises_request_errors, reason="this vLLM's front end raises a request's error itself"
)


def output_of(*completions: tuple[str | None, str | int | None]) -> RequestOutput:
    outputs = [
        CompletionOutput(
            index=place,
            text="",
            token_ids=[],
            cumulative_logprob=None,
            logprobs=None,
            finish_reason=finish,
            stop_reason=stop,
        )
        for place, (finish, stop) in enumerate(completions)
    ]
    return RequestOutput("r", None, [1], None, outputs, finished=True)


class Engine:
    """Of AsyncLLM what generate() looks at, with one output for the request."""

    log_requests = False
    model_config = vllm_config = renderer = errored = None
    generate = AsyncLLM.generate

    def __init__(self, output: Any) -> None:
        self.output = output
        self.aborted: list[str] = []

    async def add_request(self, request_id: str, *_: Any, **__: Any) -> RequestOutputCollector:
        collector = RequestOutputCollector(RequestOutputKind.DELTA, request_id)
        collector.put(self.output)
        return collector

    async def abort(self, request_id: str, internal: bool = False) -> None:
        self.aborted.append(request_id)

    async def collect(self) -> list[RequestOutput]:
        return [output async for output in self.generate("prompt", None, "r")]


@pytest.fixture(autouse=True)
def _told() -> None:
    failures.tell_clients()
    failures.tell_clients()


@pytest.mark.parametrize(
    ("reason", "status"),
    [
        (reasons.refused("no token is left: every one is masked"), 400),
        (reasons.failed("step 7: the row holds NaN"), 500),
    ],
)
@PATCHED
@pytest.mark.parametrize("before", [[], [("stop", None), (None, None)]], ids=["alone", "the last of three"])
def test_a_client_is_told_the_reason_and_whose_fault_it_is(
    reason: str, status: int, before: list[Any]
) -> None:
    engine = Engine(output_of(*before, ("error", reason)))
    with pytest.raises(Exception, match="Croupier") as raised:
        asyncio.run(engine.collect())
    response = create_error_response(raised.value)
    assert response.error.message == reason
    assert response.error.code == status
    # The others of its `n` go on no longer.
    assert engine.aborted == ["r"]


@pytest.mark.skipif(
    not compat.current().raises_request_errors, reason="this vLLM's scheduler keeps no error of a request"
)
@pytest.mark.parametrize(
    ("reason", "status"),
    [
        (reasons.refused("no token is left: every one is masked"), 400),
        (reasons.failed("step 7: the row holds NaN"), 500),
    ],
)
def test_the_schedulers_own_error_tells_the_client_the_reason(reason: str, status: int) -> None:
    scheduler = SimpleNamespace(grammar_compile_error_reqs={})
    compat.current().end_requests(scheduler, {"r": reason}, reasons.is_refused)
    # What the output processor puts for it.
    engine = Engine(scheduler.grammar_compile_error_reqs["r"].to_exception())
    with pytest.raises(Exception, match="Croupier") as raised:
        asyncio.run(engine.collect())
    response = create_error_response(raised.value)
    assert response.error.message == reason
    assert response.error.code == status
    assert engine.aborted == ["r"]


@pytest.mark.parametrize(
    "completion",
    [
        ("error", None),
        ("error", "another plugin's reason"),
        ("stop", reasons.refused("a stop string that reads so")),
        ("length", None),
        ("stop", 2),
    ],
)
def test_what_is_no_error_of_croupiers_goes_by(completion: tuple[Any, Any]) -> None:
    given = output_of(completion)
    assert asyncio.run(Engine(given).collect()) == [given]


def test_an_exception_is_handed_on_as_it_is() -> None:
    collector = RequestOutputCollector(RequestOutputKind.DELTA, "r")
    error = InputStreamError(ValueError("mine"))
    collector.put(error)
    with pytest.raises(InputStreamError) as raised:
        collector.get_nowait()
    assert raised.value is error
