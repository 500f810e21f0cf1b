"""What `perago start` asks for before it polls: texts, order, and the registered TaskDef."""

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, final

import pytest
from pydantic import BaseModel

from perago.app.attempt.patience import Patience
from perago.app.authoring.task_definition import MetricSpec, TaskDefinition, build_taskdef
from perago.app.authoring.workspace_spec import WorkspaceSpec
from perago.app.settings.settings import Settings, load_settings
from perago.app.start_checks import check_conductor, check_registered, check_service, check_services
from perago.domain.errors import RuntimeConfigError
from perago.ports.conductor import TaskDefinitions
from perago.ports.errors import UnavailableError

EXPORTED = {"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://127.0.0.1:1/v1/metrics"}
LAKEFS = {"PERAGO_LAKEFS": "memory:"}


class Model(BaseModel):
    """Params and result."""

    a: int = 1


def task(
    *, workspace: WorkspaceSpec | None = None, metrics: MetricSpec | None = None
) -> TaskDefinition:
    return TaskDefinition("t", "o", print, Model, Model, workspace=workspace, metrics=metrics)


PLAIN, IN_WORKSPACE = task(), task(workspace=WorkspaceSpec())
MEASURED, UNCOUNTED = task(metrics=MetricSpec()), task(metrics=MetricSpec(worker_capacity=False))


def settings(tmp_path: Path, env: Mapping[str, str]) -> Settings:
    return load_settings(cwd=tmp_path, process_env=env)


@pytest.mark.parametrize("name", ["CONDUCTOR_SERVER_URL", "PERAGO_CONDUCTOR"])
def test_a_conductor_is_required(tmp_path: Path, name: str) -> None:
    check_conductor(settings(tmp_path, {name: "http://127.0.0.1:1/api"}))
    with pytest.raises(RuntimeConfigError) as caught:
        check_conductor(settings(tmp_path, {}))
    said = str(caught.value)
    assert said.startswith("CONDUCTOR_SERVER_URL is required for perago start;")
    assert said.endswith("set PERAGO_CONDUCTOR, its name in Perago")


@pytest.mark.parametrize(
    ("tasks", "env"),
    [
        ([PLAIN], {}),
        ([IN_WORKSPACE], LAKEFS),
        ([MEASURED], EXPORTED | {"PERAGO_INSTANCE_ID": "x"}),
        ([UNCOUNTED], EXPORTED),
        ([PLAIN], EXPORTED),
    ],
    ids=["plain", "workspace", "measured", "measured without capacity", "unused endpoint"],
)
def test_what_a_task_uses_suffices(
    tmp_path: Path, tasks: list[TaskDefinition], env: dict[str, str]
) -> None:
    check_services(settings(tmp_path, env), tasks)


@pytest.mark.parametrize(
    ("tasks", "env", "text"),
    [
        ([PLAIN, IN_WORKSPACE], {}, "LakeFS config is required for workspace tasks"),
        (
            [MEASURED],
            {},
            "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT is required for metrics-enabled tasks",
        ),
        (
            [MEASURED],
            EXPORTED,
            "PERAGO_INSTANCE_ID is required when worker_capacity metrics are enabled",
        ),
        (
            [task(workspace=WorkspaceSpec(), metrics=MetricSpec())],
            {},
            "LakeFS config is required for workspace tasks",
        ),
    ],
    ids=["lakefs", "endpoint", "instance", "lakefs before metrics"],
)
def test_what_a_task_uses_is_required(
    tmp_path: Path, tasks: list[TaskDefinition], env: dict[str, str], text: str
) -> None:
    with pytest.raises(RuntimeConfigError) as caught:
        check_services(settings(tmp_path, env), tasks)
    assert str(caught.value) == text


@final
class Registered(TaskDefinitions):
    """A registry of documents that nobody changes."""

    def __init__(self, documents: Mapping[str, Mapping[str, object]]) -> None:
        self._documents = documents

    async def read(self, name: str) -> Mapping[str, object] | None:
        """Return a document."""
        return self._documents.get(name)

    async def put(self, definition: Mapping[str, object]) -> None:
        """Refuse."""
        raise AssertionError(definition)


async def test_a_missing_taskdef_is_refused() -> None:
    with pytest.raises(RuntimeConfigError) as caught:
        await check_registered(Registered({}), [PLAIN], strict=False)
    assert str(caught.value) == (
        "Conductor TaskDef 't' is not registered; run perago extract and register it before start"
    )
    assert caught.value.code == "PRG-T019"


async def test_a_different_taskdef_is_returned_or_refused() -> None:
    same = Registered({"t": build_taskdef(PLAIN)})
    assert await check_registered(same, [PLAIN], strict=True) == {}
    different = Registered({"t": build_taskdef(PLAIN) | {"retryCount": 9}})
    (found,) = (await check_registered(different, [PLAIN], strict=False))["t"]
    assert str(found) == "retryCount: registered 9, code 3"
    with pytest.raises(RuntimeConfigError, match="'t' differs from the code: retryCount"):
        await check_registered(different, [PLAIN], strict=True)


class Gone:
    """A queue whose server does not answer."""

    async def check(self) -> str:
        """Fail as an adapter does."""
        raise UnavailableError("ask for the version: nothing was sent")


async def test_a_conductor_that_is_not_there_is_said_in_the_words_of_0_6_1() -> None:
    gone: Any = SimpleNamespace(queue=Gone())
    with pytest.raises(RuntimeConfigError) as caught:
        await check_service(gone, [PLAIN], strict=False, patience=Patience())
    assert str(caught.value) == (
        "failed to validate Conductor TaskDef: ask for the version: nothing was sent"
    )
    assert caught.value.code == "PRG-L008"
