"""One HTTP/1.1 answer, cut out of the bytes as they arrive.

Decides where an answer ends and whether its connection may be used again. Must not know sockets,
nor what an answer means.
"""

from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus
from typing import final

HEAD_BYTES_MAX = 64 * 1024
ANSWER_BYTES_MAX = 256 * 1024 * 1024
CHUNK_LINE_BYTES_MAX = 4096
HEADS_KEPT = 32
NO_CONTENT = (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED)
HEAD_END = b"\r\n\r\n"
LINE_END = b"\r\n"


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back; `keep` says whether the connection outlives it."""

    status: int
    body: bytes
    is_json: bool
    keep: bool


@dataclass(frozen=True, slots=True)
class _Head:
    """What the first lines say; a length of None means until the end of the connection."""

    status: int
    is_json: bool
    keep: bool
    chunked: bool
    length: int | None


@final
class AnswerReader:
    """Takes bytes until the answer is complete; ValueError when it is none."""

    __slots__ = ("_at", "_buffer", "_head", "_parts", "_size")

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._at = 0
        self._head: _Head | None = None
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes | memoryview) -> Answer | None:
        """Add bytes; the answer once it is complete."""
        self._buffer += data
        head = self._head or self._read_head()
        if head is None:
            return None
        if head.chunked:
            return self._read_chunks(head)
        if head.length is None:
            _checked(len(self._buffer) - self._at)
            return None
        end = self._at + head.length
        if len(self._buffer) < end:
            return None
        return self._answer(head, bytes(self._buffer[self._at : end]), end)

    def end(self) -> Answer | None:
        """The connection has ended: the answer if that completes it."""
        head = self._head
        if head is None or head.chunked or head.length is not None:
            return None
        return Answer(head.status, bytes(self._buffer[self._at :]), head.is_json, keep=False)

    def _read_head(self) -> _Head | None:
        end = self._buffer.find(HEAD_END)
        if end < 0:
            if len(self._buffer) > HEAD_BYTES_MAX:
                raise ValueError(f"more than {HEAD_BYTES_MAX} bytes before an answer begins")
            return None
        self._at = end + len(HEAD_END)
        self._head = _head(bytes(self._buffer[:end]))
        return self._head

    def _read_chunks(self, head: _Head) -> Answer | None:
        buffer = self._buffer
        while True:
            end = buffer.find(LINE_END, self._at)
            if end < 0:
                if len(buffer) - self._at > CHUNK_LINE_BYTES_MAX:
                    raise ValueError("a chunk without a length")
                return None
            length = _checked(int(buffer[self._at : end].partition(b";")[0], 16))
            begin = end + len(LINE_END)
            after = begin + length + len(LINE_END)
            if len(buffer) < after:
                return None
            if length == 0:
                return self._answer(head, b"".join(self._parts), after)
            self._size = _checked(self._size + length)
            self._parts.append(bytes(buffer[begin : begin + length]))
            self._at = after

    def _answer(self, head: _Head, body: bytes, end: int) -> Answer:
        """Bytes behind an answer that nobody asked for end the connection."""
        return Answer(head.status, body, head.is_json, head.keep and len(self._buffer) == end)


@lru_cache(maxsize=HEADS_KEPT)
def _head(data: bytes) -> _Head:
    """Read the first lines; a server says the same ones again until its clock's next second."""
    line, *rest = data.decode("latin-1").split("\r\n")
    version, _, after = line.partition(" ")
    if not version.startswith("HTTP/1."):
        raise ValueError(f"{version[:20]!r} is no HTTP/1")
    headers: dict[str, str] = {}
    for each in rest:
        name, _, value = each.partition(":")
        headers[name.strip().lower()] = value.strip()
    status = int(after[:3])
    chunked = "chunked" in headers.get("transfer-encoding", "").lower()
    length = None
    if status in NO_CONTENT:
        chunked, length = False, 0
    elif not chunked and "content-length" in headers:
        length = _checked(int(headers["content-length"]))
    closes = version == "HTTP/1.0" or headers.get("connection", "").lower() == "close"
    return _Head(status, "json" in headers.get("content-type", ""), not closes, chunked, length)


def _checked(length: int) -> int:
    if not 0 <= length <= ANSWER_BYTES_MAX:
        raise ValueError(f"an answer of {length} bytes, at most {ANSWER_BYTES_MAX}")
    return length
