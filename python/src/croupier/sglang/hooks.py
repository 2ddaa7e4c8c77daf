"""Where the plugin takes part in SGLang: hooks of SGLang's own registry.

SGLang only logs a hook that it cannot apply. Here that ends the process, as its own sampler would draw then.
"""

from __future__ import annotations

import functools
import pkgutil
from typing import Any

from sglang.srt.plugins.hook_registry import HookRegistry, HookType

from . import requirements
from .admission import Admission
from .options import Options
from .parameters import Asked

_SCHEDULER = "sglang.srt.managers.scheduler.Scheduler"
_TOKENIZER = "sglang.srt.managers.tokenizer_manager.TokenizerManager"
_RUNNER = "sglang.srt.model_executor.model_runner.ModelRunner"
_LOGITS = "sglang.srt.layers.logits_processor.LogitsProcessor"
_PENALTIES = "sglang.srt.sampling.penaltylib.orchestrator.BatchedPenalizerOrchestrator"


def install(options: Options) -> None:
    requirements.check_release(options)
    hooks = Hooks(options)
    places = [
        (f"{_TOKENIZER}.__init__", hooks.make_front_end),
        (f"{_TOKENIZER}._create_tokenized_object", hooks.tokenize),
        (f"{_SCHEDULER}.__init__", hooks.make_scheduler),
        (f"{_SCHEDULER}.run_batch", hooks.run_batch),
        (f"{_SCHEDULER}.process_batch_result", hooks.process_batch_result),
        (f"{_SCHEDULER}.run_event_loop", hooks.run_event_loop),
        (f"{_RUNNER}.sample", hooks.sample),
        (f"{_LOGITS}.__init__", hooks.make_logits_processor),
        (f"{_LOGITS}._get_logits", hooks.get_logits),
        (f"{_LOGITS}._copy_logits_to_buffer", hooks.copy_logits),
        (f"{_PENALTIES}.__init__", hooks.make_penalties),
    ]
    for target, hook in places:
        HookRegistry.register(target, hook, HookType.AROUND)
    _check_when_applied([target for target, _ in places])


def _check_when_applied(targets: list[str]) -> None:
    native = HookRegistry.apply_hooks

    @functools.wraps(native)
    def apply_hooks() -> None:
        native()
        missing = [target for target in targets if not hasattr(pkgutil.resolve_name(target), "__wrapped__")]
        if missing:
            names = ", ".join(missing)
            raise SystemExit(
                f"Croupier cannot sample for this SGLang: it has not applied the hooks of {names}"
            )

    HookRegistry.apply_hooks = apply_hooks


class Hooks:
    """Each takes the function that it stands for, and its arguments."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._plane: Any = None
        """Of this process, once its scheduler is made."""

    def make_front_end(self, native: Any, manager: Any, server_args: Any, *given: Any, **named: Any) -> None:
        requirements.check_engine(server_args, self._options)
        native(manager, server_args, *given, **named)
        vocab = manager.model_config.vocab_size
        manager.croupier_admission = Admission(self._options, server_args, vocab)

    def tokenize(self, native: Any, manager: Any, *given: Any, **named: Any) -> Any:
        made = native(manager, *given, **named)
        if hasattr(made, "return_logprob"):
            manager.croupier_admission.request_of(Asked.of_input(made, manager.tokenizer))
        return made

    def make_scheduler(
        self, native: Any, scheduler: Any, server_args: Any, *given: Any, **named: Any
    ) -> None:
        requirements.check_engine(server_args, self._options)
        native(scheduler, server_args, *given, **named)
        from .ranks import open_plane

        self._plane = open_plane(scheduler, self._options)

    def run_batch(self, native: Any, scheduler: Any, batch: Any, *given: Any, **named: Any) -> Any:
        self._plane.begin(batch, scheduler.chunked_req)
        return native(scheduler, batch, *given, **named)

    def process_batch_result(self, native: Any, scheduler: Any, batch: Any, result: Any) -> Any:
        self._plane.collect(batch, result)
        returned = native(scheduler, batch, result)
        self._plane.settle(batch)
        return returned

    def run_event_loop(self, native: Any, scheduler: Any) -> Any:
        try:
            return native(scheduler)
        finally:
            self._plane.close()

    def sample(self, native: Any, runner: Any, logits_output: Any, forward_batch: Any) -> Any:
        if self._plane is None:
            # SGLang warms up.
            return native(runner, logits_output, forward_batch)
        tokens = self._plane.sample(logits_output, forward_batch)
        runner.ngram_embedding_manager.update_after_decode(next_token_ids=tokens, forward_batch=forward_batch)
        return tokens

    def make_logits_processor(self, native: Any, processor: Any, *given: Any, **named: Any) -> None:
        native(processor, *given, **named)
        from sglang.srt.runtime_context import get_parallel

        from . import logits

        logits.mark(processor, get_parallel().tp_size)

    def get_logits(
        self, native: Any, processor: Any, hidden: Any, head: Any, metadata: Any, *given: Any, **named: Any
    ) -> Any:
        if not processor.croupier_gathers or not metadata.extend_return_logprob:
            return native(processor, hidden, head, metadata, *given, **named)
        # Log-probs of a prompt are of whole rows.
        processor.do_tensor_parallel_all_gather = True
        try:
            return native(processor, hidden, head, metadata, *given, **named)
        finally:
            processor.do_tensor_parallel_all_gather = False

    def copy_logits(
        self, native: Any, processor: Any, logits: Any, metadata: Any, use_buffer: bool = True, **named: Any
    ) -> Any:
        from .logits import kept

        own = kept(processor, logits, metadata, use_buffer)
        return native(processor, logits, metadata, use_buffer, **named) if own is None else own

    def make_penalties(
        self, native: Any, orchestrator: Any, vocab_size: int, batch: Any, penalizers: Any
    ) -> None:
        """None: their tables and kernels would be for nothing."""
        native(orchestrator, vocab_size, batch, set())
