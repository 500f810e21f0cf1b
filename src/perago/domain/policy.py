"""Which policy is in force, what varies by policy, and its one effect as a plan.

A new policy is a file with its table and promises, and its names and its row of `SHAPES` here:
docs/how-to/add-a-policy.md.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, TypeAlias

from perago.domain import commit_metadata, head_parent, lineage, settled
from perago.domain.errors import PublishFenceError
from perago.domain.fence import FenceState
from perago.domain.lakefs import NO_METADATA, BranchName, CommitId, RepositoryId, StagedReference
from perago.domain.publication import (
    Decision,
    Effect,
    Isolation,
    MergeExactTree,
    MergeStaged,
    Promises,
    PublicationFacts,
    Refusal,
)


class Policy(StrEnum):
    """The policies: each is its decision table and one row of `SHAPES`."""

    HEAD_PARENT = "head-parent"
    LINEAGE = "lineage"
    SETTLED = "settled"


class PolicySetting(StrEnum):
    """What a user may ask for."""

    AUTO = "auto"
    HEAD_PARENT = "head-parent"
    LINEAGE = "lineage"
    SETTLED = "settled"


PolicyName: TypeAlias = Literal["auto", "head-parent", "lineage", "settled"]
"""The same as text, for signatures that users read."""


class Level(StrEnum):
    """A policy together with the strength the fence gives it."""

    HEAD_PARENT = "head-parent"
    HEAD_PARENT_FENCED = "head-parent+fence"
    LINEAGE = "lineage"
    LINEAGE_FENCED = "lineage+fence"
    SETTLED = "settled"

    @property
    def policy(self) -> Policy:
        """The policy that decides at this level."""
        return Policy(self.value.removesuffix("+fence"))

    @property
    def shape(self) -> "PolicyShape":
        """What the steps of an attempt need to know of the policy."""
        return SHAPES[self.policy]

    @property
    def fenced(self) -> bool:
        """Whether the server compares the head inside its atomic step."""
        return self.shape.needs_fence or self.value.endswith("+fence")


@dataclass(frozen=True, slots=True)
class PolicyShape:
    """What varies by policy: no step of an attempt asks which policy runs, only for one of these.

    `decides_by_tag`: the attempts of one execution agree on one staged commit before it is
    published. So a retry finds the decision, never runs the task function again, and adopts a
    publication that is already there; and what refuses the decided commit, refuses it for good.
    """

    decide: Callable[[PublicationFacts], Decision]
    commits_read_max: int
    """How far down the target's first parents the table looks; 1 is the head alone."""
    promises: Sequence[Promises]
    """Without the fence and with it; with it alone for a policy that needs it."""
    decides_by_tag: bool = False
    needs_fence: bool = False
    isolations: frozenset[Isolation] = frozenset({Isolation.BRANCH})
    names_superseded: bool = False
    """Whether the publication's metadata names the commit that it supersedes."""
    reads_removed: bool = False
    """Whether the table reads `removed` of its facts: a request for each 1,000 changes."""
    relocates: bool = False
    """Whether it replaces a publication by a hard reset, which branch protection refuses."""
    fails_as_documented: bool = False
    """Whether outages end an attempt FAILED, as 0.6.1 documents it, in place of a hand-back."""


SHAPES: Mapping[Policy, PolicyShape] = {
    Policy.HEAD_PARENT: PolicyShape(
        head_parent.decide,
        commits_read_max=1,
        promises=head_parent.PROMISES,
        relocates=True,
        fails_as_documented=True,
    ),
    Policy.LINEAGE: PolicyShape(
        lineage.decide,
        # One more than it accepts, so that a longer history is told from one that just fits.
        commits_read_max=lineage.FIRST_PARENT_COMMITS_MAX + 1,
        promises=lineage.PROMISES,
        names_superseded=True,
        fails_as_documented=True,
    ),
    Policy.SETTLED: PolicyShape(
        settled.decide,
        commits_read_max=settled.FIRST_PARENT_COMMITS_MAX,
        promises=settled.PROMISES,
        decides_by_tag=True,
        needs_fence=True,
        isolations=frozenset(Isolation),
    ),
}


def fails_as_documented(setting: PolicySetting) -> bool:
    """Whether a setting asks for the ends of 0.6.1; `auto` names no policy, so it never does."""
    return setting is not PolicySetting.AUTO and SHAPES[Policy(setting)].fails_as_documented


AUTO_FENCED = Policy.SETTLED
AUTO_UNFENCED = Policy.HEAD_PARENT  # what 0.6.1 does, so that its users need change nothing


@dataclass(frozen=True, slots=True)
class PolicyRefusal:
    """No policy may run: the fence that the setting relies on does not work.

    The reason names a command with REPO and BRANCH in it, which are not known here.
    """

    code: str
    reason: str
    terminal: bool = False
    """Whether it lies in the input commit, which every retry has again."""

    def on(self, repository: str, branch: str) -> str:
        """The reason with a command that works as it stands."""
        return self.reason.replace("REPO BRANCH", f"{repository} {branch}")


PolicyChoice: TypeAlias = Level | PolicyRefusal


def asked_shapes(setting: PolicySetting) -> Mapping[Policy, PolicyShape]:
    """The policies that an attempt under this setting asks for: `auto` chooses between two."""
    auto = setting is PolicySetting.AUTO
    asked = (AUTO_FENCED, AUTO_UNFENCED) if auto else (Policy(setting),)
    return {policy: SHAPES[policy] for policy in asked}


def may_decide_by_tag(setting: PolicySetting) -> bool:
    """Whether an attempt under this setting can end under a policy that decides by a tag."""
    return any(shape.decides_by_tag for shape in asked_shapes(setting).values())


_INSTALL = (
    "run `perago fence install REPO BRANCH` and `perago fence verify REPO BRANCH`,"
    " then start a new workflow from the head"
)
_SWITCH_ON = (
    "switch hooks on in lakeFS (actions.enabled), then run `perago fence verify REPO BRANCH`;"
    " workers test the server again within two minutes"
)
_RESTART = "run `perago fence verify REPO BRANCH`, look at the branch, then restart this worker"
_ALTERED = "the fence file of the input commit is not one that Perago has written"
_UNENFORCED = "the server does not enforce the fence: a merge that must be rejected succeeded"
_FENCE_FAULT = {
    FenceState.ABSENT: ("PRG-F020", "the input commit has no publication fence", _INSTALL),
    FenceState.ALTERED: ("PRG-F021", _ALTERED, _INSTALL),
    FenceState.DEAD: ("PRG-F022", _UNENFORCED, _SWITCH_ON),
    FenceState.DISTRUSTED: ("PRG-F023", "the server published without running the fence", _RESTART),
}


def choose_level(
    setting: PolicySetting, fence: FenceState, *, decision_found: bool
) -> PolicyChoice:
    """Choose the level in force.

    fence:                   trusted              absent        altered, dead, distrusted
    a decision was found     settled *            refused       refused
    auto                     settled              head-parent   refused
    settled                  settled              refused       refused
    head-parent              head-parent+fence    head-parent   head-parent
    lineage                  lineage+fence        lineage       lineage

    * Or the policy that is asked for, if it decides by a tag: it may refuse what settled publishes.
    """
    trusted = fence is FenceState.TRUSTED
    if decision_found:
        asked = asked_shapes(setting).items()
        policy = next((each for each, shape in asked if shape.decides_by_tag), AUTO_FENCED)
    elif setting is PolicySetting.AUTO:
        policy = AUTO_UNFENCED if fence is FenceState.ABSENT else AUTO_FENCED
    else:
        policy = Policy(setting)
    if SHAPES[policy].needs_fence:
        return Level(policy) if trusted else _refuse(fence, policy if decision_found else None)
    return Level(f"{policy}+fence") if trusted else Level(policy)


def _refuse(fence: FenceState, decided_under: Policy | None) -> PolicyRefusal:
    code, fault, remedy = _FENCE_FAULT[fence]
    because = f"an earlier attempt decided under {decided_under}, but " if decided_under else ""
    terminal = fence in {FenceState.ABSENT, FenceState.ALTERED}
    return PolicyRefusal(code, f"{because}{fault}; {remedy}", terminal)


@dataclass(frozen=True, slots=True)
class WorkspacePublicationPlan:
    """One publication, complete: `base` is the head this plan was made for."""

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
    level: Level, facts: PublicationFacts, identity: commit_metadata.PublicationIdentity
) -> WorkspacePublicationPlan:
    """Decide by the level's policy; a refusal is raised as `PublishFenceError`."""
    shape = level.shape
    decision = shape.decide(facts)
    if isinstance(decision, Refusal):
        # Where a tag decides, the decision stands and its head is gone: no retry can publish it.
        # The documents' policies compute again, and say FAILED.
        terminal = shape.decides_by_tag
        raise PublishFenceError(decision.reason, code=decision.code, terminal=terminal)
    supersedes = None
    if shape.names_superseded:  # the empty text says that there is none
        supersedes = decision.expected_head if isinstance(decision, MergeExactTree) else ""
    return WorkspacePublicationPlan(
        level=level,
        repository=facts.workspace.repository,
        branch=facts.workspace.branch,
        input_ref=facts.workspace.ref,
        base=facts.walk.head.commit,
        staged=facts.staged,
        effect=decision,
        supersedes=supersedes,
        metadata=_metadata(decision, identity, supersedes),
        message=commit_metadata.commit_message(identity.attempt, commit_metadata.CONFIRM),
    )


def _metadata(
    effect: Effect, identity: commit_metadata.PublicationIdentity, supersedes: str | None
) -> Mapping[str, str]:
    """Metadata of the merge that the effect asks for; other effects write no commit."""
    if not isinstance(effect, MergeStaged | MergeExactTree):
        return NO_METADATA
    # A revert has no staged commit: the tree is the input's, the private branch is mine.
    mine, workspace = BranchName(identity.staging_branch), identity.workspace
    staged = effect.staged or StagedReference(workspace.repository, mine, workspace.ref)
    return commit_metadata.confirm_metadata(
        identity, staged=staged, expected_head=effect.expected_head, supersedes=supersedes
    )
