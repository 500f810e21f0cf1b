"""Walks: what stands above the commit that was looked for."""

import pytest
from tests.unit.domain.histories import cut, down_to_input, down_to_root

from perago.domain.lakefs import NO_METADATA, CommitId, CommitRecord, FirstParentWalk

P = CommitRecord(CommitId("P"), (CommitId("X"),))
X = CommitRecord(CommitId("X"), (CommitId("A"),))


@pytest.mark.parametrize(
    ("walk", "head", "above"),
    [
        (down_to_input(), "A", []),
        (down_to_input(X), "X", ["X"]),
        (down_to_input(P, X), "P", ["P", "X"]),
        (down_to_root(P, X), "P", ["P", "X"]),
        (cut(P), "P", ["P"]),
    ],
    ids=["the goal is the head", "one above", "two above", "not met", "cut"],
)
def test_a_walk_has_a_head_and_what_is_above_the_goal(
    walk: FirstParentWalk, head: str, above: list[str]
) -> None:
    assert walk.head.commit == head
    assert [record.commit for record in walk.above] == above


def test_a_commit_without_metadata_shares_one_that_cannot_be_filled() -> None:
    assert P.metadata is X.metadata is NO_METADATA
    assert not hasattr(NO_METADATA, "__setitem__")


def test_what_was_not_said_is_empty() -> None:
    assert (P.message, P.metarange, P.created_at) == ("", "", 0)
    assert not FirstParentWalk((P,), reached=False).truncated
