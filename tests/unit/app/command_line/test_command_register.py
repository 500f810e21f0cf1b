"""`perago register`: what is created, updated, left alone, and only shown."""

from collections.abc import Mapping
from typing import Any, final

import pytest
from tests.unit.app.command_line.command_run import Module, Run

from perago.app.authoring.task_definition import taskdef_differences, taskdef_to_register
from perago.app.command_line.definitions import register_taskdefs
from perago.ports.conductor import TaskDefinitions

BUILT: dict[str, Any] = {
    "name": "t",
    "retryCount": 3,
    "inputSchema": {"data": {"properties": {"a": {"type": "integer"}}}},
}


@pytest.mark.parametrize(
    ("registered", "differences"),
    [
        (BUILT, []),
        (BUILT | {"createTime": 5, "pollTimeoutSeconds": 9, "description": ""}, []),
        (BUILT | {"inputSchema": BUILT["inputSchema"] | {"createTime": 0}}, []),
        (BUILT | {"retryCount": 1}, ["retryCount: registered 1, code 3"]),
        (
            {"name": "t", "retryCount": 3},
            [f"inputSchema: registered '(absent)', code {BUILT['inputSchema']}"],
        ),
        (
            BUILT | {"inputSchema": {"data": {"properties": {"b": {"type": "null"}}}}},
            [
                "inputSchema.data.properties.a: registered '(absent)', code {'type': 'integer'}",
                "inputSchema.data.properties.b: registered {'type': 'null'}, code '(absent)'",
            ],
        ),
        (
            BUILT | {"concurrentExecLimit": 4},
            ["concurrentExecLimit: registered 4, code '(absent)'"],
        ),
        (BUILT | {"concurrentExecLimit": 0, "rateLimitPerFrequency": 0}, []),
    ],
    ids=[
        "same",
        "server's own",
        "server's own inside",
        "value",
        "missing",
        "inside",
        "limit removed",
        "limit unset",
    ],
)
def test_a_difference_is_reported_with_its_path(
    registered: Mapping[str, Any], differences: list[str]
) -> None:
    assert [str(each) for each in taskdef_differences(registered, BUILT)] == differences


def test_register_keeps_fields_of_the_operator_and_resets_those_of_perago() -> None:
    registered = BUILT | {"isolationGroupId": "g", "concurrentExecLimit": 4, "createTime": 5}
    assert taskdef_to_register(registered, BUILT) == BUILT | {"isolationGroupId": "g"}
    assert taskdef_to_register(None, BUILT) == BUILT


@final
class Registry(TaskDefinitions):
    """A registry that keeps documents."""

    def __init__(self, **documents: Mapping[str, object]) -> None:
        self.documents = documents

    async def read(self, name: str) -> Mapping[str, object] | None:
        """Return a document."""
        return self.documents.get(name)

    async def put(self, definition: Mapping[str, object]) -> None:
        """Keep a document."""
        self.documents[str(definition["name"])] = definition


@pytest.mark.parametrize(
    ("registry", "action", "stored"),
    [
        (Registry(), "created", BUILT),
        (Registry(t=BUILT), "unchanged", BUILT),
        (Registry(t=BUILT | {"retryCount": 1, "own": 2}), "updated", BUILT | {"own": 2}),
    ],
    ids=["created", "unchanged", "updated"],
)
async def test_register_stores_a_taskdef_that_differs(
    registry: Registry, action: str, stored: Mapping[str, object]
) -> None:
    before = dict(registry.documents)
    (shown,) = await register_taskdefs(registry, [BUILT], dry_run=True)
    assert (shown.action, registry.documents) == (action, before)
    (done,) = await register_taskdefs(registry, [BUILT], dry_run=False)
    assert (done.action, registry.documents) == (action, {"t": stored})
    (again,) = await register_taskdefs(registry, [BUILT], dry_run=False)
    assert again.action == "unchanged"


def test_the_command_registers_on_the_conductor_of_the_settings(
    run: Run, module: Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERAGO_CONDUCTOR", "memory:register-command")
    target = module("registered", name="registered.task")
    assert run("register", target, "--dry-run").out == "would be created: registered.task\n"
    assert run("register", target).out == "created: registered.task\n"
    ran = run("register", target, "--json")
    assert ran.document == {
        "schema": "perago.register/1",
        "dry_run": False,
        "tasks": [{"task": "registered.task", "action": "unchanged", "differences": []}],
    }


def test_without_a_conductor_the_command_is_misconfigured(run: Run, module: Module) -> None:
    ran = run("register", module("unregistered"))
    assert (ran.code, ran.out) == (3, "")
    assert ran.err.startswith("error: CONDUCTOR_SERVER_URL is required")


def test_the_error_of_an_address_without_a_scheme_says_so(
    run: Run, module: Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERAGO_CONDUCTOR", "localhost:8080")
    ran = run("register", module("no_scheme"))
    assert ran.code == 3
    assert "for localhost:8080, which has no scheme such as http://; known:" in ran.err
    assert "write https://localhost:8080, or http://localhost:8080 where keys" in ran.err
