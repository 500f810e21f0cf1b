"""`perago.finish`: publish a run on its target, as one commit, or refuse; and all built-in tasks.

Rounds as those of `settled`: look at the target, decide by the table, act with the expected head,
and where no answer comes look again. What the attempts of a finish agree on by a tag is the head of
the run. So a retry goes on with that head, whatever has happened to the run branch since.

A worker with a workspace task polls the built-in task types as well, and serves them itself.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import assert_never, final

from pydantic import BaseModel

from perago.app.attempt.choose_target import find_chain
from perago.app.attempt.complete import check_attempt
from perago.app.attempt.context import Attempt, Target
from perago.app.attempt.publish import WAITED, Pending, Publication, RoundEnd, publish_in_rounds
from perago.app.authoring.task_definition import TaskDefinition
from perago.app.authoring.workspace_spec import WorkspaceInput, WorkspaceOutput
from perago.app.runs.begin import (
    BEGIN_TASK,
    RunReference,
    put_if_absent,
    require_fence,
    workspace_at,
)
from perago.app.runs.join import JOIN_TASK
from perago.app.runs.merge import Merge, find_touched, merge_run, rebase_run
from perago.domain import errors
from perago.domain import run as rules
from perago.domain.commit_metadata import CONFIRM, commit_message
from perago.domain.lakefs import CommitId, CommitRecord, TagName, WorkspaceReference
from perago.domain.logical_execution import (
    ExecutionInput,
    LogicalExecutionKey,
    decision_tag,
    execution_key,
)
from perago.domain.paths import ROOT_PREFIX
from perago.domain.policy import Level
from perago.domain.publication import EFFECT_LABELS, Adopt, Isolation, Keep, MergeStaged, Refusal
from perago.domain.run import Run, base_tag
from perago.domain.settled import FIRST_PARENT_COMMITS_MAX, LookAgain
from perago.ports.errors import BranchMissingError
from perago.ports.workspace import Phase


class FinishParams(BaseModel):
    """The run, the output of its last task, and how to publish it."""

    run: RunReference
    workspace: WorkspaceInput
    on_moved: rules.OnMoved = rules.OnMoved.REFUSE
    history: rules.History = rules.History.MERGE


class FinishResult(BaseModel):
    """The target with the run on it."""

    workspace: WorkspaceOutput


async def finish(attempt: Attempt, params: FinishParams) -> FinishResult:
    """Publish the run that the input names, or find that it is published."""
    run = _read_run(params)
    finishing = await _look_at_run(attempt, params, run)
    publication = await publish_in_rounds(attempt, finishing.one_round)
    # The branch goes when Conductor has recorded this end: until then a retry may need it.
    attempt.leftovers.decided = True
    attempt.leftovers.staging = (run.repository, run.run_branch)
    attempt.leftovers.staging_may_go = False
    return FinishResult(workspace=workspace_at(run.repository, run.branch, publication.ref))


def _read_run(params: FinishParams) -> Run:
    """The run, if the workspace is one of it."""
    given, workspace = params.run, params.workspace
    run = given.as_value()
    expected = (given.repository, run.run_branch, run.run_branch)
    if (workspace.repository, workspace.branch, given.run_branch) != expected:
        text = (
            f"run {run.key} of {given.repository} is on branch {run.run_branch}, and the workspace "
            f"is {workspace.repository}/{workspace.branch}"
        )
        raise _foreign_input(text)
    if not run.is_of_its_target:
        raise _foreign_input(f"run {run.key} was not begun for {run.repository}/{run.branch}")
    return run


def _foreign_input(text: str) -> errors.RunRefusedError:
    more = "give finish the `run` of perago.begin and the workspace of the last task of that run"
    return errors.RunRefusedError(f"{text}; {more}", code="PRG-N002")


async def _look_at_run(attempt: Attempt, params: FinishParams, run: Run) -> "_Finishing":
    """Read what does not change any more, and whether an earlier attempt has decided."""
    ports = attempt.ports
    lakefs, repository, ref = ports.lakefs, run.repository, CommitId(params.workspace.ref)
    target = WorkspaceReference(repository, run.branch, ref)
    record = await lakefs.known.check(target, ports.concurrency, writes=True)
    chain = await find_chain(attempt, repository, record)
    given = ExecutionInput(target, ROOT_PREFIX, attempt.params)
    key = execution_key(attempt.row, chain, given)
    decided, base, walk = await ports.concurrency.together3(
        lakefs.tags.read(repository, decision_tag(key)),
        lakefs.tags.read(repository, base_tag(run.key)),
        lakefs.commits.first_parents(
            repository, ref, run.base, commits_max=FIRST_PARENT_COMMITS_MAX
        ),
    )
    # The tag is gone when garbage collection or `perago abandon` has removed the run. That is no
    # mistake in the input, and the table of `domain/run.py` says what follows.
    if base not in {run.base, None} or not walk.reached:
        text = f"run {run.key} began at {base}, and the input names base {run.base} and {ref}"
        raise _foreign_input(text)
    if decided is not None:
        _refuse_other_decision(run, decision_tag(key), decided, ref)
    facts = {"level": Level.SETTLED, "execution_key": key, "repository": repository}
    ports.progress.phase(Phase.POLICY, facts)
    if decided is not None:
        ports.progress.phase(Phase.RESUMED, {"commit": decided, "noop": False})
    elif ref != run.base:
        await require_fence(ports, repository, run.branch, ref)
    return _Finishing(
        attempt,
        params,
        run,
        head=record,
        key=key,
        tasks=len(walk.above),
        decided=decided is not None,
        base_stands=base is not None,
    )


def _refuse_other_decision(run: Run, tag: TagName, found: CommitId, expected: CommitId) -> None:
    """The key has the head of the run: a finish cannot have decided on another commit."""
    if found != expected:
        command = f"`lakectl tag delete lakefs://{run.repository}/{tag}` removes the decision"
        text = f"decision {tag} is {found}, expected {expected}; {command}"
        raise errors.PublicationRefusedError(text, code="PRG-F006", terminal=True)


@final
@dataclass(slots=True)
class _Finishing:
    """One finish that is under way."""

    attempt: Attempt
    params: FinishParams
    run: Run
    head: CommitRecord
    key: LogicalExecutionKey
    tasks: int
    decided: bool
    base_stands: bool
    was_sent: bool = False
    """Whether a merge got no answer, so that it may still arrive."""

    async def one_round(self, _: int) -> RoundEnd:
        """One round; runs of one process that go to one branch take turns."""
        async with self.attempt.ports.concurrency.turn(f"{self.run.repository}/{self.run.branch}"):
            ended = await self._round()
        self.was_sent = self.was_sent or isinstance(ended, Pending)
        return ended

    async def _round(self) -> RoundEnd:
        """One look, one decision, one effect."""
        patience = self.attempt.ports.patience
        waits = patience.waits
        merge = await self._prepare(await self._decide())
        if not isinstance(merge, Merge):
            return merge
        await check_attempt(self.attempt)
        if patience.waits != waits:  # the look is as old as the wait was long
            return WAITED
        merged = await merge_run(self.attempt, merge, again=self.was_sent)
        if isinstance(merged, LookAgain | Pending):
            return merged
        return Publication(merged, EFFECT_LABELS[MergeStaged])

    async def _decide(self) -> rules.FinishDecision:
        """By the table; what both sides have changed is read only where the table needs it."""
        facts = await self._read_facts()
        decision = rules.decide_finish(facts)
        if isinstance(decision, rules.RebaseRun):
            touched = await find_touched(
                self.attempt.ports, self.run, self.head.commit, decision.head
            )
            return rules.decide_finish(replace(facts, touched=touched))
        return decision

    async def _read_facts(self) -> rules.FinishFacts:
        """The run branch first: it is removed only after the target shows the run."""
        run, lakefs, head = self.run, self.attempt.ports.lakefs, None
        with suppress(BranchMissingError):
            head = (await lakefs.branches.head(run.repository, run.run_branch)).commit
        walk = await lakefs.commits.first_parents(
            run.repository, run.branch, run.base, commits_max=FIRST_PARENT_COMMITS_MAX
        )
        head = head if self.base_stands else None
        return rules.FinishFacts(
            run, self.head.commit, head, self.decided, walk, self.params.on_moved
        )

    async def _prepare(self, decision: rules.FinishDecision) -> Merge | Publication | LookAgain:
        """Agree, and make what is to be merged; or the end, where nothing is."""
        run, head = self.run, self.head.commit
        match decision:
            case Keep(ref):
                return Publication(ref, EFFECT_LABELS[Keep])
            case Adopt(record):
                return Publication(record.commit, EFFECT_LABELS[Adopt], record.metadata)
            case Refusal(code, reason):
                raise errors.RunRefusedError(reason, code=code)
            case rules.MergeRun():
                await self._agree()
                return self._merge(run.base, head)
            case rules.RebaseRun(onto):
                await self._agree()
                made = await rebase_run(self.attempt, self._merge(onto, head))
                return made if isinstance(made, LookAgain) else self._merge(onto, made)
            case _:
                assert_never(decision)

    async def _agree(self) -> None:
        """The decision: from now on every attempt of this finish publishes this head."""
        if self.decided:
            return
        tag, commit = decision_tag(self.key), self.head.commit
        found = await put_if_absent(self.attempt.ports, self.run.repository, tag, commit)
        _refuse_other_decision(self.run, tag, found, commit)
        self.decided = True
        self.attempt.ports.progress.phase(Phase.DECIDED, {"commit": commit, "mine": True})

    def _merge(self, expected_head: CommitId, source: CommitId) -> Merge:
        """The merge of a commit onto the head that it was made for."""
        attempt, run, head = self.attempt, self.run, self.head.commit
        workspace = WorkspaceReference(run.repository, run.branch, run.base)
        target = Target(attempt, workspace, ROOT_PREFIX, Isolation.BRANCH, Level.SETTLED, self.key)
        metadata = rules.run_metadata(
            target.identity,
            run,
            run_head=head,
            expected_head=expected_head,
            tasks=self.tasks,
        )
        message = commit_message(attempt.row, CONFIRM)
        history = self.params.history
        return Merge(run, head, source, expected_head, history, metadata, message)


FINISH_TASK = TaskDefinition(
    name="perago.finish",
    owner_email="perago@example.com",
    description="Publishes what the tasks since perago.begin have done, as one commit, or refuses.",
    fn=finish,
    params_model=FinishParams,
    output_model=FinishResult,
    strict_params=True,  # a misspelt option would be taken for its default
    built_in=True,
)


BUILT_IN = (JOIN_TASK, BEGIN_TASK, FINISH_TASK)


def served_tasks(tasks: Sequence[TaskDefinition]) -> list[TaskDefinition]:
    """The tasks of a worker, and the built-in ones if it has lakeFS, which they need.

    A task of the author with such a name counts for more: releases before had fewer of them.
    """
    names = {task.name for task in tasks}
    has_lakefs = any(task.has_workspace for task in tasks)
    more = [task for task in BUILT_IN if task.name not in names] if has_lakefs else []
    return [*tasks, *more]
