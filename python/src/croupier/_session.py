import asyncio
from types import TracebackType
from typing import Self

from . import _core
from ._error import Error

# As wait() without a timeout has it.
_DAEMON_PATIENCE = 10.0


class Session(_core.Session):
    """A session with a daemon, of one scheduler.

    It takes every field of croupier_open_options (croupier/client.h) by its name, with its default;
    `timeout` is timeout_ms in seconds, `order` an array of uint32, and `dtype` also "bf16", "fp16" or "fp32".
    It is used by one thread at a time, and threads get their turn in the order in which they ask; a thread
    that waits for a step lets others in every 20 ms.
    """

    _arrival: asyncio.Future[None] | None = None
    _listening: tuple[asyncio.AbstractEventLoop, int] | None = None

    async def next_step(self) -> _core.Step:
        """The oldest step in flight, once it is decided, without a thread that waits for it."""
        time, gone_since = asyncio.get_running_loop().time, None
        while True:
            try:
                if (step := self.wait(0)) is not None:
                    return step
                gone_since = None
            except Error as error:
                if error.name != "daemon_gone" or self.in_flight == 0:
                    raise
                gone_since = gone_since or time()
                if time() - gone_since > _DAEMON_PATIENCE:
                    raise
            await self._arrival_or_a_second()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> _core.Step:
        if self.in_flight == 0:
            raise StopAsyncIteration
        try:
            return await self.next_step()
        except Error:
            # Another task took the last one meanwhile.
            if self.in_flight == 0:
                raise StopAsyncIteration from None
            raise

    async def _arrival_or_a_second(self) -> None:
        if self._arrival is None:
            self._listen()
        assert self._arrival is not None
        # What becomes of the daemon makes nothing readable: wait() has to look for it.
        await asyncio.wait([self._arrival], timeout=1)
        self._stop_listening()

    def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        descriptor = self.fileno()
        self._arrival = loop.create_future()
        self._listening = (loop, descriptor)
        loop.add_reader(descriptor, self._stop_listening)

    def _stop_listening(self) -> None:
        if self._listening is not None:
            loop, descriptor = self._listening
            if not loop.is_closed():
                loop.remove_reader(descriptor)
        if self._arrival is not None and not self._arrival.done():
            self._arrival.set_result(None)
        self._listening = self._arrival = None

    def detach(self) -> None:
        """Leaves the session to a later client, which finds it with resume=1. Nothing the second time."""
        self._stop_listening()
        super().detach()

    def close(self) -> None:
        """Closes the session: its memory is given back. Nothing the second time."""
        self._stop_listening()
        super().close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
