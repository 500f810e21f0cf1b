"""Staging: the changes of a workspace as one commit on the attempt's private branch."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from perago.app.attempt.choose_target import first_difference_outside
from perago.app.attempt.complete import delete_staging
from perago.app.attempt.context import Attempt, AttemptPorts, Target
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
    ports: AttemptPorts,
    attempt: Attempt,
    target: Target,
    materialised: Materialised,
    plan: SyncPlan,
    result: Mapping[str, object],
) -> StagedReference:
    """Create the branch, bring the plan onto it, verify it, commit it.

    Under `settled` the commit carries the result, so that a retry can finish without the body.
    """
    own, below = _stored(target, result)
    branch = await open_staging(ports, attempt, target)
    await _commit_below(ports, attempt, target, branch, below)
    place = target.workspace
    area = StagingArea(StagedReference(place.repository, branch, place.ref), target.prefix)
    counts = await ports.lakefs.pipeline.transfer(materialised, plan, area)
    await ports.lakefs.pipeline.verify(materialised, plan, area)
    commit = await _commit(ports, attempt, target, branch, own, empty=False)
    facts = {
        "branch": branch,
        "commit": commit,
        "objects": counts.objects,
        "bytes": counts.bytes,
        "transfer_requests": counts.requests,
    }
    ports.progress.phase(Phase.STAGED, facts)
    return StagedReference(place.repository, branch, commit)


async def stage_nothing(
    ports: AttemptPorts, attempt: Attempt, target: Target, result: Mapping[str, object]
) -> StagedReference:
    """The decision of an unchanged workspace: an empty commit that is never merged."""
    own, below = _stored(target, result)
    branch = await open_staging(ports, attempt, target)
    await _commit_below(ports, attempt, target, branch, below)
    commit = await _commit(ports, attempt, target, branch, {**own, NOOP: "true"}, empty=True)
    ports.progress.phase(Phase.STAGED, {"branch": branch, "commit": commit, "noop": True})
    return StagedReference(target.workspace.repository, branch, commit)


async def commit_plainly(
    ports: AttemptPorts, attempt: Attempt, target: Target, branch: BranchName
) -> CommitId:
    """Commit what somebody else wrote on an open branch, if anything, without saying more."""
    return await _commit(ports, attempt, target, branch, NO_METADATA, empty=True)


async def commit_pieces(
    ports: AttemptPorts,
    attempt: Attempt,
    target: Target,
    branch: BranchName,
    result: Mapping[str, object],
) -> None:
    """Commit the pieces of a large result on an open branch; the first takes changes along."""
    _, below = _stored(target, result)
    await _commit_below(ports, attempt, target, branch, below)


async def commit_written(
    ports: AttemptPorts,
    attempt: Attempt,
    target: Target,
    branch: BranchName,
    result: Mapping[str, object],
    *,
    noop: bool,
) -> StagedReference:
    """Commit what somebody else wrote on an open branch, or that nothing was written.

    It may be empty: the pieces of the result, or the body, may have committed the changes. The
    tree of the last commit is what is published.
    """
    own, _ = _stored(target, result)
    extra = {**own, NOOP: "true"} if noop else own
    commit = await _commit(ports, attempt, target, branch, extra, empty=True)
    ports.progress.phase(Phase.STAGED, {"branch": branch, "commit": commit, "noop": noop})
    return StagedReference(target.workspace.repository, branch, commit)


def _stored(
    target: Target, result: Mapping[str, object]
) -> tuple[Mapping[str, str], Sequence[Mapping[str, str]]]:
    if target.level is not Level.SETTLED:
        return NO_METADATA, ()
    stored = split_result(result)
    return stored.metadata, stored.below


async def open_staging(ports: AttemptPorts, attempt: Attempt, target: Target) -> BranchName:
    """Record the name first: whatever dies after this line, GC finds the branch."""
    place = target.workspace
    branch = attempt.staging_branch
    if attempt.leftovers.directory is not None:
        await ports.directories.record_staging(
            attempt.leftovers.directory, place.repository, branch
        )
    attempt.leftovers.staging = (place.repository, branch)
    ports.progress.phase(Phase.STAGING, {"repository": place.repository, "branch": branch})
    await ports.lakefs.branches.create(place.repository, branch, place.ref)
    return branch


async def _commit_below(
    ports: AttemptPorts,
    attempt: Attempt,
    target: Target,
    branch: BranchName,
    below: Sequence[Mapping[str, str]],
) -> None:
    """Pieces of a large result stand in empty commits under the staged one."""
    for piece in below:
        await _commit(ports, attempt, target, branch, piece, empty=True)


async def _commit(
    ports: AttemptPorts,
    attempt: Attempt,
    target: Target,
    branch: BranchName,
    extra: Mapping[str, str],
    *,
    empty: bool,
) -> CommitId:
    """Commit what is there; only a no-op and the pieces of a result may be empty."""
    request = CommitRequest(
        repository=target.workspace.repository,
        branch=branch,
        message=commit_message(attempt.row, TRY),
        metadata=try_metadata(target.identity(attempt), extra),
        allow_empty=empty,
    )
    return await ports.lakefs.commits.commit(request)


STAGED_COMMITS_MAX = 1000
"""One page of a walk. A result has at most 25 pieces below it; a Spark body may commit as well."""

CODE = "PRG-F025"


async def refuse_unless_on_input(
    ports: AttemptPorts, workspace: WorkspaceReference, staged: CommitId
) -> None:
    """The input is among the first parents: a merge of anything else is not the staged tree."""
    walk = await ports.lakefs.commits.first_parents(
        workspace.repository, staged, workspace.ref, commits_max=STAGED_COMMITS_MAX
    )
    if not walk.reached:
        text = f"staged commit {staged} does not stand on the input {workspace.ref}"
        raise PublicationRefusedError(f"{text}; nothing was published", code=CODE)


async def refuse_foreign_changes(
    ports: AttemptPorts, workspace: WorkspaceReference, staged: CommitId, prefix: str
) -> None:
    """It differs from the input below the prefix only, and in nothing reserved."""
    path = await first_difference_outside(
        ports, workspace.repository, workspace.ref, staged, prefix
    )
    if path is not None:
        text = f"staged commit {staged} changes {path}, which is outside prefix {prefix} or"
        raise PublicationRefusedError(f"{text} reserved; nothing was published", code=CODE)


def refuse_foreign_branch(row: AttemptSnapshot, staged: CommitId, branch: str) -> None:
    """It names a staging branch of this task: that one is deleted when the task has ended."""
    if not is_staging_branch_of(branch, row):
        text = f"staged commit {staged} names branch {branch!r}, expected one of this task"
        raise PublicationRefusedError(f"{text}; nothing was published", code=CODE)


@dataclass(frozen=True, slots=True)
class SettledDecision:
    """The one staged commit of a logical execution, and the result it stands for."""

    staged: StagedReference
    noop: bool
    result: Mapping[str, object]


async def decide(
    ports: AttemptPorts, attempt: Attempt, target: Target, mine: SettledDecision
) -> SettledDecision:
    """Propose mine; whatever the tag says afterwards is the decision."""
    attempt.leftovers.staging_may_go = False
    attempt.leftovers.proposed = mine.staged.commit
    commit = await _agree(ports, attempt, target, mine.staged.commit)
    attempt.leftovers.decided = True
    if commit == mine.staged.commit:
        ports.progress.phase(Phase.DECIDED, {"commit": commit, "mine": True})
        return mine
    await delete_staging(ports, mine.staged.repository, mine.staged.branch)
    attempt.leftovers.staging = attempt.leftovers.proposed = None
    decision = await read_decision(ports, attempt, target, commit)
    attempt.leftovers.staging = (decision.staged.repository, decision.staged.branch)
    attempt.leftovers.proposed = commit
    ports.progress.phase(Phase.DECIDED, {"commit": commit, "mine": False})
    return decision


async def _agree(
    ports: AttemptPorts, attempt: Attempt, target: Target, proposal: CommitId
) -> CommitId:
    """Put the tag if absent; a lost answer is settled by reading it."""
    repository = target.workspace.repository
    assert target.key is not None, "settled always has a key"
    tag = decision_tag(target.key)
    seen, sent = "the decision tag was not answered", False
    for look in range(LOOKS_MAX):
        try:
            await ports.lakefs.tags.create(repository, tag, proposal)
        except TagExistsError:
            pass
        except (OutcomeUnknownError, UnavailableError) as error:
            sent = sent or isinstance(error, OutcomeUnknownError)
            seen = str(error)
        except WorldError:
            attempt.leftovers.staging_may_go = not sent  # refused: nothing was decided by this
            raise
        else:
            return proposal
        try:
            found = await ports.lakefs.tags.read(repository, tag)
        except UnavailableError as error:
            seen, found = str(error), None
        if found is not None:
            return found
        await ports.clock.sleep(0.05 * (look + 1))
    evidence = {"tag": tag, "staged": proposal, "staging_branch": attempt.staging_branch}
    told = {"warning": OUTCOME_UNKNOWN, "seen": seen, **evidence}
    ports.progress.phase(Phase.WARNED, told)
    raise OutcomeUnknownAtDeadlineError(f"decision {tag}: {seen}")


async def read_decision(
    ports: AttemptPorts, attempt: Attempt, target: Target, commit: CommitId
) -> SettledDecision:
    """Read a decision back from its staged commit, and believe it on what that commit is.

    Whoever may create tags can put the decision of this key on any commit, with any metadata.
    """
    place = target.workspace
    record = await ports.lakefs.commits.read(place.repository, commit)
    expected = {LOGICAL_EXECUTION_KEY: target.key or "", INPUT_REF: place.ref}
    for name, value in expected.items():
        found = record.metadata.get(name, "nothing")
        if found != value:
            text = f"decision {commit} does not belong here: {name} expected {value}, found {found}"
            raise PublishFenceError(
                f"{text}; {_remove_command(attempt)}", code="PRG-F006", terminal=True
            )
    await _believe(ports, attempt, target, record)
    return await decision_of(ports, attempt, target, record, input_ref=place.ref)


async def _believe(
    ports: AttemptPorts, attempt: Attempt, target: Target, record: CommitRecord
) -> None:
    """Raise, without a retry, unless an attempt of this task may have staged this commit."""
    place, commit = target.workspace, record.commit
    branch = record.metadata.get(STAGING_BRANCH, "")
    try:
        refuse_foreign_branch(attempt.row, commit, branch)
        await ports.concurrency.together(
            refuse_unless_on_input(ports, place, commit),
            refuse_foreign_changes(ports, place, commit, target.prefix),
        )
    except PublicationRefusedError as error:
        text = f"{error}; {_remove_command(attempt)}"
        raise PublicationRefusedError(text, code=error.code, terminal=True) from error


def _remove_command(attempt: Attempt) -> str:
    row = attempt.row
    command = shlex.join(("perago", "reset-task", row.workflow_id, row.reference_name))
    return f"`{command}` removes the decision"


async def decision_of(
    ports: AttemptPorts,
    attempt: Attempt,
    target: Target,
    record: CommitRecord,
    *,
    input_ref: CommitId,
) -> SettledDecision:
    """The decision a staged commit stands for, its result joined from the commits below.

    The result must still be one of today's model: nobody can complete with another, so it is
    found before anything is published.
    """
    repository = target.workspace.repository
    below: tuple[CommitRecord, ...] = ()
    if RESULT_PARTS in record.metadata:
        walk = await ports.lakefs.commits.first_parents(
            repository, record.commit, input_ref, commits_max=STAGED_COMMITS_MAX
        )
        below = walk.above[1:]
    branch = BranchName(record.metadata.get(STAGING_BRANCH, ""))
    result = join_result(record.metadata, [piece.metadata for piece in below])
    check_stored_result(attempt.task, result)
    return SettledDecision(
        staged=StagedReference(repository, branch, record.commit),
        noop=record.metadata.get(NOOP) == "true",
        result=result,
    )
