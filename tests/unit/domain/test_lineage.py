"""Policy `lineage`: the table of section 6 over every head, and its bound."""

from dataclasses import replace

import pytest
from hypothesis import given
from tests.unit.domain import publication_model
from tests.unit.domain.histories import (
    FACTS,
    HEADS,
    INPUT,
    STAGED,
    commit,
    cut,
    down_to_input,
    down_to_root,
    facts,
    published,
)

from perago.domain.lakefs import CommitRecord, FirstParentWalk
from perago.domain.lineage import FIRST_PARENT_COMMITS_MAX, decide
from perago.domain.publication import (
    Adopt,
    Keep,
    MergeExactTree,
    MergeStaged,
    PublicationFacts,
    Refusal,
    Relocate,
)

AT_INPUT = "merge it; keep the input"
SUPERSEDE = "exact tree on top"
FOREIGN = "PRG-F002"
TOO_FAR = "PRG-F004"
LOST = "PRG-F005"

TABLE = {
    "the input": AT_INPUT,
    "child, this execution": SUPERSEDE,
    "child, our task, other execution": SUPERSEDE,
    "child, our task, no execution": SUPERSEDE,
    "child, other task": FOREIGN,
    "child, empty owner": FOREIGN,
    "child, no metadata": FOREIGN,
    "child, other branch's copy": SUPERSEDE,
    "child, other head expected": SUPERSEDE,
    "child, no head expected": SUPERSEDE,
    "merge of the input and another": FOREIGN,
    "merge that carries our metadata": SUPERSEDE,
    "merge onto another": FOREIGN,
    "several, all of this execution": SUPERSEDE,
    "several, all of our task": SUPERSEDE,
    "ours below a foreign one": FOREIGN,
    "ours above a foreign one": FOREIGN,
    "ours below another task's": FOREIGN,
    "cherry-picked copy of ours": FOREIGN,
    "ours, reverted": FOREIGN,
    "ours, reverted and picked again": FOREIGN,
    "off the chain": LOST,
    "off the chain, ours": LOST,
    "no parents": LOST,
    "beyond the bound": TOO_FAR,
}


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("changed", [True, False], ids=["changed", "unchanged"])
def test_the_table(head: str, changed: bool) -> None:  # noqa: FBT001 - a column of the table
    walk = HEADS[head]
    staged = STAGED if changed else None
    decision = decide(facts(walk, staged))
    match TABLE[head]:
        case "merge it; keep the input":
            merged = MergeStaged(STAGED, expected_head=INPUT)
            assert decision == (merged if changed else Keep(INPUT))
        case "exact tree on top":
            tree = STAGED.commit if changed else INPUT
            assert decision == MergeExactTree(tree, staged, expected_head=walk.head.commit)
        case code:
            assert isinstance(decision, Refusal)
            assert decision.code == code
            heads = f"from input ref {INPUT}; current head is {walk.head.commit}; "
            assert heads in decision.reason


def test_the_table_has_a_row_for_every_head() -> None:
    assert list(TABLE) == list(HEADS)


PUBLISH = "main cannot publish from input ref A; current head is "


@pytest.mark.parametrize(
    ("head", "reason"),
    [
        ("child, no metadata", f"{PUBLISH}X; commit X belongs to no known task"),
        ("ours below another task's", f"{PUBLISH}Q; commit Q belongs to wf/cut/0"),
        ("ours above a foreign one", f"{PUBLISH}P; commit X belongs to no known task"),
        ("off the chain", f"{PUBLISH}X; main no longer contains workspace input ref A"),
        ("beyond the bound", f"{PUBLISH}Q; main advanced beyond supported publish range"),
    ],
    ids=["nobody's", "another task's", "below ours", "lost", "too far"],
)
def test_a_refusal_names_the_commit_in_the_way(head: str, reason: str) -> None:
    decision = decide(facts(HEADS[head]))
    assert isinstance(decision, Refusal)
    assert decision.reason == f"{reason}; nothing was published"


def chain(length: int) -> list[CommitRecord]:
    """Publications of our task above the input, the newest first."""
    names = ["A", *(f"P{n}" for n in range(length))]
    pairs = zip(names[1:], names, strict=False)
    return [published(name, parent) for name, parent in pairs][::-1]


def test_the_documents_bound_is_1024_commits_without_the_input() -> None:
    assert FIRST_PARENT_COMMITS_MAX == 1024


@pytest.mark.parametrize(
    ("walk", "code"),
    [
        (down_to_input(*chain(1024)), None),
        (down_to_input(*chain(1025)), "PRG-F004"),
        (cut(*chain(1024)), "PRG-F004"),
        (cut(*chain(3)), "PRG-F004"),
        (down_to_root(*chain(1024)), "PRG-F005"),
        (down_to_root(*chain(1025)), "PRG-F004"),
    ],
    ids=["1024 between", "1025 between", "cut at 1024", "cut early", "1024 to the root",
         "1025 to the root"],
)  # fmt: skip
def test_the_bound(walk: FirstParentWalk, code: str | None) -> None:
    decision = decide(facts(walk))
    found = decision.code if isinstance(decision, Refusal) else None
    assert found == code


@given(FACTS)
def test_the_model_agrees(facts: PublicationFacts) -> None:
    assert publication_model.spell(decide(facts)) == publication_model.lineage(facts)


@given(FACTS)
def test_nothing_is_ever_taken_out_of_the_history(facts: PublicationFacts) -> None:
    decision = decide(facts)
    assert not isinstance(decision, Relocate | Adopt)
    if isinstance(decision, MergeStaged | MergeExactTree):
        assert decision.expected_head == facts.walk.head.commit


@given(FACTS)
def test_a_refusal_never_depends_on_the_diff(facts: PublicationFacts) -> None:
    changed, unchanged = (decide(replace(facts, staged=staged)) for staged in (STAGED, None))
    assert isinstance(changed, Refusal) == isinstance(unchanged, Refusal)


@given(FACTS)
def test_one_commit_without_our_key_anywhere_refuses(facts: PublicationFacts) -> None:
    buried = commit("F", facts.walk.head.commit)
    on_top = replace(facts.walk, commits=(published("T", "F"), buried, *facts.walk.commits))
    assert isinstance(decide(replace(facts, walk=on_top)), Refusal)
