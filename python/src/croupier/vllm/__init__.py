"""vLLM's plugin: `--additional-config '{"croupier": {}}'` lets Croupier draw the tokens.

Nothing here changes an engine that is started without that key. options.py has what the dictionary may say.
"""

from __future__ import annotations

import functools
from typing import Any

from .options import Options, leave_out_of_hash
from .requirements import check_release

__all__ = ["register"]


def register() -> None:
    """The entry point of the group vllm.general_plugins; a second call does nothing."""
    from vllm.config.vllm import VllmConfig
    from vllm.v1.executor.abstract import Executor

    if hasattr(Executor, "croupier_registered"):
        return
    Executor.croupier_registered = True
    get_class = Executor.get_class

    @functools.wraps(get_class)
    def get_class_with_session(vllm_config: Any) -> type:
        executor = get_class(vllm_config)
        options = Options.of(vllm_config)
        if options is None:
            return executor
        # Before anything of this vLLM is relied on. The rest is checked when the configuration is complete:
        # vLLM asks for the class while it makes it.
        check_release(options)
        # These import large parts of vLLM, which are complete only when an engine is being made.
        from vllm.v1.engine.input_processor import InputProcessor

        from . import admission, failures, hosts
        from .executor import WORKER, with_session

        hosts.prepare_other_hosts(WORKER)
        admission.install(InputProcessor)
        failures.tell_clients()
        return with_session(executor)

    Executor.get_class = staticmethod(get_class_with_session)
    leave_out_of_hash(VllmConfig)
