"""`settled`: all attempts of one logical execution agree on one staged commit, by one tag."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from perago.app.attempt.check_staged import (
    STAGED_COMMITS_MAX,
    refuse_foreign_branch,
    refuse_foreign_changes,
    refuse_unless_on_input,
)
from perago.app.attempt.clean_up import delete_staging
from perago.app.attempt.dispatch import Scope
from perago.app.attempt.world import World
from perago.app.authoring.envelope import check_stored_result
from perago.domain.commit_metadata import (
    INPUT_REF,
    LOGICAL_EXECUTION_KEY,
    NOOP,
    RESULT_PARTS,
    STAGING_BRANCH,
)
from perago.domain.errors import (
    OUTCOME_UNKNOWN,
    OutcomeUnknownAtDeadlineError,
    PublicationRefusedError,
    PublishFenceError,
)
from perago.domain.logical_execution import decision_tag
from perago.domain.references import (
    BranchName,
    CommitId,
    CommitRecord,
    StagedReference,
)
from perago.domain.result_storage import join_result
from perago.domain.settling import LOOKS_MAX
from perago.ports.errors import OutcomeUnknownError, TagExistsError, UnavailableError, WorldError
from perago.ports.progress import Phase


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
