"""What has to move so that a branch equals a directory."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perago.domain.sync_plan import FileFacts, SyncPlan, plan_sync

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
