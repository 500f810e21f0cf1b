"""Finishing what was decided before: no download, no body, the result comes from the decision."""

from dataclasses import dataclass

from perago.app.attempt.agree import decision_of, read_decision
from perago.app.attempt.context import Target
from perago.app.attempt.publish import Finished, finish_decision
from perago.domain import commit_metadata as metadata
from perago.domain import lakefs, settled
from perago.domain.errors import DecidedOnOtherInputError
from perago.domain.logical_execution import ExecutionInput, decision_key, key_on_input
from perago.domain.publication import Isolation, PublicationFacts
from perago.domain.run import start_anew
from perago.ports.errors import MissingError
from perago.ports.lakefs import Commits, TagRecord
from perago.ports.workspace import Phase


async def resume(target: Target, decided: lakefs.CommitId) -> Finished:
    """Finish the decision of an earlier attempt of this execution."""
    decision, leftovers = await read_decision(target, decided), target.attempt.leftovers
    leftovers.staging = (decision.staged.repository, decision.staged.branch)
    leftovers.staging_may_go = False
    leftovers.proposed = decision.staged.commit
    leftovers.decided = True
    target.ports.progress.phase(Phase.RESUMED, {"commit": decided, "noop": decision.noop})
    return await finish_decision(target, decision)


async def find_decision_on_other_input(target: Target) -> Finished | None:
    """A retry may meet decisions of its own chain on another input or for other params.

    of one of them the target has   same params, same branch   other params or branch   nothing
    isolation="branch"              it is the output           terminal                 go on
    isolation="prefix"              it is the output           terminal                 terminal

    Under branch isolation each of them can be published on its own input only, so at most one
    of them and of what this attempt will decide is. Two could be published under prefix isolation,
    where the head may have moved below all of them, and where one is for another branch that
    still stands on its input, because what this attempt publishes does not move that branch.
    """
    if not target.level.shape.decides_by_tag:
        return None
    anew = start_anew(target.workspace.repository, target.workspace.branch)
    refused: lakefs.CommitId | None = None
    open_elsewhere = target.isolation is Isolation.PREFIX
    for tag in target.others:
        commits = target.ports.lakefs.commits
        published = await find_publication_of(commits, target.workspace.repository, tag)
        if isinstance(published, OpenDecision):
            open_elsewhere |= published.branch != target.workspace.branch
        if not isinstance(published, PublishedDecision):
            continue
        theirs = ExecutionInput(published.workspace, published.prefix, target.attempt.params)
        assert target.key is not None, "settled always has a key"
        same_params = key_on_input(target.key, theirs) == decision_key(tag.name)
        if same_params and published.workspace.branch == target.workspace.branch:
            return await _adopt(target, tag.commit, published)
        refused = published.record.commit
    if refused is not None:
        text = (
            f"an earlier attempt published {refused} for other params or on another branch, and "
            f"this one would publish a second time; {anew}"
        )
        raise DecidedOnOtherInputError(text, code="PRG-F026")
    if target.others and open_elsewhere:
        text = (
            f"an earlier attempt decided {target.others[0].commit} for another input and may yet "
            f"publish it; this one has {target.workspace.ref}; {anew}"
        )
        raise DecidedOnOtherInputError(text)
    return None


@dataclass(frozen=True, slots=True)
class PublishedDecision:
    """The commit on a target that published a decision, and where that decision belongs."""

    record: lakefs.CommitRecord
    workspace: lakefs.WorkspaceReference
    prefix: str


@dataclass(frozen=True, slots=True)
class OpenDecision:
    """A decision that is not published, on a branch that still stands on its input."""

    branch: lakefs.BranchName


async def find_publication_of(
    commits: Commits, repository: lakefs.RepositoryId, tag: TagRecord
) -> PublishedDecision | OpenDecision | None:
    """Look for the publication of a decision on the branch that its metadata names."""
    decided = (await commits.read(repository, tag.commit)).metadata
    workspace = lakefs.WorkspaceReference(
        repository,
        lakefs.BranchName(decided.get(metadata.TARGET_BRANCH, "")),
        lakefs.CommitId(decided.get(metadata.INPUT_REF, "")),
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
            logical_task_key=decided.get(metadata.LOGICAL_TASK_KEY, ""),
            execution_key=decision_key(tag.name),
            isolation=Isolation.PREFIX,  # anywhere above the input: the head may have moved
        )
    )
    if found is not None:
        return PublishedDecision(found, workspace, decided.get(metadata.PREFIX, ""))
    return OpenDecision(workspace.branch) if walk.head.commit == workspace.ref else None


async def _adopt(
    target: Target, decided: lakefs.CommitId, published: PublishedDecision
) -> Finished:
    """The publication with the result of what was staged for it.

    That need not be the decision: one may have been removed and made again since.
    """
    found = published.record
    staged = found.metadata.get(metadata.STAGING_COMMIT, decided)
    record = await target.ports.lakefs.commits.read(target.workspace.repository, staged)
    decision = await decision_of(target, record, input_ref=published.workspace.ref)
    target.attempt.leftovers.decided = True
    return Finished(found.commit, decision.result)
