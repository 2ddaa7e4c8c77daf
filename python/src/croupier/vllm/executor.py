"""vLLM's executors with a session: what runs in the engine core's process."""

from __future__ import annotations

import atexit
import contextlib
import os
import random
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any

from vllm.logger import init_logger
from vllm.v1.executor.multiproc_executor import MultiprocExecutor
from vllm.v1.executor.uniproc_executor import UniProcExecutor

from croupier import Session
from croupier.serving.keeper import Keeper
from croupier.serving.private_daemon import PrivateDaemon
from croupier.serving.relayed_opening import RelayedDaemon
from croupier.serving.verify import Verifier

from . import compat, hosts, pipeline, speculation
from .admission import limits_of
from .endings import end_requests_with_stop_strings
from .failures import end_requests_with_errors
from .hosts import RemoteKeeper
from .options import Options, samplers_for
from .orphan import end_with_server
from .plane import Batch, Plane
from .requirements import check_engine, spans_hosts
from .sequences import Sequences
from .texts import Texts
from .windows import WindowPlane

# Below vLLM's own logger, whose handler shows it: other names are shown from warnings on.
logger = init_logger("vllm.croupier")
WORKER = "croupier.vllm.worker.CroupierWorker"
NATIVE_WORKER = "vllm.v1.worker.gpu_worker.Worker"


class TokenFuture(Future):
    """A batch's output, once the workers have it and the session has its decisions."""

    def __init__(self, plane: Plane, batch: Batch, output: Future) -> None:
        super().__init__()
        self._plane, self._batch, self._output = plane, batch, output

    def result(self, timeout: float | None = None) -> Any:
        if not self.done():
            try:
                self.set_result(self._plane.collect(self._batch, self._output.result(timeout)))
            except Exception as error:
                self.set_exception(error)
        return super().result()


class WithSession:
    """Before an executor of vLLM in the order of bases."""

    croupier_plane: Plane | None = None
    croupier_daemon: PrivateDaemon | RelayedDaemon | None = None
    croupier_keeper: Keeper | RemoteKeeper | None = None
    croupier_spans_hosts = False
    """The session is on another host than this process."""

    def _init_executor(self) -> None:
        parallel = self.parallel_config
        if parallel.worker_cls not in (NATIVE_WORKER, WORKER):
            raise ValueError(
                f"worker_cls is {parallel.worker_cls!r}; Croupier has a worker for {NATIVE_WORKER!r} alone"
            )
        parallel.worker_cls = WORKER
        # Again, where all engines pass: a front end that is not vLLM's Python has not looked.
        check_engine(self.vllm_config)
        self.croupier_spans_hosts = spans_hosts(self.vllm_config)
        end_requests_with_errors(logger.warning)
        end_requests_with_stop_strings()
        end_with_server(logger.warning)
        pipeline.prepare_engine_core(self.vllm_config)
        if text := speculation.draft_greedily(self.vllm_config):
            logger.warning(text)
        super()._init_executor()

    def initialize_from_config(self, kv_cache_configs: Any) -> None:
        super().initialize_from_config(kv_cache_configs)
        self._open_session_after("initialize_from_config")

    def compile_or_warm_up_model(self) -> None:
        # vLLM 0.26 does this in initialize_from_config().
        super().compile_or_warm_up_model()
        self._open_session_after("compile_or_warm_up_model")

    def execute_model(self, scheduler_output: Any, non_block: bool = False) -> Any:
        if self.croupier_plane is not None:
            self.croupier_plane.schedule(scheduler_output)
        return super().execute_model(scheduler_output, non_block=non_block)

    def sample_tokens(self, grammar_output: Any, non_block: bool = False) -> Any:
        plane = self.croupier_plane
        if plane is None:
            return super().sample_tokens(grammar_output, non_block=non_block)
        batch = plane.submit(grammar_output)
        output = super().sample_tokens(batch.order, non_block=non_block)
        return TokenFuture(plane, batch, output) if non_block else plane.collect(batch, output)

    def shutdown(self) -> None:
        # First: vLLM ends an engine core whose workers take more than some seconds for their end.
        try:
            self._end_session()
        finally:
            super().shutdown()

    def _end_session(self) -> None:
        plane, self.croupier_plane = self.croupier_plane, None
        daemon, self.croupier_daemon = self.croupier_daemon, None
        keeper, self.croupier_keeper = self.croupier_keeper, None
        with contextlib.ExitStack() as ends:
            # The last is done first.
            if daemon is not None:
                ends.callback(daemon.leave)
            if plane is not None:
                ends.callback(plane.close)
            if keeper is not None:
                ends.callback(keeper.close)

    def _open_session_after(self, call: str) -> None:
        """Not before: the workers' warm-up is over, and the longest length is known."""
        if call == compat.current().opens_session_after and self.croupier_plane is None:
            self._open_session()

    def _open_session(self) -> None:
        config = self.vllm_config
        options = Options.of(config) or Options()
        ranks = sorted((found for found in self.collective_rpc("croupier_describe") if found), key=_rank)
        check_heads(ranks)
        geometry = geometry_of(ranks, config.model_config.get_vocab_size())
        gathers = must_gather(ranks)
        if gathers and not config.lora_config:
            logger.info("This model changes logits by their ids: ranks gather them, and write a part each.")
        # An engine core in the caller's own process is often left to the interpreter's end. By a weak
        # reference: the executor has the model, and the GPU's memory with it.
        executor, owner = weakref.ref(self), os.getpid()

        def end_left_session() -> None:
            # Not from a forked child, whose end would be the parent's session's.
            if (left := executor()) is not None and os.getpid() == owner:
                left._end_session()

        atexit.register(end_left_session)
        try:
            self._use_session(options, geometry, gathers)
        except BaseException:
            self._end_session()
            raise

    def _opened(
        self, options: Options, own: Options, texts: Texts | None = None, **asked: Any
    ) -> tuple[Session, Texts | None]:
        """`own`: of a daemon that this engine starts."""
        opening = hosts.opening_for(self, options, own)
        try:
            return opening.open(partial(with_texts, texts), **asked)
        finally:
            self.croupier_daemon = opening.daemon

    def _use_session(self, options: Options, geometry: dict[str, Any], gathers: bool) -> None:
        config = self.vllm_config
        batches = config.max_concurrent_batches
        most = config.scheduler_config.max_num_seqs
        window = speculation.window_of(config)
        rows, masks = speculation.rows_of(config), speculation.masks_of(config)
        # Room for the tokens of steps that the engine has in flight beyond a sequence's last one.
        longest = config.model_config.max_model_len + batches * window + 1
        limits = limits_of(options, config)
        transport = options.transport_from(config.device_config.device_type)
        own, alone = samplers_for(options, config)
        # Of the engine among its replicas; the rank is 0 in each where they are apart.
        replica = config.parallel_config.data_parallel_index
        # The waiting preempted ones stay in the table.
        sequences_at_once = 2 * most + 16
        session, texts = self._opened(
            options,
            own,
            Texts.of(config, logger.warning),
            name=options.session_name(replica),
            max_batch=rows,
            max_windows=min(most, rows),
            steps_in_flight=pipeline.slots_of(config),
            max_sequences=sequences_at_once,
            max_length=longest,
            max_bias=options.max_bias,
            max_stop_ids=options.max_stop_ids,
            max_list_tokens=options.max_list_tokens,
            mask_rows=masks,
            max_logprobs=limits.max_logprobs,
            # A lean step has them in another way.
            summaries=int(options.summaries and transport != "lean"),
            transport=transport,
            **({"hotness_file": options.hotness_file} if options.hotness_file else {}),
            **geometry,
        )
        cache = config.cache_config
        cached = (cache.num_gpu_blocks or 0) * (cache.block_size or 0)
        try:
            kept = hosts.keep(self, session.segment_path, alone, sequences_at_once, cached, longest)
            self.croupier_keeper = kept.keeper
            self.collective_rpc(
                "croupier_attach",
                args=(session.segment_path, options.timeout, options.verify_every, gathers),
            )
            verifier = None
            if options.verify_every:
                verifier = Verifier(geometry["vocab"], longest, options.verify_report, logger.info)
            seeds = random.Random(f"{config.model_config.seed} {replica}")
            vocab = geometry["vocab"]
            sequences = Sequences(session, vocab, limits, seeds, logger.warning, window, texts)
            given = session, sequences, options.timeout, logger.warning, verifier
            if window > 1:
                self.croupier_plane = WindowPlane(*given, mask_stride=window, most_masks=masks)
            else:
                self.croupier_plane = Plane(*given, moment=hosts.moment_for(self, options))
        except BaseException:
            session.close()
            raise
        logger.info("Croupier decides the tokens: %s, %s, %s", session.segment_path, transport, geometry)
        if options.head:
            logger.info("Croupier multiplies hidden states and LM head in steps of few rows")
        logger.info(compat.current().about_rng)
        if window > 1:
            logger.info("Croupier verifies up to %d drafts of each request in a step", window - 1)
        logger.warning(kept.advice) if kept.advice else logger.info(kept.room)


class MultiprocExecutorWithSession(WithSession, MultiprocExecutor):
    pass


class UniProcExecutorWithSession(WithSession, UniProcExecutor):
    pass


def with_session(executor: type) -> type:
    """The class with a session that stands for one of vLLM's."""
    known = {MultiprocExecutor: MultiprocExecutorWithSession, UniProcExecutor: UniProcExecutorWithSession}
    if issubclass(executor, WithSession):
        return executor
    if executor not in known:
        raise ValueError(
            f"distributed_executor_backend is {executor.__name__}, whose workers may be on other hosts or "
            "schedule for themselves; with Croupier --distributed-executor-backend mp or uni would be right"
        )
    return known[executor]


def with_texts(texts: Texts | None, open_session: Callable[..., Session]) -> tuple[Session, Texts | None]:
    """With the engine's tokenizer, or without it where anything fails: no reason not to start."""
    if texts is None:
        return open_session(), None
    try:
        with texts.file() as path:
            # Samplers alone look at it: vLLM's front end decodes what it shows.
            return open_session(tokenizer=path, without_texts=1), texts
    except Exception as error:
        session = open_session()
        logger.warning("vLLM's front end alone looks for stop strings: %s", error)
        return session, None


def _rank(described: dict[str, Any]) -> int:
    return described["rank"]


def geometry_of(ranks: list[dict[str, Any]], vocab: int) -> dict[str, Any]:
    """The session's shards, from what the ranks' logits are."""
    if not ranks:
        raise RuntimeError("no worker of the last stage has told its logits")
    tp, dtype = len(ranks), ranks[0]["dtype"]
    gathered = must_gather(ranks)
    ids = -(-ranks[0]["row"] // tp) if gathered else ranks[0]["ids"]
    if any(
        rank["rank"] != place or rank["row"] != ranks[0]["row"] or (not gathered and rank["ids"] != ids)
        for place, rank in enumerate(ranks)
    ):
        raise RuntimeError(f"the ranks' shards are {ranks}; equal ones, one a rank, would be right")
    if dtype not in ("bf16", "fp16", "fp32"):
        raise ValueError(f"the logits are {dtype}; with Croupier bfloat16, float16 or float32 would be right")
    if ranks[0]["row"] != vocab or ids * tp < vocab:
        raise ValueError(
            f"a row of this model has {ranks[0]['row']} logits, in {tp} parts of {ids}, for a vocabulary of "
            f"{vocab}: it does not make logits as vLLM's LogitsProcessor does"
        )
    return {"vocab": vocab, "tp": tp, "dtype": dtype, **({"padded_vocab": ids * tp} if tp > 1 else {})}


def check_heads(ranks: list[dict[str, Any]]) -> None:
    for rank in ranks:
        if fault := rank.get("unfit_head"):
            raise ValueError(
                f"'head' is 'fused', and this model is none for it: {fault}; "
                "without the option would be right"
            )


def must_gather(ranks: list[dict[str, Any]]) -> bool:
    """Whether all ranks gather: one that need not takes part for the others."""
    return any(rank["gathers"] for rank in ranks)
