"""The decorator keeps the type of the function; checked by mypy and pyright, called here."""

from pathlib import Path
from typing import assert_type

from pydantic import BaseModel

from perago.app.authoring.task_declaration import task
from perago.app.authoring.workspace_spec import WorkspaceSpec


class Params(BaseModel):
    """Params of the typed tasks."""

    a: int = 1


class Result(BaseModel):
    """Result of the typed tasks."""

    b: int = 1


@task(name="typed", owner_email="o")
def plain(params: Params) -> Result:
    return Result(b=params.a)


@task(name="typed.workspace", owner_email="o", workspace=WorkspaceSpec())
def in_workspace(workspace: Path, params: Params) -> Result:
    return Result(b=len(workspace.name) + params.a)


def test_a_decorated_function_is_called_with_its_own_types() -> None:
    assert_type(plain(Params(a=2)), Result)
    assert plain(params=Params(a=2)).b == 2
    assert_type(in_workspace(Path("abc"), Params(a=2)), Result)
    assert in_workspace(workspace=Path("abc"), params=Params(a=2)).b == 5
