"""Staging: the changes of a workspace as one commit on the attempt's private branch."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from perago.app.attempt.choose_target import first_difference_outside
from perago.app.attempt.complete import delete_staging
from perago.app.attempt.context import Scope, World
from perago.app.authoring.envelope import check_stored_result
from perago.domain.attempt import AttemptSnapshot
from perago.domain.commit_metadata import (
    INPUT_REF,
    LOGICAL_EXECUTION_KEY,
    NOOP,
    RESULT_PARTS,
    STAGING_BRANCH,
    TRY,
    commit_message,
    try_metadata,
)
from perago.domain.errors import (
    OUTCOME_UNKNOWN,
    OutcomeUnknownAtDeadlineError,
    PublicationRefusedError,
    PublishFenceError,
)
from perago.domain.logical_execution import (
    NO_METADATA,
    BranchName,
    CommitId,
    CommitRecord,
    StagedReference,
    WorkspaceReference,
    decision_tag,
    is_staging_branch_of,
)
from perago.domain.outcome import join_result, split_result
from perago.domain.publication import Level
from perago.domain.settled import LOOKS_MAX
from perago.domain.sync_plan import SyncPlan
from perago.ports.errors import OutcomeUnknownError, TagExistsError, UnavailableError, WorldError
from perago.ports.lakefs import CommitRequest
from perago.ports.workspace import Materialised, Phase, StagingArea


async def stage_changes(
    world: World,
    scope: Scope,
    materialised: Materialised,
    plan: SyncPlan,
    result: Mapping[str, object],
) -> StagedReference:
    """Create the branch, bring the plan onto it, verify it, commit it.

    Under `settled` the commit carries the result, so that a retry can finish without the body.
    """
    own, below = _stored(scope, result)
    branch = await open_staging(world, scope)
    await _commit_below(world, scope, branch, below)
    place = scope.ground.workspace
    area = StagingArea(StagedReference(place.repository, branch, place.ref), scope.ground.prefix)
    counts = await world.lakefs.pipeline.transfer(materialised, plan, area)
    await world.lakefs.pipeline.verify(materialised, plan, area)
    commit = await _commit(world, scope, branch, own, empty=False)
    facts = {
        "branch": branch,
        "commit": commit,
        "objects": counts.objects,
        "bytes": counts.bytes,
        "transfer_requests": counts.requests,
    }
    world.progress.phase(Phase.STAGED, facts)
    return StagedReference(place.repository, branch, commit)


async def stage_nothing(
    world: World, scope: Scope, result: Mapping[str, object]
) -> StagedReference:
    """The decision of an unchanged workspace: an empty commit that is never merged."""
    own, below = _stored(scope, result)
    branch = await open_staging(world, scope)
    await _commit_below(world, scope, branch, below)
    commit = await _commit(world, scope, branch, {**own, NOOP: "true"}, empty=True)
    world.progress.phase(Phase.STAGED, {"branch": branch, "commit": commit, "noop": True})
    return StagedReference(scope.ground.workspace.repository, branch, commit)


async def commit_plainly(world: World, scope: Scope, branch: BranchName) -> CommitId:
    """Commit what somebody else wrote on an open branch, if anything, without saying more."""
    return await _commit(world, scope, branch, NO_METADATA, empty=True)


async def commit_pieces(
    world: World, scope: Scope, branch: BranchName, result: Mapping[str, object]
) -> None:
    """Commit the pieces of a large result on an open branch; the first takes changes along."""
    _, below = _stored(scope, result)
    await _commit_below(world, scope, branch, below)


async def commit_written(
    world: World, scope: Scope, branch: BranchName, result: Mapping[str, object], *, noop: bool
) -> StagedReference:
    """Commit what somebody else wrote on an open branch, or that nothing was written.

    It may be empty: the pieces of the result, or the body, may have committed the changes. The
    tree of the last commit is what is published.
    """
    own, _ = _stored(scope, result)
    extra = {**own, NOOP: "true"} if noop else own
    commit = await _commit(world, scope, branch, extra, empty=True)
    world.progress.phase(Phase.STAGED, {"branch": branch, "commit": commit, "noop": noop})
    return StagedReference(scope.ground.workspace.repository, branch, commit)


def _stored(
    scope: Scope, result: Mapping[str, object]
) -> tuple[Mapping[str, str], Sequence[Mapping[str, str]]]:
    if scope.ground.level is not Level.SETTLED:
        return NO_METADATA, ()
    stored = split_result(result)
    return stored.metadata, stored.below


async def open_staging(world: World, scope: Scope) -> BranchName:
    """Record the name first: whatever dies after this line, GC finds the branch."""
    place = scope.ground.workspace
    branch = scope.staging_branch
    if scope.traces.directory is not None:
        await world.directories.record_staging(scope.traces.directory, place.repository, branch)
    scope.traces.staging = (place.repository, branch)
    world.progress.phase(Phase.STAGING, {"repository": place.repository, "branch": branch})
    await world.lakefs.branches.create(place.repository, branch, place.ref)
    return branch


async def _commit_below(
    world: World, scope: Scope, branch: BranchName, below: Sequence[Mapping[str, str]]
) -> None:
    """Pieces of a large result stand in empty commits under the staged one."""
    for piece in below:
        await _commit(world, scope, branch, piece, empty=True)


async def _commit(
    world: World, scope: Scope, branch: BranchName, extra: Mapping[str, str], *, empty: bool
) -> CommitId:
    """Commit what is there; only a no-op and the pieces of a result may be empty."""
    request = CommitRequest(
        repository=scope.ground.workspace.repository,
        branch=branch,
        message=commit_message(scope.dispatch.attempt, TRY),
        metadata=try_metadata(scope.identity, extra),
        allow_empty=empty,
    )
    return await world.lakefs.commits.commit(request)


STAGED_COMMITS_MAX = 1000
"""One page of a walk. A result has at most 25 pieces below it; a Spark body may commit as well."""

CODE = "PRG-F025"


async def refuse_unless_on_input(
    world: World, workspace: WorkspaceReference, staged: CommitId
) -> None:
    """The input is among the first parents: a merge of anything else is not the staged tree."""
    walk = await world.lakefs.commits.first_parents(
        workspace.repository, staged, workspace.ref, commits_max=STAGED_COMMITS_MAX
    )
    if not walk.reached:
        text = f"staged commit {staged} does not stand on the input {workspace.ref}"
        raise PublicationRefusedError(f"{text}; nothing was published", code=CODE)


async def refuse_foreign_changes(
    world: World, workspace: WorkspaceReference, staged: CommitId, prefix: str
) -> None:
    """It differs from the input below the prefix only, and in nothing reserved."""
    path = await first_difference_outside(
        world, workspace.repository, workspace.ref, staged, prefix
    )
    if path is not None:
        text = f"staged commit {staged} changes {path}, which is outside prefix {prefix} or"
        raise PublicationRefusedError(f"{text} reserved; nothing was published", code=CODE)


def refuse_foreign_branch(attempt: AttemptSnapshot, staged: CommitId, branch: str) -> None:
    """It names a staging branch of this task: that one is deleted when the task has ended."""
    if not is_staging_branch_of(branch, attempt):
        text = f"staged commit {staged} names branch {branch!r}, expected one of this task"
        raise PublicationRefusedError(f"{text}; nothing was published", code=CODE)


@dataclass(frozen=True, slots=True)
class SettledDecision:
    """The one staged commit of a logical execution, and the result it stands for."""

    staged: StagedReference
    noop: bool
    result: Mapping[str, object]


async def decide(world: World, scope: Scope, mine: SettledDecision) -> SettledDecision:
    """Propose mine; whatever the tag says afterwards is the decision."""
    scope.traces.staging_may_go = False
    scope.traces.proposed = mine.staged.commit
    commit = await _agree(world, scope, mine.staged.commit)
    scope.traces.decided = True
    if commit == mine.staged.commit:
        world.progress.phase(Phase.DECIDED, {"commit": commit, "mine": True})
        return mine
    await delete_staging(world, mine.staged.repository, mine.staged.branch)
    scope.traces.staging = scope.traces.proposed = None
    decision = await read_decision(world, scope, commit)
    scope.traces.staging = (decision.staged.repository, decision.staged.branch)
    scope.traces.proposed = commit
    world.progress.phase(Phase.DECIDED, {"commit": commit, "mine": False})
    return decision


async def _agree(world: World, scope: Scope, proposal: CommitId) -> CommitId:
    """Put the tag if absent; a lost answer is settled by reading it."""
    repository = scope.ground.workspace.repository
    assert scope.ground.key is not None, "settled always has a key"
    tag = decision_tag(scope.ground.key)
    seen, sent = "the decision tag was not answered", False
    for look in range(LOOKS_MAX):
        try:
            await world.lakefs.tags.create(repository, tag, proposal)
        except TagExistsError:
            pass
        except (OutcomeUnknownError, UnavailableError) as error:
            sent = sent or isinstance(error, OutcomeUnknownError)
            seen = str(error)
        except WorldError:
            scope.traces.staging_may_go = not sent  # refused: nothing was decided by this
            raise
        else:
            return proposal
        try:
            found = await world.lakefs.tags.read(repository, tag)
        except UnavailableError as error:
            seen, found = str(error), None
        if found is not None:
            return found
        await world.clock.sleep(0.05 * (look + 1))
    evidence = {"tag": tag, "staged": proposal, "staging_branch": scope.staging_branch}
    told = {"warning": OUTCOME_UNKNOWN, "seen": seen, **evidence}
    world.progress.phase(Phase.WARNED, told)
    raise OutcomeUnknownAtDeadlineError(f"decision {tag}: {seen}")


async def read_decision(world: World, scope: Scope, commit: CommitId) -> SettledDecision:
    """Read a decision back from its staged commit, and believe it on what that commit is.

    Whoever may create tags can put the decision of this key on any commit, with any metadata.
    """
    place = scope.ground.workspace
    record = await world.lakefs.commits.read(place.repository, commit)
    expected = {LOGICAL_EXECUTION_KEY: scope.ground.key or "", INPUT_REF: place.ref}
    for name, value in expected.items():
        found = record.metadata.get(name, "nothing")
        if found != value:
            text = f"decision {commit} does not belong here: {name} expected {value}, found {found}"
            raise PublishFenceError(
                f"{text}; {_remove_command(scope)}", code="PRG-F006", terminal=True
            )
    await _believe(world, scope, record)
    return await decision_of(world, scope, record, input_ref=place.ref)


async def _believe(world: World, scope: Scope, record: CommitRecord) -> None:
    """Raise, without a retry, unless an attempt of this task may have staged this commit."""
    place, commit = scope.ground.workspace, record.commit
    branch = record.metadata.get(STAGING_BRANCH, "")
    try:
        refuse_foreign_branch(scope.dispatch.attempt, commit, branch)
        await world.concurrency.together(
            refuse_unless_on_input(world, place, commit),
            refuse_foreign_changes(world, place, commit, scope.ground.prefix),
        )
    except PublicationRefusedError as error:
        text = f"{error}; {_remove_command(scope)}"
        raise PublicationRefusedError(text, code=error.code, terminal=True) from error


def _remove_command(scope: Scope) -> str:
    attempt = scope.dispatch.attempt
    command = shlex.join(("perago", "reset-task", attempt.workflow_id, attempt.reference_name))
    return f"`{command}` removes the decision"


async def decision_of(
    world: World, scope: Scope, record: CommitRecord, *, input_ref: CommitId
) -> SettledDecision:
    """The decision a staged commit stands for, its result joined from the commits below.

    The result must still be one of today's model: nobody can complete with another, so it is
    found before anything is published.
    """
    repository = scope.ground.workspace.repository
    below: tuple[CommitRecord, ...] = ()
    if RESULT_PARTS in record.metadata:
        walk = await world.lakefs.commits.first_parents(
            repository, record.commit, input_ref, commits_max=STAGED_COMMITS_MAX
        )
        below = walk.above[1:]
    branch = BranchName(record.metadata.get(STAGING_BRANCH, ""))
    result = join_result(record.metadata, [piece.metadata for piece in below])
    check_stored_result(scope.dispatch.task, result)
    return SettledDecision(
        staged=StagedReference(repository, branch, record.commit),
        noop=record.metadata.get(NOOP) == "true",
        result=result,
    )
