"""The fence in Lua and its port to Python say the same; foreign scripts really run."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perago.adapters.memory.hooks import (
    ScriptNeedsLuaError,
    has_lua,
    load_actions,
    run_fence_in_python,
    run_in_lua,
    run_script,
)
from perago.adapters.memory.object_tree import EMPTY_TREE, store_object
from perago.domain.commit_metadata import EXPECTED_HEAD
from perago.domain.fence import FENCE_FILE, FENCE_SCRIPT, FENCE_SCRIPT_1, HEAD_MOVED_TEXT
from perago.domain.paths import FENCE_PATH

HEAD = "a" * 64
OTHER = "b" * 64


STAGED = "perago-staging-1"
SCRIPTS = (FENCE_SCRIPT, FENCE_SCRIPT_1)


def action(metadata: dict[str, str], *parents: str, source: str = "feature") -> dict[str, object]:
    commit = {"metadata": metadata, "parents": list(parents)}
    return {"commit": commit, "merge_source": source}


@pytest.mark.parametrize(
    ("metadata", "parents", "passes"),
    [
        ({}, (HEAD,), True),
        ({EXPECTED_HEAD: HEAD}, (HEAD,), True),
        ({EXPECTED_HEAD: HEAD}, (HEAD, OTHER), True),
        ({EXPECTED_HEAD: HEAD}, (OTHER,), False),
        ({EXPECTED_HEAD: HEAD}, (OTHER, HEAD), False),
        ({EXPECTED_HEAD: HEAD.upper()}, (HEAD,), False),
        ({EXPECTED_HEAD: HEAD[:12]}, (HEAD,), False),
        ({EXPECTED_HEAD: "main"}, (HEAD,), False),
        ({EXPECTED_HEAD: ""}, (HEAD,), False),
        ({EXPECTED_HEAD: HEAD}, (), False),
        ({EXPECTED_HEAD: "nil"}, (), True),
        ({"perago.phase": "confirm"}, (), True),
        ({EXPECTED_HEAD: f"{HEAD}\n"}, (HEAD,), False),
        ({EXPECTED_HEAD: 'a"]] .. x'}, (HEAD,), False),
    ],
    ids=[
        "no expectation",
        "expected",
        "first of two parents",
        "moved",
        "only the second parent",
        "upper case",
        "shortened",
        "branch name",
        "empty",
        "no parent",
        "no parent and nil expected",
        "other metadata",
        "trailing line",
        "Lua in the text",
    ],
)
def test_both_fences_agree_on_every_case(
    metadata: dict[str, str], parents: tuple[str, ...], *, passes: bool
) -> None:
    seen = action(metadata, *parents)
    for script in SCRIPTS:
        in_lua = run_in_lua(script, seen)
        assert in_lua == run_fence_in_python(script, seen)
        assert (in_lua is None) is passes
        if in_lua is not None:
            assert HEAD_MOVED_TEXT in in_lua


COMMITS = st.sampled_from([HEAD, OTHER, HEAD.upper(), HEAD[:7], "", "nil", "main"]) | st.text(
    st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8
)


@given(
    metadata=st.dictionaries(st.sampled_from([EXPECTED_HEAD, "perago.phase"]), COMMITS),
    parents=st.lists(COMMITS, max_size=2),
    source=st.sampled_from([STAGED, "perago-settled-", "perago-run", HEAD]) | COMMITS,
    script=st.sampled_from(SCRIPTS),
)
def test_both_fences_agree_on_anything(
    metadata: dict[str, str], parents: list[str], source: str, script: str
) -> None:
    seen = action(metadata, *parents, source=source)
    assert run_in_lua(script, seen) == run_fence_in_python(script, seen)


def test_the_script_in_the_installed_file_is_the_script() -> None:
    installed = store_object(FENCE_FILE, content_type="", modified_at=0, address=1)
    (fence,) = load_actions(EMPTY_TREE.with_changes({FENCE_PATH: installed}))
    assert fence.branches_by_event == {"pre-merge": ()}
    assert [hook.properties["script"] for hook in fence.hooks] == [FENCE_SCRIPT]


@pytest.mark.parametrize(
    ("script", "failure"),
    [
        ("return 1", None),
        ("seen = action.commit.parents[2]", None),
        ("error('no')", '[string "lua"]:1: no'),
        ("error(seen)", "nil"),
        ("error(#action.commit.parents, 0)", "2"),
        ("this is not Lua", "[string \"lua\"]:1: syntax error near 'is'"),
        ("return action.missing.field", "[string \"lua\"]:1: attempt to index field 'missing'"),
        ("error(python or os or io or require or debug)", "nil"),
    ],
    ids=[
        "passes",
        "sets a global",
        "raises",
        "sees no other script's global",
        "sees the parents",
        "is not Lua",
        "indexes nothing",
        "reaches no Python",
    ],
)
def test_any_script_runs_in_lua(script: str, failure: str | None) -> None:
    found = run_script(script, action({}, HEAD, OTHER), with_lua=has_lua())
    if failure is None:
        assert found is None
    else:
        assert found is not None
        assert found.startswith(failure)


def test_without_lua_only_the_fence_runs() -> None:
    moved, by_hand = action({EXPECTED_HEAD: HEAD}, OTHER), action({}, HEAD, source=STAGED)
    for seen, script in product((moved, by_hand), SCRIPTS):
        assert run_script(script, seen, with_lua=False) == run_in_lua(script, seen)
    with pytest.raises(ScriptNeedsLuaError, match=r"install perago\[testing\]"):
        run_script("return 1", moved, with_lua=False)
