"""When a run that was not published may go: its branch, and the tag on its base."""

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from datetime import timedelta

from perago.app.gc.local_pass import GcTools, age_of, all_tags
from perago.domain.attempt import WorkflowSnapshot
from perago.domain.logical_execution import (
    DECISION_TAG_PREFIX,
    CommitId,
    CommitRecord,
    RepositoryId,
)
from perago.domain.retention import (
    Retention,
    RetentionTimes,
    WorkflowStanding,
    judge_run,
    standing_of,
)
from perago.domain.run import RunKey, run_branch, workflow_of_run
from perago.ports.errors import BranchMissingError


@dataclass(frozen=True, slots=True)
class RunJudge:
    """The runs of one repository; `ask` asks Conductor once for each workflow."""

    tools: GcTools
    repository: RepositoryId
    times: RetentionTimes
    ask: Callable[[str], Awaitable[WorkflowSnapshot | None]]

    async def verdict(self, key: RunKey, base: CommitId | None, gone: Collection[str]) -> Retention:
        """What may become of a run; `gone` has the tags that this pass has removed."""
        workflow = await self.ask(workflow_of_run(key))
        standing = standing_of(workflow)
        if standing is WorkflowStanding.LIVE:
            return judge_run(standing, None, self.times, decided=False)
        head = await self._head(key)
        age = self._age(workflow, head, base)
        decided = head is not None and await self._is_decided(key, head.commit, gone)
        return judge_run(standing, age, self.times, decided=decided)

    async def _head(self, key: RunKey) -> CommitRecord | None:
        try:
            return await self.tools.branches.head(self.repository, run_branch(key))
        except BranchMissingError:
            return None  # its finish has published and removed it

    async def _is_decided(self, key: RunKey, head: CommitId, gone: Collection[str]) -> bool:
        """Whether a finish has decided to publish the run, and a retry of it may still do so."""
        prefix = f"{DECISION_TAG_PREFIX}{workflow_of_run(key)}-"
        async for tag in all_tags(self.tools.tags, self.repository, prefix):
            if tag.commit == head and tag.name not in gone:
                return True
        return False

    def _age(
        self, workflow: WorkflowSnapshot | None, head: CommitRecord | None, base: CommitId | None
    ) -> timedelta | None:
        """Since the end of the workflow, else since the last publication of a task of the run.

        Not since the base: the commit on which a run begins may be years old.
        """
        if workflow is not None and workflow.ended_at:
            return age_of(self.tools.clock, workflow.ended_at / 1000)
        if head is not None and base is not None and head.commit != base:
            return age_of(self.tools.clock, head.created_at)
        return None
