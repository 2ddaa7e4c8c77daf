"""Engines with pipeline stages: preempted requests wait for their tokens, and one batch more may rotate.

vLLM lets a request decode again pipeline_parallel_size steps after its last step, and has one batch more than
that in flight. Its scheduler is changed here in the engine core's process, its runner in the workers'.
"""

from __future__ import annotations

import functools
from typing import Any

from . import compat
from .options import Options


def is_pipeline(vllm_config: Any) -> bool:
    return vllm_config.parallel_config.pipeline_parallel_size > 1


def spare_batches(vllm_config: Any) -> int:
    options = Options.of(vllm_config)
    return options.spare_batches if options is not None and is_pipeline(vllm_config) else 0


def slots_of(vllm_config: Any) -> int:
    """The session's steps in flight: more than the engine has, so that no rank still reads a slot's tokens.

    A step that takes a slot again is submitted when the engine has all tokens but its latest batches'. With
    one stage, two more are enough: a rank's logits follow its tokens of the batch before. With several, its
    tokens go to its own rank of the first stage, which needs them so many steps later, before any rank's
    logits of that step.
    """
    batches = vllm_config.max_concurrent_batches
    rotating = vllm_config.parallel_config.pipeline_parallel_size + spare_batches(vllm_config)
    return batches + max(2, rotating)


def prepare_engine_core(vllm_config: Any) -> None:
    """Before the workers and the scheduler are made; a second call does nothing."""
    if is_pipeline(vllm_config) and not compat.current().holds_back_preempted:
        _hold_back_preempted()
    prepare_worker(vllm_config)


def prepare_worker(vllm_config: Any) -> None:
    """Before the model runner is made; a second call does nothing."""
    if spare_batches(vllm_config):
        _rotate_more()


def deepen(pp_handler: Any, vllm_config: Any) -> None:
    """For a handler that vLLM has made: the other stages take a step's tokens as many steps later."""
    if not pp_handler.is_last_rank:
        pp_handler.queue.extend([None] * spare_batches(vllm_config))


def send_tokens_first(pp_handler: Any) -> None:
    """For a handler that vLLM has made: its few small kernels do not queue behind the next batch's model."""
    import torch

    device = pp_handler.device
    if device.type == "cuda":
        highest = torch.cuda.Stream.priority_range()[1]
        pp_handler.broadcast_stream = torch.cuda.Stream(device, priority=highest)


def _hold_back_preempted() -> None:
    """Lets the scheduler resume no request whose token is under way.

    vLLM 0.33 does the same by itself. 0.26 would prefill it without that token, and count the token twice;
    with one stage the token has come by then. Tokens that a reset of the prefix cache gives up are waited
    for too: a second reset before they are there would forget that they are to be dropped. As long as one
    waits for a token nobody is admitted from the queue that it heads: those behind it would take the room
    for which it was preempted. By priority vLLM admits from two queues, whichever head is the more urgent,
    so that nobody is admitted from either; else those that it has skipped come first anyhow.
    """
    from vllm.v1.core.sched.request_queue import SchedulingPolicy, create_request_queue
    from vllm.v1.core.sched.scheduler import Scheduler

    if hasattr(Scheduler, "croupier_preempted"):
        return
    Scheduler.croupier_preempted = frozenset()
    schedule = Scheduler.schedule

    def noting(self: Any, *args: Any, **kwargs: Any) -> Any:
        output = schedule(self, *args, **kwargs)
        if output.preempted_req_ids:
            self.croupier_preempted = self.croupier_preempted | output.preempted_req_ids
        return output

    @functools.wraps(schedule)
    def schedule_without_held(self: Any, *args: Any, **kwargs: Any) -> Any:
        preempted = self.croupier_preempted | self.reset_preempted_req_ids
        if preempted:
            self.croupier_preempted = frozenset(
                name for name in preempted if token_under_way(self.requests.get(name))
            )
        if not self.croupier_preempted:
            return noting(self, *args, **kwargs)
        queues = ["waiting", "skipped_waiting"] if self.policy == SchedulingPolicy.PRIORITY else ["waiting"]
        held = {name: getattr(self, name) for name in queues}
        for name in queues:
            setattr(self, name, create_request_queue(self.policy))
        try:
            return noting(self, *args, **kwargs)
        finally:
            for name, queue in held.items():
                # Back in their own queue: there vLLM looks for a preempted request that its last token ends.
                for request in reversed(list(getattr(self, name))):
                    queue.prepend_request(request)
                setattr(self, name, queue)
            # vLLM balances prefills among replicas by whether somebody still waits.
            if hasattr(self, "prefill_capacity_bound"):
                self.prefill_capacity_bound = self.prefill_capacity_bound or bool(held["waiting"])

    Scheduler.schedule = schedule_without_held


def token_under_way(request: Any) -> bool:
    """Of a preempted request: whether a token of a step before is to come, to stay or to be dropped."""
    from vllm.v1.request import RequestStatus

    return (
        request is not None
        and request.status == RequestStatus.PREEMPTED
        and request.num_output_placeholders + request.async_tokens_to_discard > 0
        # Else no step of it is in flight, and nothing will come.
        and request.num_in_flight_tokens > 0
    )


def _rotate_more() -> None:
    """Each engine has its spare batches more in flight, and its requests decode as many steps later."""
    from vllm.config.vllm import VllmConfig
    from vllm.v1.core.sched.async_scheduler import AsyncScheduler

    if hasattr(AsyncScheduler, "croupier_rotates"):
        return
    AsyncScheduler.croupier_rotates = True
    batches, begin = VllmConfig.max_concurrent_batches.fget, AsyncScheduler.__init__

    def max_concurrent_batches(self: Any) -> int:
        return batches(self) + spare_batches(self)

    @functools.wraps(begin)
    def begin_with_spare(self: Any, *args: Any, **kwargs: Any) -> None:
        begin(self, *args, **kwargs)
        # Only a request's next step is reckoned with it.
        stagger = compat.current().stagger
        setattr(self, stagger, getattr(self, stagger) + spare_batches(self.vllm_config))

    VllmConfig.max_concurrent_batches = property(max_concurrent_batches)
    AsyncScheduler.__init__ = begin_with_spare
