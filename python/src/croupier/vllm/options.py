"""What `--additional-config '{"croupier": {...}}'` may say."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from croupier.serving import options
from croupier.serving.private_daemon import lean_samplers_of

KEY = "croupier"


@dataclass(frozen=True)
class Options(options.Options):
    """The options of one engine; all have a default, so that `{"croupier": {}}` is enough."""

    engine: ClassVar[str] = "vllm"
    where: ClassVar[str] = f"additional_config[{KEY!r}]"
    relay_port: int = 0
    """Of an engine with its last stage on another host: where this one listens for it, replica N at the
    N-th port from there; 0: any free port."""
    spare_batches: int = 0
    """Of an engine with pipeline stages: batches in flight beyond vLLM's, which hide the time of deciding."""

    head: str = ""
    """fused: of lean steps the ranks' writers multiply hidden states by the LM head; none: the model does."""

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> Self:
        found = super().parse(given)
        if found.spare_batches > 1:
            raise ValueError(f"{cls.where}['spare_batches'] is {found.spare_batches}; 0 or 1 would be right")
        if "head" in given:
            found._check_head()
        return found

    def _check_head(self) -> None:
        if self.head != "fused":
            raise ValueError(f"{self.where}['head'] is {self.head!r}; fused would be right")
        if self.transport == "rows":
            raise ValueError(f"{self.where}['head'] needs 'transport': 'lean', not 'rows'")
        for name in ("hotness_file", "verify_every"):
            if getattr(self, name):
                raise ValueError(
                    f"{self.where}['head'] cannot be together with {name!r}: there are no rows of logits "
                    "beside the writer's; one of the two would be right"
                )

    @classmethod
    def of(cls, vllm_config: Any) -> Self | None:
        """The options of this engine's configuration; None where Croupier is not asked for."""
        additional = getattr(vllm_config, "additional_config", None)
        if not isinstance(additional, Mapping) or KEY not in additional:
            return None
        given = additional[KEY]
        if not isinstance(given, Mapping):
            raise ValueError(f"{cls.where} is {given!r}; a dictionary of options would be right")
        return cls.parse(given)


def samplers_for(options: Options, vllm_config: Any) -> tuple[Options, Options]:
    """Of a private daemon, which a host's replicas share, and of the stand-in, which is this engine's."""
    if options.transport_from(vllm_config.device_config.device_type) != "lean":
        return options, options
    engines = max(1, vllm_config.parallel_config.data_parallel_size_local)
    own = replace(options, samplers=lean_samplers_of(options, engines))
    return own, replace(options, samplers=lean_samplers_of(options, 1))


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
