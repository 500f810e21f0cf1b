"""Commits, the walk down first parents, and differences between trees.

Spells out every option. Must not know policies, nor what a walk is good for.
"""

import json
from typing import final

from perago.adapters.lakefs.answers import change_page, commit_page, commit_record
from perago.adapters.lakefs.client import ApiRequest, LakeFSClient, at_branch, at_ref
from perago.adapters.lakefs.errors import Operation
from perago.domain.logical_execution import (
    BranchName,
    CommitId,
    CommitRecord,
    FirstParentWalk,
    RepositoryId,
)
from perago.ports.errors import BranchMissingError
from perago.ports.lakefs import ChangePage, CommitRequest, Commits

PAGE_COMMITS_MAX = 1000


@final
class LakeFSCommits(Commits):
    """Commits of one lakeFS installation; a walk reads `walk_page` commits a request."""

    def __init__(self, client: LakeFSClient, *, walk_page: int = PAGE_COMMITS_MAX) -> None:
        self._client = client
        self._walk_page = walk_page

    async def read(self, repository: RepositoryId, ref: str) -> CommitRecord:
        return await self._client.ask(
            Operation("read commit", f"{repository}/{ref}"),
            ApiRequest("GET", ("repositories", repository, "commits", ref)),
            commit_record,
        )

    async def first_parents(
        self, repository: RepositoryId, start: str, stop_at: CommitId, *, commits_max: int
    ) -> FirstParentWalk:
        operation = Operation("walk first parents", f"{repository}/{start} down to {stop_at}")
        query = {"first_parent": "true", "stop_at": stop_at}
        records: list[CommitRecord] = []
        while True:
            query["amount"] = str(min(self._walk_page, commits_max - len(records)))
            request = ApiRequest("GET", at_ref(repository, start, "commits"), query)
            page, more = await self._client.ask(operation, request, commit_page)
            records.extend(page)
            if records[-1].commit == stop_at:
                return FirstParentWalk(tuple(records), reached=True)
            if not more or not page:
                return FirstParentWalk(tuple(records), reached=False)
            if len(records) >= commits_max:
                return FirstParentWalk(tuple(records), reached=False, truncated=True)
            # From the last commit, not from the branch: that may point elsewhere by now, and the
            # server would walk down the pages already read once more.
            start = query["after"] = records[-1].commit

    async def commit(self, request: CommitRequest) -> CommitId:
        what = f"{request.repository}/{request.branch}"
        metarange = request.source_metarange
        return await self._client.ask(
            Operation("commit on", what, writes=True, missing=BranchMissingError),
            ApiRequest(
                "POST",
                at_branch(request.repository, request.branch, "commits"),
                {} if metarange is None else {"source_metarange": metarange},
                {
                    "message": request.message,
                    "metadata": dict(request.metadata),
                    "allow_empty": request.allow_empty,
                    "force": False,
                },
            ),
            lambda body: CommitId(json.loads(body)["id"]),
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
        query = {
            # Two dots: the trees as they are. The default asks what a merge would bring.
            "type": "two_dot",
            "include_right_stats": "true",
            "prefix": prefix,
            "after": after,
            "amount": str(amount),
        }
        return await self._client.ask(
            Operation("compare", f"{repository}/{left} with {right}"),
            ApiRequest("GET", at_ref(repository, left, "diff", right), query),
            change_page,
        )

    async def uncommitted_page(
        self,
        repository: RepositoryId,
        branch: BranchName,
        *,
        prefix: str = "",
        after: str = "",
        amount: int = 1000,
    ) -> ChangePage:
        what = f"{repository}/{branch}"
        query = {"prefix": prefix, "after": after, "amount": str(amount)}
        return await self._client.ask(
            Operation("list uncommitted objects of", what, missing=BranchMissingError),
            ApiRequest("GET", at_branch(repository, branch, "diff"), query),
            change_page,
        )
