"""Which engines Croupier samples for. The others are refused when they start, by what stands in the way."""

from __future__ import annotations

import os
from typing import Any

from . import compat, speculation
from .compat import installed_release
from .options import VARIABLE, Options

# A flag of the server and the values with which Croupier samples.
_FLAGS: tuple[tuple[str, tuple[Any, ...], str], ...] = (
    ("enable_dp_attention", (False,), "leave it out"),
    ("enable_dp_lm_head", (False,), "leave it out"),
    ("nnodes", (1,), "one host would be right: ranks share memory with the daemon"),
    ("attn_cp_size", (1,), "1 would be right"),
    ("dcp_size", (1,), "1 would be right"),
    ("dllm_algorithm", (None,), "diffusion models draw no token at a time"),
    ("is_embedding", (False,), "embedding models draw no tokens"),
    ("disaggregation_mode", ("null",), "'null' would be right"),
    ("enable_pdmux", (False,), "leave it out"),
    ("enable_mis", (False,), "leave it out"),
    ("rl_on_policy_target", (None,), "leave it out"),
    ("elastic_ep_backend", (None,), "leave it out"),
    ("enable_two_batch_overlap", (False,), "leave it out"),
)
_TIMEOUTS = ("SGLANG_REQ_WAITING_TIMEOUT", "SGLANG_REQ_RUNNING_TIMEOUT")
_GRAMMARS = ("xgrammar", "llguidance", "none")
_PARALLEL = (
    ("tp_size", "tensor parallelism was never run on GPUs"),
    ("pp_size", "pipeline parallelism was never run on GPUs"),
    ("dp_size", "data parallelism was never run"),
)
_DEVICES = ("cuda", "cpu")


def check_release(options: Options) -> None:
    """Raises a ValueError where the installed SGLang is another one than Croupier was tested with."""
    release = installed_release()
    if not options.untested and not compat.supported(release):
        raise ValueError(
            f"Croupier does not support SGLang {release}. It supports {compat.names()}, because the "
            "plugin relies on parts of SGLang that change between releases: "
            f"pip install sglang=={compat.RELEASES[-1]}. "
            f"To try it with this release: {VARIABLE}='{{\"untested\": true}}'"
        )


def check_engine(server_args: Any, options: Options) -> None:
    """Raises a ValueError that names what this engine has and what would be right."""
    for fault in faults(server_args, options):
        raise ValueError(f"Croupier cannot sample for this engine: {fault}")


def faults(server_args: Any, options: Options) -> list[str]:
    found = []
    for name, values, instead in _FLAGS:
        # A flag that this release lacks is off.
        value = getattr(server_args, name, values[0])
        if value not in values:
            found.append(f"{name} is {value!r}; {instead}")
    if server_args.grammar_backend not in (None, *_GRAMMARS):
        found.append(
            f"grammar_backend is {server_args.grammar_backend!r}, whose masks are no bits; "
            f"{', '.join(_GRAMMARS)} would be right"
        )
    if server_args.device not in (None, *_DEVICES):
        found.append(f"device is {server_args.device!r}; {' or '.join(_DEVICES)} would be right")
    if server_args.sampling_backend == "ascend":
        found.append("sampling_backend is 'ascend'; leave it out")
    if server_args.pp_size > 1:
        found += _clocks(server_args)
    for name, why in _PARALLEL:
        if (size := getattr(server_args, name)) > 1 and not options.untested:
            found.append(f"{name} is {size}: {why}; 1 would be right, or the option untested")
    return found + speculation.faults(server_args)


def _clocks(server_args: Any) -> list[str]:
    """What each pipeline stage would decide by a clock of its own: the stages would run different batches."""
    given = {name: os.environ.get(name) for name in _TIMEOUTS}
    given["lora_drain_wait_threshold"] = getattr(server_args, "lora_drain_wait_threshold", None)
    return [
        f"pp_size is {server_args.pp_size} and {name} is {value}; leave one of them out"
        for name, value in given.items()
        if float(value or 0) > 0
    ]
