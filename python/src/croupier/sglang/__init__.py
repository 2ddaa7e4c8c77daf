"""SGLang's plugin: `CROUPIER_SGLANG='{}'` in its environment lets Croupier draw the tokens.

Nothing here changes an engine that is started without that variable. options.py has what it may say.
"""

from __future__ import annotations

from .options import Options

__all__ = ["register"]


def register() -> None:
    """The entry point of the group sglang.srt.plugins.

    SGLang logs what a plugin or a hook raises, and starts without it: its own sampler would draw the tokens.
    So what fails here ends the process.
    """
    try:
        options = Options.from_environment()
        if options is None:
            return
        # These import large parts of SGLang.
        from .hooks import install

        install(options)
    except Exception as error:
        raise SystemExit(f"Croupier cannot sample for this SGLang: {error}") from error
