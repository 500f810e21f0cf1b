"""Which policy runs at which level: the setting, the fence, and an earlier decision."""

from itertools import product
from typing import get_args

import pytest

from perago.domain.fence import FenceState
from perago.domain.policy import (
    SHAPES,
    Level,
    Policy,
    PolicyName,
    PolicyRefusal,
    PolicySetting,
    asked_shapes,
    choose_level,
    may_decide_by_tag,
)

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
CELLS = list(product(TABLE, range(5)))
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
    assert list(get_args(PolicyName)) == list(PolicySetting)
    assert set(TABLE) <= set(PolicySetting)


@pytest.mark.parametrize("policy", Policy, ids=str)
@pytest.mark.parametrize("fence", FENCES, ids=str)
def test_a_policy_runs_at_its_own_level_or_not_at_all(policy: Policy, fence: FenceState) -> None:
    choice = choose_level(PolicySetting(policy), fence, decision_found=False)
    if isinstance(choice, PolicyRefusal):
        assert SHAPES[policy].needs_fence
        assert fence is not FenceState.TRUSTED
    else:
        assert (choice.policy, choice.fenced) == (policy, fence is FenceState.TRUSTED)


@pytest.mark.parametrize("policy", Policy, ids=str)
def test_a_policy_that_decides_by_a_tag_finishes_its_own_decisions(policy: Policy) -> None:
    """Another one may publish what this one refuses."""
    trusted = FenceState.TRUSTED
    choice = choose_level(PolicySetting(policy), trusted, decision_found=True)
    assert isinstance(choice, Level)
    assert choice.policy is (policy if SHAPES[policy].decides_by_tag else Policy.SETTLED)


@pytest.mark.parametrize(
    ("setting", "may", "always"),
    [
        (PolicySetting.AUTO, True, False),
        (PolicySetting.HEAD_PARENT, False, False),
        (PolicySetting.LINEAGE, False, False),
        (PolicySetting.SETTLED, True, True),
    ],
    ids=str,
)
def test_a_setting_decides_by_a_tag_sometimes_or_always(
    setting: PolicySetting,
    may: bool,  # noqa: FBT001 - a column of the table
    always: bool,  # noqa: FBT001 - a column of the table
) -> None:
    asked = asked_shapes(setting).values()
    assert (may_decide_by_tag(setting), all(each.decides_by_tag for each in asked)) == (may, always)


def test_the_states_of_a_fence_are_known_by_their_names() -> None:
    names = ["absent", "trusted", "altered", "dead", "distrusted"]
    assert [state.value for state in FenceState] == names
