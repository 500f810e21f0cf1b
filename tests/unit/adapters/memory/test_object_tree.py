"""Trees: names that depend on their objects alone, and pages that cost their own length."""

from time import perf_counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perago.adapters.memory.object_tree import (
    EMPTY_TREE,
    StoredObject,
    Tree,
    diff,
    store_object,
)
from perago.ports.lakefs import ChangeKind

OBJECTS = [
    store_object(content, content_type="text/plain", modified_at=1, address=number)
    for number, content in enumerate([b"a", b"a", b"b"])
]
CHANGES = st.dictionaries(
    st.sampled_from(["a", "a/b", "a0", "b", "é"]), st.sampled_from([*OBJECTS, None])
)


def applied(steps: list[dict[str, StoredObject | None]]) -> tuple[Tree, dict[str, StoredObject]]:
    tree, objects = EMPTY_TREE, dict[str, StoredObject]()
    for changes in steps:
        tree = tree.with_changes(changes)
        objects = {
            path: stored for path, stored in {**objects, **changes}.items() if stored is not None
        }
    return tree, objects


@pytest.mark.simulation
@given(st.lists(CHANGES), st.lists(CHANGES))
def test_trees_have_one_name_exactly_when_they_have_the_same_objects(
    one: list[dict[str, StoredObject | None]], other: list[dict[str, StoredObject | None]]
) -> None:
    (left, these), (right, those) = applied(one), applied(other)
    assert dict(left.under("")) == these
    if left is not EMPTY_TREE and right is not EMPTY_TREE:
        assert (left.metarange == right.metarange) is (these == those)


@pytest.mark.simulation
@given(st.lists(CHANGES), st.lists(CHANGES), st.sampled_from(["", "a", "a/", "b"]))
def test_a_diff_is_what_two_dictionaries_say(
    one: list[dict[str, StoredObject | None]],
    other: list[dict[str, StoredObject | None]],
    prefix: str,
) -> None:
    (left, these), (right, those) = applied(one), applied(other)
    expected = {
        path: ChangeKind.ADDED
        if path not in these
        else ChangeKind.REMOVED
        if path not in those
        else ChangeKind.CHANGED
        for path in {*these, *those}
        if path.startswith(prefix)
        and (path not in these or path not in those or these[path].content != those[path].content)
    }
    found = [(change.path, change.kind) for change in diff(left, right, prefix)]
    assert found == sorted(expected.items())
    for path in ("", *expected):
        after = [change.path for change in diff(left, right, prefix, path)]
        assert after == [other for other in sorted(expected) if other > path]


@pytest.mark.scale
def test_pages_of_a_large_tree_cost_their_own_length() -> None:
    count = 100_000
    large = EMPTY_TREE.with_changes({f"data/{number:06}": OBJECTS[0] for number in range(count)})
    small = EMPTY_TREE.with_changes({f"data/{number:06}": OBJECTS[0] for number in range(1000)})

    def seconds_per_page(tree: Tree) -> float:
        list(tree.under("data/"))
        middle = f"data/{len(tree.items()) // 2:06}"
        best = 1.0
        for _ in range(20):
            start = perf_counter()
            page = tree.under("data/", middle)
            for _ in range(400):
                next(page)
            best = min(best, perf_counter() - start)
        return best

    assert seconds_per_page(large) < 5 * seconds_per_page(small)
