"""Finishing what was decided before: no download, no body, the result comes from the decision."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from perago.app.attempt.agree import SettledDecision, decision_of, read_decision
from perago.app.attempt.context import Attempt, AttemptPorts, Target
from perago.app.attempt.publish import Publication, publish
from perago.app.authoring.envelope import read_params, read_workspace_input, workspace_task_output
from perago.app.authoring.failure import result_for_exception
from perago.app.authoring.workspace_spec import WorkspaceInput
from perago.domain import settled
from perago.domain.attempt import AttemptStatus
from perago.domain.commit_metadata import (
    INPUT_REF,
    LOGICAL_TASK_KEY,
    PREFIX,
    STAGING_COMMIT,
    TARGET_BRANCH,
)
from perago.domain.errors import DecidedOnOtherInputError, StaleAttemptError
from perago.domain.logical_execution import (
    BranchName,
    CommitId,
    CommitRecord,
    ExecutionInput,
    FirstParentWalk,
    RepositoryId,
    WorkspaceReference,
    decision_key,
    key_on_input,
)
from perago.domain.publication import Isolation, PublicationFacts
from perago.ports.conductor import TerminalUpdate
from perago.ports.errors import MissingError
from perago.ports.lakefs import Commits, TagRecord
from perago.ports.workspace import Phase


@dataclass(frozen=True, slots=True)
class Finished:
    """The published commit and the result that belongs to it."""

    ref: CommitId
    result: Mapping[str, object]


async def finish_decision(
    ports: AttemptPorts,
    attempt: Attempt,
    target: Target,
    decision: SettledDecision,
    walk: FirstParentWalk | None = None,
) -> Finished:
    """Publish the decision, or adopt the publication that is already there.

    `walk` is the target as it was read beside the decision, if it was.
    """
    staged = None if decision.noop else decision.staged
    publication = await publish(ports, attempt, target, staged, walk)
    return Finished(publication.ref, await _result(ports, attempt, target, decision, publication))


async def resume(
    ports: AttemptPorts, attempt: Attempt, target: Target, decided: CommitId
) -> Finished:
    """Finish the decision of an earlier attempt of this execution."""
    decision = await read_decision(ports, attempt, target, decided)
    attempt.leftovers.staging = (decision.staged.repository, decision.staged.branch)
    attempt.leftovers.staging_may_go = False
    attempt.leftovers.proposed = decision.staged.commit
    attempt.leftovers.decided = True
    ports.progress.phase(Phase.RESUMED, {"commit": decided, "noop": decision.noop})
    return await finish_decision(ports, attempt, target, decision)


async def find_decision_on_other_input(
    ports: AttemptPorts,
    attempt: Attempt,
    target: Target,
    params: object,
    others: Sequence[TagRecord],
) -> Finished | None:
    """A retry may meet decisions of its own chain on another input or for other params.

    of one of them the target has   same params, same branch   other params or branch   nothing
    isolation="branch"              it is the output           terminal                 go on
    isolation="prefix"              it is the output           terminal                 terminal

    Under branch isolation each of them can be published on its own input only, so at most one
    of them and of what this attempt will decide is. Under prefix isolation the head may have
    moved below all of them, and two of them could be published.
    """
    if not target.level.shape.decides_by_tag:
        return None
    anew = settled.start_anew(target.workspace.repository, target.workspace.branch)
    refused: CommitId | None = None
    for tag in others:
        published = await find_publication_of(
            ports.lakefs.commits, target.workspace.repository, tag
        )
        if published is None:
            continue
        theirs = ExecutionInput(published.workspace, published.prefix, params)
        assert target.key is not None, "settled always has a key"
        same_params = key_on_input(target.key, theirs) == decision_key(tag.name)
        if same_params and published.workspace.branch == target.workspace.branch:
            return await _adopt(ports, attempt, target, tag.commit, published)
        refused = published.record.commit
    if refused is not None:
        text = (
            f"an earlier attempt published {refused} for other params or on another branch, and "
            f"this one would publish a second time; {anew}"
        )
        raise DecidedOnOtherInputError(text, code="PRG-F026")
    if others and target.isolation is Isolation.PREFIX:
        text = (
            f"an earlier attempt decided {others[0].commit} for another input and may yet publish "
            f"it; this one has {target.workspace.ref}; {anew}"
        )
        raise DecidedOnOtherInputError(text)
    return None


@dataclass(frozen=True, slots=True)
class PublishedDecision:
    """The commit on a target that published a decision, and where that decision belongs."""

    record: CommitRecord
    workspace: WorkspaceReference
    prefix: str


async def find_publication_of(
    commits: Commits, repository: RepositoryId, tag: TagRecord
) -> PublishedDecision | None:
    """Look for the publication of a decision on the branch that its metadata names."""
    decided = (await commits.read(repository, tag.commit)).metadata
    workspace = WorkspaceReference(
        repository,
        BranchName(decided.get(TARGET_BRANCH, "")),
        CommitId(decided.get(INPUT_REF, "")),
    )
    if not (workspace.branch and workspace.ref):
        return None  # not a staged commit of ours: it was never published
    try:
        walk = await commits.first_parents(
            repository,
            workspace.branch,
            workspace.ref,
            commits_max=settled.FIRST_PARENT_COMMITS_MAX,
        )
    except MissingError:
        return None  # the branch or the input is gone, and the publication with it
    found = settled.find_publication(
        PublicationFacts(
            workspace=workspace,
            walk=walk,
            staged=None,
            logical_task_key=decided.get(LOGICAL_TASK_KEY, ""),
            execution_key=decision_key(tag.name),
            isolation=Isolation.PREFIX,  # anywhere above the input: the head may have moved
        )
    )
    return None if found is None else PublishedDecision(found, workspace, decided.get(PREFIX, ""))


async def _adopt(
    ports: AttemptPorts,
    attempt: Attempt,
    target: Target,
    decided: CommitId,
    published: PublishedDecision,
) -> Finished:
    """The publication with the result of what was staged for it.

    That need not be the decision: one may have been removed and made again since.
    """
    found = published.record
    staged = found.metadata.get(STAGING_COMMIT, decided)
    record = await ports.lakefs.commits.read(target.workspace.repository, staged)
    decision = await decision_of(ports, attempt, target, record, input_ref=published.workspace.ref)
    return Finished(found.commit, decision.result)


async def _result(
    ports: AttemptPorts,
    attempt: Attempt,
    target: Target,
    decision: SettledDecision,
    publication: Publication,
) -> Mapping[str, object]:
    """The result of what is on the target: an adopted commit may be of an older decision."""
    staged = publication.adopted.get(STAGING_COMMIT, decision.staged.commit)
    if staged == decision.staged.commit:
        return decision.result
    workspace = target.workspace
    record = await ports.lakefs.commits.read(workspace.repository, staged)
    return (await decision_of(ports, attempt, target, record, input_ref=workspace.ref)).result


@dataclass(frozen=True, slots=True)
class GivenInput:
    """The validated input; the workspace is None for a workspace-free task."""

    params: Mapping[str, object]
    workspace: WorkspaceInput | None

    @property
    def reference(self) -> WorkspaceReference:
        """The workspace as a domain value."""
        assert self.workspace is not None, "only workspace tasks have one"
        given = self.workspace
        return WorkspaceReference(
            RepositoryId(given.repository), BranchName(given.branch), CommitId(given.ref)
        )


def read_input(attempt: Attempt) -> GivenInput:
    """Validate envelope and parameters before anything is moved."""
    data = attempt.record.input_data
    workspace = None
    strict = attempt.settings.strict_input
    if attempt.task.has_workspace:
        workspace = read_workspace_input(data, strict=strict)
    read_params(attempt.task, data, strict=strict)
    params = cast("Mapping[str, object]", data["params"])  # validated above
    return GivenInput(params, workspace)


def workspace_output(given: GivenInput, finished: Finished) -> Mapping[str, object]:
    """Input workspace with only `ref` changed, and the result.

    It was checked where it came from: the body's as it returned, a stored one as it was read.
    """
    assert given.workspace is not None, "only workspace tasks publish"
    return workspace_task_output(given.workspace, finished.ref, finished.result)


def free_output(result: Mapping[str, object]) -> Mapping[str, object]:
    """The result alone."""
    return {"result": dict(result)}


def failed_update(attempt: Attempt, error: Exception) -> TerminalUpdate | None:
    """The terminal update of a failure; None for a stale attempt, which ends nothing.

    An update names the task id alone. What it would end is the row of a rerun or a redelivery,
    or a row that a late heartbeat brought back beside its own retry.
    """
    if isinstance(error, StaleAttemptError):
        return None
    settings, row = attempt.settings, attempt.row
    result = result_for_exception(
        error,
        max_length=settings.failure_reason_max_length,
        secrets=settings.secrets,
        task=(row.workflow_id, row.reference_name),
    )
    return TerminalUpdate(
        attempt=row,
        worker_id=settings.worker_id,
        status=AttemptStatus(result.status),
        reason=result.reason_for_incompletion or "",
    )
