"""Which policy runs at which level: the setting, the fence, and an earlier decision."""

from itertools import product

import pytest

from perago.domain.fence import FenceState
from perago.domain.policy import Level, Policy, PolicyRefusal, PolicySetting, choose_level

REFUSED = "refused"
TABLE = {
    # setting          trusted, absent, altered, dead, distrusted
    PolicySetting.AUTO: ("settled", "head-parent", *[REFUSED] * 3),
    PolicySetting.SETTLED: ("settled", *[REFUSED] * 4),
    PolicySetting.HEAD_PARENT: ("head-parent+fence", *["head-parent"] * 4),
    PolicySetting.LINEAGE: ("lineage+fence", *["lineage"] * 4),
}
FENCES = (
    FenceState.TRUSTED,
    FenceState.ABSENT,
    FenceState.ALTERED,
    FenceState.DEAD,
    FenceState.DISTRUSTED,
)
CELLS = list(product(PolicySetting, range(5)))
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


@pytest.mark.parametrize(
    ("fence", "code", "fault", "command"),
    [
        (FenceState.ABSENT, "PRG-F020", "has no publication fence", "install"),
        (FenceState.ALTERED, "PRG-F021", "is not one that Perago has written", "install"),
        (FenceState.DEAD, "PRG-F022", "does not enforce the fence", "verify"),
        (FenceState.DISTRUSTED, "PRG-F023", "without running the fence", "verify"),
    ],
    ids=str,
)
def test_a_refusal_names_the_fault_and_a_command_that_can_be_run(
    fence: FenceState, code: str, fault: str, command: str
) -> None:
    refusal = choose_level(PolicySetting.SETTLED, fence, decision_found=False)
    assert isinstance(refusal, PolicyRefusal)
    assert refusal.code == code
    reason = refusal.on("lake", "main")
    assert fault in reason
    assert f"`perago fence {command} lake main`" in reason
    assert "REPO" not in reason
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
    names = ["absent", "trusted", "altered", "dead", "distrusted"]
    assert [state.value for state in FenceState] == names
