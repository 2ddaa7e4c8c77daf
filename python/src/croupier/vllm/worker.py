"""vLLM's GPU worker with a writer. Named by its path in parallel_config.worker_cls."""

from __future__ import annotations

from typing import Any

from vllm.v1.worker import startup_plan
from vllm.v1.worker.gpu.sample.sampler import Sampler
from vllm.v1.worker.gpu_worker import Worker

from . import compat, gpu_memory, pipeline
from .last_stage import WithSessionHost
from .order import Order
from .runner import CroupierModelRunner


class CroupierWorker(WithSessionHost, Worker):
    def init_device(self) -> None:
        pipeline.prepare_worker(self.vllm_config)
        gpu_memory.keep_plans_apart(startup_plan)
        super().init_device()
        compat.current().adopt_runner(self, CroupierModelRunner)
        if self.model_runner.pp_handler is not None:
            pipeline.deepen(self.model_runner.pp_handler, self.vllm_config)
            pipeline.send_tokens_first(self.model_runner.pp_handler)

    def _make_model_runner(self) -> Any:
        # vLLM 0.33 calls this in init_device(), 0.26 does not.
        return CroupierModelRunner(self.vllm_config, self.device)

    def croupier_describe(self) -> dict[str, Any] | None:
        return self.model_runner.croupier_describe()

    def croupier_attach(self, segment_path: str, timeout: float, verify_every: int, gathers: bool) -> None:
        runner = self.model_runner
        if runner.is_last_pp_rank and type(runner.sampler) is not Sampler:
            raise ValueError(
                f"this model has a sampler of its own, {type(runner.sampler).__name__}; "
                "Croupier draws for models that have vLLM's"
            )
        runner.croupier_attach(segment_path, timeout, verify_every, gathers)

    def execute_model(self, scheduler_output: Any) -> Any:
        self.model_runner.croupier_scheduled = scheduler_output.num_scheduled_tokens
        return super().execute_model(scheduler_output)

    def sample_tokens(self, grammar_output: Any) -> Any:
        if isinstance(grammar_output, Order):
            self.model_runner.croupier_order = grammar_output
            grammar_output = None
        return super().sample_tokens(grammar_output)

    def shutdown(self) -> None:
        runner = getattr(self, "model_runner", None)
        if isinstance(runner, CroupierModelRunner):
            runner.croupier_detach()
        super().shutdown()
