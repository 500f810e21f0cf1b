"""What one pass of garbage collection over a repository acts by, and has written down so far."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from perago.app.gc.local_pass import GcTools, Judged, all_branches, all_tags
from perago.domain.logical_execution import BranchName, RepositoryId, TagName
from perago.domain.retention import Keep, Retention, RetentionTimes
from perago.ports.errors import ServiceError
from perago.ports.lakefs import TagRecord


@dataclass(slots=True)
class PassSoFar:
    """The repository, the ages, and a line for each leftover that was judged."""

    tools: GcTools
    repository: RepositoryId
    times: RetentionTimes
    dry_run: bool = False
    judged: list[Judged] = field(default_factory=list[Judged])
    _gone: set[str] = field(default_factory=set[str])

    async def _settle(
        self, kind: str, name: str, verdict: Retention, remove: Callable[[], Awaitable[str | None]]
    ) -> None:
        """Act on a verdict, and write it down; `remove` answers why it stays after all."""
        if isinstance(verdict, Keep):
            self._kept(kind, name, verdict.reason)
            return
        try:
            stays = None if self.dry_run else await remove()
        except ServiceError as error:
            self._failed(kind, name, error)
            return
        if stays is None:
            self._gone.add(name)
            self.judged.append(Judged(kind, name, removed=True, reason=verdict.reason))
        else:
            self._kept(kind, name, stays)

    def _kept(self, kind: str, name: str, reason: str) -> None:
        self.judged.append(Judged(kind, name, removed=False, reason=reason))

    def _failed(self, kind: str, name: str, error: ServiceError) -> None:
        self.judged.append(Judged(kind, name, removed=False, reason="", error=str(error)))

    def _tag_gone(self, tag: TagName) -> Callable[[], Awaitable[None]]:
        return lambda: self.tools.tags.delete(self.repository, tag)

    def _branch_gone(self, branch: BranchName) -> Callable[[], Awaitable[None]]:
        return lambda: self.tools.branches.delete(self.repository, branch)

    def _tags(self, prefix: str) -> AsyncIterator[TagRecord]:
        return all_tags(self.tools.tags, self.repository, prefix)

    def _names(self, prefix: str) -> AsyncIterator[BranchName]:
        return all_branches(self.tools.branches, self.repository, prefix)

    def _since_moment(self, moment: datetime | None) -> timedelta | None:
        return None if moment is None else self._since(moment.timestamp())

    def _since(self, seconds: float) -> timedelta:
        return max(self.tools.clock.now() - datetime.fromtimestamp(seconds, UTC), timedelta(0))
