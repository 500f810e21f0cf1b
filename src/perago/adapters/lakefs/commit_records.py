"""Commits of the generated client as values of the domain, and the walk down first parents.

No model of the client leaves this file. Asks synchronously; knows no event loop.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from perago.domain.logical_execution import CommitId, CommitRecord, FirstParentWalk

if TYPE_CHECKING:
    from lakefs_sdk.models.commit import Commit

    from perago.adapters.lakefs.sdk import LakeFSSdk

PAGE_COMMITS_MAX = 1000


def commit_record(commit: "Commit") -> CommitRecord:
    """Take a commit over, field by field."""
    metadata: Mapping[str, str] = commit.metadata or {}
    return CommitRecord(
        commit=CommitId(commit.id),
        parents=tuple(CommitId(parent) for parent in commit.parents),
        metadata=MappingProxyType(dict(metadata)),
        message=commit.message,
        metarange=commit.meta_range_id,
        created_at=commit.creation_date,
    )


def walk_first_parents(
    sdk: "LakeFSSdk",
    repository: str,
    start: str,
    stop_at: CommitId,
    *,
    commits_max: int,
    page_commits: int,
) -> FirstParentWalk:
    """Read pages of first parents until the goal, the root or the bound."""
    records: list[CommitRecord] = []
    after = None
    while True:
        page = sdk.refs.log_commits(
            repository,
            start,
            after=after,
            amount=min(page_commits, commits_max - len(records)),
            first_parent=True,
            stop_at=stop_at,
        )
        records.extend(commit_record(commit) for commit in page.results)
        if records[-1].commit == stop_at:
            return FirstParentWalk(tuple(records), reached=True)
        if not page.pagination.has_more or not page.results:
            return FirstParentWalk(tuple(records), reached=False)
        if len(records) >= commits_max:
            return FirstParentWalk(tuple(records), reached=False, truncated=True)
        # From the last commit, not from the branch: that may point elsewhere by now, and the
        # server would walk down the pages already read once more.
        start = after = records[-1].commit
