"""What has to move so that a branch equals a directory.

A stream in lists of a bounded length.

Rows of a large workspace travel between processes as plain values.
"""

import json
import pickle
from collections.abc import Iterator, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perago.domain.sync_plan import (
    FileFacts,
    Folder,
    FoundFile,
    ListedObject,
    PlacedFile,
    PlanKind,
    PlannedChange,
    SyncPlan,
    batched,
    plan_sync,
)

PATHS = st.sampled_from(["a", "b", "c/d", "e"])
TREES = st.dictionaries(PATHS, st.sampled_from(["", "x", "y", "z"]))


def facts(tree: Mapping[str, str]) -> dict[str, FileFacts]:
    return {path: FileFacts(path, f"md5 of {body}", len(body)) for path, body in tree.items()}


def one(path: str, body: str) -> FileFacts:
    return facts({path: body})[path]


@pytest.mark.parametrize(
    ("base", "local", "plan"),
    [
        ({"a": "x"}, {"a": "x"}, SyncPlan()),
        ({}, {"a": "x"}, SyncPlan(upload=(one("a", "x"),))),
        ({"a": "x"}, {"a": "y"}, SyncPlan(upload=(one("a", "y"),))),
        ({"a": "x"}, {}, SyncPlan(delete=("a",))),
        ({"a": "x"}, {"b": "x"}, SyncPlan(copy=((one("b", "x"), "a"),), delete=("a",))),
        ({"a": "x", "b": "x"}, {"c": "x"}, SyncPlan((), ((one("c", "x"), "a"),), ("a", "b"))),
        ({"a": "x", "b": "y"}, {"a": "y", "b": "y"}, SyncPlan(upload=(one("a", "y"),))),
        ({"a": ""}, {"a": "", "b": ""}, SyncPlan(upload=(one("b", ""),))),
        ({}, {"b": "x", "a": "y"}, SyncPlan(upload=(one("a", "y"), one("b", "x")))),
    ],
    ids=[
        "nothing",
        "added",
        "changed",
        "deleted",
        "moved",
        "two sources",
        "a change is written even where its bytes stand elsewhere",
        "an empty file is written",
        "in order",
    ],
)
def test_the_table(base: dict[str, str], local: dict[str, str], plan: SyncPlan) -> None:
    assert plan_sync(facts(base), facts(local)) == plan
    assert plan.is_empty == (base == local)


@given(TREES, TREES)
def test_a_plan_makes_the_tree(base: dict[str, str], local: dict[str, str]) -> None:
    plan = plan_sync(facts(base), facts(local))
    tree = facts(base)
    made = {path: found for path, found in tree.items() if path not in plan.delete}
    made.update({found.path: found for found in plan.upload})
    for found, source in plan.copy:
        assert (tree[source].checksum, tree[source].size) == (found.checksum, found.size)
        made[found.path] = found
    assert made == facts(local)


@pytest.mark.parametrize(
    ("items", "batches"),
    [([], []), ([1], [[1]]), ([1, 2], [[1, 2]]), ([1, 2, 3], [[1, 2], [3]])],
    ids=["nothing", "less than a list", "one list", "a rest"],
)
def test_every_item_is_in_one_list(items: list[int], batches: list[list[int]]) -> None:
    assert list(batched(items, 2)) == batches


def test_no_more_is_taken_than_a_list_needs() -> None:
    taken: list[int] = []

    def items() -> Iterator[int]:
        for number in range(10):
            taken.append(number)
            yield number

    assert next(batched(items(), 3)) == [0, 1, 2]
    assert taken == [0, 1, 2]


ROWS = (
    ListedObject("a", "md5", 1, "text/plain", {"k": "v"}, "a", {"f": "f"}),
    PlacedFile("a", 1, 2, 3, 4, "md5", "text/plain", {"k": "v"}),
    FoundFile("a", 1, 2, 3, 4),
    PlannedChange(PlanKind.COPY.value, "a", "md5", 1, source="b", is_new=True),
    Folder("a", is_deep=True),
)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: type(row).__name__)
def test_a_row_survives_any_way_of_travelling(row: tuple[object, ...]) -> None:
    assert pickle.loads(pickle.dumps(row)) == row  # noqa: S301 - its own
    assert tuple(json.loads(json.dumps(row))) == tuple(row)


def test_a_problem_needs_no_more_than_its_text() -> None:
    assert FoundFile("", problem="refused").problem == "refused"
    assert FoundFile("a").problem is None


def test_a_file_begins_alike_when_it_is_placed_and_when_it_is_found() -> None:
    *found, _ = FoundFile._fields
    assert PlacedFile._fields[: len(found)] == tuple(found)
