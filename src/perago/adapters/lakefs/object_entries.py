"""Objects and differences in lakeFS's own JSON as values of the ports.

Read without the generated models, which take ten times as long as the request. Asks nobody.
"""

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from perago.ports.lakefs import Change, ChangeKind, ChangePage
from perago.ports.objects import DEFAULT_CONTENT_TYPE, ObjectEntry, ObjectPage

# What the server refuses to exceed, for every listing.
AMOUNT_MAX = 1000


def object_entry(stats: Mapping[str, Any]) -> ObjectEntry:
    """Take one object over, field by field."""
    return ObjectEntry(
        path=stats["path"],
        checksum=stats["checksum"],
        size=stats["size_bytes"],
        modified_at=stats["mtime"],
        content_type=stats.get("content_type") or DEFAULT_CONTENT_TYPE,
        metadata=MappingProxyType(dict(stats.get("metadata") or {})),
    )


def object_page(body: bytes) -> ObjectPage:
    """Read one page of a listing."""
    page = json.loads(body)
    entries = tuple(object_entry(stats) for stats in page["results"])
    return ObjectPage(entries, more=page["pagination"]["has_more"])


def change_page(body: bytes) -> ChangePage:
    """Read one page of differences."""
    page = json.loads(body)
    changes = tuple(_change(difference) for difference in page["results"])
    return ChangePage(changes, more=page["pagination"]["has_more"])


def _change(difference: Mapping[str, Any]) -> Change:
    kind = ChangeKind(difference["type"])
    right = difference.get("right")
    # Of a removed object the server sends the left side under the same name.
    if right is None or kind is ChangeKind.REMOVED:
        return Change(difference["path"], kind)
    sides = {"path": difference["path"], "size_bytes": difference["size_bytes"], **right}
    return Change(difference["path"], kind, object_entry(sides))
