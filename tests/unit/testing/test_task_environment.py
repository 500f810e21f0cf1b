"""One task on a dictionary of files: result, tree, difference, verdicts, lines."""

from pathlib import Path

import pytest
from pydantic import BaseModel

from perago import (
    TaskFailed,
    TaskTerminalError,
    WorkspaceSpec,
    forbid_glob,
    require_file,
    require_glob,
    task,
)
from perago.testing import GuardrailVerdict, TaskEnvironment, TaskRun
from perago.testing.environment import describe
from perago.testing.file_trees import compare_trees, diff_lines, write_back

FILES: dict[str, bytes | str] = {"raw/a.csv": "1\n2\n", "raw/b.csv": b"3\n"}


class Wanted(BaseModel):
    """How the body behaves."""

    do: str = "sum"


class Total(BaseModel):
    """A sum."""

    total: int


@task(
    name="sum-up",
    owner_email="data@example.com",
    workspace=WorkspaceSpec(
        prefix="x",
        pre=[require_glob("raw/*.csv", min_count=1)],
        post=[require_file("total.txt"), forbid_glob("*.tmp")],
    ),
)
def sum_up(workspace: Path, params: Wanted) -> Total:
    """Adds numbers, or misbehaves as asked."""
    print("summing up")  # noqa: T201 - what the test looks for
    match params.do:
        case "fail":
            raise TaskFailed("cannot")
        case "give up":
            raise TaskTerminalError("never")
        case "nothing":
            return Total(total=0)
        case "litter":
            (workspace / "left.tmp").write_text("")
        case "link":
            (workspace / "link").symlink_to("raw")
        case "wrong result":
            return Total.model_construct(total="many")
        case _:
            pass
    numbers = [
        int(line)
        for path in sorted(workspace.glob("raw/*.csv"))
        for line in path.read_text().split()
    ]
    (workspace / "total.txt").write_text(f"{sum(numbers)}\n")
    (workspace / "raw/b.csv").unlink()
    return Total(total=sum(numbers))


def test_a_run_gives_result_tree_difference_verdicts_and_lines() -> None:
    run = TaskEnvironment().run(sum_up, FILES)
    assert run.completed
    assert run.result == {"total": 6}
    assert run.files == {"raw/a.csv": b"1\n2\n", "total.txt": b"6\n"}
    assert (run.diff.added, run.diff.changed, run.diff.removed) == (
        ("total.txt",),
        (),
        ("raw/b.csv",),
    )
    assert [(verdict.phase, verdict.holds) for verdict in run.guardrails] == [
        ("pre", True),
        ("post", True),
        ("post", True),
    ]
    assert run.lines == ("summing up",)


@pytest.mark.parametrize(
    ("do", "status", "reason"),
    [
        ("fail", "FAILED", "cannot"),
        ("give up", "FAILED_WITH_TERMINAL_ERROR", "never"),
        ("nothing", "FAILED", r"require_file\('total.txt'\)"),
        ("litter", "FAILED", r"forbid_glob\('\*.tmp'\)"),
        ("link", "FAILED", "workspace publication does not support symlinks: link"),
        ("wrong result", "FAILED", "total"),
    ],
)
def test_a_failure_is_a_status_and_a_reason(do: str, status: str, reason: str) -> None:
    run = TaskEnvironment().run(sum_up, FILES, Wanted(do=do))
    assert run.status == status
    assert run.result is None
    assert run.reason is not None
    with pytest.raises(AssertionError, match=reason):
        TaskEnvironment().assert_completed(run)


def test_a_broken_pre_guardrail_is_terminal_and_the_body_does_not_run() -> None:
    run = TaskEnvironment().run(sum_up, {})
    assert run.status == "FAILED_WITH_TERMINAL_ERROR"
    assert run.lines == ()
    assert [verdict.holds for verdict in run.guardrails] == [False]


def test_parameters_that_do_not_fit_fail_before_anything_runs() -> None:
    run = TaskEnvironment().run(sum_up, FILES, {"do": 1})
    assert run.status == "FAILED"
    assert run.lines == ()
    assert run.guardrails == ()


def test_a_directory_is_copied_and_never_touched(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw/a.csv").write_text("1\n2\n")
    (tmp_path / "raw/b.csv").write_text("3\n")
    run = TaskEnvironment().run(sum_up, tmp_path)
    assert run.completed
    assert (tmp_path / "raw/b.csv").exists()
    assert not (tmp_path / "total.txt").exists()


def test_a_run_is_described_for_people() -> None:
    assert describe(TaskEnvironment().run(sum_up, FILES)) == [
        "COMPLETED",
        "result: {'total': 6}",
        "pre require_glob('raw/*.csv') holds",
        "post require_file('total.txt') holds",
        "post forbid_glob('*.tmp') holds",
        "| summing up",
        "--- a/raw/b.csv",
        "+++ /dev/null",
        "@@ -1 +0,0 @@",
        "-3",
        "--- /dev/null",
        "+++ b/total.txt",
        "@@ -0,0 +1 @@",
        "+6",
    ]


@pytest.mark.parametrize(
    ("before", "after", "lines"),
    [
        ({}, {}, []),
        ({"a": b"\0"}, {"a": b"\0\0"}, ["binary a: 1 bytes -> 2 bytes"]),
        ({}, {"a": b"\xff"}, ["binary a: nothing -> 1 bytes"]),
        ({}, {"a": b""}, ["added empty file a"]),
        ({"a": b""}, {}, ["removed empty file a"]),
        ({"a": b"1\n"}, {"a": b"2\n"}, ["--- a/a", "+++ b/a", "@@ -1 +1 @@", "-1", "+2"]),
    ],
    ids=["equal", "binary", "not text", "empty added", "empty removed", "changed"],
)
def test_a_difference_in_lines(
    before: dict[str, bytes], after: dict[str, bytes], lines: list[str]
) -> None:
    assert list(diff_lines(before, after)) == lines
    assert compare_trees(before, after).is_empty is (before == after)


def test_writing_back_touches_only_what_changed(tmp_path: Path) -> None:
    before = {"same": b"1", "changed": b"2", "gone": b"3"}
    for path, content in before.items():
        (tmp_path / path).write_bytes(content)
    stamp = (tmp_path / "same").stat().st_mtime_ns
    write_back(tmp_path, before, {"same": b"1", "changed": b"x", "new/file": b"y"})
    found = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")}
    assert found == {"same", "changed", "new", "new/file"}
    assert (tmp_path / "same").stat().st_mtime_ns == stamp


@pytest.mark.parametrize("path", ["../out", "/etc/x", "a/../../b"])
def test_a_path_outside_of_the_workspace_is_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(ValueError, match="outside"):
        write_back(tmp_path / "inside", {}, {path: b""})


def test_a_run_is_a_value_with_its_verdicts() -> None:
    @task(
        name="guarded",
        owner_email="data@example.com",
        workspace=WorkspaceSpec(prefix="data", pre=[require_file("in.txt")]),
    )
    def guarded(workspace: Path, params: Wanted) -> Total:
        raise AssertionError((workspace, params))

    run: TaskRun = TaskEnvironment().run(guarded, {})
    (verdict,) = run.guardrails
    assert verdict == GuardrailVerdict("pre", "require_file", "in.txt", verdict.violation)
    assert "in.txt" in str(verdict.violation)
