"""Answers as they arrive on one connection, several behind each other.

Knows HTTP/1.1 as far as an answer of a known length; anything else is a broken line. Reads no
socket.
"""

import re
from dataclasses import dataclass
from typing import final

from perago.adapters.transfer.failures import BrokenError

HEAD_BYTES_MAX = 32 * 1024
_LEAST_ROOM_BYTES = 32 * 1024
_END_OF_HEAD = b"\r\n\r\n"
_STATUS = re.compile(rb"HTTP/1\.1 (\d\d\d)\b")
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+) *\r\n", re.IGNORECASE)
_CLOSES = re.compile(rb"\r\nconnection: *close\b", re.IGNORECASE)


@dataclass(slots=True)
class Answer:
    """One whole answer; its body is a window on the buffer and lives until the next one."""

    status: int
    body: memoryview
    closes: bool


@final
class AnswerBuffer:
    """Room for a few answers of a bounded size."""

    def __init__(self, body_bytes_max: int) -> None:
        self._data = bytearray(body_bytes_max + HEAD_BYTES_MAX + _LEAST_ROOM_BYTES)
        self._view = memoryview(self._data)
        self._start = 0
        self._end = 0
        self._head_end = 0
        self._answer_end = 0
        self._status = 0
        self._closes = False

    @property
    def is_empty(self) -> bool:
        """Whether nothing of a further answer is here."""
        return self._start == self._end

    def room(self) -> memoryview:
        """Where the next bytes go."""
        if self._start == self._end or len(self._data) - self._end < _LEAST_ROOM_BYTES:
            self._move_to_front()
        room = self._view[self._end :]
        if not room:
            raise BrokenError("an answer is larger than was promised")
        return room

    def filled(self, count: int) -> None:
        """Say how much of the room was used."""
        self._end += count

    def take(self) -> Answer | None:
        """The next answer that is whole."""
        if not self._answer_end and not self._has_head():
            return None
        if self._end < self._answer_end:
            return None
        body = self._view[self._head_end : self._answer_end]
        self._start, self._answer_end = self._answer_end, 0
        return Answer(self._status, body, self._closes)

    def _has_head(self) -> bool:
        """Read the head, once it is whole."""
        found = self._data.find(_END_OF_HEAD, self._start, self._end)
        if found < 0:
            if self._end - self._start > HEAD_BYTES_MAX:
                raise BrokenError("an answer's head does not end")
            return False
        self._head_end = found + len(_END_OF_HEAD)
        head = bytes(self._view[self._start : self._head_end])
        status, length = _STATUS.match(head), _LENGTH.search(head)
        if status is None or length is None:
            raise BrokenError(f"an answer of no known length: {head[:40]!r}")
        self._status = int(status[1])
        self._closes = _CLOSES.search(head) is not None
        self._answer_end = self._head_end + int(length[1])
        return True

    def _move_to_front(self) -> None:
        left = bytes(self._view[self._start : self._end])
        self._view[: len(left)] = left
        moved, self._start, self._end = self._start, 0, len(left)
        if self._answer_end:
            self._head_end -= moved
            self._answer_end -= moved
