"""Answers behind each other in one buffer, however the network cuts them."""

import pytest

from perago.adapters.transfer.answer_buffer import HEAD_BYTES_MAX, AnswerBuffer
from perago.adapters.transfer.failures import BrokenError

BODIES = (b"first", b"", b"x" * 5000, b"last")


def answer(body: bytes, status: int = 200, extra: str = "") -> bytes:
    head = f"HTTP/1.1 {status} Some\r\n{extra}Content-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def taken(buffer: AnswerBuffer, wire: bytes, pieces: int) -> list[tuple[int, bytes, bool]]:
    found: list[tuple[int, bytes, bool]] = []
    for start in range(0, len(wire), pieces):
        rest = memoryview(wire)[start : start + pieces]
        while rest:
            room = buffer.room()
            count = min(len(room), len(rest))
            room[:count] = rest[:count]
            buffer.filled(count)
            rest = rest[count:]
            while (one := buffer.take()) is not None:
                found.append((one.status, bytes(one.body), one.closes))
    return found


@pytest.mark.parametrize("pieces", [1, 7, 64, 4096, 1 << 20])
def test_answers_come_out_whole_however_they_are_cut(pieces: int) -> None:
    buffer = AnswerBuffer(8192)
    wire = b"".join(answer(body) for body in BODIES * 20)
    assert taken(buffer, wire, pieces) == [(200, body, False) for body in BODIES * 20]
    assert buffer.is_empty


def test_a_refusal_and_an_announced_end_are_told() -> None:
    wire = answer(b"slow down", 503) + answer(b"bye", extra="connection: Close\r\n")
    assert taken(AnswerBuffer(100), wire, 10) == [(503, b"slow down", False), (200, b"bye", True)]


def test_half_an_answer_is_none() -> None:
    buffer = AnswerBuffer(100)
    assert taken(buffer, answer(b"0123456789")[:-1], 1000) == []
    assert not buffer.is_empty


@pytest.mark.parametrize(
    ("name", "wire"),
    [
        ("chunks", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n"),
        ("no HTTP", b"SSH-2.0-OpenSSH\r\n\r\n"),
        ("a head without end", b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * HEAD_BYTES_MAX),
        ("more than was promised", answer(b"x" * 200_000)),
    ],
)
def test_what_is_not_understood_breaks_the_line(name: str, wire: bytes) -> None:
    with pytest.raises(BrokenError):
        taken(AnswerBuffer(100), wire, 4096)
    assert name
