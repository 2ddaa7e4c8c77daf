"""vLLM's plugin: `--additional-config '{"croupier": {}}'` lets Croupier draw the tokens.

Nothing here changes an engine that is started without that key. options.py has what the dictionary may say.
"""

from __future__ import annotations

import functools
from typing import Any

from .options import Options

__all__ = ["register"]


def register() -> None:
    """The entry point of the group vllm.general_plugins; a second call does nothing."""
    from vllm.v1.executor.abstract import Executor

    if hasattr(Executor, "croupier_registered"):
        return
    Executor.croupier_registered = True
    get_class = Executor.get_class

    @functools.wraps(get_class)
    def get_class_with_session(vllm_config: Any) -> type:
        executor = get_class(vllm_config)
        if Options.of(vllm_config) is None:
            return executor
        # Both import large parts of vLLM, which are complete only when an engine is being made.
        from vllm.v1.engine.input_processor import InputProcessor

        from . import admission
        from .executor import with_session

        admission.install(InputProcessor)
        return with_session(executor)

    Executor.get_class = staticmethod(get_class_with_session)
