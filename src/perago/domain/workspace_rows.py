"""What parts of a large workspace say of themselves: rows that travel between processes.

Plain values only, so that any engine can keep, join and count them. A row with a `problem` ends
the step it came from; what the text holds is said where errors are packed.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple


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


class ReadFile(NamedTuple):
    """One suspect that was read, beside what it was when it was materialised."""

    path: str
    md5: str = ""
    size: int = 0
    base_md5: str | None = None
    base_size: int | None = None
    content_type: str | None = None
    metadata: Mapping[str, str] | None = None


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


class WrittenBatch(NamedTuple):
    """What one batch of a plan wrote."""

    objects: int = 0
    bytes: int = 0
    reused: int = 0
    requests: int = 0
    problem: str | None = None


class SeenChange(NamedTuple):
    """One uncommitted path of a staging branch, by its object path."""

    path: str
    kind: str = ""
    problem: str | None = None


class Folder(NamedTuple):
    """A folder of a workspace that one part looks through, with what is below it or without."""

    path: str
    is_deep: bool
