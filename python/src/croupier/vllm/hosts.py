"""Engines on several hosts (--nnodes): where the session is, and the workers of hosts without a scheduler.

The scheduler is in the first host's process, the logits are on the last one's. Each host's main process makes
its own workers; those of the others than the first make a MultiprocExecutor without asking which class.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from vllm.logger import init_logger
from vllm.utils.network_utils import get_ip
from vllm.v1.executor.multiproc_executor import MultiprocExecutor

from croupier.serving.keeper import Keeper
from croupier.serving.opening import Opening
from croupier.serving.relayed_opening import RelayedOpening
from croupier.serving.shared_memory import room_of

from .last_stage import FEWER_SEQUENCES
from .options import Options
from .plane import MOMENT
from .requirements import check_engine

logger = init_logger("vllm.croupier")
FEWER_ROWS = f"{FEWER_SEQUENCES}, or fewer speculative tokens,"


class Kept(NamedTuple):
    keeper: Any
    room: str
    advice: str
    """Empty: there is enough shared memory."""


class RemoteKeeper:
    """Of a session on another host: close() has the worker there start nothing again that ends."""

    def __init__(self, executor: Any) -> None:
        self._executor = executor

    def close(self) -> None:
        # Nobody waits for the answer: at the end of an engine its workers may be gone.
        try:
            self._executor.collective_rpc("croupier_stop_keeping", non_block=True)
        except Exception as error:
            logger.debug("the last stage's host is not told of the end: %s", error)


def opening_for(executor: Any, options: Options, own: Options) -> Opening | RelayedOpening:
    """`own`: of a daemon that is started for this engine on the scheduler's host."""
    if not executor.croupier_spans_hosts:
        return Opening(options, own, logger, FEWER_ROWS)

    def begin(root: str, root_key: str, private: bool) -> tuple[str, str]:
        return answered(executor, "croupier_begin_host", root, root_key, private)

    port = options.relay_port
    if port:
        # Replicas may be on one host.
        port += executor.vllm_config.parallel_config.data_parallel_index
    return RelayedOpening(options, get_ip(), begin, logger, FEWER_ROWS, port)


def keep(executor: Any, segment_path: str, alone: Options, sequences: int, cached: int, longest: int) -> Kept:
    """What decides for the session is kept alive from now on; `alone`: of a stand-in on this host."""
    if executor.croupier_spans_hosts:
        text, advice = answered(executor, "croupier_keep_host", segment_path, sequences, cached, longest)
        return Kept(RemoteKeeper(executor), text, advice)
    keeper = Keeper(segment_path, alone, executor.croupier_daemon, logger.warning)
    room = room_of(segment_path, sequences, cached, longest, FEWER_SEQUENCES)
    return Kept(keeper, room.text, room.advice)


def moment_for(executor: Any, options: Options) -> float:
    """Between the workers' sight of a decision and the scheduler's. From another host each comes by a
    connection of its own, and after a fault of the network one may be seconds behind the other."""
    return options.timeout if executor.croupier_spans_hosts else MOMENT


def answered(executor: Any, method: str, *args: Any) -> Any:
    """The answer of the one worker that has one."""
    answers = [found for found in executor.collective_rpc(method, args=args) if found is not None]
    if len(answers) != 1:
        raise RuntimeError(
            f"{len(answers)} workers have answered {method}; one of the last stage would be right"
        )
    return answers[0]


def prepare_other_hosts(worker: str) -> None:
    """Gives the workers of hosts without a scheduler their class; a second call does nothing."""
    if hasattr(MultiprocExecutor, "croupier_worker"):
        return
    MultiprocExecutor.croupier_worker = worker
    begin = MultiprocExecutor._init_executor

    @functools.wraps(begin)
    def _init_executor(self: Any) -> None:
        parallel = self.vllm_config.parallel_config
        if Options.of(self.vllm_config) is not None and parallel.node_rank_within_dp > 0:
            check_engine(self.vllm_config)
            parallel.worker_cls = self.croupier_worker
        begin(self)

    MultiprocExecutor._init_executor = _init_executor
