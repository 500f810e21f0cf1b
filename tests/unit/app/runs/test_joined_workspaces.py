"""Which of the joined workspaces the next task continues from."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perago.app.runs.join import join_workspaces
from perago.domain.lakefs import BranchName, CommitId, RepositoryId, WorkspaceReference


def at(ref: str, branch: str = "main", repository: str = "songs") -> WorkspaceReference:
    return WorkspaceReference(RepositoryId(repository), BranchName(branch), CommitId(ref))


A, B, C, D = at("a"), at("b"), at("c"), at("d")
# a <- b <- c, and d beside b on top of a
HISTORIES = {
    CommitId("b"): [CommitId("a")],
    CommitId("c"): [CommitId("a"), CommitId("b"), CommitId("unasked")],
    CommitId("d"): {CommitId("a")},
}
NO_ONE = "no workspace of songs/main contains all others: "


@pytest.mark.parametrize(
    ("workspaces", "verdict"),
    [
        ([A], A),
        ([A, A], A),
        ([A, B], B),
        ([B, A], B),
        ([A, C, B], C),
        ([C, C, A], C),
        ([B, D], f"{NO_ONE}b contains [b] and lacks [d]"),
        ([A, D, C, B], f"{NO_ONE}c contains [a, c, b] and lacks [d]"),
        ([A, D, D, B], f"{NO_ONE}d contains [a, d] and lacks [b]"),
        ([A, at("e"), C, D], f"{NO_ONE}c contains [a, c] and lacks [e, d]"),
        ([A, at("b", "dev")], "songs/main and songs/dev are different branches"),
        ([A, B, at("a", "main", "films")],
         "songs/main and films/main are different branches"),
    ],
    ids=[
        "one", "the same twice", "newer last", "newer first", "newest in the middle",
        "newest twice", "side by side", "one outside", "one outside, of two equal",
        "two outside", "other branch", "other repository",
    ],
)  # fmt: skip
def test_the_table(workspaces: list[WorkspaceReference], verdict: WorkspaceReference | str) -> None:
    assert join_workspaces(workspaces, HISTORIES) == verdict


REFS = st.sampled_from("abcd")


@given(
    st.lists(REFS, min_size=1, max_size=5),
    st.dictionaries(REFS.map(CommitId), st.sets(REFS.map(CommitId)), max_size=4),
)
def test_a_joined_workspace_lacks_nothing(
    refs: list[str], histories: Mapping[CommitId, set[CommitId]]
) -> None:
    workspaces = [at(ref) for ref in refs]
    verdict = join_workspaces(workspaces, histories)
    winners = [
        one
        for one in workspaces
        if all(other.ref in histories.get(one.ref, set()) | {one.ref} for other in workspaces)
    ]
    if isinstance(verdict, str):
        assert not winners
    else:
        assert verdict in winners
