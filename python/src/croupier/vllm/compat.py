"""What differs between the releases of vLLM that Croupier supports. The rest of the plugin asks `current()`.

A release of vLLM is supported if it is one of RELEASES. `current()` looks at the installed release once.
`croupier doctor` runs this file alone: while it is loaded it imports nothing of the package, nor of vLLM.
"""

from __future__ import annotations

import functools
import importlib.metadata
import re
from collections.abc import Callable, Mapping
from typing import Any


class Release:
    """What holds for every supported release, and the questions whose answers differ."""

    name = ""
    opens_session_after = ""
    """The executor's call after which the workers' warm-up is over, and a session can be opened."""
    holds_back_preempted = True
    """The scheduler itself resumes no preempted request whose token is still in flight."""
    stagger = ""
    """The attribute of AsyncScheduler that counts the steps until a request decodes again."""
    raises_request_errors = True
    """The front end raises the error of a request that ended without a token."""
    speculates = False
    """Croupier verifies drafts with it."""
    spans_hosts = False
    """Croupier samples with it for an engine whose stages are on several hosts."""
    rng = ""
    """The `rng` that draws this release's own tokens for a seed; empty: none does."""

    def end_requests(self, scheduler: Any, errors: Mapping[str, str], is_refused: Callable) -> None:
        """Has the scheduler end these requests with its next update; the values are the reasons."""
        raise NotImplementedError

    def drop_prompt_logprobs(self, output: Any, name: str) -> None:
        """Removes what vLLM sends only along with a token: it insists on one."""
        output.prompt_logprobs_dict.pop(name, None)

    @property
    def about_rng(self) -> str:
        """Which of Croupier's random numbers are this release's, in one line."""
        if self.rng:
            return (
                f"extra_args {{'rng': '{self.rng}'}} draws with the random numbers of this vLLM ({self.name})"
            )
        owner = next(release for release in RELEASES if release.rng)
        return (
            f"extra_args {{'rng': '{owner.rng}'}} draws with the random numbers of vLLM {owner.name}; "
            f"no rng has those of this vLLM ({self.name})"
        )

    def generation_error(self, reason: str) -> Exception:
        """An exception that the server answers with status 500 and the reason."""
        raise NotImplementedError

    def adopt_runner(self, worker: Any, runner: type) -> None:
        """Gives the worker's model runner this class, after init_device()."""

    def faults(self, vllm_config: Any) -> list[str]:
        """What only this release has and Croupier refuses when an engine starts."""
        return []


class Release026(Release):
    name = "0.26"
    opens_session_after = "initialize_from_config"
    holds_back_preempted = False
    stagger = "pp_size"
    raises_request_errors = False

    def end_requests(self, scheduler: Any, errors: Mapping[str, str], is_refused: Callable) -> None:
        scheduler.grammar_compile_error_reqs.update(errors)

    def generation_error(self, reason: str) -> Exception:
        from vllm.entrypoints.openai.engine.protocol import GenerationError

        return GenerationError(reason)

    def adopt_runner(self, worker: Any, runner: type) -> None:
        # The runner's class is chosen inside of init_device(), which has no hook for it.
        worker.model_runner.__class__ = runner


class Release033(Release):
    name = "0.33"
    opens_session_after = "compile_or_warm_up_model"
    stagger = "decode_stagger"
    speculates = True
    spans_hosts = True
    rng = "vllm"

    def end_requests(self, scheduler: Any, errors: Mapping[str, str], is_refused: Callable) -> None:
        from vllm.outputs import RequestError

        for name, reason in errors.items():
            # The front end raises a VLLMValidationError for this code, which the server answers with 400.
            code = "validation_error" if is_refused(reason) else "croupier_failed"
            scheduler.grammar_compile_error_reqs[name] = RequestError(code=code, message=reason)

    def drop_prompt_logprobs(self, output: Any, name: str) -> None:
        super().drop_prompt_logprobs(output, name)
        output.prompt_token_id_logprobs_dict.pop(name, None)

    def generation_error(self, reason: str) -> Exception:
        from vllm.exceptions import GenerationError

        return GenerationError(reason)

    def faults(self, vllm_config: Any) -> list[str]:
        found = []
        if getattr(vllm_config, "watermark_config", None) is not None:
            found.append("watermark_config is set, and Croupier adds no watermark; leave it out")
        if getattr(vllm_config.model_config, "return_sampling_mask", False):
            found.append(
                "return_sampling_mask is set, and Croupier does not send the tokens that its filters keep; "
                "leave it out"
            )
        if getattr(vllm_config, "is_mm_encoder_only", False):
            found.append("mm_encoder_only is set, and such an engine draws no tokens; leave it out")
        return found


RELEASES: tuple[Release, ...] = (Release026(), Release033())


def installed_release() -> str:
    try:
        return importlib.metadata.version("vllm")
    except importlib.metadata.PackageNotFoundError:
        return "of an unknown release"


def supported(release: str) -> Release | None:
    """The answers for a release; None if Croupier does not support it."""
    for known in RELEASES:
        if release == known.name or release.startswith(f"{known.name}."):
            return known
    return None


def nearest(release: str) -> Release:
    """The answers for any release: those of the newest supported one that is not newer."""
    if (known := supported(release)) is not None:
        return known
    numbers = _numbers(release)
    older = [known for known in RELEASES if numbers is None or _numbers(known.name) <= numbers]
    return older[-1] if older else RELEASES[0]


@functools.cache
def current() -> Release:
    """The answers for the installed release."""
    return nearest(installed_release())


def names() -> str:
    """The supported releases, as messages list them."""
    return " and ".join(release.name for release in RELEASES)


def _numbers(release: str) -> tuple[int, int] | None:
    found = re.match(r"(\d+)\.(\d+)", release)
    return (int(found[1]), int(found[2])) if found else None
