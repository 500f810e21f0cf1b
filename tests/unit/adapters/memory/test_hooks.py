"""Action files as the server takes them, and scripts: our fence in Lua and in Python."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perago.adapters.memory.hooks import (
    ActionFileError,
    HookEvent,
    ScriptNeedsLuaError,
    has_lua,
    load_actions,
    run_fence_in_python,
    run_hooks,
    run_in_lua,
    run_script,
)
from perago.adapters.memory.object_tree import EMPTY_TREE, Tree, store_object
from perago.domain.commit_metadata import EXPECTED_HEAD
from perago.domain.fence import FENCE_FILE, FENCE_SCRIPT, FENCE_SCRIPT_1, HEAD_MOVED_TEXT
from perago.domain.lakefs import CommitId, RepositoryId
from perago.domain.paths import FENCE_PATH
from perago.ports.errors import BrokenActionsError, RequestRefusedError

HEAD = "a" * 64
OTHER = "b" * 64
STAGED = "perago-staging-1"
SCRIPTS = (FENCE_SCRIPT, FENCE_SCRIPT_1)
GOOD = """\
name: good
on:
  pre-merge:
    branches: [main, release-*]
  pre-create-tag:
hooks:
  - id: refuse
    type: lua
    properties:
      script: error("no " .. action.branch_id .. " " .. action.repository_id)
"""
SAME = "{id: ab, type: lua, properties: {script: x = 1}}"
HOOK = "hooks: [{id: ok, type: lua, properties: {script: 'x = 1'}}]"


def tree(files: dict[str, str]) -> Tree:
    return EMPTY_TREE.with_changes(
        {
            f"_lakefs_actions/{name}": store_object(
                text.encode(), content_type="", modified_at=0, address=number
            )
            for number, (name, text) in enumerate(files.items())
        }
    )


def event(name: str = "pre-merge", branch: str = "main") -> HookEvent:
    return HookEvent(name, RepositoryId("repository"), branch, parents=(CommitId("c1"),))


def refusal_of(event: HookEvent, files: Tree) -> str:
    """What hooks say that refuse an event."""
    with pytest.raises(RequestRefusedError) as refused:
        run_hooks(event, files, run_id=1)
    return str(refused.value)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("bad.yaml", "{not yaml"),
        ("README.md", "Actions live here."),
        ("empty.yaml", ""),
        ("list.yaml", "- name: x"),
        ("sub/good.yaml", GOOD),
        ("nameless.yaml", f"on: {{pre-merge: }}\n{HOOK}"),
        ("oddly_named.yaml", f"name: '?'\non: {{pre-merge: }}\n{HOOK}"),
        ("never.yaml", f"name: never\n{HOOK}"),
        ("unknown_event.yaml", f"name: odd\non: {{pre-push: }}\n{HOOK}"),
        ("scalar_event.yaml", f"name: odd\non: {{pre-merge: main}}\n{HOOK}"),
        ("tag_branches.yaml", f"name: odd\non: {{pre-create-tag: {{branches: [m]}}}}\n{HOOK}"),
        ("hookless_id.yaml", "name: odd\non: {pre-merge: }\nhooks: [{type: lua}]"),
        ("twice.yaml", f"name: odd\non: {{pre-merge: }}\nhooks: [{SAME}, {SAME}]"),
        ("shell.yaml", "name: odd\non: {pre-merge: }\nhooks: [{id: ab, type: shell}]"),
        ("scriptless.yaml", "name: odd\non: {pre-merge: }\nhooks: [{id: ab, type: lua}]"),
        ("nowhere.yaml", "name: odd\non: {pre-merge: }\nhooks: [{id: ab, type: webhook}]"),
        ("hooks.yaml", "name: odd\non: {pre-merge: }\nhooks: {id: ab}"),
        ("latin.yaml", "name: \udce9"),
    ],
    ids=lambda value: value if value.endswith((".yaml", ".md")) else None,
)
def test_one_unusable_file_makes_all_unusable(name: str, text: str) -> None:
    content = text.encode(errors="surrogateescape")
    unusable = store_object(content, content_type="", modified_at=0, address=9)
    files = tree({"good.yaml": GOOD}).with_changes({f"_lakefs_actions/{name}": unusable})
    named = "sub/" if "/" in name else name
    with pytest.raises(ActionFileError, match=named):
        load_actions(files)
    aborted = "^pre-merge hook aborted, run id '00000000000000000007'"
    with pytest.raises(BrokenActionsError, match=aborted):
        run_hooks(event(branch="unmatched"), files, run_id=7)


def test_two_actions_of_one_name_are_unusable() -> None:
    with pytest.raises(ActionFileError, match="'good' already loaded"):
        load_actions(tree({"good.yaml": GOOD, "copy.yaml": GOOD}))


def test_files_elsewhere_are_not_actions() -> None:
    elsewhere = store_object(b"{not yaml", content_type="", modified_at=0, address=1)
    files = EMPTY_TREE.with_changes({"data/_lakefs_actions/x.yaml": elsewhere})
    run_hooks(event(), files, run_id=1)  # and raises nothing


@pytest.mark.parametrize(
    ("name", "branch", "runs"),
    [
        ("pre-merge", "main", True),
        ("pre-merge", "release-7", True),
        ("pre-merge", "staging", False),
        ("pre-commit", "main", False),
        ("pre-create-tag", "", True),
    ],
)
def test_an_action_runs_for_its_events_and_branches(name: str, branch: str, *, runs: bool) -> None:
    happens, files = event(name, branch), tree({"good.yaml": GOOD})
    if not runs:
        run_hooks(happens, files, run_id=1)  # and raises nothing
        return
    refusal = refusal_of(happens, files)
    assert "failed on action 'good' hook 'refuse': runtime error: " in refusal
    assert f"no {branch} repository" in refusal


def refusing(name: str, text: str) -> str:
    return (
        f"name: {name}\non: {{pre-merge: }}\nhooks: "
        f"[{{id: refuse, type: lua, properties: {{script: 'error(\"{text}\")'}}}}]"
    )


def test_the_refusals_of_every_action_are_reported() -> None:
    files = tree({"a.yaml": refusing("first", "one"), "b.yaml": refusing("second", "two")})
    refusal = refusal_of(event(), files)
    assert refusal.index("one") < refusal.index("two")


def test_a_hook_after_a_failed_one_runs_only_when_it_asks_to() -> None:
    hooks = ", ".join(
        f"{{id: h{number}, type: lua, if: '{condition}', properties: {{script: {script}}}}}"
        for number, (condition, script) in enumerate(
            [("", "error(1)"), ("", "error(2)"), ("failure()", "x = 1"), ("success()", "error(3)")]
        )
    )
    files = tree({"a.yaml": f"name: chain\non: {{pre-merge: }}\nhooks: [{hooks}]"})
    refusal = refusal_of(event(), files)
    assert "0000_0000" in refusal
    assert refusal.count("failed on action") == 1


def test_a_script_may_lie_beside_the_actions() -> None:
    action = (
        "name: by path\non: {pre-merge: }\nhooks: "
        "[{id: ab, type: lua, properties: {script_path: scripts/check.lua}}]"
    )
    files = tree({"a.yaml": action})
    missing = refusal_of(event(), files)
    assert "could not load script_path scripts/check.lua: HTTP 404" in missing
    script = store_object(b"error('from a file')", content_type="", modified_at=0, address=5)
    found = refusal_of(event(), files.with_changes({"scripts/check.lua": script}))
    assert "from a file" in found


def test_a_webhook_is_refused_because_nothing_answers_in_memory() -> None:
    action = (
        "name: caller\non: {pre-merge: }\nhooks: "
        "[{id: ab, type: webhook, properties: {url: 'http://127.0.0.1/'}}]"
    )
    assert "does not call webhook hooks" in refusal_of(event(), tree({"a.yaml": action}))


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
