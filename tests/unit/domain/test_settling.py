"""What follows from lakeFS's answer to an effect: the two tables of section 5."""

import pytest
from hypothesis import given
from tests.unit.domain.histories import FACTS, INPUT, commit, cut, down_to_input, down_to_root

from perago.domain.attempt import PublishTimes
from perago.domain.commit_metadata import EXECUTION_ID
from perago.domain.lakefs import CommitId, CommitRecord, FirstParentWalk
from perago.domain.outcome import (
    BrokenActions,
    DirtyTarget,
    HeadMoved,
    MergeAnswer,
    MergeConflict,
    Merged,
    MergeRefused,
    NoAnswer,
    NoChanges,
    NotPublished,
    Published,
    RefusedByHook,
    TooManyTries,
)
from perago.domain.publication import PublicationFacts
from perago.domain.settled import (
    LOOKS_MAX,
    ROUNDS_MAX,
    AfterLook,
    AfterMerge,
    KeepLooking,
    LookAgain,
    SendAgain,
    Unanswered,
    after_merge,
    look_after_merge,
    look_after_relocation,
)

ME = "execution-1"


@pytest.mark.parametrize(
    ("answer", "after"),
    [
        (Merged(CommitId("P")), Published(CommitId("P"))),
        (HeadMoved("moved"), LookAgain("moved")),
        (RefusedByHook("no"), NotPublished("PRG-F010",
         "a pre-merge hook refused the publication: no")),
        (BrokenActions("x.yaml"), NotPublished("PRG-F011",
         "a file under _lakefs_actions/ is broken: x.yaml", is_of_the_commit=True)),
        (MergeConflict("both"), LookAgain("both")),
        (NoChanges("none"), NotPublished("PRG-F012",
         "the staged commit was merged before: none", is_of_the_commit=True)),
        (DirtyTarget("a.txt"), NotPublished("PRG-F013",
         "the target has uncommitted objects: a.txt")),
        (TooManyTries("busy"), LookAgain("busy")),
        (MergeRefused("bad"), NotPublished("PRG-L003", "lakeFS refused the merge: bad")),
        (NoAnswer("503"), Unanswered("503")),
    ],
    ids=["200", "412 with our text", "412 without", "hook aborted, not 412", "409",
         "400 no changes", "400 dirty branch", "423 or 429", "another 4xx", "no answer or 5xx"],
)  # fmt: skip
def test_the_answers_to_a_merge(answer: MergeAnswer, after: AfterMerge) -> None:
    assert after_merge(answer) == after


def mine(name: str, parent: str) -> CommitRecord:
    return commit(name, parent, metadata={EXECUTION_ID: ME})


FOREIGN = commit("X", "A", metadata={EXECUTION_ID: "somebody"})
PUBLISHED = Published(CommitId("P"))
STILL = KeepLooking("the head is still A")
NEVER = NotPublished("PRG-F002", "the head moved from A to X")
MAYBE = KeepLooking("the head is X, expected A")


@pytest.mark.parametrize(
    ("walk", "fenced", "soft"),
    [
        (down_to_input(mine("P", "A")), PUBLISHED, PUBLISHED),
        (down_to_input(commit("Y", "P"), mine("P", "A")), PUBLISHED, PUBLISHED),
        (down_to_input(mine("C", "P"), mine("P", "A")), PUBLISHED, PUBLISHED),
        (down_to_root(mine("P", "root"), commit("root")), PUBLISHED, PUBLISHED),
        (cut(commit("Y", "P"), mine("P", "O")), PUBLISHED, PUBLISHED),
        (down_to_input(), SendAgain(), STILL),
        (down_to_input(FOREIGN), NEVER, MAYBE),
        (down_to_root(FOREIGN), NEVER, MAYBE),
        (cut(FOREIGN), MAYBE, MAYBE),
        (FirstParentWalk((mine(INPUT, "root"),), reached=True), SendAgain(), STILL),
    ],
    ids=["mine is the head", "mine is below", "a copy of mine stands above it",
         "mine, the input is gone", "mine, the walk was cut", "the expected head",
         "something else", "something else, the input is gone", "something else, cut",
         "the input itself is mine"],
)  # fmt: skip
def test_a_look_after_an_unanswered_merge(
    walk: FirstParentWalk, fenced: AfterLook, soft: AfterLook
) -> None:
    for has_fence, after in ((True, fenced), (False, soft)):
        found = look_after_merge(walk, expected_head=INPUT, execution_id=ME, fenced=has_fence)
        assert found == after


def test_a_merge_onto_a_superseded_head_is_sent_again_only_there() -> None:
    """`lineage` expects a head above the input."""
    walk = down_to_input(FOREIGN)
    head = CommitId("X")
    assert look_after_merge(walk, expected_head=head, execution_id=ME, fenced=True) == SendAgain()
    assert isinstance(
        look_after_merge(down_to_input(), expected_head=head, execution_id=ME, fenced=True),
        NotPublished,
    )


@pytest.mark.parametrize(
    ("head", "after"),
    [
        ("S", Published(CommitId("S"))),
        ("P", KeepLooking("the head is still P")),
        ("X", KeepLooking("the head is X, neither P nor S")),
    ],
    ids=["the target", "the old head", "something else"],
)
def test_a_look_after_an_unanswered_relocation(head: str, after: AfterLook) -> None:
    found = look_after_relocation(CommitId(head), old_head=CommitId("P"), target=CommitId("S"))
    assert found == after


@given(FACTS)
def test_without_a_fence_nothing_is_sent_again_and_nothing_is_final_but_success(
    facts: PublicationFacts,
) -> None:
    after = look_after_merge(facts.walk, expected_head=INPUT, execution_id=ME, fenced=False)
    assert isinstance(after, KeepLooking)


@given(FACTS)
def test_only_a_whole_walk_proves_that_nothing_was_published(facts: PublicationFacts) -> None:
    after = look_after_merge(facts.walk, expected_head=INPUT, execution_id=ME, fenced=True)
    if isinstance(after, NotPublished):
        assert not facts.walk.truncated
        assert facts.walk.head.commit != INPUT


def test_the_limits_are_the_ones_of_the_specification() -> None:
    assert (LOOKS_MAX, ROUNDS_MAX, PublishTimes().merge_timeout_seconds) == (20, 40, 60.0)
