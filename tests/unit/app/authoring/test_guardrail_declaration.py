"""What a guardrail may name: a table of paths with the texts of 0.6.1."""

import os
from collections.abc import Callable
from pathlib import PurePosixPath, PureWindowsPath

import pytest
from pydantic import ValidationError

from perago.app.authoring.guardrails import (
    WorkspaceGuardrail,
    forbid_glob,
    require_dir,
    require_file,
    require_glob,
)
from perago.domain.errors import TaskDefinitionError

LEAVES = "workspace guardrail paths must be relative and must not contain '..'"
OUTSIDE = "guardrail paths must be relative to WorkspaceSpec(prefix=...)"
BACKSLASH = "string guardrail paths must use '/' separators"
DRIVE = "drive-qualified guardrail paths are not allowed"
ABSOLUTE = "absolute guardrail paths are not allowed"
WINDOWS = "drive-qualified or absolute guardrail paths are not allowed"
EMPTY = "workspace guardrail paths must not be empty"
Declare = Callable[[str | os.PathLike[str]], WorkspaceGuardrail]
FUNCTIONS: list[Declare] = [require_file, require_dir, require_glob, forbid_glob]


@pytest.mark.parametrize("declare", FUNCTIONS, ids=lambda function: function.__name__)
@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("", LEAVES),
        (".", LEAVES),
        ("..", LEAVES),
        ("a//b", LEAVES),
        ("a/", LEAVES),
        ("./a", LEAVES),
        ("a/../b", LEAVES),
        ("/a", OUTSIDE),
        ("//", OUTSIDE),
        ("a\\b", BACKSLASH),
        ("c:\\x", BACKSLASH),
        ("/C:\\", BACKSLASH),
        ("C:a", DRIVE),
        ("C:", DRIVE),
        ("a:b", DRIVE),
        (PurePosixPath(), EMPTY),
        (PurePosixPath(".."), LEAVES),
        (PurePosixPath("/a"), ABSOLUTE),
        (PureWindowsPath("C:a"), WINDOWS),
        (PureWindowsPath("\\a"), WINDOWS),
        (PureWindowsPath("..\\a"), LEAVES),
    ],
    ids=repr,
)
def test_a_path_that_could_leave_the_workspace_is_refused(
    declare: Declare, path: str | os.PathLike[str], text: str
) -> None:
    with pytest.raises(TaskDefinitionError) as caught:
        declare(path)
    assert str(caught.value) == text


@pytest.mark.parametrize("declare", FUNCTIONS, ids=lambda function: function.__name__)
@pytest.mark.parametrize(
    ("path", "stored"),
    [
        ("a", "a"),
        (" a ", " a "),
        ("1:a", "1:a"),
        ("ab:c", "ab:c"),
        ("x/C:y", "x/C:y"),
        ("**/*.json", "**/*.json"),
        (PurePosixPath("a//b/./c/"), "a/b/c"),
        (PureWindowsPath("a\\b"), "a/b"),
    ],
    ids=repr,
)
def test_a_path_is_stored_in_its_posix_form(
    declare: Declare, path: str | os.PathLike[str], stored: str
) -> None:
    assert declare(path).path == stored


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"kind": "require_file", "min_count": 1}, "require_file does not accept count bounds"),
        ({"kind": "require_dir", "max_count": 1}, "require_dir does not accept count bounds"),
        ({"kind": "forbid_glob", "max_count": 1}, "forbid_glob does not accept count bounds"),
        (
            {"kind": "require_glob", "min_count": 3, "max_count": 2},
            "guardrail min_count must be <= max_count",
        ),
        ({"kind": "require_glob", "min_count": -1}, "greater than or equal to 0"),
        ({"kind": "require_glob", "max_count": -1}, "greater than or equal to 0"),
        ({"kind": "require_glob", "path": "/a"}, OUTSIDE),
        ({"kind": "other"}, "Input should be 'require_file', 'require_dir'"),
    ],
    ids=str,
)
def test_a_guardrail_with_impossible_values_is_refused(
    values: dict[str, object], text: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        WorkspaceGuardrail.model_validate({"path": "a"} | values)
    assert text in str(caught.value)


def test_a_required_glob_wants_at_least_one_match_by_default() -> None:
    assert (require_glob("a").min_count, require_glob("a").max_count) == (1, None)
    assert require_glob("a", min_count=0, max_count=0).min_count == 0
    assert WorkspaceGuardrail(kind="require_glob", path="a").min_count == 1
    assert forbid_glob("a").min_count is None
