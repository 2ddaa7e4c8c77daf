"""Which engines Croupier samples for. The others are refused when they start, by what stands in the way."""

from __future__ import annotations

import importlib.metadata
import os
from typing import Any

from . import compat, speculation
from .compat import installed_release
from .options import Options

# Of one step, through a relay (client/options.cpp).
_MOST_MASK_BYTES = 63 << 20


def check_engine(vllm_config: Any) -> None:
    """Raises a ValueError that names what this engine has and what would be right."""
    check_release(Options.of(vllm_config) or Options())
    for fault in faults(vllm_config):
        raise ValueError(f"Croupier cannot sample for this engine: {fault}")


def check_release(options: Options) -> None:
    """Raises a ValueError where the installed vLLM is another one than Croupier was tested with."""
    release = installed_release()
    if not options.untested and compat.supported(release) is None:
        newest = compat.RELEASES[-1].name
        raise ValueError(
            f"Croupier does not support vLLM {release}. It supports vLLM {compat.names()}, because the "
            "plugin relies on parts of vLLM that change between releases: "
            f"pip install 'vllm=={newest}.*'. To try it with this release: "
            '--additional-config \'{"croupier": {"untested": true}}\''
        )


def faults(vllm_config: Any) -> list[str]:
    model, parallel = vllm_config.model_config, vllm_config.parallel_config
    found = []
    if not vllm_config.use_v2_model_runner:
        found.append(_why_runner_v1(vllm_config))
    found += speculation.faults(vllm_config)
    if getattr(vllm_config, "diffusion_config", None) is not None:
        found.append("diffusion models draw no token at a time")
    if model.runner_type != "generate":
        found.append(f"its runner type is {model.runner_type!r}; 'generate' would be right")
    if model.logits_processors:
        found.append("it has custom logits processors, which would not be asked; without them would be right")
    if plugins := importlib.metadata.entry_points(group="vllm.logits_processors"):
        names = ", ".join(f"{plugin.name} ({plugin.value})" for plugin in plugins)
        found.append(
            f"installed packages bring logits processors, which would not be asked: {names}, of the entry "
            "points vllm.logits_processors; an environment without those packages would be right"
        )
    options = Options.of(vllm_config) or Options()
    if parallel.pipeline_parallel_size > 1:
        if not vllm_config.scheduler_config.async_scheduling:
            # A worker would wait for a batch's tokens before it takes the next batch.
            found.append(
                "pipeline_parallel_size is above 1 and asynchronous scheduling is off; on would be right"
            )
        if (hashed := layers_that_read_ids(model)) > 0:
            found.append(
                f"its model has {hashed} layers that choose experts by a token's id (num_hash_layers), and "
                "the later stages are not given the drawn ones; pipeline_parallel_size=1 would be right"
            )
    elif options.spare_batches:
        found.append(
            "spare_batches is set and pipeline_parallel_size is 1; more stages or no spare would be right"
        )
    if parallel.data_parallel_size > 1 and not options.untested:
        found.append(
            f"data_parallel_size is {parallel.data_parallel_size}, with which it was never run; a server for "
            "each replica would be right, or the option untested"
        )
    if parallel.prefill_context_parallel_size > 1:
        found.append("prefill_context_parallel_size is above 1; 1 would be right")
    if spans_hosts(vllm_config):
        found += _faults_of_hosts(vllm_config)
    if options.head:
        found += _faults_of_head(vllm_config)
    transfer = getattr(vllm_config, "kv_transfer_config", None)
    if getattr(transfer, "kv_load_failure_policy", None) == "recompute":
        # Croupier is not told that, and would go on from the dropped token.
        found.append(
            "its kv_load_failure_policy is 'recompute', which drops tokens that are drawn already; 'fail' "
            "would be right"
        )
    if getattr(parallel, "enable_elastic_ep", False):
        # Workers that join later have no session.
        found.append("enable_elastic_ep is set, with which it was never run; leave it out")
    found += compat.current().faults(vllm_config)
    if os.environ.get("VLLM_COMPUTE_NANS_IN_LOGITS", "0") not in ("", "0"):
        found.append(
            "VLLM_COMPUTE_NANS_IN_LOGITS is set; without it would be right: a row with a NaN ends its request"
        )
    return found


def spans_hosts(vllm_config: Any) -> bool:
    """Whether an engine's last stage is on another host than its scheduler, which is on the first."""
    return vllm_config.parallel_config.nnodes_within_dp > 1


def _faults_of_hosts(vllm_config: Any) -> list[str]:
    found = []
    parallel = vllm_config.parallel_config
    ranks, each = parallel.tensor_parallel_size, parallel.local_world_size
    if each % ranks:
        found.append(
            f"its {ranks} tensor-parallel ranks are on several hosts, {each} on each, and ranks of one stage "
            "share memory with one daemon; tensor parallelism inside of a host and pipeline stages across "
            "hosts would be right"
        )
    if not compat.current().spans_hosts:
        found.append("its workers are on several hosts; vLLM 0.33, or one host, would be right")
    masks, vocab = speculation.masks_of(vllm_config), vllm_config.model_config.get_vocab_size()
    most = _MOST_MASK_BYTES // (-(-vocab // 32) * 4)
    if masks > most:
        found.append(
            f"max_num_seqs is {vllm_config.scheduler_config.max_num_seqs}, and a step of {masks} grammar "
            f"masks for a vocabulary of {vocab} is too long for a record to the last stage's host; "
            f"max_num_seqs up to {most} would be right"
        )
    return found


def _why_runner_v1(vllm_config: Any) -> str:
    lacks = getattr(vllm_config, "_get_v2_model_runner_unsupported_features", list)()
    if lacks:
        names = ", ".join(lacks)
        return f"it has model runner V1, because V2 lacks {names}; an engine without these would be right"
    return "it has model runner V1; set VLLM_USE_V2_MODEL_RUNNER=1 in its environment"


def _faults_of_head(vllm_config: Any) -> list[str]:
    """What the configuration tells already; what the model's logits are is measured later (fused_head.py)."""
    found = []
    if vllm_config.lora_config is not None:
        found.append("'head' is 'fused' and its LM head may have LoRA; one of the two would be right")
    if (device := vllm_config.device_config.device_type) != "cuda":
        found.append(f"'head' is 'fused' and its workers are on {device}; without the option would be right")
    if os.environ.get("VLLM_BATCH_INVARIANT", "0") not in ("", "0"):
        # Larger steps are the model's, whose last bits are others.
        found.append("'head' is 'fused' and VLLM_BATCH_INVARIANT is set; one of the two would be right")
    return found


def layers_that_read_ids(model: Any) -> int:
    """Of a mixture of experts that is chosen by hashes of ids, as DeepSeek V4's first layers' are."""
    configs = [getattr(model, name, None) for name in ("hf_config", "hf_text_config")]
    return max(getattr(config, "num_hash_layers", None) or 0 for config in configs)
