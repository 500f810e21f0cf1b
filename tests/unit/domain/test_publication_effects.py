"""Effects are values: complete, equal by content, and nobody changes them on the way."""

from dataclasses import FrozenInstanceError, fields
from typing import get_args

import pytest
from tests.unit.domain.histories import FOREIGN, STAGED

from perago.domain.logical_execution import CommitId
from perago.domain.publication import Adopt, Decision, Effect, Keep, MergeStaged, Refusal


def test_a_decision_is_an_effect_or_a_refusal() -> None:
    assert set(get_args(Decision)) == {*get_args(Effect), Refusal}


@pytest.mark.parametrize(
    "effect",
    [
        MergeStaged(STAGED, CommitId("A")),
        Keep(CommitId("A")),
        Adopt(FOREIGN),
        Refusal("PRG-F002", "no", CommitId("A"), FOREIGN),
    ],
    ids=lambda effect: type(effect).__name__,
)
def test_an_effect_cannot_be_changed(effect: Decision) -> None:
    first = fields(effect)[0].name
    with pytest.raises(FrozenInstanceError):
        setattr(effect, first, "changed")
