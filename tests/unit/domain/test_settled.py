"""Policy `settled`: step 4 of section 7.2 and prefix isolation over every head."""

from dataclasses import replace

import pytest
from hypothesis import given
from tests.unit.domain import publication_model
from tests.unit.domain.histories import (
    FACTS,
    HEADS,
    INPUT,
    KEY,
    STAGED,
    down_to_input,
    facts,
    published,
)

from perago.domain.commit_metadata import FENCE_OWNER, LOGICAL_TASK_KEY, POLICY
from perago.domain.lakefs import CommitRecord
from perago.domain.publication import (
    Adopt,
    Decision,
    Isolation,
    Keep,
    MergeExactTree,
    MergeStaged,
    PublicationFacts,
    Refusal,
    Relocate,
)
from perago.domain.settled import FIRST_PARENT_COMMITS_MAX, decide, find_publication

MERGE = "merge on the head"
KEEP = "keep the input"
REFUSE = "refuse"

# Columns: branch isolation; prefix isolation, something moved; prefix isolation, nothing moved.
# A word for an adopted commit is its name.
CHANGED = {
    "the input": (MERGE, MERGE, MERGE),
    "child, this execution": ("P", "P", "P"),
    "child, our task, other execution": (REFUSE, REFUSE, MERGE),
    "child, our task, no execution": (REFUSE, REFUSE, MERGE),
    "child, other task": (REFUSE, REFUSE, MERGE),
    "child, empty owner": ("P", "P", "P"),
    "child, no metadata": (REFUSE, REFUSE, MERGE),
    "child, other branch's copy": (REFUSE, REFUSE, MERGE),
    "child, other head expected": (REFUSE, REFUSE, MERGE),
    "child, no head expected": (REFUSE, REFUSE, MERGE),
    "merge of the input and another": (REFUSE, REFUSE, MERGE),
    "merge that carries our metadata": (REFUSE, REFUSE, MERGE),
    "merge onto another": (REFUSE, REFUSE, MERGE),
    "several, all of this execution": ("P", "Q", "Q"),
    "several, all of our task": (REFUSE, REFUSE, MERGE),
    "ours below a foreign one": ("P", "P", "P"),
    "ours above a foreign one": (REFUSE, "P", "P"),
    "ours below another task's": ("P", "P", "P"),
    "cherry-picked copy of ours": (REFUSE, REFUSE, MERGE),
    "ours, reverted": ("P", "P", "P"),
    "ours, reverted and picked again": ("P", "P", "P"),
    "off the chain": (REFUSE, REFUSE, REFUSE),
    "off the chain, ours": (REFUSE, REFUSE, REFUSE),
    "no parents": (REFUSE, REFUSE, REFUSE),
    "beyond the bound": (REFUSE, REFUSE, REFUSE),
}
COLUMNS = [(Isolation.BRANCH, False), (Isolation.PREFIX, False), (Isolation.PREFIX, True)]
COLUMN_IDS = ["branch", "prefix, moved", "prefix, untouched"]


def word(decision: Decision, head: CommitRecord) -> str:
    match decision:
        case MergeStaged():
            assert decision == MergeStaged(STAGED, expected_head=head.commit)
            return MERGE
        case Keep():
            assert decision == Keep(INPUT)
            return KEEP
        case Adopt(publication):
            return publication.commit
        case Refusal(_, reason):
            assert f"from input ref {INPUT}; current head is {head.commit}; " in reason
            return REFUSE
        case Relocate() | MergeExactTree():
            raise AssertionError(decision)


@pytest.mark.parametrize("column", range(3), ids=COLUMN_IDS)
@pytest.mark.parametrize("head", HEADS)
def test_the_table_of_a_change(head: str, column: int) -> None:
    isolation, untouched = COLUMNS[column]
    walk = HEADS[head]
    decision = decide(facts(walk, isolation=isolation, untouched=untouched))
    assert word(decision, walk.head) == CHANGED[head][column]


@pytest.mark.parametrize("column", range(3), ids=COLUMN_IDS)
@pytest.mark.parametrize("head", HEADS)
def test_the_table_of_a_no_op(head: str, column: int) -> None:
    """Keep on the input, or where nothing moved under the prefix; a no-op adopts nothing."""
    isolation, untouched = COLUMNS[column]
    walk = HEADS[head]
    decision = decide(facts(walk, None, isolation=isolation, untouched=untouched))
    still = head == "the input" or (column == 2 and walk.reached)
    assert word(decision, walk.head) == (KEEP if still else REFUSE)


def test_the_table_has_a_row_for_every_head() -> None:
    assert list(CHANGED) == list(HEADS)


def test_untouched_means_nothing_under_branch_isolation() -> None:
    walk = HEADS["child, no metadata"]
    assert isinstance(decide(facts(walk, untouched=True)), Refusal)


def test_without_a_key_nothing_is_adopted() -> None:
    keyless = published("P", "A", changes={"perago.logical_execution_key": None})
    asked = facts(down_to_input(keyless), execution_key=None)
    assert find_publication(asked) is None
    assert isinstance(decide(asked), Refusal)


def test_the_walk_is_at_most_ten_pages_of_a_thousand() -> None:
    assert FIRST_PARENT_COMMITS_MAX == 10 * 1000


BY_POLICY = published("P", "A", changes={"perago.logical_execution_key": "x", POLICY: "lineage"})
BY_NOBODY = published("P", "A", changes={"perago.logical_execution_key": "x", POLICY: None})
OTHERS = {"perago.logical_execution_key": "x"}
FENCE = published("F", "A", changes={**OTHERS, LOGICAL_TASK_KEY: FENCE_OWNER})
UPON = published("Q", "X", changes={"perago.logical_execution_key": "x", POLICY: "lineage"})
OTHER = "another writer published: "
DECLARE = '; if that changed other folders only, declare isolation="prefix"'
FOREIGN = f"{OTHER}a writer other than Perago{DECLARE}"
START = "start a new workflow from the current head: `perago head songs main`"


@pytest.mark.parametrize(
    ("asked", "code", "more"),
    [
        (facts(down_to_input(BY_POLICY)), "PRG-F002",
         "published by policy lineage (retry under lineage)"),
        (facts(down_to_input(BY_NOBODY)), "PRG-F002",
         "published by policy unknown (retry under unknown)"),
        (facts(HEADS["child, our task, other execution"]), "PRG-F002",
         "another execution of this task published it"),
        (facts(HEADS["child, this execution"], None), "PRG-F002",
         "an earlier attempt published changes, and this one has none"),
        (facts(HEADS["child, no metadata"]), "PRG-F002", FOREIGN),
        (facts(HEADS["child, other task"]), "PRG-F002",
         f"{OTHER}task cut of workflow wf{DECLARE}"),
        (facts(down_to_input(FENCE)), "PRG-F002", f"{OTHER}`perago fence`{DECLARE}"),
        (facts(HEADS["several, all of our task"]), "PRG-F002",
         f"{OTHER}another attempt of this task{DECLARE}"),
        (facts(down_to_input(UPON, *HEADS["child, no metadata"].above)), "PRG-F002", FOREIGN),
        (facts(HEADS["child, no metadata"], isolation=Isolation.PREFIX), "PRG-F002",
         "an object under the prefix or a reserved one has changed since the input"),
        (facts(HEADS["off the chain"]), "PRG-F005",
         "main no longer contains workspace input ref A"),
        (facts(HEADS["off the chain"], isolation=Isolation.PREFIX), "PRG-F005",
         "main no longer contains workspace input ref A"),
        (facts(HEADS["beyond the bound"]), "PRG-F004",
         "main advanced beyond supported publish range"),
    ],
    ids=["another policy", "an unnamed policy", "another execution", "published, now a no-op",
         "nobody's", "another task's", "the fence's", "several of ours",
         "our task, not directly on the input", "prefix moved",
         "lost", "lost under prefix isolation", "too far"],
)  # fmt: skip
def test_a_refusal_says_what_is_in_the_way(asked: PublicationFacts, code: str, more: str) -> None:
    decision = decide(asked)
    assert decision == asked.refusal(code, f"{more}; {START}")


@given(FACTS)
def test_the_model_agrees(facts: PublicationFacts) -> None:
    assert publication_model.spell(decide(facts)) == publication_model.settled(facts)


@given(FACTS)
def test_nothing_is_ever_relocated_and_every_merge_expects_the_walked_head(
    facts: PublicationFacts,
) -> None:
    decision = decide(facts)
    assert not isinstance(decision, Relocate | MergeExactTree)
    if isinstance(decision, MergeStaged):
        assert decision == MergeStaged(STAGED, expected_head=facts.walk.head.commit)
        assert facts.at_input or facts.isolation is Isolation.PREFIX


@given(FACTS)
def test_only_key_branch_and_parents_together_are_adopted(facts: PublicationFacts) -> None:
    decision = decide(facts)
    if isinstance(decision, Adopt):
        said = decision.publication.metadata
        assert said["perago.logical_execution_key"] == facts.execution_key == KEY
        assert said["perago.target_branch"] == "main"
        assert decision.publication.parents == (said["perago.expected_head"],)
        assert decision.publication in facts.walk.above


@given(FACTS)
def test_prefix_isolation_only_ever_allows_more(facts: PublicationFacts) -> None:
    by_branch = decide(replace(facts, isolation=Isolation.BRANCH))
    by_prefix = decide(replace(facts, isolation=Isolation.PREFIX))
    if not isinstance(by_branch, Refusal):
        assert not isinstance(by_prefix, Refusal)
