"""Where the plugin takes part in SGLang: hooks of SGLang's own registry.

SGLang only logs a hook that it cannot apply. Here that ends the process, as its own sampler would draw then.
"""

from __future__ import annotations

import functools
import pkgutil
from typing import Any

from sglang.srt.plugins.hook_registry import HookRegistry, HookType

from . import requirements, speculation
from .admission import Admission
from .options import Options
from .parameters import Asked

_SCHEDULER = "sglang.srt.managers.scheduler.Scheduler"
_TOKENIZER = "sglang.srt.managers.tokenizer_manager.TokenizerManager"
_STAGES = "sglang.srt.managers.scheduler_pp_mixin.SchedulerPPMixin"
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
        (f"{_STAGES}._pp_send_output_to_next_stage", hooks.send_output),
        (f"{_STAGES}._pp_prep_batch_result", hooks.prepare_result),
        (f"{_RUNNER}.sample", hooks.sample),
        (f"{_RUNNER}.load_model", hooks.load_model),
        (f"{_LOGITS}._get_logits", hooks.get_logits),
        (f"{_LOGITS}._copy_logits_to_buffer", hooks.copy_logits),
        (f"{_PENALTIES}.__init__", hooks.make_penalties),
    ]
    _register(places)
    native = HookRegistry.apply_hooks

    @functools.wraps(native)
    def apply_hooks() -> None:
        native()
        _check_applied(places)

    HookRegistry.apply_hooks = apply_hooks


def _register(places: list[tuple[str, Any]]) -> None:
    for target, hook in places:
        HookRegistry.register(target, hook, HookType.AROUND)


def _check_applied(places: list[tuple[str, Any]]) -> None:
    missing = [target for target, _ in places if not hasattr(pkgutil.resolve_name(target), "__wrapped__")]
    if missing:
        names = ", ".join(missing)
        raise SystemExit(f"Croupier cannot sample for this SGLang: it has not applied the hooks of {names}")


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
        if server_args.speculative_algorithm is not None:
            self._hook_verification(speculation.caller_of(server_args))
        native(scheduler, server_args, *given, **named)
        from .ranks import open_plane

        self._plane = open_plane(scheduler, self._options)

    def _hook_verification(self, caller: str) -> None:
        """Only where it is needed: this imports what a host without a GPU lacks."""
        places = [
            (f"{caller}.eagle_sample", self.eagle_sample),
            (f"{caller}.build_grammar_vocab_mask", self.build_grammar_vocab_mask),
            (f"{caller}.compute_spec_v2_logprobs", self.compute_spec_v2_logprobs),
        ]
        _register(places)
        HookRegistry.apply_hooks()
        _check_applied(places)

    def run_batch(self, native: Any, scheduler: Any, batch: Any, *given: Any, **named: Any) -> Any:
        self._plane.begin(batch, scheduler.chunked_req)
        return native(scheduler, batch, *given, **named)

    def process_batch_result(self, native: Any, scheduler: Any, batch: Any, result: Any) -> Any:
        self._plane.collect(batch, result)
        returned = native(scheduler, batch, result)
        self._plane.settle(batch)
        return returned

    def send_output(
        self, native: Any, scheduler: Any, place: int, batches: Any, queue: Any, outputs: Any
    ) -> Any:
        if scheduler.pp_group.is_last_rank and batches[place] is not None:
            has_run, own = queue[0]
            self._plane.send(batches[place], has_run, own.tensors)
        return native(scheduler, place, batches, queue, outputs)

    def prepare_result(self, native: Any, scheduler: Any, batch: Any, metadata: Any, outputs: Any) -> Any:
        result = native(scheduler, batch, metadata, outputs)
        self._plane.receive(result, outputs)
        return result

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

    def eagle_sample(
        self, native: Any, verified: Any, batch: Any, logits_output: Any, grammar_mask: Any = None
    ) -> tuple[Any, Any, Any]:
        return self._plane.verify(verified, logits_output, grammar_mask)

    def build_grammar_vocab_mask(
        self, native: Any, *, reqs: Any, tree: Any, sampling_info: Any, device: Any, barrier: Any
    ) -> Any:
        """On the host, for eagle_sample(). None: no request has a grammar."""
        from sglang.srt.speculative.spec_utils import generate_token_bitmask

        if barrier is not None:
            barrier()
        return generate_token_bitmask(reqs, *tree.resolve(), sampling_info.vocab_size)[0]

    def compute_spec_v2_logprobs(self, native: Any, *given: Any) -> None:
        """They come with the decisions."""

    def load_model(self, native: Any, runner: Any) -> None:
        native(runner)
        # A draft model's logits draw no token.
        if not runner.is_draft_worker:
            from . import logits

            logits.keep(runner, runner.ps.tp_size)

    def get_logits(
        self, native: Any, processor: Any, hidden: Any, head: Any, metadata: Any, *given: Any, **named: Any
    ) -> Any:
        if not getattr(processor, "croupier_gathers", False) or not metadata.extend_return_logprob:
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
