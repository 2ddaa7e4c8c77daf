from types import TracebackType
from typing import Self

from . import _core


class Writer(_core.Writer):
    """One rank's way to put its logits into a session: those of the host, or of a GPU with `device`.

    A step: wait_step(), begin(), the forward pass, enqueue(). path is "auto", "store" or "copy", as
    croupier/writer.h says. It is used by one thread at a time, and threads get their turn in the order in
    which they ask.
    """

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.detach()
