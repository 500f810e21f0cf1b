"""The ports of lakeFS on the server in memory, as one worker reaches them, and bulk transfer.

`MemoryTransport` needs no more than an objects port: the kit moves the objects of a real lakeFS in
this way too, because it injects faults between the calls of a port.
"""

# mypy compares the verbs of the server with those of the port. pyright compares the `self` of the
# two as well, which differs.
# pyright: reportAssignmentType=false

import hashlib
import os
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TypeVar, final

from perago.adapters.memory.lakefs import MemoryLakeFS
from perago.adapters.memory.object_tree import StoredObject, diff
from perago.adapters.memory.repository_state import MAIN
from perago.adapters.memory.system import MemoryPort, asks, performed_by_server, performs
from perago.domain.lakefs import (
    BranchName,
    CommitId,
    CommitRecord,
    FirstParentWalk,
    RepositoryId,
    TagName,
)
from perago.domain.outcome import RelocationAnswer
from perago.domain.paths import md5_of_checksum
from perago.ports import lakefs
from perago.ports.errors import DamagedObjectError, LocalDiskError
from perago.ports.installations import Server, ServerFacts
from perago.ports.objects import (
    LIST_AMOUNT_MAX,
    Fetched,
    FetchOrder,
    Moved,
    ObjectEntry,
    Objects,
    ObjectTransport,
    ObjectUpload,
    Page,
    stamp_of,
    uncounted,
)
from perago.ports.system import Concurrency

Item = TypeVar("Item")


def _page(items: Iterable[tuple[str, Item]], amount: int) -> Page[Item]:
    """The next items; each is given with what they are in order of."""
    follow = iter(items)
    page = list(islice(follow, amount))
    more, last = next(follow, None) is not None, page[-1][0] if page else ""
    return Page(tuple(item for _, item in page), more, last)


@final
class MemoryBranches(MemoryPort[MemoryLakeFS], lakefs.Branches):
    """Branches in memory."""

    name = "branches"
    create = performed_by_server(MemoryLakeFS.create_branch, "create")
    delete = performed_by_server(MemoryLakeFS.delete_branch, "delete")
    merge = performed_by_server(MemoryLakeFS.merge)

    @asks
    def head(self, repository: RepositoryId, branch: BranchName) -> CommitRecord:
        return self.server.repository(repository).branch(branch).head.record

    @asks
    def list_page(
        self,
        repository: RepositoryId,
        prefix: str,
        after: str = "",
        amount: int = 1000,
        *,
        show_hidden: bool = False,
    ) -> Page[lakefs.BranchRecord]:
        branches = self.server.repository(repository).branches
        shown = (name for name in branches if show_hidden or not branches[name].hidden)
        names = _following(shown, prefix, after)
        heads = ((name, lakefs.BranchRecord(name, branches[name].head.id)) for name in names)
        return _page(heads, amount)

    @performs
    def relocate(
        self,
        repository: RepositoryId,
        branch: BranchName,
        to: CommitId,
        *,
        timeout_seconds: float = 60.0,  # noqa: ARG002  nothing takes time in memory
    ) -> RelocationAnswer:
        return self.server.relocate_branch(repository, branch, to)

    @asks
    def is_protected(self, repository: RepositoryId, branch: BranchName) -> bool:
        return self.server.repository(repository).is_protected(branch)

    @performs
    def protect(
        self,
        repository: RepositoryId,
        pattern: str,
        *,
        like: BranchName | None = None,  # noqa: ARG002  all rules are of one manner
    ) -> None:
        self.server.repository(repository).protected_patterns.add(pattern)

    @performs
    def unprotect(self, repository: RepositoryId, pattern: str) -> None:
        self.server.repository(repository).protected_patterns.discard(pattern)


Name = TypeVar("Name", bound=str)


def _following(names: Iterable[Name], prefix: str, after: str) -> Iterable[Name]:
    """The names with a prefix that come after one, in order."""
    return sorted(name for name in names if name.startswith(prefix) and name > after)


@final
class MemoryCommits(MemoryPort[MemoryLakeFS], lakefs.Commits):
    """Commits in memory."""

    name = "commits"
    commit = performed_by_server(MemoryLakeFS.commit)

    @asks
    def read(self, repository: RepositoryId, ref: str) -> CommitRecord:
        return self.server.repository(repository).commit_of(ref).record

    @asks
    def first_parents(
        self, repository: RepositoryId, start: str, stop_at: CommitId | None, *, commits_max: int
    ) -> FirstParentWalk:
        state = self.server.repository(repository)
        goal = None
        if stop_at is not None:
            # The server compares a whole id, and looks nothing up.
            goal = (state.graph.find_whole(stop_at) or state.commit_of(stop_at)).id
        records: list[CommitRecord] = []
        for commit in state.graph.first_parents(state.commit_of(start).id):
            if len(records) == commits_max:
                return FirstParentWalk(tuple(records), reached=False, truncated=True)
            records.append(commit.record)
            if commit.id == goal:
                return FirstParentWalk(tuple(records), reached=True)
        return FirstParentWalk(tuple(records), reached=False)

    @asks
    def diff_page(
        self,
        repository: RepositoryId,
        left: CommitId,
        right: CommitId,
        *,
        prefix: str,
        after: str = "",
        amount: int = 1000,
    ) -> Page[lakefs.Change]:
        state = self.server.repository(repository)
        trees = state.commit_of(left).tree, state.commit_of(right).tree
        return _page(((each.path, each) for each in diff(*trees, prefix, after)), amount)

    @asks
    def uncommitted_page(
        self,
        repository: RepositoryId,
        branch: BranchName,
        *,
        prefix: str = "",
        after: str = "",
        amount: int = 1000,
    ) -> Page[lakefs.Change]:
        return _page(
            (
                # The server names what is uncommitted, and does not show it.
                (change.path, replace(change, entry=None))
                for change in self.server.repository(repository).branch(branch).uncommitted()
                if change.path.startswith(prefix) and change.path > after
            ),
            amount,
        )


@final
class MemoryTags(MemoryPort[MemoryLakeFS], lakefs.Tags):
    """Tags in memory."""

    name = "tags"
    create = performed_by_server(MemoryLakeFS.create_tag, "create")
    delete = performed_by_server(MemoryLakeFS.delete_tag, "delete")

    @asks
    def read(self, repository: RepositoryId, tag: TagName) -> CommitId | None:
        return self.server.repository(repository).tags.get(tag)

    @asks
    def list_page(
        self, repository: RepositoryId, prefix: str, after: str = "", amount: int = 1000
    ) -> Page[lakefs.TagRecord]:
        tags = self.server.repository(repository).tags
        names = _following(tags, prefix, after)
        return _page(((name, lakefs.TagRecord(name, tags[name])) for name in names), amount)


@final
class MemoryObjects(MemoryPort[MemoryLakeFS], Objects):
    """Objects in memory."""

    name = "objects"
    delete_many = performed_by_server(MemoryLakeFS.delete_objects, "delete_many")

    @asks
    def list_page(
        self,
        repository: RepositoryId,
        ref: str,
        *,
        prefix: str,
        after: str = "",
        amount: int = LIST_AMOUNT_MAX,
    ) -> Page[ObjectEntry]:
        found = self.server.repository(repository).tree_of(ref).under(prefix, after)
        return _page(((path, stored.entry(path)) for path, stored in found), amount)

    @asks
    def read(self, repository: RepositoryId, ref: str, path: str) -> bytes:
        return self.server.read_object(repository, ref, path).content

    async def download(self, repository: RepositoryId, ref: str, path: str, target: Path) -> None:
        held = await self.handle.ask(
            "objects.download", lambda: self.server.read_object(repository, ref, path).held
        )
        with target.open("xb") as file:
            if isinstance(held, Path):
                with held.open("rb") as source:
                    shutil.copyfileobj(source, file)
            else:
                file.write(held)

    async def upload(
        self, repository: RepositoryId, branch: BranchName, upload: ObjectUpload
    ) -> ObjectEntry:
        content = self.server.take(upload.source)

        def write() -> StoredObject:
            stored = self.server.new_object(
                content, content_type=upload.content_type, metadata=upload.metadata
            )
            self.server.write_object(repository, branch, upload.path, stored)
            return stored

        stored = await self.handle.perform("objects.upload", write)
        return stored.entry(upload.path)

    @performs
    def copy(
        self,
        repository: RepositoryId,
        branch: BranchName,
        *,
        source_ref: str,
        source_path: str,
        target_path: str,
    ) -> ObjectEntry:
        self.server.repository(repository).branch(branch)
        source = self.server.read_object(repository, source_ref, source_path)
        stored = self.server.new_object(
            source.held, content_type=source.content_type, metadata=source.metadata
        )
        self.server.write_object(repository, branch, target_path, stored)
        return stored.entry(target_path)


@final
class MemoryRepositories(MemoryPort[MemoryLakeFS], lakefs.Repositories):
    """Repositories in memory."""

    name = "repositories"

    @asks
    def read(self, repository: RepositoryId) -> lakefs.RepositoryFacts:
        state = self.server.repository(repository)
        return lakefs.RepositoryFacts(
            repository=repository,
            default_branch=MAIN,
            storage_namespace=f"mem://{repository}",
            read_only=state.read_only,
        )

    @asks
    def list_page(self, after: str = "", amount: int = 1000) -> Page[RepositoryId]:
        names = _following(self.server.repositories, "", after)
        return _page(((name, name) for name in names), amount)


VERSION = "1.86.0"  # the one that this server does as


@final
class MemoryLakeFSServer(MemoryPort[MemoryLakeFS], Server):
    """The server in memory itself."""

    name = "server"

    @asks
    def greet(self) -> datetime:
        return datetime.fromtimestamp(self.server.now(), UTC)

    @asks
    def facts(self) -> ServerFacts:
        return ServerFacts(VERSION, "memory")


# Only a real lakeFS behind the port takes time, and one worker of it asks. One by one, the files of
# a test would each wait for a round trip.
AT_ONCE = 16


@final
class MemoryTransport(ObjectTransport):
    """Moves objects one by one, a few at a time."""

    def __init__(self, objects: Objects, concurrency: Concurrency) -> None:
        self._objects = objects
        self._concurrency = concurrency

    async def fetch(
        self,
        repository: RepositoryId,
        ref: str,
        orders: Sequence[FetchOrder],
        moved: Moved = uncounted,
    ) -> Sequence[Fetched]:
        async def fetch_one(order: FetchOrder) -> Fetched:
            try:
                await self._objects.download(repository, ref, order.entry.path, order.target)
                fetched = _checked(order)
            except OSError as error:
                raise LocalDiskError.of(order.where, error) from error
            moved(order.entry.size, 1)
            return fetched

        return await self._concurrency.each(orders, fetch_one, at_most=AT_ONCE)

    async def store(
        self,
        repository: RepositoryId,
        branch: BranchName,
        uploads: Sequence[ObjectUpload],
        moved: Moved = uncounted,
    ) -> Sequence[ObjectEntry]:
        async def store_one(upload: ObjectUpload) -> ObjectEntry:
            if not upload.source.is_file():
                raise LocalDiskError(f"{upload.source} cannot be read: no such file")
            entry = await self._objects.upload(repository, branch, upload)
            moved(entry.size, 1)
            return entry

        return await self._concurrency.each(uploads, store_one, at_most=AT_ONCE)


def _checked(order: FetchOrder) -> Fetched:
    with order.target.open("rb", buffering=0) as file:
        md5 = hashlib.file_digest(file, partial(hashlib.md5, usedforsecurity=False)).hexdigest()
        stamp = stamp_of(os.fstat(file.fileno()))
    expected = md5_of_checksum(order.entry.checksum) or md5
    if (stamp[0], md5) == (order.entry.size, expected):
        return Fetched(order, md5, stamp)
    order.target.unlink(missing_ok=True)
    raise DamagedObjectError(
        f"{order.entry.path} arrived damaged: expected {order.entry.size} bytes with MD5"
        f" {expected}, found {stamp[0]} bytes with MD5 {md5}; nothing was used"
    )
