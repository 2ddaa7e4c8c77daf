"""vLLM's own front end, engine core and scheduler over a model that is a hash: for hosts without a GPU.

The executor works its batches in a thread of their own, one after another, as vLLM's worker processes do;
rows and tokens go through a real daemon. It keeps of a worker what the plugin depends on: the order of rows,
which of them draw, and, where there are several stages, when the first one has a token.
"""

from __future__ import annotations

import os
from collections import Counter, deque
from concurrent.futures import Future, ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
os.environ.setdefault("VLLM_USE_V2_MODEL_RUNNER", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")

import numpy as np
import torch
import vllm.config.vllm
import vllm.platforms
from vllm.platforms.cpu import CpuPlatform


class HostPlatform(CpuPlatform):
    """Of a GPU: it lets the engine schedule ahead."""

    schedules_ahead = True

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        super().check_and_update_config(vllm_config)
        vllm_config.scheduler_config.async_scheduling = cls.schedules_ahead


vllm.platforms._current_platform = HostPlatform()
# The runner needs it, and here nobody runs.
vllm.config.vllm.HAS_TRITON = True

from vllm.v1.executor.abstract import Executor  # noqa: E402
from vllm.v1.kv_cache_interface import FullAttentionSpec  # noqa: E402
from vllm.v1.outputs import LogprobsTensors, ModelRunnerOutput  # noqa: E402

from croupier import Writer  # noqa: E402
from croupier.vllm import pipeline  # noqa: E402
from croupier.vllm.executor import NATIVE_WORKER, WithSession  # noqa: E402
from croupier.vllm.order import Order  # noqa: E402

VOCAB = 500
EOS = 2


def model_config(vocab: int = VOCAB) -> dict[str, Any]:
    """The config.json of a model that nobody runs."""
    return {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "hidden_size": 64,
        "num_hidden_layers": 1,
        "num_attention_heads": 1,
        "num_key_value_heads": 1,
        "intermediate_size": 64,
        "vocab_size": vocab,
        "max_position_embeddings": 512,
        "rms_norm_eps": 1e-6,
        "hidden_act": "silu",
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        "bos_token_id": 1,
        "eos_token_id": EOS,
    }


def row_after(tokens: list[int]) -> np.ndarray:
    """Logits that depend on the last two tokens and on how many there are."""
    key = hash((*tokens[-2:], len(tokens))) & 0xFFFFFFFF
    return np.random.Generator(np.random.PCG64(key)).normal(0, 3, VOCAB).astype(np.float32)


class HostRank:
    """What a rank of the last stage does, on the host; begin_rank() first."""

    def begin_rank(self) -> None:
        self.requests: dict[str, SimpleNamespace] = {}
        self.batch: Any = None
        self.writer: Writer | None = None
        self.verify_every = 0
        self.preemptions = 0
        self.drawn: Counter[str] = Counter()
        self.nan_at = -1
        self.reverses_rows = False
        self.prompts_told: set[str] = set()
        stages = self.parallel_config.pipeline_parallel_size
        # As PPHandler's on the first stage, whose model has a step's tokens so many steps later.
        self.tokens_sent = SimpleNamespace(is_last_rank=stages == 1, queue=deque([None] * stages))
        pipeline.deepen(self.tokens_sent, self.vllm_config)

    def rank_get_kv_cache_spec(self) -> Any:
        return {"layer": FullAttentionSpec(block_size=16, num_kv_heads=1, head_size=64, dtype=torch.bfloat16)}

    def rank_get_supported_kv_cache_layouts(self) -> Any:
        # vLLM 0.33 asks for them.
        return ["LBNHC"]

    def rank_determine_available_memory(self) -> int:
        # Of keys and values: 40 blocks, so few that long outputs are preempted.
        return 40 * 16 * 64 * 2 * 2

    def rank_compile_or_warm_up_model(self) -> Any:
        return SimpleNamespace(language_model=0.0, encoder=0.0)

    def rank_get_supported_tasks(self) -> Any:
        return ("generate",)

    def rank_croupier_describe(self) -> Any:
        return {"rank": 0, "ids": VOCAB, "row": VOCAB, "dtype": "fp32", "gathers": False}

    def rank_croupier_attach(
        self, segment_path: str, timeout: float, verify_every: int, gathers: bool
    ) -> None:
        self.writer = Writer(segment_path)
        self.verify_every = verify_every

    def rank_execute_model(self, scheduled: Any) -> Any:
        self._take_tokens_sent()
        preempted = scheduled.preempted_req_ids or set()
        self.preemptions += len(preempted)
        for name in scheduled.finished_req_ids | preempted:
            self.requests.pop(name, None)
        for new in scheduled.scheduled_new_reqs:
            tokens = list(new.prefill_token_ids)
            self.requests[new.req_id] = SimpleNamespace(
                tokens=tokens, prefill=len(tokens), computed=new.num_computed_tokens, here=len(tokens)
            )
        cached = scheduled.scheduled_cached_reqs
        for name, computed in zip(cached.req_ids, cached.num_computed_tokens, strict=True):
            self.requests[name].computed = computed
        counts = scheduled.num_scheduled_tokens
        if not counts:
            return ModelRunnerOutput(req_ids=[], req_id_to_index={})
        if not self.tokens_sent.is_last_rank:
            for name, count in counts.items():
                assert self.requests[name].computed + count <= self.requests[name].here
        names = sorted(counts, key=lambda name: (counts[name] != 1, counts[name]), reverse=self.reverses_rows)
        self.batch = names, counts
        return None

    def rank_sample_tokens(self, order: Any) -> ModelRunnerOutput:
        assert isinstance(order, Order)
        names, counts = self.batch
        draws = [n for n in names if self.requests[n].computed + counts[n] >= self.requests[n].prefill]
        for name in draws:
            assert self.requests[name].computed + counts[name] == len(self.requests[name].tokens)
        sampled: list[list[int]] = [[] for _ in names]
        rows = None
        if order.step is not None:
            drawing = order.names(counts)
            assert set(drawing) <= set(draws)
            rows = np.stack([self._row(name) for name in drawing])
            if not self.writer.begin(order.step):
                self.writer.wait_step(20.0)
                assert self.writer.begin(order.step)
            self.writer.enqueue(rows)
            tokens = np.empty(len(rows), dtype=np.int32)
            self.writer.enqueue_awaited_tokens(order.step, tokens, timeout=20.0)
            for name, token in zip(drawing, np.maximum(tokens, 0).tolist(), strict=True):
                sampled[names.index(name)] = [token]
                self.drawn[name] += 1
                self.requests[name].tokens.append(token)
            self.tokens_sent.queue[-1] = [self.requests[name] for name in drawing]
        output = ModelRunnerOutput(
            req_ids=names,
            req_id_to_index={name: row for row, name in enumerate(names)},
            sampled_token_ids=sampled,
            prompt_logprobs_dict={
                # Not LogprobsTensors.empty_cpu(), which wants pinned memory, and with it a GPU's driver.
                name: LogprobsTensors(torch.zeros(1, 1, dtype=torch.int32), torch.zeros(1, 1), torch.zeros(1))
                for name in self.prompts_told & set(draws)
            },
        )
        if rows is not None and self.verify_every and order.step % self.verify_every == 0:
            output.croupier_rows = rows
        return output

    def _take_tokens_sent(self) -> None:
        # A request that was removed since, and is there again, is another object.
        for request in self.tokens_sent.queue.popleft() or ():
            request.here += 1
        self.tokens_sent.queue.append(None)

    def _row(self, name: str) -> np.ndarray:
        row = row_after(self.requests[name].tokens)
        if len(self.requests[name].tokens) == self.nan_at:
            row[3] = np.nan
        return row


class HostExecutor(HostRank, Executor):
    """Of one rank, on the host."""

    supports_pp = True

    def _init_executor(self) -> None:
        self.thread = ThreadPoolExecutor(1)
        self.begin_rank()

    def collective_rpc(
        self, method: Any, timeout: Any = None, args: tuple = (), kwargs: Any = None, non_block: bool = False
    ) -> Any:
        answer = self.thread.submit(getattr(self, f"rank_{method}", lambda *_: None), *args)
        return [answer] if non_block else [answer.result()]

    def check_health(self) -> None:
        pass

    def execute_model(self, scheduler_output: Any, non_block: bool = False) -> Any:
        return self._answer(self.thread.submit(self.rank_execute_model, scheduler_output), non_block)

    def sample_tokens(self, grammar_output: Any, non_block: bool = False) -> Any:
        return self._answer(self.thread.submit(self.rank_sample_tokens, grammar_output), non_block)

    @classmethod
    def supports_async_scheduling(cls) -> bool:
        return True

    def shutdown(self) -> None:
        if self.writer is not None:
            self.writer.detach()

    @staticmethod
    def _answer(answer: Future, non_block: bool) -> Any:
        return answer if non_block else answer.result()


class HostExecutorWithSession(WithSession, HostExecutor):
    def _init_executor(self) -> None:
        self.parallel_config.worker_cls = NATIVE_WORKER
        super()._init_executor()
