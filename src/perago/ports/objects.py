"""Objects of a repository, and the transport that moves many of them between lakeFS and the disk.

`Objects` lists, reads, writes on a branch and deletes in bulk, one request at a time.
`ObjectTransport` fetches and sends whole lists and chooses the route of the bytes.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, NamedTuple, Protocol, TypeVar

from perago.domain.lakefs import NO_METADATA, BranchName, RepositoryId

Item = TypeVar("Item")

DEFAULT_CONTENT_TYPE = "application/octet-stream"
# lakeFS's own limits of one request. Fewer are more requests: 1,500 deletions took 0.3 s in bulk
# and 13 s one by one (lakeFS 1.86).
LIST_AMOUNT_MAX = 1000
DELETE_PATHS_MAX = 1000


class ObjectEntry(NamedTuple):
    """One object as a listing shows it; a tuple, for there are hundreds of thousands."""

    path: str
    checksum: str
    size: int
    modified_at: int = 0
    content_type: str = DEFAULT_CONTENT_TYPE
    metadata: Mapping[str, str] = NO_METADATA


@dataclass(frozen=True, slots=True)
class Page(Generic[Item]):
    """One page of a listing in order of name or path; `more` says that some follow `last`."""

    items: tuple[Item, ...]
    more: bool
    last: str
    """The name or path of the last one; empty where there is none."""


@dataclass(frozen=True, slots=True)
class ObjectUpload:
    """One file to write: where from, where to, and what it says of itself."""

    path: str
    source: Path
    content_type: str = DEFAULT_CONTENT_TYPE
    metadata: Mapping[str, str] = field(default_factory=lambda: NO_METADATA)


class Objects(Protocol):
    """Objects of one lakeFS installation.

    Laws (tests/contract/test_object*.py have one test for each, by name):

    O1 upload_then_read: bytes written on a branch read back from that branch.
    O2 upload_is_isolated: another branch and the branch's head commit do not see them.
    O3 checksum_is_md5: a small object's checksum is the MD5 of its bytes, its size their count.
    O4 list_is_paged_in_order: every object under the prefix once, in order of path, over pages.
    O5 list_prefix_is_a_string: the prefix is a string prefix; a trailing slash keeps siblings
       out.
    O6 listing_carries_content_type_and_metadata: as written.
    O7 read_missing: reading an absent object, or one of an unknown reference, raises
       ObjectMissingError: the server does not tell them apart.
    O8 list_unknown_ref: listing an unknown reference raises ReferenceMissingError.
    O9 bulk_delete: up to a thousand paths at once; absent ones are no error.
    O10 write_to_missing_branch: raises BranchMissingError, a copy of nothing as well.
    O11 copy_keeps_bytes_and_type: a server-side copy has the source's bytes and content type.
    O12 write_to_protected_branch: raises ProtectedBranchError; where no branch has the protected
        name, BranchMissingError.
    O13 empty_object: zero bytes round-trip.
    O14 odd_names: spaces, unicode, `+`, `%`, `?`, `#` and `&` in a path round-trip.
    O15 download_writes_the_exact_bytes: a download to a local path has the object's bytes.
    O16 long_paths: a path of 1,024 bytes of UTF-8 round-trips, a longer one raises
        RequestRefusedError and is not there.
    O17 lost_answer_is_unknown: law L0. An upload, a copy or a deletion whose answer is lost raises
        OutcomeUnknownError, after as many tries as the adapter makes.
    """

    async def list_page(
        self,
        repository: RepositoryId,
        ref: str,
        *,
        prefix: str,
        after: str = "",
        amount: int = LIST_AMOUNT_MAX,
    ) -> Page[ObjectEntry]:
        """List objects whose path starts with `prefix`, after a path."""
        ...

    async def read(self, repository: RepositoryId, ref: str, path: str) -> bytes:
        """Read one small object whole."""
        ...

    async def download(self, repository: RepositoryId, ref: str, path: str, target: Path) -> None:
        """Stream one object into a local file that does not exist yet."""
        ...

    async def upload(
        self, repository: RepositoryId, branch: BranchName, upload: ObjectUpload
    ) -> ObjectEntry:
        """Stream one local file into an uncommitted object."""
        ...

    async def delete_many(
        self, repository: RepositoryId, branch: BranchName, paths: Sequence[str]
    ) -> None:
        """Delete up to a thousand objects; raises when any of them was refused."""
        ...

    async def copy(
        self,
        repository: RepositoryId,
        branch: BranchName,
        *,
        source_ref: str,
        source_path: str,
        target_path: str,
    ) -> ObjectEntry:
        """Copy one object on the server."""
        ...


class FetchOrder(NamedTuple):
    """One object to bring to a local path that does not exist yet; a tuple as its entry is."""

    entry: ObjectEntry
    where: str | Path  # text where there are many: a Path costs as much as writing a small file

    @property
    def target(self) -> Path:
        """The path."""
        return Path(self.where)


FileStamp = tuple[int, int, int, int]
"""Size, mtime_ns, ctime_ns and inode: the facts that change when a file is written or replaced."""


def stamp_of(status: os.stat_result) -> FileStamp:
    """The stamp in what the disk says of a file."""
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino


class Fetched(NamedTuple):
    """One object that arrived, with the MD5 of its bytes and the stamp of the finished file."""

    order: FetchOrder
    md5: str
    stamp: FileStamp


Moved = Callable[[int, int], None]
"""Told how many bytes moved and how many objects ended with them; from any thread; never raises."""


def uncounted(_size: int, _objects: int) -> None:
    """The default of `moved`: progress is not shown."""


class ObjectTransport(Protocol):
    """Bulk transfer; how many objects move side by side is the adapter's.

    Laws (tests/contract/test_object*.py have one test for each, by name):

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
    M9 every_byte_is_counted: `moved` gets as many bytes and objects as moved, both ways, and
       of an object that came in parts once.
    M10 lost_answer_is_unknown: law L0. A store whose answer is lost raises OutcomeUnknownError.
    """

    async def fetch(
        self,
        repository: RepositoryId,
        ref: str,
        orders: Sequence[FetchOrder],
        moved: Moved = uncounted,
    ) -> Sequence[Fetched]:
        """Bring objects to local files; the directories exist."""
        ...

    async def store(
        self,
        repository: RepositoryId,
        branch: BranchName,
        uploads: Sequence[ObjectUpload],
        moved: Moved = uncounted,
    ) -> Sequence[ObjectEntry]:
        """Write local files as uncommitted objects."""
        ...
