"""Where an answer ends, however its bytes arrive."""

import pytest

from perago.adapters.conductor.http_answer import (
    ANSWER_BYTES_MAX,
    HEAD_BYTES_MAX,
    Answer,
    AnswerReader,
)

OK = b"HTTP/1.1 200 OK\r\n"
JSON = b"Content-Type: application/json\r\n"
SIZED = OK + JSON + b"Content-Length: 3\r\n\r\n[1]"
CHUNKED = OK + b"transfer-encoding: Chunked\r\n\r\n3\r\n[1,\r\n2;x=y\r\n2]\r\n0\r\n\r\n"
EMPTY = b"HTTP/1.1 204 No Content\r\n\r\n"
LAST = OK + b"Connection: close\r\nContent-Length: 1\r\n\r\nx"
OLD = b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx"


def answer_of(data: bytes) -> bytes:
    """Without what follows an answer."""
    return data.removesuffix(b"more")


@pytest.mark.parametrize(
    ("data", "answer"),
    [
        (SIZED, Answer(200, b"[1]", is_json=True, keep=True)),
        (CHUNKED, Answer(200, b"[1,2]", is_json=False, keep=True)),
        (EMPTY, Answer(204, b"", is_json=False, keep=True)),
        (LAST, Answer(200, b"x", is_json=False, keep=False)),
        (OLD, Answer(200, b"x", is_json=False, keep=False)),
        (SIZED + b"more", Answer(200, b"[1]", is_json=True, keep=False)),
    ],
    ids=["sized", "chunked", "empty", "last", "old", "too much"],
)
def test_an_answer_is_whole_or_comes_byte_by_byte(data: bytes, answer: Answer) -> None:
    assert AnswerReader().feed(data) == answer
    reader = AnswerReader()
    found = [reader.feed(data[count : count + 1]) for count in range(len(answer_of(data)))]
    assert found[:-1] == [None] * (len(found) - 1)
    assert found[-1] is not None
    assert (found[-1].status, found[-1].body) == (answer.status, answer.body)


def test_an_answer_without_a_length_ends_with_its_connection() -> None:
    reader = AnswerReader()
    assert reader.feed(OK + b"\r\nab") is None
    assert reader.feed(b"c") is None
    assert reader.end() == Answer(200, b"abc", is_json=False, keep=False)


@pytest.mark.parametrize("cut", [SIZED[:-1], CHUNKED[:-2], OK], ids=["sized", "chunked", "head"])
def test_an_answer_that_is_cut_is_none(cut: bytes) -> None:
    reader = AnswerReader()
    assert reader.feed(cut) is None
    assert reader.end() is None


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"x" * (HEAD_BYTES_MAX + 1),
        OK + b"Content-Length: -1\r\n\r\n",
        OK + b"Content-Length: %d\r\n\r\n" % (ANSWER_BYTES_MAX + 1),
        OK + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n" + b"1" * 5000,
    ],
    ids=["no HTTP", "no status", "endless", "negative", "huge", "no chunk", "endless chunk"],
)
def test_what_is_no_answer_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        AnswerReader().feed(data)
