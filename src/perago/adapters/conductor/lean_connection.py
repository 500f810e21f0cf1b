"""One kept-alive connection to a Conductor: one request at a time.

Decides what a lost connection or a late answer makes of the request that is under way. Must not
know what a request means, nor which connection is used for it.
"""

import asyncio
from typing import cast, final

from perago.adapters.conductor.api_request import NoAnswerError
from perago.adapters.conductor.http_answer import Answer, AnswerReader

RECEIVE_BYTES = 64 * 1024


@final
class LeanConnection(asyncio.BufferedProtocol):
    """Bytes out, one answer in; whatever else happens ends it.

    One piece of memory takes all that arrives: without it each read would ask the system for a
    quarter of a megabyte.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._received = memoryview(bytearray(RECEIVE_BYTES))
        self._reader: AnswerReader | None = None  # while a request is under way
        self._answer: asyncio.Future[Answer] | None = None
        self._seconds, self._deadline = 0.0, 0.0
        self._alarm: asyncio.TimerHandle | None = None
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
        self._limit(seconds)
        self._transport.write(request)
        try:
            return await answer
        except asyncio.CancelledError:
            _forget(answer)
            await self._joined()
            raise

    def close(self) -> None:
        """End the connection."""
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep what to write to."""
        self._transport = cast("asyncio.Transport", transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where to put what arrives."""
        del sizehint
        return self._received

    def buffer_updated(self, nbytes: int) -> None:
        """Cut the answer out; bytes that nobody waits for end the connection."""
        if self._reader is None:
            self.close()
            return
        try:
            answer = self._reader.feed(self._received[:nbytes])
        except ValueError as error:
            self._fail(f"ValueError: {error}")
            return
        if answer is not None:
            self._take(answer)

    def connection_lost(self, exc: Exception | None) -> None:
        """The end of an answer without a length, or of the hope for one."""
        if self._alarm is not None:
            self._alarm.cancel()
        if exc is not None:
            self._fail(f"{type(exc).__name__}: {exc}")
        elif self._reader is not None and (answer := self._reader.end()) is not None:
            self._take(answer)
        else:
            self._fail("the connection was closed")

    def _limit(self, seconds: float) -> None:
        """Ring when the time is over; an alarm that is set for an earlier moment looks again."""
        self._seconds, self._deadline = seconds, self._loop.time() + seconds
        if self._alarm is not None and self._alarm.when() > self._deadline:
            self._alarm.cancel()
            self._alarm = None
        if self._alarm is None:
            self._alarm = self._loop.call_at(self._deadline, self._ring)

    def _ring(self) -> None:
        self._alarm = None
        if self._reader is None:
            return
        if self._loop.time() < self._deadline:
            self._alarm = self._loop.call_at(self._deadline, self._ring)
        else:
            self._fail(f"no answer after {self._seconds:g} s")

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

    async def _joined(self) -> None:
        """A request must not outlive its caller, however often that is cancelled."""
        while self._reader is not None:
            answer: asyncio.Future[Answer] = self._loop.create_future()
            self._answer = answer
            try:
                await answer
            except (asyncio.CancelledError, NoAnswerError):
                _forget(answer)


def _forget(answer: "asyncio.Future[Answer]") -> None:
    """It is nobody's any more, its failure included."""
    if answer.done() and not answer.cancelled():
        answer.exception()
