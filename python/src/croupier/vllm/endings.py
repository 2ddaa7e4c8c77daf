"""A request that one of its stop strings has ended: the engine core's scheduler ends it with that token.

vLLM's scheduler knows nothing of stop strings. Its front end finds them in the text, a step or more later,
and aborts the request. Here the decision tells the scheduler, which frees the request as it does at an EOS.

The front end still finds the string, cuts the text and says why it ended. So it must not be told of a stop:
it would take the last token for an EOS and leave it out of the text. It is told of an abort, which it
replaces by the stop string that it finds with the same token. Were there none, a client would see the abort.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Iterator
from typing import Any

# Of the schedulers of this process, which share a class.
_turn = threading.Lock()


def end_requests_with_stop_strings() -> None:
    """In the engine core; a second call does nothing."""
    from vllm.v1.core.sched.scheduler import Scheduler
    from vllm.v1.engine import FinishReason

    if hasattr(Scheduler, "croupier_ends_at_strings"):
        return
    Scheduler.croupier_ends_at_strings = True
    schedule, update = Scheduler.schedule, Scheduler.update_from_output

    @functools.wraps(schedule)
    def schedule_and_mark(self: Any, *given: Any, **named: Any) -> Any:
        scheduled = schedule(self, *given, **named)
        for new in scheduled.scheduled_new_reqs:
            # Its client sends more input, for which vLLM goes on behind a stop string of the front end's.
            if self.requests[new.req_id].resumable:
                new.croupier_resumable = True
        return scheduled

    @functools.wraps(update)
    def update_and_tell(self: Any, scheduler_output: Any, model_runner_output: Any) -> Any:
        told = getattr(model_runner_output, "croupier_ended", None)
        if not told:
            return update(self, scheduler_output, model_runner_output)
        with _turn, _ending(self, Scheduler, told) as ended:
            outputs = update(self, scheduler_output, model_runner_output)
        for each in outputs.values():
            for output in each.outputs:
                if output.request_id in ended and output.finish_reason == FinishReason.STOP:
                    output.finish_reason = FinishReason.ABORT
        return outputs

    Scheduler.schedule = schedule_and_mark
    Scheduler.update_from_output = update_and_tell


@contextlib.contextmanager
def _ending(taking: Any, scheduler: type, told: dict[str, int]) -> Iterator[dict[str, int]]:
    """For a step in which stop strings end requests, each with so many output tokens: those that nothing else
    ends. Other steps keep vLLM's own method, which it calls for each of their requests."""
    from vllm.v1.request import RequestStatus

    ended, append = dict(told), scheduler._update_request_with_output

    @functools.wraps(append)
    def append_and_end(self: Any, request: Any, *given: Any, **named: Any) -> Any:
        tokens, stopped = append(self, request, *given, **named)
        count = ended.get(request.request_id)
        if count is None or self is not taking:
            return tokens, stopped
        if stopped:
            # By something else, which vLLM looks at first.
            del ended[request.request_id]
            return tokens, stopped
        if request.num_output_tokens != count:
            raise RuntimeError(
                f"request {request.request_id}: a stop string ends it with {count} output tokens, and vLLM "
                f"counts {request.num_output_tokens}; equal counts would be right"
            )
        request.status = RequestStatus.FINISHED_STOPPED
        return tokens, True

    scheduler._update_request_with_output = append_and_end
    try:
        yield ended
    finally:
        scheduler._update_request_with_output = append
