"""What `perago start` asks for before it polls anything, in the order and words of 0.6.1.

Settings and declarations first, the registered TaskDefs last. Starts nothing.
"""

from collections.abc import Sequence

from perago.app.attempt.patience import CONDUCTOR, Patience
from perago.app.authoring.task_definition import TaskDefinition
from perago.app.authoring.taskdef import TaskDefDifference, build_taskdef, taskdef_differences
from perago.app.settings.runtime_config import metrics_config
from perago.app.settings.settings import Settings
from perago.domain.errors import RuntimeConfigError
from perago.ports.conductor import TaskDefinitions
from perago.ports.errors import ServiceError, WrongServerError
from perago.ports.installations import ConductorInstallation


def check_conductor(settings: Settings) -> None:
    """Refuse to start without a Conductor; asked before any module is imported."""
    if settings.conductor is None and settings.conductor_server_url is None:
        raise RuntimeConfigError(
            "CONDUCTOR_SERVER_URL is required for perago start;"
            " set PERAGO_CONDUCTOR, its name in Perago",
            code="PRG-C011",
        )


def check_services(settings: Settings, tasks: Sequence[TaskDefinition]) -> None:
    """Refuse to start without what the tasks declare that they use."""
    lakefs = settings.lakefs or settings.lakectl_server_endpoint_url
    if lakefs is None and any(task.has_workspace for task in tasks):
        raise RuntimeConfigError("LakeFS config is required for workspace tasks", code="PRG-C010")
    specs = [task.metrics for task in tasks if task.metrics is not None]
    metrics = metrics_config(settings)
    if specs and metrics is None:
        raise RuntimeConfigError(
            "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT is required for metrics-enabled tasks",
            code="PRG-C009",
        )
    counts_slots = any(spec.worker_capacity for spec in specs)
    if counts_slots and metrics is not None and metrics.instance_id is None:
        raise RuntimeConfigError(
            "PERAGO_INSTANCE_ID is required when worker_capacity metrics are enabled",
            code="PRG-C009",
        )


async def check_service(
    conductor: ConductorInstallation,
    tasks: Sequence[TaskDefinition],
    *,
    strict: bool,
    patience: Patience,
) -> dict[str, list[TaskDefDifference]]:
    """The server is a Conductor and knows the tasks; how its TaskDefs differ, by task.

    One that is away is waited for. Every refusal is final.
    """

    async def ask() -> dict[str, list[TaskDefDifference]]:
        try:
            await conductor.queue.check()
            return await check_registered(conductor.definitions, tasks, strict=strict)
        except WrongServerError as error:  # it would be the same server a minute later
            raise _not_validated(error) from error

    try:
        return await patience.until_done(CONDUCTOR, "the start of the worker", ask)
    except RuntimeConfigError:
        raise
    except Exception as error:
        raise _not_validated(error) from error


def _not_validated(error: Exception) -> RuntimeConfigError:
    code = error.code if isinstance(error, ServiceError) else "PRG-T019"
    return RuntimeConfigError(f"failed to validate Conductor TaskDef: {error}", code=code)


async def check_registered(
    definitions: TaskDefinitions, tasks: Sequence[TaskDefinition], *, strict: bool
) -> dict[str, list[TaskDefDifference]]:
    """Return how registered TaskDefs differ, by task; a missing one is refused.

    With `strict` a different one is refused as well.
    """
    found: dict[str, list[TaskDefDifference]] = {}
    for task in tasks:
        registered = await definitions.read(task.name)
        if registered is None:
            raise RuntimeConfigError(
                f"Conductor TaskDef '{task.name}' is not registered;"
                " run perago extract and register it before start",
                code="PRG-T019",
            )
        differences = taskdef_differences(registered, build_taskdef(task))
        if differences and strict:
            listed = "; ".join(map(str, differences))
            raise RuntimeConfigError(
                f"Conductor TaskDef '{task.name}' differs from the code: {listed}",
                code="PRG-T019",
            )
        if differences:
            found[task.name] = differences
    return found
