"""What `perago start` asks for before it polls anything, in the order and words of 0.6.1.

Settings and declarations first, the registered TaskDefs last. A start waits for a Conductor that is
away, as an attempt does. `StartWait` says so in the log, in a metric and to the probes: whoever
looks finds a worker that lives, is not ready, and names what it waits for. Starts nothing.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import cast, final

from perago.app.attempt.context import AttemptPorts
from perago.app.attempt.patience import CONDUCTOR, NoStopOrder, Patience, PatienceTerms
from perago.app.authoring.task_definition import (
    TaskDefDifference,
    TaskDefinition,
    build_taskdef,
    taskdef_differences,
)
from perago.app.settings.runtime_config import metrics_config
from perago.app.settings.settings import Settings
from perago.app.telemetry.listeners import write
from perago.app.telemetry.metrics import SERVICE_WAIT, Metrics
from perago.domain.errors import RuntimeConfigError
from perago.ports.conductor import TaskDefinitions
from perago.ports.errors import ServiceError, WrongServerError
from perago.ports.installations import ConductorInstallation
from perago.ports.workspace import Phase, Progress

LOGGER = logging.getLogger("perago.worker")


def check_conductor(settings: Settings) -> None:
    """Refuse to start without a Conductor; asked before any module is imported."""
    if settings.conductor_address is None:
        raise RuntimeConfigError(
            "CONDUCTOR_SERVER_URL is required for perago start;"
            " set PERAGO_CONDUCTOR, its name in Perago",
            code="PRG-C011",
        )


def check_services(settings: Settings, tasks: Sequence[TaskDefinition]) -> None:
    """Refuse to start without what the tasks declare that they use."""
    if settings.lakefs_address is None and any(task.has_workspace for task in tasks):
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
) -> None:
    """Refuse to start unless the server is a Conductor and knows the tasks.

    One that is away is waited for. Every refusal is final. How TaskDefs differ is logged.
    """

    async def ask() -> dict[str, list[TaskDefDifference]]:
        try:
            await conductor.queue.check()
            return await check_registered(conductor.definitions, tasks, strict=strict)
        except WrongServerError as error:  # it would be the same server a minute later
            raise _not_validated(error) from error

    try:
        different = await patience.until_done(CONDUCTOR, "the start of the worker", ask)
    except RuntimeConfigError:
        raise
    except Exception as error:
        raise _not_validated(error) from error
    for name, differences in different.items():
        facts = {"task_name": name, "differences": [str(each) for each in differences]}
        write(LOGGER, logging.WARNING, "registered TaskDef differs from the code", facts)


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


@final
class StartWait(Progress):
    """Hears what one start waits for."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._service = ""
        self.has_waited = False

    def lines(self) -> list[str]:
        """A line of `/readyz` while it waits."""
        return [f"the start of this worker waits for {self._service}"] if self._service else []

    def phase(self, phase: Phase, facts: Mapping[str, object]) -> None:
        """A wait that lasts, or its end."""
        service = str(facts["service"])
        if phase is Phase.WAITING:
            self._service, self.has_waited = service, True
            write(LOGGER, logging.WARNING, "worker waiting", facts)
            return
        self._service = ""
        # No task waits here, and Prometheus reads an empty label as none.
        labels = {"task_name": "", "service": service}
        self._metrics.observe(SERVICE_WAIT, labels, cast("float", facts["waited_seconds"]))
        write(LOGGER, logging.INFO, "worker waited", facts)


def patience_of_start(ports: AttemptPorts, seconds_max: float, heard: StartWait) -> Patience:
    """One patience for all that a start asks; a signal cancels the start and so its waiting."""
    return Patience(
        PatienceTerms(
            clock=ports.clock,
            fraction=ports.identities.fraction,
            seconds_max=seconds_max,
            lease=None,
            lease_seconds=0,
            began=0,
            stop_order=NoStopOrder(),
            progress=heard,
            lakefs_is_away=lambda _: None,
        )
    )
