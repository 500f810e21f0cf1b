"""Before anything moves: which policy applies here, and was this execution decided already?"""

from collections.abc import Mapping
from dataclasses import dataclass

from perago.app.attempt.dispatch import Dispatch, Ground
from perago.app.attempt.world import World
from perago.app.authoring.workspace_spec import WorkspaceSpec
from perago.domain.attempt_fence import Stale, compare_wide
from perago.domain.errors import FenceNotTrustedError, StaleAttemptError
from perago.domain.logical_execution import (
    AttemptMark,
    Epoch,
    LogicalExecutionKey,
    attempt_mark_tag,
    attempt_marks_of_task,
    decision_tag,
    execution_key,
    find_epoch,
    parse_attempt_mark,
)
from perago.domain.publication_facts import Isolation
from perago.domain.publication_policy import (
    FenceState,
    Level,
    PolicyRefusal,
    PolicySetting,
    choose_level,
)
from perago.domain.publish_budget import merge_timeout_seconds
from perago.domain.references import CommitId, WorkspaceReference
from perago.ports.errors import OutcomeUnknownError, TagExistsError, UnavailableError
from perago.ports.progress import Phase

MARK_PAGES_MAX = 100
MARK_TRIES_MAX = 5
MARK_PAUSE_SECONDS = 0.1
PREFIX_BUDGET_SECONDS_MIN = 15.0
"""Across processes the losers of 32 publishers at 20 ms waited up to 5.4 s."""


@dataclass(frozen=True, slots=True)
class Footing:
    """The ground, and the commit that an earlier attempt decided on, if there is one."""

    ground: Ground
    decided: CommitId | None


async def find_ground(
    world: World, dispatch: Dispatch, workspace: WorkspaceReference, spec: WorkspaceSpec
) -> Footing:
    """Check the input, look at its fence and for an earlier decision, and choose the level.

    Nothing is written before the input is known to be a commit, because a tag or a canary on a
    branch that somebody named by mistake would stay. Where the input has no fence file, no
    attempt can have decided on it: a key names its input commit, and only `settled`, which needs
    the fence, makes decisions. So such an attempt leaves no mark and needs no right to tags.

    Raises FenceNotTrustedError when the setting relies on a fence that does not work.
    """
    lakefs = world.lakefs
    _, fence = await world.concurrency.together(
        lakefs.places.check(workspace, world.concurrency, writes=True),
        lakefs.trust.file(workspace.repository, workspace.ref),
    )
    key: LogicalExecutionKey | None = None
    decided: CommitId | None = None
    if fence is not FenceState.ABSENT:
        fence, (key, decided) = await world.concurrency.together(
            _prove(world, workspace, fence),
            _look_for_decision(world, dispatch, workspace, spec.prefix),
        )
    level = _level(dispatch, workspace, fence, decided)
    isolation = Isolation(spec.isolation)
    if isolation is Isolation.PREFIX and level is not Level.SETTLED:
        text = f'isolation="prefix" needs policy settled, the level in force is {level}'
        command = f"perago fence install {workspace.repository} {workspace.branch}"
        raise FenceNotTrustedError(f"{text}; run `{command}`", terminal=True)
    world.progress.phase(Phase.POLICY, _facts(level, fence, key))
    seconds = merge_timeout_seconds(dispatch.budget)
    if isolation is Isolation.PREFIX and seconds < PREFIX_BUDGET_SECONDS_MIN:
        text = 'the publish budget is short for isolation="prefix": losers of a race wait longer'
        facts = {"warning": text, "seconds": seconds, "expected": PREFIX_BUDGET_SECONDS_MIN}
        world.progress.phase(Phase.WARNED, facts)
    return Footing(Ground(workspace, spec.prefix, isolation, level, key), decided)


async def _prove(world: World, workspace: WorkspaceReference, fence: FenceState) -> FenceState:
    """Only a file that is one of ours is worth a canary."""
    if fence is not FenceState.TRUSTED:
        return fence
    return await world.lakefs.trust.proven(workspace.repository, workspace.ref)


def _level(
    dispatch: Dispatch,
    workspace: WorkspaceReference,
    fence: FenceState,
    decided: CommitId | None,
) -> Level:
    choice = choose_level(dispatch.publication, fence, decision_found=decided is not None)
    if isinstance(choice, PolicyRefusal):
        reason = choice.on(workspace.repository, workspace.branch)
        raise FenceNotTrustedError(reason, code=choice.code, terminal=choice.terminal)
    return choice


def _facts(
    level: Level, fence: FenceState, key: LogicalExecutionKey | None
) -> Mapping[str, object]:
    return {"level": level, "fence": fence, "execution_key": key}


async def _look_for_decision(
    world: World, dispatch: Dispatch, workspace: WorkspaceReference, prefix: str
) -> tuple[LogicalExecutionKey | None, CommitId | None]:
    """The key, and its decision.

    A plain first attempt that cannot end under `settled` does not ask: nobody can have decided
    for it before.
    """
    attempt = dispatch.attempt
    first = attempt.retry_count == 0 and attempt.poll_count <= 1
    if first and dispatch.publication in {PolicySetting.HEAD_PARENT, PolicySetting.LINEAGE}:
        return None, None
    epoch = await _find_epoch(world, dispatch, workspace)
    key = execution_key(attempt, epoch, workspace, prefix)
    return key, await world.lakefs.tags.read(workspace.repository, decision_tag(key))


async def _leave_mark(world: World, dispatch: Dispatch, workspace: WorkspaceReference) -> None:
    """Put the mark of this attempt, until it is surely there: nothing may go on without it."""
    mark = attempt_mark_tag(dispatch.attempt)
    for number in range(1, MARK_TRIES_MAX + 1):
        try:
            await world.lakefs.tags.create(workspace.repository, mark, workspace.ref)
        except TagExistsError:  # an earlier try, or an earlier dispatch of this very attempt
            return
        except (OutcomeUnknownError, UnavailableError):
            if number == MARK_TRIES_MAX:
                raise
            await world.clock.sleep(MARK_PAUSE_SECONDS * number)
        else:
            return


async def _find_epoch(world: World, dispatch: Dispatch, workspace: WorkspaceReference) -> Epoch:
    """First attempts are their own epoch; later ones leave a mark and read the chain."""
    attempt = dispatch.attempt
    if attempt.retry_count == 0:
        return Epoch(attempt.task_id, attempt.scheduled_time)
    tags = world.lakefs.tags
    await _leave_mark(world, dispatch, workspace)
    workflow = await world.queue.read_workflow(attempt.workflow_id)
    # A retry of an older chain must not take the rows of a rerun for its own.
    verdict = compare_wide(attempt, workflow)
    if isinstance(verdict, Stale):
        raise StaleAttemptError(attempt.task_id, stale=verdict)
    marks: set[AttemptMark] = set()
    after = ""
    for _ in range(MARK_PAGES_MAX):
        page = await tags.list_page(workspace.repository, attempt_marks_of_task(attempt), after)
        marks |= {mark for tag in page.tags if (mark := parse_attempt_mark(tag.name))}
        if not page.more:
            break
        after = page.tags[-1].name
    return find_epoch(attempt, workflow.tasks if workflow else (), marks)
