"""One pass over a repository: decisions, branches, marks, checkpoints, relocated heads, canaries.

Lists, asks Conductor once for each workflow, lets the domain judge, deletes. One failure never
stops the pass; a pass is bounded. When a pass runs is decided elsewhere.

Two rules hold everywhere. A question that was not answered keeps what it was asked for. What
forbids a deletion is read right before it, because attempts, operators and other passes go on
while this one runs.
"""

import re
from collections import defaultdict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import final

from perago.app.gc.judging import (
    NOT_OURS,
    CheckpointJudge,
    Judged,
    Owner,
    PassSoFar,
    RunJudge,
    WorkflowLeftovers,
    age_of,
    is_own_commit,
    owner_by_commit,
    scheduled_of,
)
from perago.app.gc.local_pass import UNANSWERED_IN_A_ROW_MAX
from perago.domain.attempt import WorkflowSnapshot
from perago.domain.checkpoints import CHECKPOINT_BRANCH_PREFIX
from perago.domain.commit_metadata import LOGICAL_EXECUTION_KEY, LOGICAL_TASK_KEY, STAGING_BRANCH
from perago.domain.errors import OUTCOME_UNKNOWN
from perago.domain.logical_execution import (
    ATTEMPT_MARK_PREFIX,
    DECISION_TAG_PREFIX,
    STAGING_BRANCH_PREFIX,
    BranchName,
    CommitRecord,
    LogicalExecutionKey,
    decision_tag,
    parse_attempt_mark,
    workflow_of_tag,
    workflow_segment,
)
from perago.domain.names import (
    CANARY_BRANCH_PREFIX,
    RELOCATED_TAG_PREFIX,
    RUN_BRANCH_PREFIX,
    execution_time,
    owner_by_name,
    staging_of,
)
from perago.domain.retention import (
    AttemptStanding,
    Keep,
    Remove,
    Retention,
    StagingBranchFacts,
    WorkflowStanding,
    judge_attempt_mark,
    judge_canary_branch,
    judge_decision,
    judge_relocated_tag,
    judge_staging_branch,
    standing_of_attempt,
)
from perago.domain.run import BASE_TAG_PREFIX, base_tag, key_of_run, run_branch
from perago.ports.asking import until_answered
from perago.ports.errors import (
    BranchExistsError,
    BranchMissingError,
    RepositoryMissingError,
    ServiceError,
    UnavailableError,
)

# How deep a decision is looked for below commits that a task function with keys put on its branch.
# Such a function makes a few. A limit is needed, because below the input commit the walk goes on
# into the history of the target.
LATE_COMMITS_MAX = 100
_HASH = re.compile(r"[0-9a-f]{32}")  # what `short_hash` makes of an id that no name can hold


@final
@dataclass(slots=True)
class RemotePass(PassSoFar):
    """One repository, once."""

    _listed: set[str] = field(default_factory=set[str])
    _asked: dict[str, WorkflowSnapshot | None] = field(
        default_factory=dict[str, WorkflowSnapshot | None]
    )
    _unanswered: int = 0

    async def run(self) -> list[Judged]:
        """Workflow by workflow, then what belongs to none.

        What cannot be listed is told and left; only a repository that is not there is raised.
        """
        left: defaultdict[str, WorkflowLeftovers] = defaultdict(WorkflowLeftovers)
        unattributed: list[BranchName] = []
        listings: tuple[tuple[str, Callable[[], Awaitable[None]]], ...] = (
            ("decisions", lambda: self._list_decisions(left)),
            ("staging branches", lambda: self._list_branches(left, unattributed)),
            ("attempt marks", lambda: self._list_marks(left)),
            ("relocated tags", self._relocated),
            ("canary branches", self._canaries),
            ("checkpoints", self._checkpoints),
        )
        for kinds, work in listings:
            await self._list(kinds, work)
        for segment in sorted(left):
            await self._workflow(segment, left[segment])
        for branch in unattributed:
            await self._unattributed(branch)
        # Last, because the decision of a finish goes before the run that it needs.
        await self._list("runs", self._runs)
        return self.judged

    async def _list(self, kinds: str, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except RepositoryMissingError:
            raise
        except ServiceError as error:
            self._failed(kinds, "*", error)

    async def _list_decisions(self, left: defaultdict[str, WorkflowLeftovers]) -> None:
        async for tag in self._tags(DECISION_TAG_PREFIX):
            self._listed.add(tag.name)
            segment = workflow_of_tag(tag.name)
            if segment is None:
                self._kept("decision", tag.name, NOT_OURS)
            else:
                left[segment].decisions.append(tag)

    async def _list_marks(self, left: defaultdict[str, WorkflowLeftovers]) -> None:
        async for tag in self._tags(ATTEMPT_MARK_PREFIX):
            segment = workflow_of_tag(tag.name)
            if segment is None or parse_attempt_mark(tag.name) is None:
                self._kept("attempt mark", tag.name, NOT_OURS)
            else:
                left[segment].marks.append(tag)

    async def _list_branches(
        self, left: defaultdict[str, WorkflowLeftovers], unattributed: list[BranchName]
    ) -> None:
        async for branch in self._names(STAGING_BRANCH_PREFIX):
            owner = owner_by_name(branch)
            if owner is None:
                unattributed.append(branch)
            else:
                left[workflow_segment(owner.workflow_id)].branches.append(branch)

    async def _workflow(self, segment: str, left: WorkflowLeftovers) -> None:
        """Ask for a workflow, and judge what it left at once, while the answer is fresh.

        Decisions first: a branch is judged by the tag that points at it, and a mark never goes
        before a decision of its workflow.
        """
        try:
            workflow = await self._workflow_of(segment, left)
        except ServiceError as error:
            for kind, name in left.named():
                self._failed(kind, name, error)
            return
        owner = Owner(segment, workflow, tuple(left.decisions))
        await self._decisions(owner, left)
        for branch in left.branches:
            await self._branch(branch, owner)
        await self._marks(owner, left)

    async def _workflow_of(self, segment: str, left: WorkflowLeftovers) -> WorkflowSnapshot | None:
        """The workflow, also where the names hold a hash of its id: then a commit tells it."""
        workflow = await self._ask(segment)
        if workflow is None and left.decisions and _HASH.fullmatch(segment):
            record = await self.tools.commits.read(self.repository, left.decisions[0].commit)
            written = record.metadata.get(LOGICAL_TASK_KEY, "").partition("/")[0]
            if workflow_segment(written) == segment:
                return await self._ask(written)
        return workflow

    async def _ask(self, workflow_id: str) -> WorkflowSnapshot | None:
        """Once for each workflow; a Conductor that does not answer is soon asked no more."""
        if workflow_id in self._asked:
            return self._asked[workflow_id]
        if self._unanswered >= UNANSWERED_IN_A_ROW_MAX:
            text = f"not asked: Conductor did not answer {self._unanswered} requests in a row"
            raise UnavailableError(text)
        try:
            self._asked[workflow_id] = await self.tools.queue.read_workflow(workflow_id)
        except UnavailableError:
            self._unanswered += 1
            raise
        self._unanswered = 0
        return self._asked[workflow_id]

    async def _decisions(self, owner: Owner, left: WorkflowLeftovers) -> None:
        if not left.decisions:
            return
        try:
            verdict = judge_decision(owner.standing, await self._age(owner, left), self.times)
        except ServiceError as error:
            for tag in left.decisions:
                self._failed("decision", tag.name, error)
            return
        for tag in left.decisions:
            await self._settle("decision", tag.name, verdict, self._tag_gone(tag.name))

    async def _age(self, owner: Owner, left: WorkflowLeftovers) -> timedelta:
        """How long a workflow has been over, or a task of it reset, whichever is shorter.

        If Conductor does not say, the newest tag does; commits are read until one is young enough.
        """
        if owner.standing is WorkflowStanding.LIVE:
            return timedelta(0)
        ages = [self._since(scheduled_of(tag.name) / 1000) for tag in left.marks]
        if owner.workflow and owner.workflow.ended_at:
            return min((self._since(owner.workflow.ended_at / 1000), *ages))
        for tag in left.decisions:
            if ages and min(ages) < self.times.decision:
                break
            record = await self.tools.commits.read(self.repository, tag.commit)
            ages.append(self._since(record.created_at))
        return min(ages, default=timedelta(0))

    async def _marks(self, owner: Owner, left: WorkflowLeftovers) -> None:
        """The marks of a workflow go together, and after its decisions."""
        if not left.marks:
            return
        try:
            age = await self._age(owner, WorkflowLeftovers(marks=left.marks))
            verdict = judge_attempt_mark(owner.standing, age, self.times, decisions_left=False)
            if isinstance(verdict, Remove):
                verdict = await self._judge_marks_again(owner)
        except ServiceError as error:
            for tag in left.marks:
                self._failed("attempt mark", tag.name, error)
            return
        # The newest first, and none after one that stays: a mark says what the older ones mean.
        for tag in sorted(left.marks, key=lambda tag: scheduled_of(tag.name), reverse=True):
            await self._settle("attempt mark", tag.name, verdict, self._tag_gone(tag.name))
            if self.judged[-1].error is not None:
                verdict = Keep("a newer mark of its workflow could not be removed")

    async def _judge_marks_again(self, owner: Owner) -> Retention:
        """By what is there now: a reset since the listing needs the marks that were listed."""
        tags = self._tags(f"{ATTEMPT_MARK_PREFIX}{owner.segment}-")
        marks = [tag async for tag in tags if workflow_of_tag(tag.name) == owner.segment]
        age = await self._age(owner, WorkflowLeftovers(marks=marks))
        held = await self._has_decisions(owner)
        return judge_attempt_mark(owner.standing, age, self.times, decisions_left=held)

    async def _has_decisions(self, owner: Owner) -> bool:
        """Whether a decision of the workflow is there now, or would be after a real pass."""
        async for tag in self._tags(f"{DECISION_TAG_PREFIX}{owner.segment}-"):
            mine = workflow_of_tag(tag.name) == owner.segment
            if mine and not (self.dry_run and tag.name in self._gone):
                return True
        return False

    async def _branch(self, branch: BranchName, owner: Owner) -> None:
        """A branch whose name tells its owner; that of a living attempt is not even read."""
        named = owner_by_name(branch)
        task_id = named.task_id if named else ""
        attempt = standing_of_attempt(owner.workflow, task_id)
        if owner.standing is WorkflowStanding.LIVE and attempt is AttemptStanding.LIVE:
            facts = StagingBranchFacts(None, attempt, owner.standing)
            verdict = judge_staging_branch(facts, self.times)
            await self._settle("staging branch", branch, verdict, self._branch_gone(branch))
            return
        try:
            head = await self.tools.branches.head(self.repository, branch)
            await self._judge_branch(branch, head, owner, task_id)
        except BranchMissingError:
            return  # its attempt or another pass removed it meanwhile
        except ServiceError as error:
            self._failed("staging branch", branch, error)

    async def _unattributed(self, branch: BranchName) -> None:
        """A branch whose name tells no owner: its own commit may."""
        try:
            head = await self.tools.branches.head(self.repository, branch)
            named = owner_by_commit(branch, head)
            if named is None:
                await self._judge_branch(branch, head, Owner("", None), "")
                return
            workflow = await self._ask(named.workflow_id)
            owner = Owner(workflow_segment(named.workflow_id), workflow)
            await self._judge_branch(branch, head, owner, named.task_id)
        except BranchMissingError:
            return
        except ServiceError as error:
            self._failed("staging branch", branch, error)

    async def _judge_branch(
        self, branch: BranchName, head: CommitRecord, owner: Owner, task_id: str
    ) -> None:
        attempt = standing_of_attempt(owner.workflow, task_id)
        own = is_own_commit(branch, head)
        key = head.metadata.get(LOGICAL_EXECUTION_KEY) if own else None
        began = execution_time(staging_of(branch))
        facts = StagingBranchFacts(
            age=self._since(head.created_at) if own else age_of(self.tools.clock, began),
            attempt=attempt,
            workflow=owner.standing,
            outcome_unknown=await self._outcome_is_unknown(owner, attempt, task_id),
            undecided=bool(key),
        )
        verdict = judge_staging_branch(facts, self.times)
        if isinstance(verdict, Remove) and await self._is_decided(head, key, owner):
            facts = replace(facts, decision_points_at_it=True)
            verdict = judge_staging_branch(facts, self.times)
        await self._settle(
            "staging branch", branch, verdict, lambda: self._delete_staging(branch, owner)
        )

    async def _outcome_is_unknown(
        self, owner: Owner, attempt: AttemptStanding, task_id: str
    ) -> bool:
        """Whether the attempt ended without knowing if its publication happened."""
        over = attempt in {AttemptStanding.TERMINAL, AttemptStanding.REPLACED}
        if owner.workflow is None or owner.standing is not WorkflowStanding.LIVE or not over:
            return False  # the answer would keep nothing, so Conductor is not asked
        record = await self.tools.queue.read_attempt(owner.workflow.workflow_id, task_id)
        return record is not None and (record.reason or "").startswith(OUTCOME_UNKNOWN)

    async def _is_decided(self, head: CommitRecord, key: str | None, owner: Owner) -> bool:
        """Whether a decision needs the branch at this moment.

        The key of its head says which one. A head without a key is the input, or something that
        code with keys committed late on top of a decision: then the commits below tell.
        """
        if key is not None:
            tag = decision_tag(LogicalExecutionKey(key))
            if self.dry_run and tag in self._gone:
                return False  # a real pass would have removed it by now
            return await self.tools.tags.read(self.repository, tag) is not None
        decided = [tag.commit for tag in owner.decisions if tag.name not in self._gone]
        if not decided:
            return False
        walk = await self.tools.commits.first_parents(
            self.repository, head.commit, decided[0], commits_max=LATE_COMMITS_MAX
        )
        return any(record.commit in decided for record in walk.commits)

    async def _delete_staging(self, branch: BranchName, owner: Owner) -> str | None:
        """Delete a staging branch, and put it back if its attempt decided at the same moment.

        An attempt that lost its lease may still commit and decide between the last look and the
        deletion. Then its decision points at a commit that no branch keeps. So decisions that
        were made during this pass are looked through after the deletion, answered or not.
        """
        try:
            await self.tools.branches.delete(self.repository, branch)
        except ServiceError:
            await self._look_again(branch, owner)
            raise
        return await self._look_again(branch, owner)

    async def _look_again(self, branch: BranchName, owner: Owner) -> str | None:
        """Not given up at the first lost answer: no later pass can find what is missing here."""
        return await until_answered(self.tools.clock, lambda: self._put_back(branch, owner))

    async def _put_back(self, branch: BranchName, owner: Owner) -> str | None:
        if not owner.segment or branch != staging_of(branch):  # no decision is on a scratch branch
            return None
        async for tag in self._tags(f"{DECISION_TAG_PREFIX}{owner.segment}-"):
            if tag.name in self._listed and tag.name not in self._gone:
                continue  # it was there before the branch was judged, and did not hold it
            record = await self.tools.commits.read(self.repository, tag.commit)
            if record.metadata.get(STAGING_BRANCH) == branch:
                with suppress(BranchExistsError):  # it never went, or another pass put it back
                    await self.tools.branches.create(
                        self.repository, branch, tag.commit, hidden=True
                    )
                return "its attempt decided during the removal, so the branch was put back"
        return None

    async def _relocated(self) -> None:
        async for tag in self._tags(RELOCATED_TAG_PREFIX):
            age = age_of(self.tools.clock, execution_time(tag.name))
            verdict = judge_relocated_tag(age, self.times)
            await self._settle("relocated tag", tag.name, verdict, self._tag_gone(tag.name))

    async def _canaries(self) -> None:
        """By the name alone: some have no commit of their own, and a check lasts seconds."""
        async for branch in self._names(CANARY_BRANCH_PREFIX):
            verdict = judge_canary_branch(
                age_of(self.tools.clock, execution_time(branch)), self.times
            )
            await self._settle("canary branch", branch, verdict, self._branch_gone(branch))

    async def _checkpoints(self) -> None:
        judge = CheckpointJudge(self.tools, self.repository, self.times, self._ask)
        async for branch in self._names(CHECKPOINT_BRANCH_PREFIX):
            try:
                verdict = await judge.verdict(branch)
            except BranchMissingError:
                continue  # its attempt has decided meanwhile
            except ServiceError as error:
                self._failed("checkpoint", branch, error)
            else:
                await self._settle("checkpoint", branch, verdict, self._branch_gone(branch))

    async def _runs(self) -> None:
        """A run branch and then its base tag, because a branch without its base tells nothing."""
        judge = RunJudge(self.tools, self.repository, self.times, self._ask)
        branches = [branch async for branch in self._names(RUN_BRANCH_PREFIX)]
        bases = {tag.name: tag.commit async for tag in self._tags(BASE_TAG_PREFIX)}
        for name in (*branches, *bases):
            if key_of_run(name) is None:
                self._kept("run", name, NOT_OURS)
        for key in sorted({key for name in (*branches, *bases) if (key := key_of_run(name))}):
            branch, tag = run_branch(key), base_tag(key)
            try:
                verdict = await judge.verdict(key, bases.get(tag), self._gone)
            except ServiceError as error:
                self._failed("run", branch, error)
                continue
            if branch in branches:
                await self._settle("run", branch, verdict, self._branch_gone(branch))
                if isinstance(verdict, Remove) and branch not in self._gone:
                    verdict = Keep("its run branch could not be removed")
            if tag in bases:
                await self._settle("base of a run", tag, verdict, self._tag_gone(tag))
