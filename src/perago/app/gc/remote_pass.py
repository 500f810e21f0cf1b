"""One pass over a repository: decisions, marks, staging branches, relocated heads, canaries.

Lists, asks Conductor, lets the domain judge, deletes. One failure never stops the pass; a pass
is bounded. When a pass runs is decided elsewhere.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import final

from perago.app.gc.staging_owner import staging_owner
from perago.app.gc.standings import Standings
from perago.domain.commit_metadata import LOGICAL_TASK_KEY, STAGING_BRANCH
from perago.domain.logical_execution import (
    ATTEMPT_MARK_PREFIX,
    DECISION_TAG_PREFIX,
    attempt_marks_of,
    attempt_marks_of_task,
    parse_attempt_mark,
)
from perago.domain.private_names import (
    CANARY_BRANCH_PREFIX,
    RELOCATED_TAG_PREFIX,
    staging_of,
)
from perago.domain.references import BranchName, CommitId, CommitRecord, RepositoryId, TagName
from perago.domain.retention import (
    AttemptStanding,
    Keep,
    Remove,
    Retention,
    RetentionTimes,
    StagingBranchFacts,
    WorkflowStanding,
    judge_attempt_mark,
    judge_canary_branch,
    judge_decision,
    judge_relocated_tag,
    judge_staging_branch,
)
from perago.domain.staging_branch_name import STAGING_BRANCH_PREFIX
from perago.ports.branches import Branches
from perago.ports.clock import Clock
from perago.ports.commits import Commits
from perago.ports.errors import RepositoryMissingError, WorldError
from perago.ports.tags import TagRecord, Tags
from perago.ports.task_queue import TaskQueue

PAGES_MAX = 1000
CANARY_MESSAGE = "perago canary"


@dataclass(frozen=True, slots=True)
class GcTools:
    """The ports of a pass."""

    branches: Branches
    commits: Commits
    tags: Tags
    queue: TaskQueue
    clock: Clock


@dataclass(frozen=True, slots=True)
class Judged:
    """One leftover and what was decided about it; `error` when that could not be done."""

    kind: str
    name: str
    removed: bool
    reason: str
    error: str | None = None


@final
@dataclass(slots=True)
class RemotePass:
    """One repository, once."""

    tools: GcTools
    repository: RepositoryId
    times: RetentionTimes
    dry_run: bool = False
    judged: list[Judged] = field(default_factory=list[Judged])
    _held: dict[BranchName, str] = field(default_factory=dict[BranchName, str])

    async def run(self) -> list[Judged]:
        """Decisions, then what they held: branches and marks; then the rest.

        What cannot be listed is told and left; only a repository that is not there is raised.
        """
        for kinds, work in (
            ("decisions, staging branches and attempt marks", self._held_by_decisions),
            ("relocated tags", self._relocated),
            ("canary branches", self._canaries),
        ):
            try:
                await work()
            except RepositoryMissingError:
                raise
            except WorldError as error:
                self.judged.append(Judged(kinds, "*", removed=False, reason="", error=str(error)))
        return self.judged

    async def _held_by_decisions(self) -> None:
        """In this order: whoever does not know every decision knows nothing of the others."""
        standings = Standings(self.tools.queue)
        kept = await self._decisions(standings)
        await self._branches(standings)
        await self._marks(standings, kept)

    async def _decisions(self, standings: Standings) -> set[str]:
        """Judge decisions; how the marks of those begin that stay."""
        kept: set[str] = set()
        async for tag in self._tags(DECISION_TAG_PREFIX):
            record = await self._read(tag.commit)
            key = record.metadata.get(LOGICAL_TASK_KEY, "") if record else ""
            branch = BranchName(record.metadata.get(STAGING_BRANCH, "") if record else "")

            async def judge(key: str = key, record: CommitRecord | None = record) -> Retention:
                workflow = WorkflowStanding.UNKNOWN
                if key:
                    workflow = await standings.workflow(key.partition("/")[0])
                return judge_decision(workflow, self._age(record), self.times)

            if not await self._settle("decision", tag.name, judge, self._tag_gone(tag.name)):
                kept.add(_marks_of(key))
                if branch:
                    self._held[branch] = tag.name
        return kept

    async def _branches(self, standings: Standings) -> None:
        async for branch in self._names(STAGING_BRANCH_PREFIX):

            async def judge(branch: BranchName = branch) -> Retention:
                head = await self.tools.branches.head(self.repository, branch)
                return judge_staging_branch(await self._facts(standings, branch, head), self.times)

            await self._settle("staging branch", branch, judge, self._branch_gone(branch))

    async def _facts(
        self, standings: Standings, branch: BranchName, head: CommitRecord
    ) -> StagingBranchFacts:
        owner = staging_owner(branch, head)
        attempt, workflow, unknown = AttemptStanding.UNKNOWN, WorkflowStanding.UNKNOWN, False
        if owner is not None:
            attempt = await standings.attempt(owner.workflow_id, owner.task_id)
            workflow = await standings.workflow(owner.workflow_id)
            if attempt in {AttemptStanding.TERMINAL, AttemptStanding.REPLACED}:
                unknown = await standings.outcome_is_unknown(owner.workflow_id, owner.task_id)
        return StagingBranchFacts(
            age=self._age(head),
            attempt=attempt,
            workflow=workflow,
            decision_points_at_it=staging_of(branch) in self._held,
            outcome_unknown=unknown,
        )

    async def _marks(self, standings: Standings, kept: set[str]) -> None:
        """A mark names its task by a hash, so it is found from the tasks that this pass met.

        A decision names its task itself: its marks stay with it whatever Conductor still knows.
        One that cannot be read could be anybody's, so then every mark stays.
        """
        met = {
            attempt_marks_of_task(row): workflow.workflow_id
            for workflow in standings.known
            for row in workflow.tasks
        }
        async for tag in self._tags(ATTEMPT_MARK_PREFIX):
            mark = parse_attempt_mark(tag.name)
            if mark is None:
                continue
            prefix = f"{tag.name.rsplit('-', 2)[0]}-"
            held = prefix in kept or ATTEMPT_MARK_PREFIX in kept

            async def judge(
                workflow_id: str = met.get(prefix, ""),
                milliseconds: int = mark.scheduled_time,
                *,
                held: bool = held,
            ) -> Retention:
                workflow = WorkflowStanding.UNKNOWN
                if workflow_id:
                    workflow = await standings.workflow(workflow_id)
                age = self._since(milliseconds / 1000)
                return judge_attempt_mark(workflow, age, self.times, decisions_left=held)

            await self._settle("attempt mark", tag.name, judge, self._tag_gone(tag.name))

    async def _relocated(self) -> None:
        async for tag in self._tags(RELOCATED_TAG_PREFIX):
            record = await self._read(tag.commit)

            async def judge(record: CommitRecord | None = record) -> Retention:
                return judge_relocated_tag(self._age(record), self.times)

            await self._settle("relocated tag", tag.name, judge, self._tag_gone(tag.name))

    async def _canaries(self) -> None:
        async for branch in self._names(CANARY_BRANCH_PREFIX):

            async def judge(branch: BranchName = branch) -> Retention:
                head = await self.tools.branches.head(self.repository, branch)
                if head.message != CANARY_MESSAGE and self.times.canary:
                    # It stands where it began, and nothing tells when that was.
                    return Keep("nothing was committed on it yet")
                return judge_canary_branch(self._age(head), self.times)

            await self._settle("canary branch", branch, judge, self._branch_gone(branch))

    async def _settle(
        self,
        kind: str,
        name: str,
        judge: Callable[[], Awaitable[Retention]],
        gone: Callable[[], Awaitable[None]],
    ) -> bool:
        """Judge and act; whether it went, or would go."""
        try:
            verdict = await judge()
            if isinstance(verdict, Remove) and not self.dry_run:
                await gone()
        except WorldError as error:
            self.judged.append(Judged(kind, name, removed=False, reason="", error=str(error)))
            return False
        removed = isinstance(verdict, Remove)
        self.judged.append(Judged(kind, name, removed, verdict.reason))
        return removed

    def _tag_gone(self, tag: TagName) -> Callable[[], Awaitable[None]]:
        return lambda: self.tools.tags.delete(self.repository, tag)

    def _branch_gone(self, branch: BranchName) -> Callable[[], Awaitable[None]]:
        return lambda: self.tools.branches.delete(self.repository, branch)

    async def _tags(self, prefix: str) -> AsyncIterator[TagRecord]:
        after = ""
        for _ in range(PAGES_MAX):
            page = await self.tools.tags.list_page(self.repository, prefix, after)
            for tag in page.tags:
                yield tag
            if not page.more:
                return
            after = page.tags[-1].name

    async def _names(self, prefix: str) -> AsyncIterator[BranchName]:
        after = ""
        for _ in range(PAGES_MAX):
            page = await self.tools.branches.list_page(self.repository, prefix, after)
            for name in page.names:
                yield name
            if not page.more:
                return
            after = page.names[-1]

    async def _read(self, commit: CommitId) -> CommitRecord | None:
        try:
            return await self.tools.commits.read(self.repository, commit)
        except WorldError:
            return None

    def _age(self, record: CommitRecord | None) -> timedelta:
        return timedelta(0) if record is None else self._since(record.created_at)

    def _since(self, seconds: float) -> timedelta:
        return max(self.tools.clock.now() - datetime.fromtimestamp(seconds, UTC), timedelta(0))


def _marks_of(logical_task_key: str) -> str:
    """How the marks of a task begin; of an unknown one, how all begin."""
    workflow, _, rest = logical_task_key.partition("/")
    reference, _, iteration = rest.rpartition("/")
    if not (workflow and reference and iteration.isdecimal()):
        return ATTEMPT_MARK_PREFIX
    return attempt_marks_of(workflow, reference, int(iteration))
