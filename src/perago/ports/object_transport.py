"""Moving the bytes of many objects at once, by whatever route the server offers."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from perago.domain.references import BranchName, RepositoryId
from perago.ports.objects import ObjectEntry, ObjectUpload


class FetchOrder(NamedTuple):
    """One object to bring to a local path that does not exist yet; a tuple as its entry is."""

    entry: ObjectEntry
    where: str | Path  # text where there are many: a Path costs as much as writing a small file

    @property
    def target(self) -> Path:
        """The path."""
        return Path(self.where)


FileStamp = tuple[int, int, int, int]
"""Size, mtime_ns, ctime_ns and inode: the facts that change when somebody touches a file."""


def stamp_of(status: os.stat_result) -> FileStamp:
    """The stamp in what the disk says of a file."""
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino


class Fetched(NamedTuple):
    """One object that arrived, with the MD5 of the bytes that were written.

    `stamp` is that of the file when all was written, where the writer has asked for it.
    """

    order: FetchOrder
    md5: str
    stamp: FileStamp | None = None


Moved = Callable[[int, int], None]
"""Told how many bytes moved and how many objects ended with them; from any thread; never raises."""


def nobody_counts(_size: int, _objects: int) -> None:
    """Count nothing."""


class ObjectTransport(Protocol):
    """Bulk transfer; how many objects move side by side is the adapter's.

    Laws (tests/contract/test_object_transport.py has one test for each, by name):

    M1 fetch_writes_the_exact_bytes: every order's target has its object's bytes, empty ones
       included, and the answer their MD5, in the order of the orders.
    M2 fetch_of_a_missing_object: raises ObjectMissingError, and no target is half-written.
    M3 fetch_of_other_bytes_is_damage: bytes that are not the entry's size and checksum raise
       DamagedObjectError, and the target does not exist.
    M4 store_writes_the_exact_bytes: every upload reads back with its content type and metadata,
       and the answer is what the server says of it, in the order of the uploads. Its checksum
       is the MD5 of the bytes that were sent, also where the store calls them something else.
    M5 store_on_a_missing_branch: raises BranchMissingError.
    M6 odd_names_move: spaces, unicode, `+`, `%`, `?`, `#` and `&` round-trip.
    M7 large_objects_move: several megabytes round-trip, both ways.
    M8 unreadable_source: a missing local file raises LocalDiskError and writes no object.
    M9 every_byte_is_counted: `moved` hears of as many bytes and objects as moved, both ways, and
       of an object that came in parts once.
    """

    @property
    def route(self) -> str:
        """The name of the route in force, for people."""
        ...

    async def fetch(
        self,
        repository: RepositoryId,
        ref: str,
        orders: Sequence[FetchOrder],
        moved: Moved = nobody_counts,
    ) -> Sequence[Fetched]:
        """Bring objects to local files; the directories exist."""
        ...

    async def store(
        self,
        repository: RepositoryId,
        branch: BranchName,
        uploads: Sequence[ObjectUpload],
        moved: Moved = nobody_counts,
    ) -> Sequence[ObjectEntry]:
        """Write local files as uncommitted objects."""
        ...
