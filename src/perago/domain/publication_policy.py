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


@dataclass(frozen=True, slots=True)
class PolicyRefusal:
    """No policy may run: the fence that the setting relies on does not work."""

    code: str
    reason: str


PolicyChoice: TypeAlias = Level | PolicyRefusal

_FENCE_FAULT = {
    FenceState.ABSENT: ("PRG-F020", "the input commit has no publication fence"),
    FenceState.ALTERED: ("PRG-F021", "the fence file of the input commit is not one of ours"),
    FenceState.DEAD: ("PRG-F022", "the server merged what the fence had to refuse"),
}


def choose_level(
    setting: PolicySetting, fence: FenceState, *, decision_found: bool
) -> PolicyChoice:
    """Choose the level in force.

    fence:                   trusted              absent        altered or dead
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
    code, fault = _FENCE_FAULT[fence]
    because = "an earlier attempt decided under settled, but " if decision_found else ""
    remedy = "run `perago fence install REPO BRANCH` and `perago fence verify REPO BRANCH`"
    return PolicyRefusal(code, f"{because}{fault}; {remedy}")
