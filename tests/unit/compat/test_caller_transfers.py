"""What callers of 0.6.1 compute with: attempts as they give them, and plans of transfers."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from perago.app.authoring.workspace_spec import WorkspaceSpec
from perago.compat.caller_transfers import (
    TaskExecutionContext,
    assert_current_attempt_snapshot,
    build_workspace_sync_plan,
    staging_branch_name,
    workspace_delete_object_paths,
    workspace_download_files,
    workspace_local_path,
    workspace_upload_files,
)
from perago.domain.errors import StaleAttemptError, TaskInputError

ATTEMPT = {
    "workflow_instance_id": "w f",
    "reference_task_name": "r/é",
    "seq": 3,
    "iteration": 0,
    "task_id": "",
    "retry_count": 1,
    "status": "IN_PROGRESS",
}


def test_a_staging_branch_is_named_after_the_execution() -> None:
    attempt = SimpleNamespace(**ATTEMPT, execution_id="--")
    assert staging_branch_name(attempt) == (
        "perago-staging-w-f-r-seq-3-iteration-0-task-id-unknown-retry-1-exec-unknown"
    )


def test_an_attempt_that_is_unchanged_is_current() -> None:
    assert_current_attempt_snapshot(SimpleNamespace(**ATTEMPT), SimpleNamespace(**ATTEMPT))


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"status": "TIMED_OUT"}, "status"),
        ({"status": "no such status"}, "status"),
        ({"workflow_instance_id": "other"}, "workflow_id"),
        ({"task_id": "other"}, "task_id"),
        ({"retry_count": 2}, "retry_count"),
    ],
    ids=str,
)
def test_an_attempt_that_changed_is_stale_and_says_in_what(
    changed: dict[str, object], field: str
) -> None:
    with pytest.raises(StaleAttemptError) as caught:
        assert_current_attempt_snapshot(
            SimpleNamespace(**ATTEMPT), SimpleNamespace(**(ATTEMPT | changed))
        )
    assert caught.value.stale is not None
    assert caught.value.stale.field == field


@pytest.mark.parametrize("name", ["status", "workflow_instance_id", "task_id", "retry_count"])
def test_a_missing_attribute_is_named(name: str) -> None:
    fresh = SimpleNamespace(**{key: each for key, each in ATTEMPT.items() if key != name})
    with pytest.raises(AttributeError, match=f"task is missing required attribute {name}"):
        assert_current_attempt_snapshot(SimpleNamespace(**ATTEMPT), fresh)


def test_a_context_is_its_attempt_with_an_execution() -> None:
    context = TaskExecutionContext(SimpleNamespace(**ATTEMPT), "e1")
    assert (context.seq, context.execution_id) == (3, "e1")
    assert staging_branch_name(context).endswith("-exec-e1")
    with pytest.raises(AttributeError, match="nothing_like_it"):
        _ = context.nothing_like_it


INSIDE, WHOLE = WorkspaceSpec(prefix="p/q"), WorkspaceSpec()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("b.txt", "a.txt", "d/c", ".perago-attempt.json", "d/.perago-attempt.json"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("12")
    (tmp_path / "empty").mkdir()
    os.mkfifo(tmp_path / "pipe")
    return tmp_path


@pytest.mark.parametrize(
    ("path", "inside", "whole"),
    [
        ("p/q/a", "a", "p/q/a"),
        ("p/q", None, "p/q"),
        ("p/q2/a", None, "p/q2/a"),
        ("p/q2/é", None, "p/q2/é"),
        ("x", None, "x"),
        ("p/q/", None, None),
        ("p/q/d/", None, None),
        ("p/q/.perago-attempt.json", None, None),
        ("p/q/d/.perago-attempt.json", None, None),
        ("_lakefs_actions/hook.yaml", None, None),
        ("p/q/_lakefs_actions/x", "_lakefs_actions/x", "p/q/_lakefs_actions/x"),
    ],
)
def test_an_object_has_one_place_below_the_workspace_or_none(
    path: str, inside: str | None, whole: str | None
) -> None:
    for spec, expected in ((INSIDE, inside), (WHOLE, whole)):
        assert workspace_local_path(spec, path) == (expected and Path(expected))


@pytest.mark.parametrize("path", ["p/q/a//b", "p/q/../x", "p/q/./x", "p/q/a\\b", "p/q/C:x"])
def test_an_object_that_cannot_be_a_file_is_named(path: str) -> None:
    with pytest.raises(TaskInputError) as caught:
        workspace_local_path(INSIDE, path)
    assert str(caught.value).startswith(f"object {path!r} cannot be a local file: it ")


@pytest.mark.parametrize("path", ["p/q2//x", "p/q2/../x", "other\\name", "p/q3/C:x"])
def test_a_sibling_with_an_odd_name_is_left_alone(path: str) -> None:
    assert workspace_download_files(Path("w"), INSIDE, [path]) == []


def test_downloads_come_in_order() -> None:
    found = workspace_download_files(Path("w"), INSIDE, ["p/q/b", "z", "p/q/a", "p/q"])
    assert [(each.object_path, each.local_path) for each in found] == [
        ("p/q/a", Path("w/a")),
        ("p/q/b", Path("w/b")),
    ]


def test_uploads_are_the_regular_files_in_order(root: Path) -> None:
    found = workspace_upload_files(root, INSIDE)
    assert [each.object_path for each in found] == ["p/q/a.txt", "p/q/b.txt", "p/q/d/c"]
    assert [each.local_path.relative_to(root).as_posix() for each in found] == [
        "a.txt",
        "b.txt",
        "d/c",
    ]
    assert workspace_upload_files(root / "missing", INSIDE) == []


@pytest.mark.parametrize(
    ("link", "target"), [("link", "a.txt"), ("d/up", ".."), ("d/dangling", "nowhere")]
)
def test_a_link_is_refused_by_the_documented_text(root: Path, link: str, target: str) -> None:
    (root / link).symlink_to(target)
    with pytest.raises(TaskInputError) as caught:
        workspace_upload_files(root, INSIDE)
    assert str(caught.value) == f"workspace publication does not support symlinks: {link}"


@pytest.mark.parametrize("name", ["a\\b", "c:x"])
def test_a_file_that_no_later_task_could_download_is_refused(root: Path, name: str) -> None:
    (root / name).write_text("x")
    with pytest.raises(TaskInputError, match="cannot be an object"):
        workspace_upload_files(root, INSIDE)


def test_deletes_are_what_the_prefix_has_and_the_directory_has_not(root: Path) -> None:
    existing = ["p/q/z", "p/q/a.txt", "x", "p/q", "p/q/.perago-attempt.json", "p/q2/x", "p/q/y"]
    uploads = workspace_upload_files(root, INSIDE)
    assert workspace_delete_object_paths(INSIDE, existing, uploads) == ["p/q/y", "p/q/z"]


def test_a_plan_knows_its_size(root: Path) -> None:
    plan = build_workspace_sync_plan(root, INSIDE, ["p/q/z"])
    assert (len(plan.upload_files), plan.delete_object_paths) == (3, ["p/q/z"])
    assert (plan.changed_object_count, plan.upload_bytes) == (4, 6)


def test_a_plan_for_the_whole_repository_never_deletes_the_fence(root: Path) -> None:
    plan = build_workspace_sync_plan(root, WHOLE, ["_lakefs_actions/fence.yaml", "z"])
    assert plan.delete_object_paths == ["z"]
