"""The prefix of a workspace and the models around it, with the texts of 0.6.1."""

import pytest
from pydantic import ValidationError

from perago.app.authoring.workspace_spec import WorkspaceSpec

EMPTY = "WorkspaceSpec.prefix must not be empty"
OUTSIDE = "WorkspaceSpec.prefix must stay inside the repository"
BACKSLASH = "WorkspaceSpec.prefix must use '/' separators"


@pytest.mark.parametrize(
    ("prefix", "normal"),
    [
        ("/", "/"),
        (" / ", "/"),
        ("a", "a"),
        ("/a", "a"),
        ("//a/b", "a/b"),
        (" /a/b ", "a/b"),
        ("/ a", " a"),
        ("C:", "C:"),
    ],
)
def test_a_prefix_has_one_normal_form(prefix: str, normal: str) -> None:
    assert WorkspaceSpec(prefix=prefix).prefix == normal


@pytest.mark.parametrize(
    ("prefix", "text"),
    [
        ("", EMPTY),
        ("  ", EMPTY),
        ("///", EMPTY),
        ("a/", OUTSIDE),
        ("a//b", OUTSIDE),
        ("..", OUTSIDE),
        (".", OUTSIDE),
        ("./a", OUTSIDE),
        ("a/../b", OUTSIDE),
        ("a\\b", BACKSLASH),
        ("\\ ", BACKSLASH),
    ],
)
def test_a_prefix_outside_the_repository_is_refused(prefix: str, text: str) -> None:
    with pytest.raises(ValidationError) as caught:
        WorkspaceSpec(prefix=prefix)
    assert text in str(caught.value)


def test_a_workspace_is_the_whole_repository_writable_and_alone_unless_told() -> None:
    spec = WorkspaceSpec()
    assert spec.model_dump() == {
        "prefix": "/",
        "pre": [],
        "post": [],
        "read_only": False,
        "isolation": "branch",
    }


def test_a_workspace_spec_is_closed_and_frozen() -> None:
    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        WorkspaceSpec.model_validate({"other": 1})
    with pytest.raises(ValidationError, match="frozen"):
        WorkspaceSpec().prefix = "b"
