"""Commits over lakefs-sdk.

Spells out every option. Must not know policies, nor what a walk is good for.
"""

from typing import final

from perago.adapters.lakefs.client import LakeFSClient
from perago.adapters.lakefs.commit_records import (
    PAGE_COMMITS_MAX,
    commit_record,
    walk_first_parents,
)
from perago.adapters.lakefs.error_mapping import Operation
from perago.adapters.lakefs.object_entries import change_page
from perago.domain.logical_execution import (
    BranchName,
    CommitId,
    CommitRecord,
    FirstParentWalk,
    RepositoryId,
)
from perago.ports.errors import BranchMissingError
from perago.ports.lakefs import ChangePage, CommitRequest, Commits


@final
class LakeFSCommits(Commits):
    """Commits of one lakeFS installation; a walk reads `walk_page` commits a request."""

    def __init__(self, client: LakeFSClient, *, walk_page: int = PAGE_COMMITS_MAX) -> None:
        self._client = client
        self._walk_page = walk_page

    async def read(self, repository: RepositoryId, ref: str) -> CommitRecord:
        commit = await self._client.ask(
            Operation("read commit", f"{repository}/{ref}"),
            lambda sdk: sdk.commits.get_commit(repository, ref),
        )
        return commit_record(commit)

    async def first_parents(
        self, repository: RepositoryId, start: str, stop_at: CommitId, *, commits_max: int
    ) -> FirstParentWalk:
        operation = Operation("walk first parents", f"{repository}/{start} down to {stop_at}")
        return await self._client.ask(
            operation,
            lambda sdk: walk_first_parents(
                sdk,
                repository,
                start,
                stop_at,
                commits_max=commits_max,
                page_commits=self._walk_page,
            ),
        )

    async def commit(self, request: CommitRequest) -> CommitId:
        operation = Operation(
            "commit on",
            f"{request.repository}/{request.branch}",
            writes=True,
            missing=BranchMissingError,
        )
        commit = await self._client.ask(
            operation,
            lambda sdk: sdk.commits.commit(
                request.repository,
                request.branch,
                sdk.new_commit(
                    message=request.message,
                    metadata=dict(request.metadata),
                    date=None,
                    allow_empty=request.allow_empty,
                    force=False,
                ),
                source_metarange=request.source_metarange,
            ),
        )
        return CommitId(commit.id)

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
        query = {
            # Two dots: the trees as they are. The default asks what a merge would bring.
            "type": "two_dot",
            "include_right_stats": "true",
            "prefix": prefix,
            "after": after,
            "amount": str(amount),
        }
        place = ("repositories", repository, "refs", left, "diff", right)
        body = await self._client.ask(
            Operation("compare", f"{repository}/{left} with {right}"),
            lambda sdk: sdk.raw.fetch(place, query),
        )
        return change_page(body)

    async def uncommitted_page(
        self,
        repository: RepositoryId,
        branch: BranchName,
        *,
        prefix: str = "",
        after: str = "",
        amount: int = 1000,
    ) -> ChangePage:
        operation = Operation(
            "list uncommitted objects of", f"{repository}/{branch}", missing=BranchMissingError
        )
        place = ("repositories", repository, "branches", branch, "diff")
        query = {"prefix": prefix, "after": after, "amount": str(amount)}
        body = await self._client.ask(operation, lambda sdk: sdk.raw.fetch(place, query))
        return change_page(body)
