"""One kept-alive connection to a Conductor: one request at a time.

Decides what a lost connection or a late answer makes of the request that is under way. Must not
know what a request means, nor which connection is used for it.
"""

import asyncio
from typing import final

from perago.adapters.conductor.api_request import NoAnswerError
from perago.adapters.conductor.http_answer import Answer, AnswerReader


@final
class LeanConnection(asyncio.Protocol):
    """Bytes out, one answer in; whatever else happens ends it."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._reader: AnswerReader | None = None
        self._answer: asyncio.Future[Answer] | None = None
        self.used_at = 0.0

    @property
    def is_open(self) -> bool:
        """Whether a request can be sent."""
        return self._transport is not None and not self._transport.is_closing()

    async def ask(self, request: bytes, seconds: float) -> Answer:
        """Send once and wait; a cancelled caller waits too, for the request has left."""
        assert self._transport is not None, "connected first"
        answer: asyncio.Future[Answer] = self._loop.create_future()
        self._answer, self._reader = answer, AnswerReader()
        late = self._loop.call_later(seconds, self._fail, f"no answer after {seconds:g} s")
        self._transport.write(request)
        try:
            return await asyncio.shield(answer)
        except asyncio.CancelledError:
            await _joined(answer)
            raise
        finally:
            late.cancel()

    def close(self) -> None:
        """End the connection."""
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep what to write to."""
        assert isinstance(transport, asyncio.Transport), "a stream"
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Cut the answer out; bytes that nobody waits for end the connection."""
        if self._reader is None:
            self.close()
            return
        try:
            answer = self._reader.feed(data)
        except ValueError as error:
            self._fail(f"ValueError: {error}")
            return
        if answer is not None:
            self._take(answer)

    def connection_lost(self, exc: Exception | None) -> None:
        """The end of an answer without a length, or of the hope for one."""
        if exc is not None:
            self._fail(f"{type(exc).__name__}: {exc}")
        elif self._reader is not None and (answer := self._reader.end()) is not None:
            self._take(answer)
        else:
            self._fail("the connection was closed")

    def _take(self, answer: Answer) -> None:
        self._reader = None
        if not answer.keep:
            self.close()
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(answer)

    def _fail(self, why: str) -> None:
        self._reader = None
        self.close()
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(NoAnswerError(why))


async def _joined(answer: "asyncio.Future[Answer]") -> None:
    """A request must not outlive its caller, however often that is cancelled."""
    while not answer.done():
        try:
            await asyncio.wait([answer])
        except asyncio.CancelledError:
            continue
    answer.exception()  # it is nobody's any more
