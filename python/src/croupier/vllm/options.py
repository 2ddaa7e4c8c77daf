"""What `--additional-config '{"croupier": {...}}'` may say."""

from __future__ import annotations

import difflib
import functools
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

KEY = "croupier"
# vLLM's own calls of a worker end after 300 seconds.
_LONGEST = 240
TRANSPORTS = ("rows", "lean")
HEADS = ("fused",)


@dataclass(frozen=True)
class Options:
    """The options of one engine; all have a default, so that `{"croupier": {}}` is enough."""

    endpoint: str = ""
    """Of the daemon's control socket; none: the host's daemon if it answers, else a private one."""
    private: bool = False
    """Without an endpoint: a private daemon, whether the host has one or not."""
    stand_in: bool = True
    """A process waits beside this engine and decides while there is no daemon."""
    name: str = ""
    """Of the session; none: one made of this engine's process."""
    timeout: float = 60.0
    """Seconds that a worker waits for a step's tokens before it ends the engine."""
    max_bias: int = 1024
    max_stop_ids: int = 128
    max_list_tokens: int = 4096
    """Words of the allowed ids, bad words and DRY breakers of one request together."""
    hotness_file: str = ""
    summaries: bool = True
    """Ranks send the largest logit of each tile too, and samplers read less of a row."""
    transport: str = ""
    """How ranks send their logits: rows, or lean (what can matter of each row, and more on request); none:
    lean where the workers are on CUDA devices, else rows. A hotness_file needs rows."""
    head: str = ""
    """fused: of lean steps the ranks' writers multiply hidden states by the LM head; none: the model does."""
    shm_dir: str = ""
    """Of a private daemon: where its segments lie."""
    metrics_port: int = 0
    """Of a private daemon: the port of 127.0.0.1 where it serves metrics and its page; 0: none."""
    samplers: int = 0
    """Of a private daemon and of a stand-in; 0: three quarters of the cores that this process may use, and
    for lean steps a dozen at the most."""
    verify_every: int = 0
    """Each so many steps are decided a second time in this process, and differences are counted; 0: none."""
    verify_report: str = ""
    """The file that takes verify mode's counts when the engine ends."""
    spare_batches: int = 0
    """Of an engine with pipeline stages: batches in flight beyond vLLM's, which hide the time of deciding."""
    untested: bool = False
    """Lets a release of vLLM start that Croupier does not support."""

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> Options:
        """The options, or a ValueError that names the key and what would be right."""
        defaults = {field.name: field.default for field in fields(cls)}
        for key, value in given.items():
            if key not in defaults:
                near = difflib.get_close_matches(key, defaults, 1)
                hint = f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join(defaults)}"
                raise ValueError(f"additional_config[{KEY!r}] has no option {key!r}{hint}")
            _check_type(key, value, defaults[key])
        timeout = given.get("timeout", cls.timeout)
        if not 0 < timeout <= _LONGEST:
            raise ValueError(
                f"additional_config[{KEY!r}]['timeout'] is {timeout}; "
                f"seconds above 0, up to {_LONGEST} would be right"
            )
        port = given.get("metrics_port", cls.metrics_port)
        if port > 65535:
            raise ValueError(
                f"additional_config[{KEY!r}]['metrics_port'] is {port}; 0 to 65535 would be right"
            )
        spare = given.get("spare_batches", cls.spare_batches)
        if spare > 1:
            raise ValueError(f"additional_config[{KEY!r}]['spare_batches'] is {spare}; 0 or 1 would be right")
        for name, allowed in (("transport", TRANSPORTS), ("head", HEADS)):
            if name in given and given[name] not in allowed:
                raise ValueError(
                    f"additional_config[{KEY!r}][{name!r}] is {given[name]!r}; "
                    f"{', '.join(allowed)} would be right"
                )
        options = cls(**given)
        options._check_together()
        return options

    def _check_together(self) -> None:
        if self.transport == "lean" and self.hotness_file:
            raise ValueError(
                f"additional_config[{KEY!r}]['hotness_file'] needs 'transport': 'rows', not 'lean'"
            )
        if not self.head:
            return
        for name in ("hotness_file", "verify_every"):
            if getattr(self, name):
                raise ValueError(
                    f"additional_config[{KEY!r}]['head'] cannot be together with {name!r}: there are no rows "
                    "of logits beside the writer's; one of the two would be right"
                )
        if self.transport == "rows":
            raise ValueError(f"additional_config[{KEY!r}]['head'] needs 'transport': 'lean', not 'rows'")

    @classmethod
    def of(cls, vllm_config: Any) -> Options | None:
        """The options of this engine's configuration; None where Croupier is not asked for."""
        additional = getattr(vllm_config, "additional_config", None)
        if not isinstance(additional, Mapping) or KEY not in additional:
            return None
        given = additional[KEY]
        if not isinstance(given, Mapping):
            raise ValueError(
                f"additional_config[{KEY!r}] is {given!r}; a dictionary of options would be right"
            )
        return cls.parse(given)

    def transport_from(self, device_type: str) -> str:
        """The transport of the session. A hotness order is of rows, so that whoever gives one has those."""
        if self.transport:
            return self.transport
        return "lean" if device_type == "cuda" and not self.hotness_file else "rows"

    def ignored_by_another_daemon(self) -> list[str]:
        """Of a daemon that this engine does not start itself: what is given and has no effect there."""
        ignored = [
            f"'{name}' ({value}) is not used"
            for name in ("shm_dir", "metrics_port")
            if (value := getattr(self, name))
        ]
        if self.samplers and self.stand_in:
            ignored.append(f"'samplers' ({self.samplers}) is the stand-in's alone")
        elif self.samplers:
            ignored.append(f"'samplers' ({self.samplers}) is not used")
        return ignored

    def session_name(self, replica: int) -> str:
        """Process ids are not unique among containers that share a daemon."""
        name = self.name or f"vllm-{os.getpid()}-{secrets.token_hex(4)}"
        return f"{name}-{replica}" if replica else name


def _check_type(key: str, value: Any, default: Any) -> None:
    wanted = type(default)
    whole = isinstance(value, int) and not isinstance(value, bool)
    fits = whole if wanted is int else isinstance(value, float) or whole if wanted is float else None
    if fits is None:
        fits = isinstance(value, wanted)
    if not fits:
        raise ValueError(
            f"additional_config[{KEY!r}][{key!r}] is {value!r}; a {wanted.__name__} would be right"
        )
    if wanted in (int, float) and value < 0:
        raise ValueError(f"additional_config[{KEY!r}][{key!r}] is {value}; 0 or more would be right")


def leave_out_of_hash(config: type) -> None:
    """For vLLM's VllmConfig, whose hash names what was compiled for it; a second call does nothing.

    It takes in all of additional_config. Croupier's options change nothing that is compiled, and an engine
    need not compile its model anew for another one of them.
    """
    if hasattr(config, "croupier_left_out"):
        return
    config.croupier_left_out = True
    compute = config.compute_hash

    # 0.33 calls it with include_version=False where it tunes kernels, which it does with several ranks.
    @functools.wraps(compute)
    def compute_hash(self: Any, *asked: Any, **named: Any) -> str:
        given = self.additional_config
        if not isinstance(given, Mapping) or KEY not in given:
            return compute(self, *asked, **named)
        self.additional_config = {key: value for key, value in given.items() if key != KEY}
        try:
            return compute(self, *asked, **named)
        finally:
            self.additional_config = given

    config.compute_hash = compute_hash
