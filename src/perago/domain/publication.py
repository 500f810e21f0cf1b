"""What a policy is told before it decides: the target's history, the staged commit, the keys.

Collected by the application in one place; a policy never asks for more.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from perago.domain.logical_execution import (
    CommitId,
    CommitRecord,
    FirstParentWalk,
    StagedReference,
    WorkspaceReference,
)


class Isolation(StrEnum):
    """What must not have moved between the input and the head: the branch, or the prefix."""

    BRANCH = "branch"
    PREFIX = "prefix"


@dataclass(frozen=True, slots=True)
class PublicationFacts:
    """Facts of one moment, read before the last attempt fence.

    `staged` is None when nothing changed. `untouched` says that nothing under the prefix and
    nothing reserved differs between the input and the head; it is asked only under prefix
    isolation.
    """

    workspace: WorkspaceReference
    walk: FirstParentWalk
    staged: StagedReference | None
    logical_task_key: str
    execution_key: str | None = None
    isolation: Isolation = Isolation.BRANCH
    untouched: bool = False
    require_ownership: bool = False

    @property
    def at_input(self) -> bool:
        """Whether the target's head is the very commit this attempt started from."""
        return self.walk.head.commit == self.workspace.ref

    @property
    def child_of_input(self) -> bool:
        """Whether the head has exactly one parent, the input.

        Exactly one, because our merges squash: a commit with two parents is a human's merge.
        """
        return self.walk.head.parents == (self.workspace.ref,)

    def refusal_reason(self) -> str:
        """The documents' text for a head that cannot be explained."""
        verb = "complete no-op" if self.staged is None else "publish"
        place = self.workspace
        return (
            f"{place.branch} cannot {verb} from input ref {place.ref}; "
            f"current head is {self.walk.head.commit}"
        )


@dataclass(frozen=True, slots=True)
class MergeStaged:
    """Squash merge of the staged commit; the target is expected to be at `expected_head`."""

    staged: StagedReference
    expected_head: CommitId


@dataclass(frozen=True, slots=True)
class MergeExactTree:
    """Publish exactly the tree of `tree` on top of `expected_head`, superseding it."""

    tree: CommitId
    staged: StagedReference | None
    expected_head: CommitId


@dataclass(frozen=True, slots=True)
class Relocate:
    """Point the branch to `to`; `abandoned` is the head that leaves the history."""

    to: CommitId
    abandoned: CommitId
    owner_is_known: bool


@dataclass(frozen=True, slots=True)
class Keep:
    """Nothing is written; the output is the input ref."""

    ref: CommitId


@dataclass(frozen=True, slots=True)
class Adopt:
    """A publication of this very execution is already there; it is the output."""

    publication: CommitRecord


@dataclass(frozen=True, slots=True)
class Refusal:
    """What was found cannot be explained: nothing may be written."""

    code: str
    reason: str
    input_ref: CommitId
    head: CommitRecord


Effect: TypeAlias = MergeStaged | MergeExactTree | Relocate | Keep | Adopt
Decision: TypeAlias = Effect | Refusal


class Policy(StrEnum):
    """The three policies of the specification."""

    HEAD_PARENT = "head-parent"
    LINEAGE = "lineage"
    SETTLED = "settled"


class PolicySetting(StrEnum):
    """What a user may ask for."""

    AUTO = "auto"
    HEAD_PARENT = "head-parent"
    LINEAGE = "lineage"
    SETTLED = "settled"


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
    def fenced(self) -> bool:
        """Whether the server compares the head inside its atomic step."""
        return self is Level.SETTLED or self.value.endswith("+fence")


class FenceState(StrEnum):
    """What is known of the fence in the input commit and in the server."""

    ABSENT = "absent"
    TRUSTED = "trusted"
    ALTERED = "altered"
    DEAD = "dead"
    DISTRUSTED = "distrusted"


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

_INSTALL = (
    "run `perago fence install REPO BRANCH` and `perago fence verify REPO BRANCH`,"
    " then start a new workflow from the head"
)
_SWITCH_ON = (
    "switch hooks on in lakeFS (actions.enabled), then run `perago fence verify REPO BRANCH`;"
    " workers look again within two minutes"
)
_RESTART = "run `perago fence verify REPO BRANCH`, look at the branch, then restart this worker"
_ALTERED = "the fence file of the input commit is not one of ours"
_FENCE_FAULT = {
    FenceState.ABSENT: ("PRG-F020", "the input commit has no publication fence", _INSTALL),
    FenceState.ALTERED: ("PRG-F021", _ALTERED, _INSTALL),
    FenceState.DEAD: ("PRG-F022", "the server merged what the fence had to refuse", _SWITCH_ON),
    FenceState.DISTRUSTED: ("PRG-F023", "the server has published past the fence", _RESTART),
}


def choose_level(
    setting: PolicySetting, fence: FenceState, *, decision_found: bool
) -> PolicyChoice:
    """Choose the level in force.

    fence:                   trusted              absent        altered, dead, distrusted
    a decision was found     settled              refused       refused
    auto                     settled              head-parent   refused
    settled                  settled              refused       refused
    head-parent              head-parent+fence    head-parent   head-parent
    lineage                  lineage+fence        lineage       lineage
    """
    trusted = fence is FenceState.TRUSTED
    if decision_found or setting is PolicySetting.SETTLED:
        return Level.SETTLED if trusted else _refuse(fence, decision_found=decision_found)
    match setting:
        case PolicySetting.AUTO:
            if fence is FenceState.ABSENT:
                return Level.HEAD_PARENT
            return Level.SETTLED if trusted else _refuse(fence, decision_found=False)
        case PolicySetting.HEAD_PARENT:
            return Level.HEAD_PARENT_FENCED if trusted else Level.HEAD_PARENT
        case PolicySetting.LINEAGE:
            return Level.LINEAGE_FENCED if trusted else Level.LINEAGE


def _refuse(fence: FenceState, *, decision_found: bool) -> PolicyRefusal:
    code, fault, remedy = _FENCE_FAULT[fence]
    because = "an earlier attempt decided under settled, but " if decision_found else ""
    terminal = fence in {FenceState.ABSENT, FenceState.ALTERED}
    return PolicyRefusal(code, f"{because}{fault}; {remedy}", terminal)


HEAD_MOVED_TEXT = "perago.head_moved"

FENCE_SCRIPT = """\
local expected = action.commit.metadata["perago.expected_head"]
if expected ~= nil then
  local found = tostring(action.commit.parents[1])
  if expected ~= found then
    error("perago.head_moved " .. expected .. " " .. found)
  end
end
"""


def _indent(text: str, spaces: int) -> str:
    return "".join(f"{' ' * spaces}{line}\n" for line in text.splitlines())


# No branch filter: scratch branches of the canary must be covered as well.
FENCE_FILE = f"""\
name: perago publication fence
description: Refuses a Perago publication whose expected head is not the target's head. Version 1.
on:
  pre-merge:
hooks:
  - id: perago_expected_head
    type: lua
    properties:
      script: |
{_indent(FENCE_SCRIPT, 8)}""".encode()

# Every text that was ever shipped, newest first; an older one is trusted and replaced on install.
SHIPPED_FENCE_FILES: tuple[bytes, ...] = (FENCE_FILE,)


def recognise_fence(content: bytes | None) -> FenceState:
    """Tell what the fence file of a commit is; a live canary has to confirm TRUSTED."""
    if content is None:
        return FenceState.ABSENT
    return FenceState.TRUSTED if content in SHIPPED_FENCE_FILES else FenceState.ALTERED
