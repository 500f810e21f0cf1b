"""The prefix of a workspace and the models around it, with the texts of 0.6.1."""

from functools import partial

import pytest
from pydantic import ValidationError

from perago.app.authoring.failure import validation_code
from perago.app.authoring.staged_view import StagedView
from perago.app.authoring.workspace_spec import StagedCheck, WorkspaceSpec

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
        "checks": [],
    }


def test_a_workspace_spec_is_closed_and_frozen() -> None:
    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        WorkspaceSpec.model_validate({"other": 1})
    with pytest.raises(ValidationError, match="frozen"):
        WorkspaceSpec().prefix = "b"


def look(view: StagedView, more: int = 0) -> None:
    """A check whose other parameters have defaults."""
    del view, more


class Look:
    """A check that is an object."""

    def __call__(self, view: StagedView) -> None:
        """Look."""
        del view


async def wait(view: StagedView) -> None:
    """No check: nobody would await it."""
    del view


def of_nothing() -> None:
    """No check: it takes no view."""


def of_two(view: StagedView, more: int) -> None:
    """No check: nobody would give it more."""
    del view, more


def test_checks_are_whatever_can_be_called_with_one_view() -> None:
    checks: list[StagedCheck] = [look, Look(), print, partial(look, more=3)]
    assert WorkspaceSpec.model_validate({"checks": checks}).checks == checks


@pytest.mark.parametrize(
    ("check", "text"),
    [
        ("look", "WorkspaceSpec.checks takes functions, found str"),
        (wait, "check wait must be a synchronous function"),
        (of_nothing, "check of_nothing must take one positional argument"),
        (of_two, "check of_two must take one positional argument, the view of the staged commit"),
    ],
    ids=["no function", "a coroutine", "no argument", "two arguments"],
)
def test_what_cannot_be_called_with_a_view_is_refused(check: object, text: str) -> None:
    with pytest.raises(ValidationError) as caught:
        WorkspaceSpec.model_validate({"checks": [check]})
    assert text in str(caught.value)
    assert validation_code(caught.value) == "PRG-T022"


def test_a_read_only_task_refuses_checks() -> None:
    with pytest.raises(ValidationError) as caught:
        WorkspaceSpec(read_only=True, checks=[look])
    assert "stages no commit, so it takes no checks" in str(caught.value)
    assert validation_code(caught.value) == "PRG-T022"
