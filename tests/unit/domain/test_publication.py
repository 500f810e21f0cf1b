"""The three questions every policy asks of its facts.

Effects are values: complete, equal by content, and nobody changes them on the way.
"""

from dataclasses import FrozenInstanceError, fields
from typing import get_args

import pytest
from tests.unit.domain.histories import FOREIGN, HEADS, PLACE, STAGED, facts

from perago.domain.lakefs import CommitId
from perago.domain.publication import (
    Adopt,
    Decision,
    Effect,
    Isolation,
    Keep,
    MergeStaged,
    PublicationFacts,
    Refusal,
)


@pytest.mark.parametrize(
    ("head", "at_input", "child"),
    [
        ("the input", True, False),
        ("child, no metadata", False, True),
        ("child, this execution", False, True),
        ("merge of the input and another", False, False),
        ("merge onto another", False, False),
        ("several, all of this execution", False, False),
        ("off the chain", False, False),
        ("no parents", False, False),
        ("beyond the bound", False, False),
    ],
)
def test_where_the_head_stands(head: str, at_input: bool, child: bool) -> None:  # noqa: FBT001 - columns
    asked = facts(HEADS[head])
    assert (asked.at_input, asked.child_of_input) == (at_input, child)


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (facts(HEADS["child, no metadata"]),
         "main cannot publish from input ref A; current head is X"),
        (facts(HEADS["child, no metadata"], None),
         "main cannot complete no-op from input ref A; current head is X"),
    ],
    ids=["publish", "no-op"],
)  # fmt: skip
def test_the_documents_text(asked: PublicationFacts, reason: str) -> None:
    assert asked.refusal("PRG-F002", "why") == Refusal("PRG-F002", f"{reason}; why")


def test_nothing_is_assumed_that_was_not_said() -> None:
    plain = PublicationFacts(PLACE, HEADS["the input"], STAGED, "wf/mix/0")
    assert plain.execution_key is None
    assert plain.isolation is Isolation.BRANCH
    assert not plain.untouched
    assert not plain.require_ownership


def test_isolation_is_spelled_as_authors_write_it() -> None:
    assert [one.value for one in Isolation] == ["branch", "prefix"]


def test_a_decision_is_an_effect_or_a_refusal() -> None:
    assert set(get_args(Decision)) == {*get_args(Effect), Refusal}


@pytest.mark.parametrize(
    "effect",
    [
        MergeStaged(STAGED, CommitId("A")),
        Keep(CommitId("A")),
        Adopt(FOREIGN),
        Refusal("PRG-F002", "no"),
    ],
    ids=lambda effect: type(effect).__name__,
)
def test_an_effect_cannot_be_changed(effect: Decision) -> None:
    first = fields(effect)[0].name
    with pytest.raises(FrozenInstanceError):
        setattr(effect, first, "changed")
