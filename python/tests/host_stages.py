"""vLLM's own launch over two hosts (--nnodes 2, a pipeline stage on each) with the model of host_engine.py.

    host_stages.py 0 FOLDER MASTER OPTIONS     the scheduler's host
    host_stages.py 1 FOLDER MASTER OPTIONS     the last stage's host, until it is ended

The first one decodes the same requests again and again: when FOLDER/go-N is there, it makes FOLDER/begun-N,
and leaves FOLDER/tokens-N.json. FOLDER/end ends it.

Executor, message queues and process groups are vLLM's, between hosts too. Stage 0 sends the number of a
step's tokens to stage 1 through the pipeline's group, and has no model. Stage 1 draws, from its memory.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from argparse import Namespace
from pathlib import Path
from typing import Any

import torch
from host_engine import HostRank, model_config
from vllm.distributed import get_pp_group
from vllm.v1.worker.gpu_worker import init_worker_distributed_environment
from vllm.v1.worker.worker_base import WorkerBase

import croupier.vllm.executor
from croupier.vllm.executor import NATIVE_WORKER
from croupier.vllm.last_stage import WithSessionHost

PORT = 29600
REQUESTS = 12
TOKENS = 100


class HostWorker(WithSessionHost, HostRank, WorkerBase):
    def init_device(self) -> None:
        self.device = torch.device("cpu")
        init_worker_distributed_environment(
            self.vllm_config, self.rank, self.distributed_init_method, self.local_rank, "gloo"
        )
        self.begin_rank()

    def load_model(self) -> None:
        pass

    def initialize_from_config(self, *_: Any) -> None:
        pass

    def get_kv_cache_spec(self) -> Any:
        return self.rank_get_kv_cache_spec()

    def get_supported_kv_cache_layouts(self) -> Any:
        return self.rank_get_supported_kv_cache_layouts()

    def determine_available_memory(self) -> int:
        return self.rank_determine_available_memory()

    def compile_or_warm_up_model(self) -> Any:
        return self.rank_compile_or_warm_up_model()

    def get_supported_tasks(self) -> Any:
        return self.rank_get_supported_tasks()

    def croupier_describe(self) -> Any:
        return self.rank_croupier_describe() if get_pp_group().is_last_rank else None

    def croupier_attach(self, *given: Any) -> None:
        if get_pp_group().is_last_rank:
            self.rank_croupier_attach(*given)

    def execute_model(self, scheduled: Any) -> Any:
        group = get_pp_group()
        if scheduled.num_scheduled_tokens:
            count = torch.tensor([scheduled.total_num_scheduled_tokens])
            if group.is_last_rank:
                found = torch.zeros_like(count)
                torch.distributed.recv(found, group.ranks[0], group=group.cpu_group)
                assert found.equal(count)
            else:
                torch.distributed.send(count, group.ranks[-1], group=group.cpu_group)
        return self.rank_execute_model(scheduled) if group.is_last_rank else None

    def sample_tokens(self, order: Any) -> Any:
        return self.rank_sample_tokens(order) if get_pp_group().is_last_rank else None

    def shutdown(self) -> None:
        if self.writer is not None:
            self.writer.detach()
        super().shutdown()


def engine_options(folder: Path, options: dict[str, Any]) -> dict[str, Any]:
    return {
        "model": str(folder / "model"),
        "skip_tokenizer_init": True,
        "load_format": "dummy",
        "max_model_len": 256,
        "max_num_seqs": 8,
        "max_num_batched_tokens": 64,
        "enable_prefix_caching": False,
        "seed": 0,
        "worker_cls": NATIVE_WORKER,
        "distributed_executor_backend": "mp",
        "additional_config": {"croupier": options},
    }


def hosts_options(rank: int, master: str) -> dict[str, Any]:
    return {
        "pipeline_parallel_size": 2,
        "nnodes": 2,
        "node_rank": rank,
        "master_addr": master,
        "master_port": PORT,
    }


def make_model(folder: Path) -> None:
    (folder / "model").mkdir(exist_ok=True)
    (folder / "model" / "config.json").write_text(json.dumps(model_config()))


def requests() -> tuple[list[Any], list[Any]]:
    from vllm import SamplingParams

    prompts = [
        {"prompt_token_ids": [3 + (place * 7 + i) % 400 for i in range(5 + place)]}
        for place in range(REQUESTS)
    ]
    kinds = [
        {"temperature": 0.0},
        {"temperature": 0.8, "seed": 5},
        {"temperature": 1.1, "top_p": 0.9, "repetition_penalty": 1.2, "seed": 7},
        {"temperature": 0.9, "min_p": 0.02, "logprobs": 3, "seed": 11},
    ]
    return prompts, [
        SamplingParams(max_tokens=TOKENS, ignore_eos=True, detokenize=False, **kinds[place % 4])
        for place in range(REQUESTS)
    ]


def tokens_of(llm: Any) -> list[list[int]]:
    outputs = llm.generate(*requests(), use_tqdm=False)
    return [list(output.outputs[0].token_ids) for output in outputs]


def serve(folder: Path, options: dict[str, Any], more: dict[str, Any]) -> None:
    from vllm import LLM

    llm = LLM(**engine_options(folder, options), **more)
    for turn in itertools.count():
        while not (folder / f"go-{turn}").exists():
            if (folder / "end").exists():
                llm.llm_engine.engine_core.shutdown()
                return
            time.sleep(0.02)
        (folder / f"begun-{turn}").touch()
        part = folder / "tokens.part"
        part.write_text(json.dumps(tokens_of(llm)))
        part.rename(folder / f"tokens-{turn}.json")


def follow(folder: Path, options: dict[str, Any], more: dict[str, Any]) -> None:
    """As `vllm serve --headless` does."""
    from unittest import mock

    from vllm import AsyncEngineArgs
    from vllm.entrypoints.cli import serve as command

    given = AsyncEngineArgs(**engine_options(folder, options), **more)
    arguments = Namespace(api_server_count=0, reasoning_parser_plugin="")
    with mock.patch.object(AsyncEngineArgs, "from_cli_args", return_value=given):
        command.run_headless(arguments)


def main() -> None:
    rank, folder, master, options = sys.argv[1:]
    # Workers are forked from this process, and have its platform; their class is found by its name.
    croupier.vllm.executor.WORKER = "host_stages.HostWorker"
    role = serve if rank == "0" else follow
    role(Path(folder), json.loads(options), hosts_options(int(rank), master))


if __name__ == "__main__":
    # Once under its own name: workers find their class there.
    import host_stages

    host_stages.main()
