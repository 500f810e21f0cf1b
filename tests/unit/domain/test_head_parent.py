"""Policy `head-parent`: the table of section 6 over every head."""

from dataclasses import replace

import pytest
from hypothesis import given
from tests.unit.domain import publication_model
from tests.unit.domain.histories import FACTS, HEADS, INPUT, STAGED, TASK, facts

from perago.domain.head_parent import decide
from perago.domain.lakefs import CommitId, CommitRecord, FirstParentWalk
from perago.domain.publication import (
    Decision,
    Keep,
    MergeStaged,
    PublicationFacts,
    Refusal,
    Relocate,
)

AT_INPUT = "merge it; keep the input"
OWN = "replace it, its owner is known"
NOBODYS = "replace it with a warning"
OTHERS = "refuse: somebody else owns it"
REFUSE = "refuse"

TABLE = {
    "the input": AT_INPUT,
    "child, this execution": OWN,
    "child, our task, other execution": OWN,
    "child, our task, no execution": OWN,
    "child, other task": OTHERS,
    "child, empty owner": OTHERS,
    "child, no metadata": NOBODYS,
    "child, other branch's copy": OWN,
    "child, other head expected": OWN,
    "child, no head expected": OWN,
    "merge of the input and another": REFUSE,
    "merge that carries our metadata": REFUSE,
    "merge onto another": REFUSE,
    "several, all of this execution": REFUSE,
    "several, all of our task": REFUSE,
    "ours below a foreign one": REFUSE,
    "ours above a foreign one": REFUSE,
    "ours below another task's": REFUSE,
    "cherry-picked copy of ours": REFUSE,
    "ours, reverted": REFUSE,
    "ours, reverted and picked again": REFUSE,
    "off the chain": REFUSE,
    "off the chain, ours": REFUSE,
    "no parents": REFUSE,
    "beyond the bound": REFUSE,
}


def expected(row: str, head: CommitRecord, *, changed: bool) -> Decision | str:
    """The cell of the table; a refusal is its code."""
    to = STAGED.commit if changed else INPUT
    match row:
        case "merge it; keep the input":
            return MergeStaged(STAGED, expected_head=INPUT) if changed else Keep(INPUT)
        case "replace it, its owner is known":
            return Relocate(to, abandoned=head.commit, owner_is_known=True)
        case "replace it with a warning":
            return Relocate(to, abandoned=head.commit, owner_is_known=False)
        case "refuse: somebody else owns it":
            return "PRG-F003"
        case _:
            return "PRG-F002"


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("changed", [True, False], ids=["changed", "unchanged"])
def test_the_table(head: str, changed: bool) -> None:  # noqa: FBT001 - a column of the table
    walk = HEADS[head]
    decision = decide(facts(walk, STAGED if changed else None))
    found = decision.code if isinstance(decision, Refusal) else decision
    assert found == expected(TABLE[head], walk.head, changed=changed)


def test_the_table_has_a_row_for_every_head() -> None:
    assert list(TABLE) == list(HEADS)


REMEDY = "nothing was published; start a new workflow from the current head"
ANOTHER = "published by a writer other than Perago"
PUBLISH = "main cannot publish from input ref A; current head is "
COMPLETE = "main cannot complete no-op from input ref A; current head is "


@pytest.mark.parametrize(
    ("head", "changed", "reason"),
    [
        ("off the chain", True, f"{PUBLISH}X; {ANOTHER}; {REMEDY}"),
        ("off the chain", False, f"{COMPLETE}X; {ANOTHER}; {REMEDY}"),
        ("child, other task", True, f"{PUBLISH}P; it belongs to wf/cut/0; {REMEDY}"),
    ],
    ids=["publish", "no-op", "somebody else's"],
)
def test_a_refusal_says_expected_found_and_remedy(
    head: str,
    changed: bool,  # noqa: FBT001 - a column of the table
    reason: str,
) -> None:
    decision = decide(facts(HEADS[head], STAGED if changed else None))
    assert isinstance(decision, Refusal)
    assert decision.reason == reason


def test_a_head_without_owner_is_refused_where_ownership_is_required() -> None:
    walk = HEADS["child, no metadata"]
    decision = decide(facts(walk, require_ownership=True))
    assert isinstance(decision, Refusal)
    assert decision.code == "PRG-F003"
    assert decision.reason == f"{PUBLISH}X; it names no owner; {REMEDY}"


@pytest.mark.parametrize("head", ["the input", "child, this execution"])
def test_requiring_ownership_changes_nothing_where_the_owner_is_known(head: str) -> None:
    walk = HEADS[head]
    assert decide(facts(walk, require_ownership=True)) == decide(facts(walk))


@given(FACTS)
def test_the_model_agrees(facts: PublicationFacts) -> None:
    assert publication_model.spell(decide(facts)) == publication_model.head_parent(facts)


@given(FACTS)
def test_a_refusal_never_depends_on_the_diff(facts: PublicationFacts) -> None:
    changed, unchanged = (decide(replace(facts, staged=staged)) for staged in (STAGED, None))
    assert isinstance(changed, Refusal) == isinstance(unchanged, Refusal)


@given(FACTS)
def test_only_the_head_itself_is_looked_at(facts: PublicationFacts) -> None:
    head = facts.walk.head
    alone = replace(facts, walk=FirstParentWalk((head,), reached=head.commit == INPUT))
    assert decide(alone) == decide(facts)


@given(FACTS)
def test_no_head_of_another_owner_is_ever_left_behind(facts: PublicationFacts) -> None:
    decision = decide(facts)
    if isinstance(decision, Relocate):
        assert facts.walk.head.metadata.get("perago.logical_task_key") in {None, TASK}
        assert facts.walk.head.parents == (INPUT,)
        assert decision.to in {INPUT, CommitId("S")}
