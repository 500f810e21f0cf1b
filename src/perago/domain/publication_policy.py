"""Which policy runs, and how strong it is: the setting, the fence and an earlier decision say.

Knows nothing of how a fence is probed; an untrusted fence is never a silent downgrade.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias


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
