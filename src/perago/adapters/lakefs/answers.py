"""lakeFS's own JSON as values of the ports; what it lacks or spells otherwise raises.

It sends no request.
"""

import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

from perago.domain.logical_execution import BranchName, CommitId, CommitRecord, RepositoryId
from perago.ports.installations import ServerFacts
from perago.ports.lakefs import Change, ChangeKind, RepositoryFacts
from perago.ports.objects import DEFAULT_CONTENT_TYPE, ObjectEntry

Value = TypeVar("Value")


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


def stored_object(body: bytes) -> ObjectEntry:
    """Read what is said of one object."""
    return object_entry(json.loads(body))


def text_of(name: str) -> Callable[[bytes], str]:
    """Read one field of an answer."""
    return lambda body: str(json.loads(body)[name])


def storage_terms(body: bytes) -> dict[str, object]:
    """Read what a server says of its block store."""
    return dict(json.loads(body).get("storage_config") or {})


def page_of(
    read: Callable[[Mapping[str, Any]], Value],
) -> Callable[[bytes], tuple[tuple[Value, ...], bool]]:
    """Read one page with this reader of its entries, and whether more follow."""

    def read_page(body: bytes) -> tuple[tuple[Value, ...], bool]:
        page = json.loads(body)
        return tuple(read(each) for each in page["results"]), page["pagination"]["has_more"]

    return read_page


def repository_facts(body: bytes) -> RepositoryFacts:
    """Read one repository."""
    found = json.loads(body)
    return RepositoryFacts(
        repository=RepositoryId(found["id"]),
        default_branch=BranchName(found["default_branch"]),
        storage_namespace=found["storage_namespace"],
        read_only=bool(found.get("read_only")),
    )


def server_facts(body: bytes, user: str) -> ServerFacts:
    """Read the configuration of the server."""
    found = json.loads(body)
    return ServerFacts(
        version=str(found["version_config"]["version"]),
        user=user,
        signs=bool(found["storage_config"].get("pre_sign_support")),
    )


def commit_record(commit: Mapping[str, Any]) -> CommitRecord:
    """Take one commit over."""
    return CommitRecord(
        commit=CommitId(commit["id"]),
        parents=tuple(CommitId(parent) for parent in commit["parents"]),
        metadata=MappingProxyType(dict(commit.get("metadata") or {})),
        message=commit["message"],
        metarange=commit["meta_range_id"],
        created_at=commit["creation_date"],
    )


def change(difference: Mapping[str, Any]) -> Change:
    """Take one difference over; it carries the right side."""
    kind = ChangeKind(difference["type"])
    right = difference.get("right")
    # Of a removed object the server sends the left side under the same name.
    if right is None or kind is ChangeKind.REMOVED:
        return Change(difference["path"], kind)
    sides = {"path": difference["path"], "size_bytes": difference["size_bytes"], **right}
    return Change(difference["path"], kind, object_entry(sides))
