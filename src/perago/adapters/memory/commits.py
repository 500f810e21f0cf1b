"""Commits of the in-memory lakeFS, as one worker reaches them.

Knows the port and the operations; decides nothing.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import final

from perago.adapters.memory.committing import commit_branch
from perago.adapters.memory.lakefs import MemoryLakeFS
from perago.adapters.memory.object_tree import diff
from perago.adapters.memory.repository_state import RepositoryState
from perago.adapters.memory.worker_handle import WorkerHandle
from perago.domain.logical_execution import (
    BranchName,
    CommitId,
    CommitRecord,
    FirstParentWalk,
    RepositoryId,
)
from perago.ports.lakefs import Change, ChangePage, CommitRequest, Commits


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
        self, repository: RepositoryId, start: str, stop_at: CommitId, *, commits_max: int
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
    state: RepositoryState, start: str, stop_at: CommitId, commits_max: int
) -> FirstParentWalk:
    whole = state.graph.find_whole(stop_at)  # the server compares it, and looks nothing up
    goal = state.commit_of(stop_at).id if whole is None else whole.id
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
