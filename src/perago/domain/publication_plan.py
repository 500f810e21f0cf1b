"""`WorkspacePublicationPlan`: policy and facts in, the one effect out, with all it has to say.

The only place where a policy is chosen; pure, and the only place that raises a refusal.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from perago.domain import head_parent, lineage, settled
from perago.domain.commit_metadata import (
    CONFIRM,
    PublicationIdentity,
    commit_message,
    confirm_metadata,
)
from perago.domain.errors import PublishFenceError
from perago.domain.logical_execution import (
    NO_METADATA,
    BranchName,
    CommitId,
    RepositoryId,
    StagedReference,
)
from perago.domain.publication import (
    Decision,
    Effect,
    Level,
    MergeExactTree,
    MergeStaged,
    Policy,
    PublicationFacts,
    Refusal,
)

POLICIES: Mapping[Policy, Callable[[PublicationFacts], Decision]] = {
    Policy.HEAD_PARENT: head_parent.decide,
    Policy.LINEAGE: lineage.decide,
    Policy.SETTLED: settled.decide,
}


@dataclass(frozen=True, slots=True)
class WorkspacePublicationPlan:
    """One publication, complete: `base` is the head this plan was made for."""

    policy: Policy
    level: Level
    repository: RepositoryId
    branch: BranchName
    input_ref: CommitId
    base: CommitId
    staged: StagedReference | None
    effect: Effect
    supersedes: str | None
    metadata: Mapping[str, str]
    message: str


def build_workspace_publication_plan(
    level: Level, facts: PublicationFacts, identity: PublicationIdentity
) -> WorkspacePublicationPlan:
    """Decide by the level's policy; a refusal is raised as `PublishFenceError`."""
    decision = POLICIES[level.policy](facts)
    if isinstance(decision, Refusal):
        # Under `settled` the decision stands and its head is gone: no retry can publish it. The
        # documents' policies compute again, and say FAILED.
        terminal = level.policy is Policy.SETTLED
        raise PublishFenceError(decision.reason, code=decision.code, terminal=terminal)
    supersedes = _supersedes(level.policy, decision)
    return WorkspacePublicationPlan(
        policy=level.policy,
        level=level,
        repository=facts.workspace.repository,
        branch=facts.workspace.branch,
        input_ref=facts.workspace.ref,
        base=facts.walk.head.commit,
        staged=facts.staged,
        effect=decision,
        supersedes=supersedes,
        metadata=_metadata(decision, identity, supersedes),
        message=commit_message(identity.attempt, CONFIRM),
    )


def _supersedes(policy: Policy, effect: Effect) -> str | None:
    """Only `lineage` names what it supersedes: a commit, or the empty string for nothing."""
    if policy is not Policy.LINEAGE:
        return None
    return effect.expected_head if isinstance(effect, MergeExactTree) else ""


def _metadata(
    effect: Effect, identity: PublicationIdentity, supersedes: str | None
) -> Mapping[str, str]:
    """Metadata of the merge that the effect asks for; other effects write no commit."""
    if not isinstance(effect, MergeStaged | MergeExactTree):
        return NO_METADATA
    # A revert has no staged commit: the tree is the input's, the private branch is mine.
    mine, place = BranchName(identity.staging_branch), identity.workspace
    staged = effect.staged or StagedReference(place.repository, mine, place.ref)
    return confirm_metadata(
        identity, staged=staged, expected_head=effect.expected_head, supersedes=supersedes
    )
