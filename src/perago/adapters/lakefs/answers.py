"""lakeFS's own JSON as values of the ports; what it lacks or spells otherwise raises.

Asks nobody.
"""

import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from perago.domain.logical_execution import BranchName, CommitId, CommitRecord, RepositoryId
from perago.ports.lakefs import Change, ChangeKind, ChangePage, RepositoryFacts, RepositoryPage
from perago.ports.objects import DEFAULT_CONTENT_TYPE, ObjectEntry, ObjectPage


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


def object_page(body: bytes) -> ObjectPage:
    """Read one page of a listing."""
    results, more = _page(body)
    return ObjectPage(tuple(object_entry(stats) for stats in results), more=more)


def change_page(body: bytes) -> ChangePage:
    """Read one page of differences."""
    results, more = _page(body)
    return ChangePage(tuple(_change(difference) for difference in results), more=more)


def commit_page(body: bytes) -> tuple[list[CommitRecord], bool]:
    """Read one page of commits, and whether more follow."""
    results, more = _page(body)
    return [_commit(commit) for commit in results], more


def commit_record(body: bytes) -> CommitRecord:
    """Read one commit."""
    return _commit(json.loads(body))


def ref_page(body: bytes) -> tuple[list[tuple[str, str]], bool]:
    """Read one page of branches or tags with their commits, and whether more follow."""
    results, more = _page(body)
    return [(ref["id"], ref["commit_id"]) for ref in results], more


def repository_facts(body: bytes) -> RepositoryFacts:
    """Read one repository."""
    found = json.loads(body)
    return RepositoryFacts(
        repository=RepositoryId(found["id"]),
        default_branch=BranchName(found["default_branch"]),
        storage_namespace=found["storage_namespace"],
        read_only=bool(found.get("read_only")),
    )


def repository_page(body: bytes) -> RepositoryPage:
    """Read one page of repositories."""
    results, more = _page(body)
    return RepositoryPage(tuple(RepositoryId(each["id"]) for each in results), more=more)


def _page(body: bytes) -> tuple[list[dict[str, Any]], bool]:
    page = json.loads(body)
    return page["results"], page["pagination"]["has_more"]


def _commit(commit: Mapping[str, Any]) -> CommitRecord:
    return CommitRecord(
        commit=CommitId(commit["id"]),
        parents=tuple(CommitId(parent) for parent in commit["parents"]),
        metadata=MappingProxyType(dict(commit.get("metadata") or {})),
        message=commit["message"],
        metarange=commit["meta_range_id"],
        created_at=commit["creation_date"],
    )


def _change(difference: Mapping[str, Any]) -> Change:
    kind = ChangeKind(difference["type"])
    right = difference.get("right")
    # Of a removed object the server sends the left side under the same name.
    if right is None or kind is ChangeKind.REMOVED:
        return Change(difference["path"], kind)
    sides = {"path": difference["path"], "size_bytes": difference["size_bytes"], **right}
    return Change(difference["path"], kind, object_entry(sides))
