"""Which policy runs at which level: the setting, the fence, and an earlier decision."""

from itertools import product

import pytest

from perago.domain.publication_policy import (
    FenceState,
    Level,
    Policy,
    PolicyRefusal,
    PolicySetting,
    choose_level,
)

REFUSED = "refused"
TABLE = {
    # setting          trusted, absent, altered, dead
    PolicySetting.AUTO: ("settled", "head-parent", REFUSED, REFUSED),
    PolicySetting.SETTLED: ("settled", REFUSED, REFUSED, REFUSED),
    PolicySetting.HEAD_PARENT: ("head-parent+fence", "head-parent", "head-parent", "head-parent"),
    PolicySetting.LINEAGE: ("lineage+fence", "lineage", "lineage", "lineage"),
}
FENCES = (FenceState.TRUSTED, FenceState.ABSENT, FenceState.ALTERED, FenceState.DEAD)
CELLS = list(product(PolicySetting, range(4)))
CELL_IDS = [f"{setting}, fence {FENCES[column]}" for setting, column in CELLS]


@pytest.mark.parametrize(("setting", "column"), CELLS, ids=CELL_IDS)
def test_the_level_without_an_earlier_decision(setting: PolicySetting, column: int) -> None:
    choice = choose_level(setting, FENCES[column], decision_found=False)
    found = REFUSED if isinstance(choice, PolicyRefusal) else choice
    assert found == TABLE[setting][column]


@pytest.mark.parametrize(("setting", "column"), CELLS, ids=CELL_IDS)
def test_an_earlier_decision_wins_whatever_the_setting(setting: PolicySetting, column: int) -> None:
    choice = choose_level(setting, FENCES[column], decision_found=True)
    if FENCES[column] is FenceState.TRUSTED:
        assert choice is Level.SETTLED
    else:
        assert isinstance(choice, PolicyRefusal)
        assert choice.reason.startswith("an earlier attempt decided under settled, but the ")


REMEDY = "run `perago fence install REPO BRANCH` and `perago fence verify REPO BRANCH`"


@pytest.mark.parametrize(
    ("fence", "code", "fault"),
    [
        (FenceState.ABSENT, "PRG-F020", "the input commit has no publication fence"),
        (FenceState.ALTERED, "PRG-F021", "the fence file of the input commit is not one of ours"),
        (FenceState.DEAD, "PRG-F022", "the server merged what the fence had to refuse"),
    ],
    ids=str,
)
def test_a_refusal_names_the_fault_and_the_command(
    fence: FenceState, code: str, fault: str
) -> None:
    refusal = PolicyRefusal(code, f"{fault}; {REMEDY}")
    assert choose_level(PolicySetting.SETTLED, fence, decision_found=False) == refusal
    if fence is not FenceState.ABSENT:
        assert choose_level(PolicySetting.AUTO, fence, decision_found=False) == refusal


@pytest.mark.parametrize(
    ("level", "policy", "fenced"),
    [
        (Level.HEAD_PARENT, Policy.HEAD_PARENT, False),
        (Level.HEAD_PARENT_FENCED, Policy.HEAD_PARENT, True),
        (Level.LINEAGE, Policy.LINEAGE, False),
        (Level.LINEAGE_FENCED, Policy.LINEAGE, True),
        (Level.SETTLED, Policy.SETTLED, True),
    ],
    ids=str,
)
def test_a_level_is_a_policy_and_a_strength(
    level: Level,
    policy: Policy,
    fenced: bool,  # noqa: FBT001 - a column of the table
) -> None:
    assert (level.policy, level.fenced) == (policy, fenced)


def test_every_setting_but_auto_names_a_policy() -> None:
    assert {setting.value for setting in PolicySetting} == {*(one.value for one in Policy), "auto"}
    assert set(TABLE) == set(PolicySetting)


def test_the_states_of_a_fence_are_told_by_their_names() -> None:
    assert [state.value for state in FenceState] == ["absent", "trusted", "altered", "dead"]
