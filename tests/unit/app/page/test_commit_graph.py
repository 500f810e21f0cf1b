"""The picture of commits: what is drawn, what is left out and counted."""

import re

from perago.app.page.commit_graph import COMMITS_MAX, PRIVATE_MAX, branch_graph
from perago.app.page.model import BranchView, CommitView, RepositoryView


def chain(count: int, kind: str = "published") -> tuple[CommitView, ...]:
    """Commits above each other, newest first."""
    return tuple(
        CommitView(f"c{number}", (f"c{number - 1}",) if number else (), kind, f"n{number}")
        for number in reversed(range(count))
    )


def staged(number: int, parent: str) -> BranchView:
    """A branch with one staged commit."""
    commit = CommitView(f"s{number}", (parent,), "staged", tags=(f"perago-settled-{number}",))
    return BranchView(f"staging {number}", (commit,))


def test_a_graph_of_nothing_is_a_graph() -> None:
    drawing = branch_graph(RepositoryView("r", ()))
    assert drawing.svg.startswith("<svg")
    assert drawing.omitted == 0


def test_each_commit_has_its_full_id_for_the_page() -> None:
    svg = branch_graph(RepositoryView("r", (BranchView("main", chain(2), is_target=True),))).svg
    assert svg.count("data-commit=") == 2
    assert 'class="decision"' not in svg


def test_only_the_newest_of_a_long_history_are_drawn_and_the_rest_is_counted() -> None:
    commits = chain(1000)
    main = BranchView("main", commits, is_target=True)
    aside = [staged(number, commits[0].id) for number in range(300)]
    drawing = branch_graph(RepositoryView("r", (main, *aside), omitted=7))
    assert drawing.svg.count("data-commit=") == COMMITS_MAX + PRIVATE_MAX
    hidden = 1000 - COMMITS_MAX + 300 - PRIVATE_MAX
    assert drawing.omitted == hidden + 7


def test_what_stands_on_an_old_commit_is_counted_with_it() -> None:
    main = BranchView("main", chain(COMMITS_MAX + 5), is_target=True)
    drawing = branch_graph(RepositoryView("r", (main, staged(1, "c0"), staged(2, "c20"))))
    assert 'data-commit="s2"' in drawing.svg
    assert 'data-commit="s1"' not in drawing.svg
    assert drawing.omitted == 6


def test_commits_of_other_workflows_in_a_row_are_one() -> None:
    newest = CommitView("top", ("c9",), "published", "mine")
    commits = (newest, *chain(10, "other"))
    svg = branch_graph(RepositoryView("r", (BranchView("main", commits, is_target=True),))).svg
    assert svg.count("data-commit=") == 2
    assert ">10 of others<" in svg
    assert 'class="edge"' in svg


def test_staged_commits_that_are_far_from_each_other_share_a_row() -> None:
    main = BranchView("main", chain(6), is_target=True)
    aside = [staged(number, f"c{number}") for number in range(5)]
    svg = branch_graph(RepositoryView("r", (main, *aside, staged(9, "c4")))).svg
    rows = re.findall(r'data-commit="(s\d)".*?<circle cx="\d+" cy="(\d+)" r="9"/>', svg)
    assert dict(rows) == {**{f"s{number}": "100" for number in range(5)}, "s9": "170"}
