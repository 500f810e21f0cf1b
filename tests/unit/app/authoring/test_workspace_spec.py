"""The prefix of a workspace, also with values of params, and its checks; texts of 0.6.1."""

from dataclasses import replace
from datetime import date
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Annotated, Literal
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, SecretStr, ValidationError

from perago.app.authoring.envelope import resolved_prefix, resolved_task
from perago.app.authoring.failure import error_is_terminal, validation_code
from perago.app.authoring.task_declaration import task
from perago.app.authoring.task_definition import TaskDefinition
from perago.app.authoring.workspace_spec import StagedCheck, StagedView, WorkspaceSpec
from perago.domain.errors import PrefixValueError, TaskDefinitionError
from perago.domain.paths import listing_prefix

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


def test_a_workspace_is_the_whole_repository_writable_and_alone_by_default() -> None:
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


class Take(Enum):
    """Which recording."""

    FIRST = "first"


class Inner(BaseModel):
    """Not a name."""

    name: str = "x"


class Params(BaseModel):
    """Fields of every kind."""

    song: str = "one"
    number: int = 1
    day: date = date(2026, 1, 2)
    take: Take = Take.FIRST
    uid: UUID = UUID(int=7)
    size: Literal["s", "l"] = "s"
    long: Annotated[str, Field(alias="longName")] = "long"
    maybe: str | None = None
    flag: bool = True
    ratio: float = 0.5
    rate: float | None = None
    size_or_rate: int | float = 1
    items: list[str] = Field(default_factory=list[str])
    inner: Inner = Inner()
    secret: SecretStr = SecretStr("s")
    anything: object = None


def definition(prefix: str) -> TaskDefinition:
    def body(workspace: Path, params: Params) -> Params:
        del workspace
        return params

    spec = WorkspaceSpec(prefix=prefix)
    return TaskDefinition("t", "o", body, Params, Params, workspace=spec)


@pytest.mark.parametrize(
    ("prefix", "params", "resolved"),
    [
        ("songs/{params.song}", {}, "songs/one"),
        ("songs/{params.song}", {"song": "zwei"}, "songs/zwei"),
        ("{params.song}", {"song": "Ä b.c"}, "Ä b.c"),
        ("{params.song}", {"song": "{params.number}"}, "{params.number}"),
        ("s/{params.song}-{params.number}/raw", {"number": 12}, "s/one-12/raw"),
        ("{params.number}", {"number": -3}, "-3"),
        ("day={params.day}", {"day": "2026-11-19"}, "day=2026-11-19"),
        ("{params.take}", {}, "first"),
        ("{params.uid}", {}, "00000000-0000-0000-0000-000000000007"),
        ("{params.size}", {"size": "l"}, "l"),
        ("{params.size_or_rate}", {}, "1"),
        ("{params.long}", {"longName": "by alias"}, "by alias"),
        ("{params.maybe}", {"maybe": "there"}, "there"),
        ("{params.anything}", {"anything": "text"}, "text"),
        ("a{b}/{}/{c.d}", {}, "a{b}/{}/{c.d}"),
        ("/", {}, "/"),
    ],
)
def test_a_placeholder_takes_the_value_that_the_function_sees(
    prefix: str, params: dict[str, object], resolved: str
) -> None:
    assert resolved_prefix(definition(prefix), params) == resolved


@pytest.mark.parametrize(
    ("prefix", "params", "problem"),
    [
        ("s/{params.song}", {"song": ""}, "song is empty"),
        ("s/{params.song}", {"song": " \t"}, "song is empty"),
        ("s/{params.song}", {"song": "a/b"}, "song contains a slash"),
        ("s/{params.song}", {"song": "/"}, "song contains a slash"),
        ("s/{params.song}", {"song": ".."}, "song has a '..' path segment"),
        ("s/{params.song}", {"song": "."}, "song has a '.' path segment"),
        ("s/{params.song}", {"song": "a\\b"}, "song contains a backslash"),
        ("s/{params.song}", {"song": "a\0"}, "song contains a NUL character"),
        ("s/{params.song}", {"song": "c:x"}, "song starts with a drive letter"),
        ("s/{params.song}", {"song": "ä" * 128}, "longer than 255 bytes"),
        ("s/{params.song}-{params.maybe}", {"song": "a" * 200, "maybe": "b" * 200}, "song, maybe"),
        ("{params.song}{params.maybe}", {"song": "_lakefs_", "maybe": "actions"}, "reserved"),
        ("{params.song}", {"song": "_lakefs_actions"}, "reserved path"),
        ("a/{params.song}", {"song": ".perago-attempt.json"}, "reserved path"),
        ("{params.maybe}", {}, "maybe is NoneType"),
        ("{params.anything}", {"anything": True}, "anything is bool"),
        ("{params.anything}", {"anything": ["a"]}, "anything is list"),
        ("{params.anything}", {"anything": 0.5}, "anything is float"),
    ],
)
def test_a_value_that_is_no_name_of_a_folder_ends_the_attempt_for_good(
    prefix: str, params: dict[str, object], problem: str
) -> None:
    with pytest.raises(PrefixValueError) as caught:
        resolved_prefix(definition(prefix), params)
    assert problem in str(caught.value)
    assert caught.value.code == "PRG-I013"
    assert error_is_terminal(caught.value)


@pytest.mark.parametrize(
    ("prefix", "said"),
    [
        ("{params.sing}", "did you mean {params.song}?"),
        ("{params.zzzzzz}", "but Params has no such field; it has song, number"),
        ("{params.longName}", "did you mean {params.long}?"),
        ("{params.flag}", "no name of a folder; use a str or an int field"),
        ("{params.ratio}", "no name of a folder"),
        ("{params.rate}", "no name of a folder"),
        ("{params.items}", "no name of a folder"),
        ("{params.inner}", "no name of a folder"),
        ("{params.secret}", "no name of a folder"),
        ("songs/{song}", "did you mean {params.song}?"),
    ],
)
def test_a_placeholder_that_no_field_can_fill_is_refused_in_the_declaration(
    prefix: str, said: str
) -> None:
    def body(workspace: Path, params: Params) -> Params:
        del workspace
        return params

    with pytest.raises(TaskDefinitionError, match=r"WorkspaceSpec\.prefix") as caught:
        task(name="t", owner_email="o", workspace=WorkspaceSpec(prefix=prefix))(body)
    assert said in str(caught.value)
    assert caught.value.code == "PRG-T023"


@pytest.mark.parametrize(
    "prefix",
    ["{params}", "{params.}", "{params.a.b}", "{ params.song }", "{params[song]}", "{param.song}"],
)
def test_what_looks_like_a_placeholder_has_to_be_one(prefix: str) -> None:
    with pytest.raises(ValidationError, match=r"expected \{params.NAME\}"):
        WorkspaceSpec(prefix=f"songs/{prefix}")


def test_the_reason_does_not_carry_the_value() -> None:
    with pytest.raises(PrefixValueError) as caught:
        resolved_prefix(definition("{params.song}"), {"song": "confidential/name"})
    assert "confidential" not in str(caught.value)


def test_a_resolved_task_differs_in_its_prefix_alone() -> None:
    declared = definition("songs/{params.song}")
    resolved = resolved_task(declared, {"song": "a"})
    assert resolved.workspace is not None
    assert resolved.workspace.prefix == "songs/a"
    assert replace(resolved, workspace=declared.workspace) == declared
    plain = definition("songs")
    assert resolved_task(plain, {"song": "a"}) is plain


VALUES = st.one_of(st.text(max_size=12), st.text("./\\: {}a", max_size=6))


@given(VALUES, VALUES)
def test_a_folder_holds_its_own_value_and_no_other(one: str, other: str) -> None:
    """Whatever the value: a folder right below, and values that differ share no object."""
    declared = definition("songs/{params.song}")
    found: list[str] = []
    for value in (one, other):
        try:
            found.append(resolved_prefix(declared, {"song": value}))
        except PrefixValueError:
            assert not value.isalnum()
            return
    assert found == [f"songs/{one}", f"songs/{other}"]
    first, second = map(listing_prefix, found)
    assert (one == other) == (first.startswith(second) or second.startswith(first))
    assert all(
        each.count("/") == 2 and not {"", ".", ".."} & {*each[:-1].split("/")}
        for each in (first, second)
    )
