"""Branches over lakefs-sdk.

Spells out every option of an effect. What an answer means is `error_mapping`'s.
"""

from typing import final

from perago.adapters.lakefs.branch_protection import covers
from perago.adapters.lakefs.client import LakeFSClient
from perago.adapters.lakefs.commit_records import commit_record
from perago.adapters.lakefs.error_mapping import (
    Operation,
    merge_answer,
    relocation_answer,
)
from perago.adapters.lakefs.exchange import Lost, NotSent, Refused
from perago.domain.logical_execution import BranchName, CommitId, CommitRecord, RepositoryId
from perago.domain.outcome import MergeAnswer, Merged, NoAnswer, Relocated, RelocationAnswer
from perago.ports.errors import BranchExistsError, BranchMissingError
from perago.ports.lakefs import Branches, BranchPage, MergeRequest


@final
class LakeFSBranches(Branches):
    """Branches of one lakeFS installation."""

    def __init__(self, client: LakeFSClient) -> None:
        self._client = client

    async def head(self, repository: RepositoryId, branch: BranchName) -> CommitRecord:
        operation = Operation(
            "read the head of", f"{repository}/{branch}", missing=BranchMissingError
        )
        # The log answers with parents and metadata, the branch itself only with an id. Without
        # the `@` a tag of this name would do, and so would a commit whose id begins like it.
        page = await self._client.ask(
            operation, lambda sdk: sdk.refs.log_commits(repository, f"{branch}@", amount=1)
        )
        return commit_record(page.results[0])

    async def create(self, repository: RepositoryId, branch: BranchName, source: CommitId) -> None:
        operation = Operation(
            "create branch", f"{repository}/{branch}", writes=True, taken=BranchExistsError
        )
        await self._client.ask(
            operation,
            lambda sdk: sdk.branches.create_branch(
                repository, sdk.new_branch(name=branch, source=source, force=False, hidden=None)
            ),
        )

    async def delete(self, repository: RepositoryId, branch: BranchName) -> None:
        operation = Operation(
            "delete branch", f"{repository}/{branch}", writes=True, missing=BranchMissingError
        )
        try:
            await self._client.ask(
                operation,
                lambda sdk: sdk.branches.delete_branch(repository, branch, force=False),
            )
        except BranchMissingError:
            return

    async def list_page(
        self, repository: RepositoryId, prefix: str, after: str = "", amount: int = 1000
    ) -> BranchPage:
        page = await self._client.ask(
            Operation("list branches of", repository),
            lambda sdk: sdk.branches.list_branches(
                repository, prefix=prefix, after=after, amount=amount
            ),
        )
        return BranchPage(
            names=tuple(BranchName(ref.id) for ref in page.results),
            heads=tuple(CommitId(ref.commit_id) for ref in page.results),
            more=page.pagination.has_more,
        )

    async def merge(self, request: MergeRequest) -> MergeAnswer:
        target = f"{request.source} into {request.repository}/{request.target}"
        operation = Operation("merge", target, writes=True)
        answer = await self._client.attempt(
            lambda sdk: sdk.refs.merge_into_branch(
                request.repository,
                request.source,
                request.target,
                sdk.new_merge(
                    message=request.message,
                    metadata=dict(request.metadata),
                    strategy=None,
                    squash_merge=True,
                    allow_empty=request.allow_empty,
                    force=False,
                ),
                _request_timeout=self._client.timeout(request.timeout_seconds),
            )
        )
        if isinstance(answer, Refused | Lost | NotSent):
            return merge_answer(operation, answer)
        if not answer.reference:
            return NoAnswer("status 200 without a commit")
        return Merged(CommitId(answer.reference))

    async def relocate(
        self,
        repository: RepositoryId,
        branch: BranchName,
        to: CommitId,
        *,
        timeout_seconds: float = 60.0,
    ) -> RelocationAnswer:
        operation = Operation("relocate", f"{repository}/{branch} to {to}", writes=True)
        answer = await self._client.attempt(
            lambda sdk: sdk.experimental.hard_reset_branch(
                repository,
                branch,
                to,
                force=False,
                _request_timeout=self._client.timeout(timeout_seconds),
            )
        )
        if isinstance(answer, Refused | Lost | NotSent):
            return relocation_answer(operation, answer)
        return Relocated()

    async def is_protected(self, repository: RepositoryId, branch: BranchName) -> bool:
        rules = await self._client.ask(
            Operation("read branch protection of", repository),
            lambda sdk: sdk.repositories.get_branch_protection_rules(repository),
        )
        return any(covers(rule.pattern, branch) for rule in rules)
