"""lakeFS's own JSON as values of the ports."""

import json

from perago.adapters.lakefs.answers import change, object_entry, page_of
from perago.ports.lakefs import Change, ChangeKind
from perago.ports.objects import DEFAULT_CONTENT_TYPE, ObjectEntry

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

    assert page_of(object_entry)(page(STATS, more=True)) == ((entry,), True)


def test_an_object_without_type_and_metadata_has_the_usual_ones() -> None:
    bare = {key: STATS[key] for key in ("path", "checksum", "size_bytes", "mtime")}

    (entry,), _ = page_of(object_entry)(page(bare))

    assert (entry.content_type, entry.metadata) == (DEFAULT_CONTENT_TYPE, {})


def test_a_difference_carries_the_right_side_only() -> None:
    right = {"checksum": "c4ca", "mtime": 7, "content_type": "text/x", "metadata": {"k": "v"}}
    sides = {"path": "a", "path_type": "object", "size_bytes": 3, "right": right}

    found, more = page_of(change)(
        page(
            {**sides, "type": "added"},
            {**sides, "type": "changed"},
            {**sides, "type": "removed"},
            {"path": "a", "path_type": "object", "size_bytes": 3, "type": "added"},
        )
    )

    entry = ObjectEntry("a", "c4ca", 3, 7, "text/x", {"k": "v"})
    assert not more
    assert found == (
        Change("a", ChangeKind.ADDED, entry),
        Change("a", ChangeKind.CHANGED, entry),
        Change("a", ChangeKind.REMOVED),
        Change("a", ChangeKind.ADDED),
    )
