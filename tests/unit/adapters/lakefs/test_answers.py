"""lakeFS's own JSON as values of the ports, and which of its refusals are worth another request."""

import json

import pytest

from perago.adapters.lakefs.answers import (
    Failure,
    Lost,
    NotSent,
    Refused,
    asked_for_seconds,
    is_worth_repeating,
    page_of_changes,
    page_of_objects,
)
from perago.ports.lakefs import Change, ChangeKind
from perago.ports.objects import DEFAULT_CONTENT_TYPE, ObjectEntry, Page

STATS = {
    "path": "a",
    "path_type": "object",
    "checksum": "c4ca",
    "size_bytes": 3,
    "mtime": 7,
    "content_type": "text/x",
    "metadata": {"k": "v"},
}


def page(*results: object, more: bool = False) -> bytes:
    return json.dumps({"pagination": {"has_more": more}, "results": results}).encode()


def test_an_object_is_taken_over_field_by_field() -> None:
    entry = ObjectEntry("a", "c4ca", 3, 7, "text/x", {"k": "v"})

    assert page_of_objects(page(STATS, more=True)) == Page((entry,), more=True, last="a")


def test_the_page_after_one_is_asked_for_after_its_last_entry() -> None:
    first, last = {**STATS, "path": "a"}, {**STATS, "path": "b"}

    found = page_of_objects(page(first, last, more=True))

    assert [entry.path for entry in found.items] == ["a", "b"]
    assert found.last == "b"


def test_an_object_without_type_and_metadata_has_the_usual_ones() -> None:
    bare = {key: STATS[key] for key in ("path", "checksum", "size_bytes", "mtime")}

    (entry,) = page_of_objects(page(bare)).items

    assert (entry.content_type, entry.metadata) == (DEFAULT_CONTENT_TYPE, {})


def test_a_difference_carries_the_right_side_only() -> None:
    right = {"checksum": "c4ca", "mtime": 7, "content_type": "text/x", "metadata": {"k": "v"}}
    sides = {"path": "a", "path_type": "object", "size_bytes": 3, "right": right}

    found = page_of_changes(
        page(
            {**sides, "type": "added"},
            {**sides, "type": "changed"},
            {**sides, "type": "removed"},
            {"path": "a", "path_type": "object", "size_bytes": 3, "type": "added"},
        )
    )

    entry = ObjectEntry("a", "c4ca", 3, 7, "text/x", {"k": "v"})
    assert not found.more
    assert found.items == (
        Change("a", ChangeKind.ADDED, entry),
        Change("a", ChangeKind.CHANGED, entry),
        Change("a", ChangeKind.REMOVED),
        Change("a", ChangeKind.ADDED),
    )


@pytest.mark.parametrize(
    ("failure", "repeated"),
    [
        (NotSent("refused"), True),
        (Lost("broken", broken=True), True),
        (Lost("a page of a balancer"), True),
        (Refused(307, ""), False),
        (Refused(400, "bad"), False),
        (Refused(403, "denied"), False),
        (Refused(404, "not found"), False),
        (Refused(408, ""), True),
        (Refused(412, "precondition"), False),
        (Refused(423, "locked"), True),
        (Refused(425, "too early"), True),
        (Refused(429, "slow down"), True),
        (Refused(499, ""), True),
        (Refused(500, "internal"), True),
        (Refused(500, "pre-commit hook aborted"), False),
        (Refused(502, "<html>"), True),
        (Refused(503, "slow down"), True),
        (Refused(504, "<html>"), True),
    ],
    ids=str,
)
def test_what_is_worth_repeating(failure: Failure, *, repeated: bool) -> None:
    assert is_worth_repeating(failure) == repeated


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": " 7 "}, 7.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "Thu, 19 Nov 2026 07:00:09 GMT"}, None),
        (
            {
                "date": "Thu, 19 Nov 2026 07:00:00 GMT",
                "retry-after": "Thu, 19 Nov 2026 07:00:09 GMT",
            },
            9.0,
        ),
        (
            {
                "date": "Thu, 19 Nov 2026 07:00:00 GMT",
                "retry-after": "Thu, 19 Nov 2026 06:00:00 GMT",
            },
            0.0,
        ),
    ],
    ids=["nothing", "seconds", "spaces", "a word", "less", "no clock", "a time", "a time past"],
)
def test_what_a_server_asks_for(headers: dict[str, str], expected: float | None) -> None:
    assert asked_for_seconds(headers) == expected
