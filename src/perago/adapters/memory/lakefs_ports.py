"""The ports of lakeFS on the server in memory, as one worker reaches them.

Each call goes through the worker's handle.
"""

import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import final

from perago.adapters.memory.lakefs import (
    MemoryLakeFS,
    create_branch,
    create_tag,
    delete_branch,
    delete_tag,
    relocate_branch,
)
from perago.adapters.memory.merging import (
    commit_branch,
    delete_objects,
    merge_into_branch,
    read_object,
    write_object,
)
from perago.adapters.memory.object_tree import StoredObject, diff
from perago.adapters.memory.repository_state import RepositoryState
from perago.adapters.memory.worker_handle import WorkerHandle
from perago.domain.logical_execution import (
    BranchName,
    CommitId,
    CommitRecord,
    FirstParentWalk,
    RepositoryId,
    TagName,
)
from perago.domain.outcome import MergeAnswer, RelocationAnswer
from perago.ports.installations import Server, ServerFacts
from perago.ports.lakefs import (
    Branches,
    BranchPage,
    Change,
    ChangePage,
    CommitRequest,
    Commits,
    MergeRequest,
    Repositories,
    RepositoryFacts,
    RepositoryPage,
    TagPage,
    TagRecord,
    Tags,
)
from perago.ports.objects import LIST_AMOUNT_MAX, ObjectEntry, ObjectPage, Objects, ObjectUpload


@final
class MemoryBranches(Branches):
    """Branches in memory."""

    def __init__(self, lakefs: MemoryLakeFS, handle: WorkerHandle) -> None:
        self._lakefs = lakefs
        self._handle = handle

    async def head(self, repository: RepositoryId, branch: BranchName) -> CommitRecord:
        return await self._handle.ask(
            "branches.head", lambda: self._lakefs.repository(repository).branch(branch).head.record
        )

    async def create(
        self,
        repository: RepositoryId,
        branch: BranchName,
        source: CommitId,
        *,
        hidden: bool = False,
    ) -> None:
        await self._handle.perform(
            "branches.create",
            lambda: create_branch(self._lakefs, repository, branch, source, hidden=hidden),
        )

    async def delete(self, repository: RepositoryId, branch: BranchName) -> None:
        await self._handle.perform(
            "branches.delete", lambda: delete_branch(self._lakefs, repository, branch)
        )

    async def list_page(
        self,
        repository: RepositoryId,
        prefix: str,
        after: str = "",
        amount: int = 1000,
        *,
        show_hidden: bool = False,
    ) -> BranchPage:
        def page() -> BranchPage:
            branches = self._lakefs.repository(repository).branches
            follow = (
                name
                for name in sorted(branches)
                if name.startswith(prefix)
                and name > after
                and (show_hidden or not branches[name].hidden)
            )
            names = tuple(islice(follow, amount))
            heads = tuple(branches[name].head.id for name in names)
            return BranchPage(names, heads, more=next(follow, None) is not None)

        return await self._handle.ask("branches.list_page", page)

    async def merge(self, request: MergeRequest) -> MergeAnswer:
        return await self._handle.perform(
            "branches.merge", lambda: merge_into_branch(self._lakefs, request)
        )

    async def relocate(
        self,
        repository: RepositoryId,
        branch: BranchName,
        to: CommitId,
        *,
        timeout_seconds: float = 60.0,  # noqa: ARG002  nothing takes time in memory
    ) -> RelocationAnswer:
        return await self._handle.perform(
            "branches.relocate", lambda: relocate_branch(self._lakefs, repository, branch, to)
        )

    async def is_protected(self, repository: RepositoryId, branch: BranchName) -> bool:
        return await self._handle.ask(
            "branches.is_protected",
            lambda: self._lakefs.repository(repository).is_protected(branch),
        )

    async def protect(
        self,
        repository: RepositoryId,
        pattern: str,
        *,
        like: BranchName | None = None,  # noqa: ARG002  all rules are of one manner
    ) -> None:
        await self._handle.perform(
            "branches.protect",
            lambda: self._lakefs.repository(repository).protected_patterns.add(pattern),
        )

    async def unprotect(self, repository: RepositoryId, pattern: str) -> None:
        await self._handle.perform(
            "branches.unprotect",
            lambda: self._lakefs.repository(repository).protected_patterns.discard(pattern),
        )


@final
class MemoryCommits(Commits):
    """Commits in memory."""

    def __init__(self, lakefs: MemoryLakeFS, handle: WorkerHandle) -> None:
        self._lakefs = lakefs
        self._handle = handle

    async def read(self, repository: RepositoryId, ref: str) -> CommitRecord:
        return await self._handle.ask(
            "commits.read", lambda: self._lakefs.repository(repository).commit_of(ref).record
        )

    async def first_parents(
        self, repository: RepositoryId, start: str, stop_at: CommitId | None, *, commits_max: int
    ) -> FirstParentWalk:
        return await self._handle.ask(
            "commits.first_parents",
            lambda: _walk(self._lakefs.repository(repository), start, stop_at, commits_max),
        )

    async def commit(self, request: CommitRequest) -> CommitId:
        return await self._handle.perform(
            "commits.commit", lambda: commit_branch(self._lakefs, request)
        )

    async def diff_page(
        self,
        repository: RepositoryId,
        left: CommitId,
        right: CommitId,
        *,
        prefix: str,
        after: str = "",
        amount: int = 1000,
    ) -> ChangePage:
        def page() -> ChangePage:
            state = self._lakefs.repository(repository)
            trees = state.commit_of(left).tree, state.commit_of(right).tree
            return _page(diff(*trees, prefix, after), amount)

        return await self._handle.ask("commits.diff_page", page)

    async def uncommitted_page(
        self,
        repository: RepositoryId,
        branch: BranchName,
        *,
        prefix: str = "",
        after: str = "",
        amount: int = 1000,
    ) -> ChangePage:
        def page() -> ChangePage:
            changes = self._lakefs.repository(repository).branch(branch).uncommitted()
            return _page(
                (
                    # The server names what is uncommitted, and does not show it.
                    replace(change, entry=None)
                    for change in changes
                    if change.path.startswith(prefix) and change.path > after
                ),
                amount,
            )

        return await self._handle.ask("commits.uncommitted_page", page)


def _walk(
    state: RepositoryState, start: str, stop_at: CommitId | None, commits_max: int
) -> FirstParentWalk:
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


def _page(changes: Iterable[Change], amount: int) -> ChangePage:
    follow: Iterator[Change] = iter(changes)
    return ChangePage(tuple(islice(follow, amount)), more=next(follow, None) is not None)


@final
class MemoryTags(Tags):
    """Tags in memory."""

    def __init__(self, lakefs: MemoryLakeFS, handle: WorkerHandle) -> None:
        self._lakefs = lakefs
        self._handle = handle

    async def create(self, repository: RepositoryId, tag: TagName, commit: CommitId) -> None:
        await self._handle.perform(
            "tags.create", lambda: create_tag(self._lakefs, repository, tag, commit)
        )

    async def read(self, repository: RepositoryId, tag: TagName) -> CommitId | None:
        return await self._handle.ask(
            "tags.read", lambda: self._lakefs.repository(repository).tags.get(tag)
        )

    async def list_page(
        self, repository: RepositoryId, prefix: str, after: str = "", amount: int = 1000
    ) -> TagPage:
        def page() -> TagPage:
            tags = self._lakefs.repository(repository).tags
            follow = (name for name in sorted(tags) if name.startswith(prefix) and name > after)
            records = tuple(TagRecord(name, tags[name]) for name in islice(follow, amount))
            return TagPage(records, more=next(follow, None) is not None)

        return await self._handle.ask("tags.list_page", page)

    async def delete(self, repository: RepositoryId, tag: TagName) -> None:
        await self._handle.perform("tags.delete", lambda: delete_tag(self._lakefs, repository, tag))


@final
class MemoryObjects(Objects):
    """Objects in memory."""

    def __init__(self, lakefs: MemoryLakeFS, handle: WorkerHandle) -> None:
        self._lakefs = lakefs
        self._handle = handle

    async def list_page(
        self,
        repository: RepositoryId,
        ref: str,
        *,
        prefix: str,
        after: str = "",
        amount: int = LIST_AMOUNT_MAX,
    ) -> ObjectPage:
        def page() -> ObjectPage:
            follow = self._lakefs.repository(repository).tree_of(ref).under(prefix, after)
            entries = tuple(stored.entry(path) for path, stored in islice(follow, amount))
            return ObjectPage(entries, more=next(follow, None) is not None)

        return await self._handle.ask("objects.list_page", page)

    async def read(self, repository: RepositoryId, ref: str, path: str) -> bytes:
        return await self._handle.ask(
            "objects.read", lambda: read_object(self._lakefs, repository, ref, path).content
        )

    async def download(self, repository: RepositoryId, ref: str, path: str, target: Path) -> None:
        held = await self._handle.ask(
            "objects.download", lambda: read_object(self._lakefs, repository, ref, path).held
        )
        _write_new_file(target, held)

    async def upload(
        self, repository: RepositoryId, branch: BranchName, upload: ObjectUpload
    ) -> ObjectEntry:
        content = self._lakefs.take(upload.source)

        def write() -> StoredObject:
            stored = self._lakefs.new_object(
                content, content_type=upload.content_type, metadata=upload.metadata
            )
            return write_object(self._lakefs, repository, branch, upload.path, stored)

        stored = await self._handle.perform("objects.upload", write)
        return stored.entry(upload.path)

    async def delete_many(
        self, repository: RepositoryId, branch: BranchName, paths: Sequence[str]
    ) -> None:
        await self._handle.perform(
            "objects.delete_many",
            lambda: delete_objects(self._lakefs, repository, branch, paths),
        )

    async def copy(
        self,
        repository: RepositoryId,
        branch: BranchName,
        *,
        source_ref: str,
        source_path: str,
        target_path: str,
    ) -> ObjectEntry:
        def duplicate() -> StoredObject:
            self._lakefs.repository(repository).branch(branch)
            source = read_object(self._lakefs, repository, source_ref, source_path)
            stored = self._lakefs.new_object(
                source.held, content_type=source.content_type, metadata=source.metadata
            )
            return write_object(self._lakefs, repository, branch, target_path, stored)

        stored = await self._handle.perform("objects.copy", duplicate)
        return stored.entry(target_path)


def _write_new_file(path: Path, held: bytes | Path) -> None:
    with path.open("xb") as file:
        if isinstance(held, Path):
            with held.open("rb") as source:
                shutil.copyfileobj(source, file)
        else:
            file.write(held)


@final
class MemoryRepositories(Repositories):
    """Repositories in memory."""

    def __init__(self, lakefs: MemoryLakeFS, handle: WorkerHandle) -> None:
        self._lakefs = lakefs
        self._handle = handle

    async def read(self, repository: RepositoryId) -> RepositoryFacts:
        def facts() -> RepositoryFacts:
            state = self._lakefs.repository(repository)
            return RepositoryFacts(
                repository=repository,
                default_branch=state.default_branch,
                storage_namespace=f"mem://{repository}",
                read_only=state.read_only,
            )

        return await self._handle.ask("repositories.read", facts)

    async def list_page(self, after: str = "", amount: int = 1000) -> RepositoryPage:
        def page() -> RepositoryPage:
            follow = (name for name in sorted(self._lakefs.repositories) if name > after)
            names = tuple(islice(follow, amount))
            return RepositoryPage(names, more=next(follow, None) is not None)

        return await self._handle.ask("repositories.list_page", page)


VERSION = "1.86.0"  # the one that this server does as


@final
class MemoryLakeFSServer(Server):
    """The server in memory itself."""

    def __init__(self, lakefs: MemoryLakeFS, handle: WorkerHandle) -> None:
        self._lakefs = lakefs
        self._handle = handle

    async def greet(self) -> datetime:
        now = self._lakefs.now
        return await self._handle.ask("server.greet", lambda: datetime.fromtimestamp(now(), UTC))

    async def facts(self) -> ServerFacts:
        return await self._handle.ask("server.facts", lambda: ServerFacts(VERSION, "memory"))
