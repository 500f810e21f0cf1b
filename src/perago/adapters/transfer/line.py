"""One kept connection that carries several requests ahead of their answers.

Never blocks; what the requests are for is not known here.
"""

import http.client
import ssl
from collections import deque
from collections.abc import Iterator, Sequence
from typing import final

from perago.adapters.transfer.answer_buffer import Answer, AnswerBuffer
from perago.adapters.transfer.failures import BrokenError

_LATER = (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


@final
class Line:
    """A connection, what was asked on it, and what has arrived."""

    def __init__(self, connection: http.client.HTTPConnection, body_bytes_max: int) -> None:
        self.connection = connection
        self.socket = connection.sock
        self.socket.setblocking(False)  # noqa: FBT003 - its only parameter
        self.waiting: deque[tuple[int, float]] = deque()
        self.heard = 0.0
        self.answered = 0
        self.events = 0
        self._buffer = AnswerBuffer(body_bytes_max)
        self._unsent = b""

    @property
    def is_sending(self) -> bool:
        """Whether the kernel has not taken everything yet."""
        return bool(self._unsent)

    def ask(self, requests: Sequence[bytes]) -> None:
        """Send requests, as far as the kernel takes them now."""
        self._unsent += b"".join(requests)
        self.flush()

    def flush(self) -> None:
        """Send what is left."""
        try:
            while self._unsent:
                self._unsent = self._unsent[self.socket.send(self._unsent) :]
        except _LATER:
            pass

    def answers(self) -> Iterator[Answer]:
        """What can be read now; the end of the line raises BrokenError."""
        more = True
        while more:
            room = self._buffer.room()
            try:
                count = self.socket.recv_into(room)
            except _LATER:
                return
            finally:
                room.release()
            if not count:
                raise BrokenError("the server closed the connection")
            self._buffer.filled(count)
            while (answer := self._buffer.take()) is not None:
                self.answered += 1
                yield answer
            # What TLS has unwrapped already wakes nobody up.
            more = isinstance(self.socket, ssl.SSLSocket) and self.socket.pending() > 0

    @property
    def is_idle(self) -> bool:
        """Whether everything asked was answered and nothing else came."""
        return not self.waiting and not self._unsent and self._buffer.is_empty
