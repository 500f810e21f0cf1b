"""Action files as the server takes them, and what a refusal says."""

import pytest

from perago.adapters.memory.hooks import (
    ActionFileError,
    HookEvent,
    HookRefused,
    HooksBroken,
    load_actions,
    run_hooks,
)
from perago.adapters.memory.object_tree import EMPTY_TREE, Tree, store_object
from perago.domain.logical_execution import CommitId, RepositoryId

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
    broken = run_hooks(event(branch="unmatched"), files, run_id=7)
    assert isinstance(broken, HooksBroken)
    assert broken.text.startswith("pre-merge hook aborted, run id '00000000000000000007'")


def test_two_actions_of_one_name_are_unusable() -> None:
    with pytest.raises(ActionFileError, match="'good' already loaded"):
        load_actions(tree({"good.yaml": GOOD, "copy.yaml": GOOD}))


def test_files_elsewhere_are_not_actions() -> None:
    elsewhere = store_object(b"{not yaml", content_type="", modified_at=0, address=1)
    files = EMPTY_TREE.with_changes({"data/_lakefs_actions/x.yaml": elsewhere})
    assert run_hooks(event(), files, run_id=1) is None


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
    refusal = run_hooks(event(name, branch), tree({"good.yaml": GOOD}), run_id=1)
    assert isinstance(refusal, HookRefused) is runs
    if refusal is not None:
        assert "failed on action 'good' hook 'refuse': runtime error: " in refusal.text
        assert f"no {branch} repository" in refusal.text


def refusing(name: str, text: str) -> str:
    return (
        f"name: {name}\non: {{pre-merge: }}\nhooks: "
        f"[{{id: refuse, type: lua, properties: {{script: 'error(\"{text}\")'}}}}]"
    )


def test_the_refusals_of_every_action_are_told() -> None:
    files = tree({"a.yaml": refusing("first", "one"), "b.yaml": refusing("second", "two")})
    refusal = run_hooks(event(), files, run_id=1)
    assert isinstance(refusal, HookRefused)
    assert refusal.text.index("one") < refusal.text.index("two")


def test_a_hook_after_a_failed_one_runs_only_when_it_asks_to() -> None:
    hooks = ", ".join(
        f"{{id: h{number}, type: lua, if: '{condition}', properties: {{script: {script}}}}}"
        for number, (condition, script) in enumerate(
            [("", "error(1)"), ("", "error(2)"), ("failure()", "x = 1"), ("success()", "error(3)")]
        )
    )
    files = tree({"a.yaml": f"name: chain\non: {{pre-merge: }}\nhooks: [{hooks}]"})
    refusal = run_hooks(event(), files, run_id=1)
    assert isinstance(refusal, HookRefused)
    assert "0000_0000" in refusal.text
    assert refusal.text.count("failed on action") == 1


def test_a_script_may_lie_beside_the_actions() -> None:
    action = (
        "name: by path\non: {pre-merge: }\nhooks: "
        "[{id: ab, type: lua, properties: {script_path: scripts/check.lua}}]"
    )
    files = tree({"a.yaml": action})
    missing = run_hooks(event(), files, run_id=1)
    assert isinstance(missing, HookRefused)
    assert "could not load script_path scripts/check.lua: HTTP 404" in missing.text
    script = store_object(b"error('from a file')", content_type="", modified_at=0, address=5)
    found = run_hooks(event(), files.with_changes({"scripts/check.lua": script}), run_id=1)
    assert isinstance(found, HookRefused)
    assert "from a file" in found.text


def test_a_webhook_is_refused_because_nothing_answers_in_memory() -> None:
    action = (
        "name: caller\non: {pre-merge: }\nhooks: "
        "[{id: ab, type: webhook, properties: {url: 'http://127.0.0.1/'}}]"
    )
    refusal = run_hooks(event(), tree({"a.yaml": action}), run_id=1)
    assert isinstance(refusal, HookRefused)
    assert "does not call webhook hooks" in refusal.text
