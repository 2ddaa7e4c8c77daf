"""A request that has no token: its reason, on the way from the engine core to who asked."""

from __future__ import annotations

import functools
from typing import Any

from croupier.serving.reasons import is_failed, is_refused

from . import compat


def end_requests_with_errors(log: Any) -> None:
    """In the engine core: lets the scheduler end a request as it ends one whose grammar does not compile.

    vLLM says of such a request no more than that it ended with an error. The reason goes along as what
    stopped it, which is text where a stop string did.
    """
    from vllm.v1.core.sched.scheduler import Scheduler

    if hasattr(Scheduler, "croupier_ends_requests"):
        return
    Scheduler.croupier_ends_requests = True
    update = Scheduler.update_from_output

    @functools.wraps(update)
    def update_from_output(self: Any, scheduler_output: Any, model_runner_output: Any) -> Any:
        errors = getattr(model_runner_output, "croupier_errors", None)
        if not errors:
            return update(self, scheduler_output, model_runner_output)
        for name, reason in errors.items():
            log(f"request {name} ends without a further token: {reason}")
        compat.current().end_requests(self, errors, is_refused)
        outputs = update(self, scheduler_output, model_runner_output)
        for each in outputs.values():
            for output in each.outputs:
                if (
                    output.finish_reason is not None
                    and output.request_id in errors
                    and not output.new_token_ids
                ):
                    output.stop_reason = errors[output.request_id]
        return outputs

    Scheduler.update_from_output = update_from_output


def tell_clients() -> None:
    """In the front end: raises the reason where a request's outputs are waited for.

    vLLM 0.33 does that itself. The server of 0.26 would answer "Internal server error" to each. It answers
    400 and the text for a ValueError, 500 and the text for a GenerationError. LLM.generate() returns such an
    output: its stop_reason says why.
    """
    if compat.current().raises_request_errors:
        return
    from vllm.v1.engine.output_processor import RequestOutputCollector

    if hasattr(RequestOutputCollector, "croupier_tells"):
        return
    RequestOutputCollector.croupier_tells = True
    put = RequestOutputCollector.put

    @functools.wraps(put)
    def put_or_raise(self: Any, output: Any) -> None:
        put(self, _error_of(output) or output)

    RequestOutputCollector.put = put_or_raise


def _error_of(output: Any) -> Exception | None:
    from vllm.outputs import RequestOutput

    if not isinstance(output, RequestOutput):
        return None
    for each in output.outputs:
        reason = each.stop_reason
        if each.finish_reason != "error" or not isinstance(reason, str):
            continue
        if is_refused(reason):
            return _passed_on(ValueError(reason))
        if is_failed(reason):
            return _passed_on(compat.current().generation_error(reason))
    return None


def _passed_on(error: Exception) -> Exception:
    # The one exception whose cause AsyncLLM.generate() raises as it is. Before that it ends what is left of
    # the request: the others of its `n`.
    from vllm.v1.engine.async_llm import InputStreamError

    return InputStreamError(error)
