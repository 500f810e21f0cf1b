"""What has to move so that a staging branch equals a directory, and the rows of large plans.

`plan_sync` compares what was materialised with what is there now. The named tuples are rows of
tables that do not fit into memory; steps read and write them page by page. Knows paths, sizes and
checksums; who listed them is not known here.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import NamedTuple, TypeVar


@dataclass(frozen=True, slots=True)
class FileFacts:
    """One file or object by its relative path."""

    path: str
    checksum: str
    size: int


@dataclass(frozen=True, slots=True)
class SyncPlan:
    """Relative paths to write, to copy on the server (target -> source), and to delete.

    Each is counted and gone through in order of path, nothing else: a large plan is read from
    where it is kept, page by page.
    """

    upload: Collection[FileFacts] = ()
    copy: Collection[tuple[FileFacts, str]] = ()
    delete: Collection[str] = ()

    @property
    def is_empty(self) -> bool:
        """Whether nothing changed: the writable no-op."""
        return not (self.upload or self.copy or self.delete)


def plan_sync(base: Mapping[str, FileFacts], local: Mapping[str, FileFacts]) -> SyncPlan:
    """Compare what was materialised with what is there now.

    A new path whose bytes stand in the base is copied on the server instead of uploaded, and takes
    their content type and metadata along. A changed path keeps its own, so it is uploaded. So is an
    empty file, because that costs the same and a copy would bring those of any other empty file.
    """
    changed = [facts for path, facts in sorted(local.items()) if _differs(base.get(path), facts)]
    added = {(facts.checksum, facts.size) for facts in changed if facts.path not in base}
    sources = _sources(base, added)
    upload: list[FileFacts] = []
    copy: list[tuple[FileFacts, str]] = []
    for facts in changed:
        source = sources.get((facts.checksum, facts.size))
        if source is None or facts.path in base or facts.size == 0:
            upload.append(facts)
        else:
            copy.append((facts, source))
    return SyncPlan(tuple(upload), tuple(copy), tuple(sorted(set(base) - set(local))))


def _differs(before: FileFacts | None, now: FileFacts) -> bool:
    return before is None or (before.checksum, before.size) != (now.checksum, now.size)


def _sources(
    base: Mapping[str, FileFacts], wanted: set[tuple[str, int]]
) -> dict[tuple[str, int], str]:
    """The first path of the base, in order, that holds each wanted content."""
    found: dict[tuple[str, int], str] = {}
    if wanted:
        for path in sorted(base):
            content = base[path].checksum, base[path].size
            if content in wanted:
                found.setdefault(content, path)
    return found


Item = TypeVar("Item")


def batched(items: Iterable[Item], amount: int) -> Iterator[list[Item]]:
    """The items in lists of so many; the last one may be shorter."""
    left = iter(items)
    while batch := list(islice(left, amount)):
        yield batch


class ListedObject(NamedTuple):
    """One object of a commit by its relative path.

    Where the disk takes different names for one, `folded` is what it takes this one for, and
    `folders` are those that no row before it in its part named, with what they are taken for.
    """

    path: str
    checksum: str = ""
    size: int = 0
    content_type: str = ""
    metadata: Mapping[str, str] | None = None
    folded: str = ""
    folders: Mapping[str, str] | None = None


class PlacedFile(NamedTuple):
    """One object that was materialised; begins like the row of its file when it is found again."""

    path: str
    size: int = 0
    mtime_ns: int = 0
    ctime_ns: int = 0
    inode: int = 0
    md5: str = ""
    content_type: str = ""
    metadata: Mapping[str, str] | None = None


class FoundFile(NamedTuple):
    """One file of the directory as it is now."""

    path: str
    size: int = 0
    mtime_ns: int = 0
    ctime_ns: int = 0
    inode: int = 0
    problem: str | None = None


class PlanKind(StrEnum):
    """What becomes of a path."""

    UPLOAD = "upload"
    COPY = "copy"
    DELETE = "delete"


class PlannedChange(NamedTuple):
    """One row of a plan; `source` is copied from, `is_new` says that the input has no such path."""

    kind: str
    path: str
    md5: str | None = None
    size: int | None = None
    source: str | None = None
    content_type: str | None = None
    metadata: Mapping[str, str] | None = None
    is_new: bool = False


class Folder(NamedTuple):
    """A folder of a workspace that one part looks through, with what is below it or without."""

    path: str
    is_deep: bool
