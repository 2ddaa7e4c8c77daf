"""A plugin of SGLang's for measurements: random weights that make logits as uneven as a model's.

`--load-format dummy` leaves weights so small that all logits are nearly equal. Both sides of a comparison
have these; each rank's are the same in each run, and those of a layer the same on any pipeline stage.
"""

from __future__ import annotations

import zlib
from typing import Any


def register() -> None:
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    HookRegistry.register(
        "sglang.srt.model_executor.model_runner.ModelRunner.load_model", _after_load, HookType.AFTER
    )


def _after_load(loaded: Any, runner: Any, *given: Any, **named: Any) -> None:
    import torch

    with torch.no_grad():
        for name, weight in runner.model.named_parameters():
            if "norm" in name:
                weight.fill_(1)
            elif name.endswith("bias"):
                weight.zero_()
            elif name.endswith("model.fc.weight"):
                # An EAGLE draft's: it goes on from the last token, as the target nearly does.
                torch.nn.init.eye_(weight)
            else:
                # A row of logits of this width has a deviation of about 3.
                scale = 3 * weight.shape[-1] ** -0.5 if "lm_head" in name else 0.02
                random = torch.Generator(weight.device).manual_seed(zlib.crc32(name.encode()))
                weight.normal_(0, scale, generator=random)
