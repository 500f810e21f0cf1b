"""One pass over a repository: decisions, branches, marks, checkpoints, relocated heads, canaries.

Lists, asks Conductor once for each workflow, lets the domain judge, deletes. One failure never
stops the pass; a pass is bounded. When a pass runs is decided elsewhere.

Two rules hold everywhere. A question that was not answered keeps what it was asked for. What
forbids a deletion is read right before it, because attempts, operators and other passes go on
while this one runs.
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import final

from perago.app.gc import judging
from perago.domain import names, retention
from perago.domain.attempt import WorkflowSnapshot
from perago.domain.checkpoints import CHECKPOINT_BRANCH_PREFIX
from perago.domain.commit_metadata import LOGICAL_EXECUTION_KEY, STAGING_BRANCH
from perago.domain.errors import OUTCOME_UNKNOWN
from perago.domain.lakefs import BranchName, CommitId, CommitRecord, TagName
from perago.domain.logical_execution import (
    LogicalExecutionKey,
    decision_tag,
    parse_attempt_mark,
    workflow_of_tag,
)
from perago.domain.run import BASE_TAG_PREFIX, RunKey, base_tag, key_of_run, run_branch
from perago.ports.asking import until_answered
from perago.ports.errors import BranchExistsError, ServiceError
from perago.ports.lakefs import TagRecord

DECISION, STAGING, MARK = "decision", "staging branch", "attempt mark"
# How deep a decision is looked for below commits that a task function with keys put on its branch.
# Such a function makes a few. A limit is needed, because below the input commit the walk goes on
# into the history of the target.
LATE_COMMITS_MAX = 100
_HASH = re.compile(r"[0-9a-f]{32}")  # what `short_hash` makes of an id that no name can hold


@dataclass(slots=True)
class Owner:
    """A workflow as names spell it, what Conductor says of it, and what it left as listed."""

    segment: str
    workflow: WorkflowSnapshot | None = None
    decisions: list[TagRecord] = field(default_factory=list[TagRecord])
    branches: dict[BranchName, str] = field(default_factory=dict[BranchName, str])
    """Its staging branches, with the task that each of them names."""
    marks: list[TagRecord] = field(default_factory=list[TagRecord])

    @property
    def standing(self) -> retention.WorkflowStanding:
        """Whether it lives."""
        return retention.standing_of(self.workflow)


@final
@dataclass(slots=True)
class RemotePass(judging.PassSoFar):
    """One repository, once."""

    _owners: dict[str, Owner] = field(default_factory=dict[str, Owner])
    _unattributed: list[BranchName] = field(default_factory=list[BranchName])
    _listed: set[str] = field(default_factory=set[str])

    async def run(self) -> list[judging.Judged]:
        """Workflow by workflow, then what belongs to none.

        What cannot be listed is told and left; only a repository that is not there is raised.
        """
        for kinds, work in (
            ("decisions", self._list_decisions),
            ("staging branches", self._list_branches),
            ("attempt marks", self._list_marks),
            ("relocated tags", self._relocated),
            ("canary branches", self._canaries),
            ("checkpoints", self._checkpoints),
        ):
            await self.work_on(kinds, ["*"], work)
        for segment in sorted(self._owners):
            await self._workflow(self._owners[segment])
        for branch in self._unattributed:
            await self.work_on(STAGING, [branch], partial(self._judge_by_commit, branch))
        # Last, because the decision of a finish goes before the run that it needs.
        await self.work_on("runs", ["*"], self._runs)
        return self.judged

    def _owner(self, segment: str) -> Owner:
        return self._owners.setdefault(segment, Owner(segment))

    async def _list_decisions(self) -> None:
        async for tag in self.tags(names.DECISION_TAG_PREFIX):
            self._listed.add(tag.name)
            segment = workflow_of_tag(tag.name)
            if segment is None:
                self.kept(DECISION, tag.name, judging.NOT_OURS)
            else:
                self._owner(segment).decisions.append(tag)

    async def _list_marks(self) -> None:
        async for tag in self.tags(names.ATTEMPT_MARK_PREFIX):
            segment = workflow_of_tag(tag.name)
            if segment is None or parse_attempt_mark(tag.name) is None:
                self.kept(MARK, tag.name, judging.NOT_OURS)
            else:
                self._owner(segment).marks.append(tag)

    async def _list_branches(self) -> None:
        async for branch in self.branches(names.STAGING_BRANCH_PREFIX):
            named = names.owner_by_name(branch)
            if named is None:
                self._unattributed.append(branch)
            else:
                owner = self._owner(names.workflow_segment(named.workflow_id))
                owner.branches[branch] = named.task_id

    async def _workflow(self, owner: Owner) -> None:
        """Ask for a workflow, and judge what it left at once, while the answer is fresh.

        Decisions first: a branch is judged by the tag that points at it, and a mark never goes
        before a decision of its workflow.
        """
        decisions, marks = ([tag.name for tag in tags] for tags in (owner.decisions, owner.marks))
        try:
            owner.workflow = await self._workflow_of(owner)
        except ServiceError as error:
            self.failed(DECISION, decisions, error)
            self.failed(STAGING, owner.branches, error)
            self.failed(MARK, marks, error)
            return
        await self.work_on(DECISION, decisions, partial(self._decisions, owner))
        for branch in owner.branches:
            await self.work_on(STAGING, [branch], partial(self._judge_by_name, branch, owner))
        await self.work_on(MARK, marks, partial(self._marks, owner))

    async def _workflow_of(self, owner: Owner) -> WorkflowSnapshot | None:
        """The workflow, also where the names hold a hash of its id: then a commit tells it."""
        workflow = await self.ask(owner.segment)
        if workflow is None and owner.decisions and _HASH.fullmatch(owner.segment):
            commit = owner.decisions[0].commit
            written = judging.workflow_in(await self.lakefs.commits.read(self.repository, commit))
            if names.workflow_segment(written) == owner.segment:
                return await self.ask(written)
        return workflow

    async def _decisions(self, owner: Owner) -> None:
        if not owner.decisions:
            return
        age = await self._age(owner, owner.marks, owner.decisions)
        verdict = retention.judge_decision(owner.standing, age, self.times)
        for tag in owner.decisions:
            await self.settle_tag(DECISION, tag.name, verdict)

    async def _age(
        self, owner: Owner, marks: Sequence[TagRecord], decisions: Sequence[TagRecord] = ()
    ) -> timedelta:
        """How long a workflow has been over, or a task of it reset, whichever is shorter.

        If Conductor does not say, the newest tag does; commits are read until one is young enough.
        """
        if owner.standing is retention.WorkflowStanding.LIVE:
            return timedelta(0)
        ages = [self.since(judging.scheduled_of(tag.name) / 1000) for tag in marks]
        if owner.workflow and owner.workflow.ended_at:
            return min((self.since(owner.workflow.ended_at / 1000), *ages))
        for tag in decisions:
            if ages and min(ages) < self.times.decision:
                break
            record = await self.lakefs.commits.read(self.repository, tag.commit)
            ages.append(self.since(record.created_at))
        return min(ages, default=timedelta(0))

    async def _marks(self, owner: Owner) -> None:
        """The marks of a workflow go together, and after its decisions."""
        if not owner.marks:
            return
        age = await self._age(owner, owner.marks)
        verdict = retention.judge_attempt_mark(
            owner.standing, age, self.times, decisions_left=False
        )
        if isinstance(verdict, retention.Remove):
            verdict = await self._judge_marks_again(owner)
        # The newest first, and none after one that stays: a mark says what the older ones mean.
        for tag in sorted(
            owner.marks, key=lambda tag: judging.scheduled_of(tag.name), reverse=True
        ):
            await self.settle_tag(MARK, tag.name, verdict)
            if self.judged[-1].error is not None:
                verdict = retention.Keep("a newer mark of its workflow could not be removed")

    async def _judge_marks_again(self, owner: Owner) -> retention.Retention:
        """By what is there now: a reset since the listing needs the marks that were listed."""
        tags = self.tags(f"{names.ATTEMPT_MARK_PREFIX}{owner.segment}-")
        marks = [tag async for tag in tags if workflow_of_tag(tag.name) == owner.segment]
        age = await self._age(owner, marks)
        held = await self._has_decisions(owner)
        return retention.judge_attempt_mark(owner.standing, age, self.times, decisions_left=held)

    async def _has_decisions(self, owner: Owner) -> bool:
        """Whether a decision of the workflow is there now, or would be after a real pass."""
        async for tag in self.tags(f"{names.DECISION_TAG_PREFIX}{owner.segment}-"):
            mine = workflow_of_tag(tag.name) == owner.segment
            if mine and not (self.dry_run and tag.name in self.gone):
                return True
        return False

    async def _judge_by_name(self, branch: BranchName, owner: Owner) -> None:
        """A branch whose name tells its owner; that of a living attempt is not even read."""
        task_id = owner.branches[branch]
        attempt = retention.standing_of_attempt(owner.workflow, task_id)
        if (
            owner.standing is retention.WorkflowStanding.LIVE
            and attempt is retention.AttemptStanding.LIVE
        ):
            facts = retention.StagingBranchFacts(None, attempt, owner.standing)
            await self.settle_branch(
                STAGING, branch, retention.judge_staging_branch(facts, self.times)
            )
            return
        head = await self.lakefs.branches.head(self.repository, branch)
        await self._judge_branch(branch, head, owner, task_id)

    async def _judge_by_commit(self, branch: BranchName) -> None:
        """A branch whose name tells no owner: its own commit may."""
        head = await self.lakefs.branches.head(self.repository, branch)
        written = judging.owner_by_commit(branch, head)
        if written is None:
            await self._judge_branch(branch, head, Owner(""), "")
            return
        workflow = await self.ask(written.workflow_id)
        owner = Owner(names.workflow_segment(written.workflow_id), workflow)
        await self._judge_branch(branch, head, owner, written.task_id)

    async def _judge_branch(
        self, branch: BranchName, head: CommitRecord, owner: Owner, task_id: str
    ) -> None:
        attempt = retention.standing_of_attempt(owner.workflow, task_id)
        own = judging.is_own_commit(branch, head)
        key = head.metadata.get(LOGICAL_EXECUTION_KEY) if own else None
        began = names.execution_time(names.staging_of(branch))
        facts = retention.StagingBranchFacts(
            age=self.since(head.created_at) if own else self.age_of(began),
            attempt=attempt,
            workflow=owner.standing,
            outcome_unknown=await self._outcome_is_unknown(owner, attempt, task_id),
            undecided=bool(key),
        )
        verdict = retention.judge_staging_branch(facts, self.times)
        if isinstance(verdict, retention.Remove) and await self._is_decided(head, key, owner):
            facts = replace(facts, decision_points_at_it=True)
            verdict = retention.judge_staging_branch(facts, self.times)
        await self.settle(STAGING, branch, verdict, lambda: self._delete_staging(branch, owner))

    async def _outcome_is_unknown(
        self, owner: Owner, attempt: retention.AttemptStanding, task_id: str
    ) -> bool:
        """Whether the attempt ended without knowing if its publication happened."""
        over = attempt in {retention.AttemptStanding.TERMINAL, retention.AttemptStanding.REPLACED}
        if (
            owner.workflow is None
            or owner.standing is not retention.WorkflowStanding.LIVE
            or not over
        ):
            return False  # the answer would keep nothing, so Conductor is not asked
        record = await self.queue.read_attempt(owner.workflow.workflow_id, task_id)
        return record is not None and (record.reason or "").startswith(OUTCOME_UNKNOWN)

    async def _is_decided(self, head: CommitRecord, key: str | None, owner: Owner) -> bool:
        """Whether a decision needs the branch at this moment.

        The key of its head says which one. A head without a key is the input, or something that
        code with keys committed late on top of a decision: then the commits below tell.
        """
        if key is not None:
            tag = decision_tag(LogicalExecutionKey(key))
            if self.dry_run and tag in self.gone:
                return False  # a real pass would have removed it by now
            return await self.lakefs.tags.read(self.repository, tag) is not None
        decided = [tag.commit for tag in owner.decisions if tag.name not in self.gone]
        if not decided:
            return False
        walk = await self.lakefs.commits.first_parents(
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
            await self.lakefs.branches.delete(self.repository, branch)
        except ServiceError:
            await self._look_again(branch, owner)
            raise
        return await self._look_again(branch, owner)

    async def _look_again(self, branch: BranchName, owner: Owner) -> str | None:
        """Not given up at the first lost answer: no later pass can find what is missing here."""
        return await until_answered(self.clock, lambda: self._put_back(branch, owner))

    async def _put_back(self, branch: BranchName, owner: Owner) -> str | None:
        # No decision is on a scratch branch.
        if not owner.segment or branch != names.staging_of(branch):
            return None
        async for tag in self.tags(f"{names.DECISION_TAG_PREFIX}{owner.segment}-"):
            if tag.name in self._listed and tag.name not in self.gone:
                continue  # it was there before the branch was judged, and did not hold it
            record = await self.lakefs.commits.read(self.repository, tag.commit)
            if record.metadata.get(STAGING_BRANCH) == branch:
                with suppress(BranchExistsError):  # it never went, or another pass put it back
                    await self.lakefs.branches.create(
                        self.repository, branch, tag.commit, hidden=True
                    )
                return "its attempt decided during the removal, so the branch was put back"
        return None

    async def _relocated(self) -> None:
        async for tag in self.tags(names.RELOCATED_TAG_PREFIX):
            age = self.age_of(names.execution_time(tag.name))
            await self.settle_tag(
                "relocated tag", tag.name, retention.judge_relocated_tag(age, self.times)
            )

    async def _canaries(self) -> None:
        """By the name alone: some have no commit of their own, and a check lasts seconds."""
        async for branch in self.branches(names.CANARY_BRANCH_PREFIX):
            verdict = retention.judge_canary_branch(
                self.age_of(names.execution_time(branch)), self.times
            )
            await self.settle_branch("canary branch", branch, verdict)

    async def _checkpoints(self) -> None:
        async for branch in self.branches(CHECKPOINT_BRANCH_PREFIX):
            await self.work_on("checkpoint", [branch], partial(self._checkpoint, branch))

    async def _checkpoint(self, branch: BranchName) -> None:
        verdict = await judging.judge_checkpoint_branch(self, branch)
        await self.settle_branch("checkpoint", branch, verdict)

    async def _runs(self) -> None:
        branches = [branch async for branch in self.branches(names.RUN_BRANCH_PREFIX)]
        bases = {tag.name: tag.commit async for tag in self.tags(BASE_TAG_PREFIX)}
        for name in (*branches, *bases):
            if key_of_run(name) is None:
                self.kept("run", name, judging.NOT_OURS)
        for key in sorted({key for name in (*branches, *bases) if (key := key_of_run(name))}):
            work = partial(self._run, key, branches, bases)
            await self.work_on("run", [run_branch(key)], work)

    async def _run(
        self, key: RunKey, branches: Sequence[BranchName], bases: Mapping[TagName, CommitId]
    ) -> None:
        """A run branch and then its base tag, because a branch without its base tells nothing."""
        branch, tag = run_branch(key), base_tag(key)
        verdict = await judging.judge_held_run(self, key, bases.get(tag))
        if branch in branches:
            await self.settle_branch("run", branch, verdict)
            if isinstance(verdict, retention.Remove) and branch not in self.gone:
                verdict = retention.Keep("its run branch could not be removed")
        if tag in bases:
            await self.settle_tag("base of a run", tag, verdict)
