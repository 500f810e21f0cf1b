"""Makes the parts of a worker (`assemble`), with the readers of its events and its upkeep.

A start waits for a Conductor that is away, as an attempt does. `StartWait` says so in the log, in a
metric and to the probes: whoever looks finds a worker that lives, is not ready, and names what it
waits for.
"""

import asyncio
import logging
import os
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast, final

from perago.app.attempt.context import AttemptPorts, AttemptSettings
from perago.app.attempt.patience import CONDUCTOR, Patience, PatienceTerms
from perago.app.authoring import task_definition
from perago.app.container import Container, notify_service
from perago.app.gc.judging import retention_times
from perago.app.gc.local_pass import LostRows, WorkerNames, sweep_directories
from perago.app.gc.remote_pass import RemotePass
from perago.app.runs.finish import served_tasks
from perago.app.settings.settings import Settings
from perago.app.telemetry.exports import AttemptDataEvents, AttemptSpans, Collectors
from perago.app.telemetry.listeners import (
    AttemptListener,
    AttemptLog,
    SeenRepositories,
    WaitingAttempts,
    warn_of_disk,
    warn_of_service,
    write,
)
from perago.app.telemetry.metrics import (
    BUSY_SLOTS,
    SERVICE_WAIT,
    AttemptMetrics,
    BodyTelemetry,
    Metrics,
)
from perago.app.worker.bodies import Bodies, UploadingBody
from perago.app.worker.executor import ExecutorProgram, executor_environment
from perago.app.worker.executor_user import HandedOverBody, executor_python_of, executor_user_of
from perago.app.worker.polling import DiskGate, DiskSpace, PolledType, ServiceGate
from perago.app.worker.process_body import ProcessBody
from perago.app.worker.processes import Orphans, end_left_programs
from perago.app.worker.thread_body import ThreadBody
from perago.app.worker.worker import WorkerParts
from perago.app.worker_description import code_version_of, domain_of
from perago.domain.attempt import FenceWidth
from perago.domain.errors import RuntimeConfigError
from perago.domain.lakefs import RepositoryId
from perago.domain.policy import PolicySetting
from perago.domain.text import Secrets
from perago.ports.conductor import TaskDefinitions
from perago.ports.errors import ServiceError, WrongServerError
from perago.ports.installations import ConductorInstallation
from perago.ports.system import Clock
from perago.ports.task_body import TaskBody
from perago.ports.workspace import Phase, Progress

LOGGER = logging.getLogger("perago.worker")
FAILURES_LOGGED_MAX = 20  # a screen of an operator; what failed is met again by the next pass
PROBE_REPOSITORY = RepositoryId("perago-probe")


@dataclass(frozen=True, slots=True)
class StartOrder:
    """What `perago start` was asked for."""

    settings: Settings
    targets: Sequence[str]
    tasks: Sequence[task_definition.TaskDefinition]
    slots: int = 1
    strict_taskdef: bool = False
    domain: str | None = None
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)


@dataclass(frozen=True, slots=True)
class Assembled:
    """A worker's parts, and what is asked of it from outside."""

    parts: WorkerParts
    upkeep: "Upkeep"
    metrics: Metrics
    waiting: WaitingAttempts
    start: "StartWait"

    def notes(self) -> list[str]:
        """What is waited for, below the answers of the probes."""
        return self.start.lines() + self.waiting.lines()


def assemble(
    order: StartOrder,
    container: Container,
    worker_id: str,
    *,
    secrets: Collection[str],
    collectors: Collectors,
    names: WorkerNames,
) -> Assembled:
    """Make every part; called in the worker's loop."""
    masking, seen, waiting = Secrets.of(secrets), SeenRepositories(), WaitingAttempts()
    metrics = Metrics(collectors.telemetry)
    program = _program(order, secrets)
    bodies = _bodies(order, container, worker_id, program, metrics)
    ports = _ports(order, container, _around(bodies, program, container))
    tasks = {task.name: task for task in served_tasks(order.tasks)}
    gates, settings = _gates(order, ports), _attempt_settings(order, worker_id, masking)
    start = StartWait(metrics)
    patience = patience_of_start(ports, settings.patience_seconds, start)
    upkeep = Upkeep(order.settings, container, seen.names)
    lost = LostRows(ports, tasks, settings, names, patience)
    listeners: list[AttemptListener] = [AttemptLog(), AttemptMetrics(metrics), seen, waiting]
    listeners += _sent_events(collectors, container.clock(), masking)
    forced = order.settings.shutdown_force_kill_after
    parts = WorkerParts(
        ports=ports,
        bodies=bodies,
        tasks=tasks,
        types=[_polled(order, task, gates) for task in tasks.values()],
        settings=settings,
        listeners=listeners,
        conductor_gate=gates.conductor,
        lakefs_gate=gates.lakefs,
        before_polling=[
            lambda: check_service(
                container.conductor(), order.tasks, strict=order.strict_taskdef, patience=patience
            ),
            # Rows go back before the sweep, which removes the markers that name them.
            lost.of_directories,
            lost.at_start,
            lambda: upkeep.sweep("at startup"),
            gates.look_at_lakefs,
        ],
        periodic=[upkeep.sweep_periodically, lost.after_the_last_poll],
        unheard=lost.unheard,
        force_kill_seconds=None if forced is None else forced.total_seconds(),
        started=lambda: notify_service("READY=1"),
        beat=_beat(order, bodies, metrics, worker_id),
    )
    return Assembled(parts, upkeep, metrics, waiting, start)


def _ports(order: StartOrder, container: Container, body: TaskBody) -> AttemptPorts:
    # Attempts without a workspace never ask for lakeFS, which may not even be configured.
    lakefs = {} if any(task.has_workspace for task in order.tasks) else {"lakefs": None}
    ports: AttemptPorts = container.ports(body=body, **lakefs)
    return ports


def _sent_events(
    collectors: Collectors, clock: Clock, secrets: Secrets
) -> Iterator[AttemptListener]:
    """The listeners that send events elsewhere."""
    if collectors.telemetry is not None:
        yield AttemptSpans(collectors.telemetry, clock, secrets)
    if collectors.data_events is not None:
        yield AttemptDataEvents(collectors.data_events, clock, secrets)


def _beat(
    order: StartOrder, bodies: Bodies, metrics: Metrics, worker_id: str
) -> Callable[[], None]:
    """Once a second: tell the service manager, reap orphans, count each task's busy slots."""
    orphans = Orphans()
    instance = {"perago_instance_id": order.settings.instance_id or worker_id}

    def beat() -> None:
        notify_service("WATCHDOG=1")
        orphans.reap()
        busy = [slot.task_name for slot in bodies.facts()]
        for task in order.tasks:
            metrics.gauge(BUSY_SLOTS, instance | {"task_name": task.name}, busy.count(task.name))

    return beat


@dataclass(frozen=True, slots=True)
class _Gates:
    """What polling depends on."""

    conductor: ServiceGate
    lakefs: ServiceGate | None
    disk: DiskGate

    async def look_at_lakefs(self) -> None:
        """Before anything is polled, so that no attempt is spent on finding out."""
        if self.lakefs is not None and await self.lakefs.look() > 0:
            warn_of_service(self.lakefs.name, self.lakefs.last_error)


def _gates(order: StartOrder, ports: AttemptPorts) -> _Gates:
    now, fraction = ports.clock.monotonic, ports.identities.fraction
    conductor = ServiceGate("conductor", ports.queue.check, now=now, fraction=fraction)
    lakefs = None
    if any(task.has_workspace for task in order.tasks):
        lakefs = ServiceGate(
            "lakefs",
            lambda: ports.lakefs.repositories.read(PROBE_REPOSITORY),
            now=now,
            fraction=fraction,
        )

    def space() -> DiskSpace:
        usage = shutil.disk_usage(order.settings.workspace_root)
        return DiskSpace(usage.total, usage.free, order.settings.disk_free_min)

    disk = DiskGate(space, lambda found: warn_of_disk(found.total, found.free))
    return _Gates(conductor, lakefs, disk)


def _polled(order: StartOrder, task: task_definition.TaskDefinition, gates: _Gates) -> PolledType:
    domain = order.domain or domain_of(task.name, order.environment)
    if gates.lakefs is None or not task.asks_lakefs:
        return PolledType(task.name, domain, [gates.conductor])
    return PolledType(task.name, domain, [gates.conductor, gates.lakefs], gates.disk)


def _program(order: StartOrder, secrets: Collection[str]) -> ExecutorProgram:
    environment = executor_environment(order.environment, secrets)
    user, python = executor_user_of(order.settings), executor_python_of(order.settings)
    return ExecutorProgram(order.targets, environment, user, python)


def _bodies(
    order: StartOrder,
    container: Container,
    worker_id: str,
    program: ExecutorProgram,
    metrics: Metrics,
) -> Bodies:
    observer = BodyTelemetry(metrics)
    if order.settings.execution_mode == "thread":
        tasks = {task.name: task for task in order.tasks}
        return ThreadBody(tasks, observer=observer, worker_id=worker_id, slots=order.slots)
    return ProcessBody(
        program, container.clock(), observer=observer, worker_id=worker_id, slots=order.slots
    )


def _around(bodies: Bodies, program: ExecutorProgram, container: Container) -> TaskBody:
    """What happens around every call: another user gets its workspace, checkpoints are uploaded."""
    runs: TaskBody = bodies
    if program.user is not None:
        runs = HandedOverBody(bodies, program.user, container.concurrency())
    return UploadingBody(runs, bodies.orders)


def _attempt_settings(order: StartOrder, worker_id: str, secrets: Secrets) -> AttemptSettings:
    settings = order.settings
    return AttemptSettings(
        worker_id=worker_id,
        publication=PolicySetting(settings.publication_policy),
        fence_width=FenceWidth(settings.attempt_fence),
        require_ownership=settings.require_ownership,
        strict_input=settings.strict_input,
        failure_reason_max_length=settings.failure_reason_max_length,
        body_seconds=float(settings.body_seconds),
        patience_seconds=settings.patience.total_seconds(),
        checkpoint_seconds=settings.checkpoint_interval.total_seconds(),
        checkpoint_bytes_max=settings.checkpoint_size,
        secrets=secrets,
        # Masked: a key that was put into the variable by mistake must not stay in commits for ever.
        code_version=secrets.masked(settings.code_version or code_version_of(order.tasks) or ""),
    )


async def check_service(
    conductor: ConductorInstallation,
    tasks: Sequence[task_definition.TaskDefinition],
    *,
    strict: bool,
    patience: Patience,
) -> None:
    """Refuse to start unless the server is a Conductor and knows the tasks.

    One that is away is waited for. Every refusal is final. How TaskDefs differ is logged.
    """

    async def ask() -> dict[str, list[task_definition.TaskDefDifference]]:
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
    definitions: TaskDefinitions, tasks: Sequence[task_definition.TaskDefinition], *, strict: bool
) -> dict[str, list[task_definition.TaskDefDifference]]:
    """Return how registered TaskDefs differ, by task; a missing one is refused.

    With `strict` a different one is refused as well.
    """
    found: dict[str, list[task_definition.TaskDefDifference]] = {}
    for task in tasks:
        registered = await definitions.read(task.name)
        if registered is None:
            raise RuntimeConfigError(
                f"Conductor TaskDef '{task.name}' is not registered;"
                " run perago extract and register it before start",
                code="PRG-T019",
            )
        differences = task_definition.taskdef_differences(
            registered, task_definition.build_taskdef(task)
        )
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
    return Patience(PatienceTerms(ports.clock, ports.identities.fraction, seconds_max, heard))


@dataclass(frozen=True, slots=True)
class Upkeep:
    """The garbage that one worker collects, before its first poll and beside its attempts.

    One failure never stops a pass, and no pass stops the worker.
    """

    settings: Settings
    container: Container
    repositories: Collection[RepositoryId]

    async def sweep_periodically(self) -> None:
        """Until the worker ends."""
        while True:
            await asyncio.sleep(self.settings.workspace_gc_interval.total_seconds())
            await self.sweep("while running")
            for repository in sorted(self.repositories):
                await self._collect(repository)

    async def sweep(self, when: str) -> None:
        """One pass over programs that bodies left, and over the attempt directories."""
        if programs := await asyncio.to_thread(end_left_programs):
            text = f"ended programs whose executors are gone {when}"
            write(LOGGER, logging.INFO, text, {"groups": programs})
        try:
            times = retention_times(self.settings)
            queue = self.container.conductor().queue
            done = await sweep_directories(self.container.directories(), times, queue)
        except Exception as error:  # noqa: BLE001 - litter is no reason to end a worker
            why = {"error": str(error)}
            write(LOGGER, logging.WARNING, "workspace garbage collection failed", why)
            return
        if done.removed or done.failed:
            facts = {"removed": list(map(str, done.removed)), "failed": list(map(str, done.failed))}
            text = f"swept abandoned attempt workspaces {when}"
            write(LOGGER, logging.INFO, text, facts)

    async def _collect(self, repository: RepositoryId) -> None:
        """One pass over a repository."""
        lakefs, queue = self.container.lakefs(), self.container.conductor().queue
        clock, times = self.container.clock(), retention_times(self.settings)
        try:
            judged = await RemotePass(lakefs, queue, clock, repository, times).run()
        except Exception as error:  # noqa: BLE001 - litter is no reason to end a worker
            why = {"error": str(error)}
            write(LOGGER, logging.WARNING, "remote garbage collection failed", why)
            return
        removed = [each.name for each in judged if each.removed]
        failed = [f"{each.name}: {each.error}" for each in judged if each.error]
        if removed or failed:
            facts = {"repository": repository, "removed": removed, "failed": _first(failed)}
            write(LOGGER, logging.INFO, "garbage-collected a repository", facts)


def _first(failed: list[str]) -> list[str]:
    """As many as a log line may hold: a Conductor that is down fails every leftover."""
    more = len(failed) - FAILURES_LOGGED_MAX
    return [*failed[:FAILURES_LOGGED_MAX], *([f"and {more} more"] if more > 0 else [])]
