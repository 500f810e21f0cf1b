"""Agreeing on one staged commit: the decision of an execution, made once by a tag.

Every attempt of an execution proposes its own staged commit. lakeFS creates a tag only if it is
absent, so one proposal wins, and a later attempt finds the decision instead of making one.
"""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from perago.app.attempt.complete import delete_staging
from perago.app.attempt.context import Attempt, Target
from perago.app.attempt.patience import LAKEFS
from perago.app.attempt.stage import (
    STAGED_COMMITS_MAX,
    refuse_foreign_branch,
    refuse_foreign_changes,
    refuse_unless_on_input,
)
from perago.app.authoring.envelope import check_stored_result
from perago.domain import commit_metadata as metadata
from perago.domain import errors
from perago.domain.lakefs import BranchName, CommitId, CommitRecord, StagedReference
from perago.domain.logical_execution import decision_tag
from perago.domain.outcome import join_result
from perago.ports.errors import OutcomeUnknownError, ServiceError, TagExistsError, UnavailableError
from perago.ports.workspace import Phase


@dataclass(frozen=True, slots=True)
class SettledDecision:
    """The one staged commit of a logical execution, and the result it stands for."""

    staged: StagedReference
    noop: bool
    result: Mapping[str, object]


async def agree(target: Target, mine: SettledDecision) -> SettledDecision:
    """Propose mine; whatever the tag says afterwards is the decision."""
    ports, attempt = target.ports, target.attempt
    attempt.leftovers.staging_may_go = False
    attempt.leftovers.proposed = mine.staged.commit
    commit = await _put_decision(target, mine.staged.commit)
    attempt.leftovers.decided = True
    if commit == mine.staged.commit:
        ports.progress.phase(Phase.DECIDED, {"commit": commit, "mine": True})
        return mine
    await delete_staging(ports, mine.staged.repository, mine.staged.branch)
    attempt.leftovers.staging = attempt.leftovers.proposed = None
    decision = await read_decision(target, commit)
    attempt.leftovers.staging = (decision.staged.repository, decision.staged.branch)
    attempt.leftovers.proposed = commit
    ports.progress.phase(Phase.DECIDED, {"commit": commit, "mine": False})
    return decision


async def _put_decision(target: Target, proposal: CommitId) -> CommitId:
    """Put the tag if absent; a lost answer is settled by reading it."""
    ports, attempt = target.ports, target.attempt
    repository, tags = target.workspace.repository, ports.lakefs.tags
    assert target.key is not None, "settled always has a key"
    tag, sent = decision_tag(target.key), False

    async def put() -> CommitId:
        nonlocal sent
        try:
            await tags.create(repository, tag, proposal)
        except TagExistsError:
            found = await tags.read(repository, tag)
            if found is None:  # removed in this moment, for example by `perago reset-task`
                raise UnavailableError(f"tag {tag} is taken and cannot be read") from None
            return found
        except OutcomeUnknownError:
            sent = True
            raise
        return proposal

    async def look() -> CommitId | None:
        return await tags.read(repository, tag)

    try:
        return await ports.patience.until_done(LAKEFS, f"decision {tag}", put, look)
    except (OutcomeUnknownError, UnavailableError) as error:
        seen, cause = str(error), error.cause
    except ServiceError:
        attempt.leftovers.staging_may_go = not sent  # refused: nothing was decided by this
        raise
    evidence = {"tag": tag, "staged": proposal, "staging_branch": attempt.staging_branch}
    ports.warn(errors.OUTCOME_UNKNOWN, seen=seen, **evidence)
    raise errors.OutcomeUnknownAtDeadlineError(f"decision {tag}: {seen}", cause=cause)


async def read_decision(target: Target, commit: CommitId) -> SettledDecision:
    """Read a decision back from its staged commit, and believe it on what that commit is.

    Whoever may create tags can put the decision of this key on any commit, with any metadata.
    """
    workspace = target.workspace
    record = await target.ports.lakefs.commits.read(workspace.repository, commit)
    expected = {metadata.LOGICAL_EXECUTION_KEY: target.key or "", metadata.INPUT_REF: workspace.ref}
    for name, value in expected.items():
        found = record.metadata.get(name, "nothing")
        if found != value:
            text = f"decision {commit} does not belong here: {name} expected {value}, found {found}"
            raise errors.PublishFenceError(
                f"{text}; {_remove_command(target.attempt)}", code="PRG-F006", terminal=True
            )
    await _believe(target, record)
    return await decision_of(target, record, input_ref=workspace.ref)


async def _believe(target: Target, record: CommitRecord) -> None:
    """Raise, without a retry, unless an attempt of this task may have staged this commit."""
    ports, attempt = target.ports, target.attempt
    workspace, commit = target.workspace, record.commit
    branch = record.metadata.get(metadata.STAGING_BRANCH, "")
    try:
        refuse_foreign_branch(attempt.row, commit, branch)
        await ports.concurrency.together(
            refuse_unless_on_input(ports, workspace, commit),
            refuse_foreign_changes(ports, workspace, commit, target.prefix),
        )
    except errors.PublicationRefusedError as error:
        text = f"{error}; {_remove_command(attempt)}"
        raise errors.PublicationRefusedError(text, code=error.code, terminal=True) from error


def _remove_command(attempt: Attempt) -> str:
    row = attempt.row
    command = shlex.join(("perago", "reset-task", row.workflow_id, row.reference_name))
    return f"`{command}` removes the decision"


async def decision_of(
    target: Target, record: CommitRecord, *, input_ref: CommitId
) -> SettledDecision:
    """The decision a staged commit stands for, its result joined from the commits below.

    The result must still fit the model of today, because no attempt can complete with another one.
    So that is checked before anything is published.
    """
    repository = target.workspace.repository
    below: tuple[CommitRecord, ...] = ()
    if metadata.RESULT_PARTS in record.metadata:
        walk = await target.ports.lakefs.commits.first_parents(
            repository, record.commit, input_ref, commits_max=STAGED_COMMITS_MAX
        )
        below = walk.above[1:]
    branch = BranchName(record.metadata.get(metadata.STAGING_BRANCH, ""))
    result = join_result(record.metadata, [piece.metadata for piece in below])
    check_stored_result(target.attempt.task, result)
    return SettledDecision(
        staged=StagedReference(repository, branch, record.commit),
        noop=record.metadata.get(metadata.NOOP) == "true",
        result=result,
    )
