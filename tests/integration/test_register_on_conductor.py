"""`perago register` on a real server: what was registered reads back as nothing to do."""

import secrets
from pathlib import Path

import pytest
from pydantic import BaseModel, Field

from perago.app.authoring.task_definition import (
    ExecutionLimits,
    RetryPolicy,
    TaskControls,
    TaskDefinition,
    build_taskdef,
)
from perago.app.authoring.workspace_spec import WorkspaceSpec
from perago.app.command_line.definitions import register_taskdefs
from perago.app.connections import ConductorConnection
from perago.app.container import open_conductor
from perago_servers import ConductorServer

pytestmark = pytest.mark.conductor


class Node(BaseModel):
    """Recursive, so that the schema has definitions."""

    value: int = Field(ge=0)
    below: list["Node"] = []


class Result(BaseModel):
    """A result."""

    rows: int


def body(workspace: Path, params: Node) -> Result:
    return Result(rows=params.value + len(workspace.name))


def taskdef(name: str, controls: TaskControls) -> dict[str, object]:
    return build_taskdef(
        TaskDefinition(
            name,
            "team@example.org",
            body,
            Node,
            Result,
            description="Builds",
            workspace=WorkspaceSpec(),
            controls=controls,
        )
    )


async def test_what_was_registered_is_unchanged_and_what_changed_is_named(
    conductor_server: ConductorServer,
) -> None:
    name = f"register.{secrets.token_hex(8)}"
    limited = TaskControls(limits=ExecutionLimits(concurrent_exec_limit=2))
    steps: list[tuple[dict[str, object], str, list[str]]] = [
        (taskdef(name, limited), "created", []),
        (taskdef(name, limited), "unchanged", []),
        (
            taskdef(name, TaskControls(retry=RetryPolicy(count=1))),
            "updated",
            ["retryCount", "concurrentExecLimit"],
        ),
        (taskdef(name, TaskControls(retry=RetryPolicy(count=1))), "unchanged", []),
    ]
    conductor = open_conductor(ConductorConnection(url=conductor_server.api_url))
    try:
        for built, action, paths in steps:
            (shown,) = await register_taskdefs(conductor.definitions, [built], dry_run=True)
            (done,) = await register_taskdefs(conductor.definitions, [built], dry_run=False)
            assert (shown.action, done.action) == (action, action), done.differences
            assert [each.path for each in done.differences] == paths
    finally:
        await conductor.close()
