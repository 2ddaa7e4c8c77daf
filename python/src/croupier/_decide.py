import operator
import os
import threading
from collections.abc import Sequence

from . import _core

_MOST_DECIDERS = 4


class _Deciders(threading.local):
    """Of one thread, by vocabulary, the latest last."""

    def __init__(self) -> None:
        self.by_vocab: dict[int, _core.Decider] = {}

    def of(self, vocab: int, length: int) -> _core.Decider:
        """For a history of so many tokens, and the next one."""
        decider = self.by_vocab.pop(vocab, None)
        if decider is None or decider.max_length <= length:
            decider = _core.Decider(vocab, max_length=max(8192, 1 << length.bit_length()))
        self.by_vocab[vocab] = decider
        if len(self.by_vocab) > _MOST_DECIDERS:
            del self.by_vocab[next(iter(self.by_vocab))]
        return decider


_deciders = _Deciders()
# A decider is of the process that made it.
os.register_at_fork(after_in_child=lambda: _deciders.by_vocab.clear())


def decide(
    logits: object,
    prompt: "_core.Ids" = (),
    output: "_core.Ids" = (),
    *,
    params: _core.Params | None = None,
    bias: dict[int, float] | None = None,
    stop_ids: "_core.Ids" = (),
    allowed_ids: "_core.Ids" = (),
    bad_words: "Sequence[_core.Ids]" = (),
    dry_breakers: "Sequence[_core.Ids]" = (),
    mask: object | None = None,
    wants_support: bool = False,
    feedback: tuple[float, float] = (0.0, 0.0),
) -> _core.Answer:
    """The token after prompt and output, as Decider.decide() gives it; this thread keeps the decider."""
    # What has no length is no history: Decider.decide() says so by name.
    length = operator.length_hint(prompt) + operator.length_hint(output)
    return _deciders.of(_core.row_length(logits), length).decide(
        logits,
        prompt,
        output,
        params=params,
        bias=bias,
        stop_ids=stop_ids,
        allowed_ids=allowed_ids,
        bad_words=bad_words,
        dry_breakers=dry_breakers,
        mask=mask,
        wants_support=wants_support,
        feedback=feedback,
    )
