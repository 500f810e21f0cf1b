"""Puts a worker together from settings and tasks, runs it, and says how the process should end.

The order of start-time checks is `start_checks`'s; the life of the worker is `app.worker`'s.
"""

import asyncio
import logging
import os
import shutil
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import final

from perago.app.attempt.world import AttemptSettings
from perago.app.authoring.task_definition import TaskDefinition
from perago.app.container import Container
from perago.app.gc.local_pass import sweep_directories
from perago.app.settings.server_connections import connections_of
from perago.app.settings.settings import Settings
from perago.app.settings.worker_identity import worker_id_prefix_of
from perago.app.start_checks import check_registered
from perago.app.telemetry.attempt_log import AttemptLog, BodyLog
from perago.app.telemetry.listeners import Listeners, write
from perago.app.worker.bodies import Bodies
from perago.app.worker.circuit_breaker import CircuitBreaker
from perago.app.worker.executor import ExecutorProgram
from perago.app.worker.executor_environment import executor_environment, secrets_in
from perago.app.worker.gates import DiskGate, DiskSpace, ServiceGate
from perago.app.worker.polling import Gate, PolledType
from perago.app.worker.process_body import ProcessBody, ProcessBodySettings
from perago.app.worker.thread_body import ThreadBody
from perago.app.worker.worker import Worker, WorkerEnd
from perago.app.worker.worker_name import domain_of, worker_incarnation
from perago.app.worker.worker_parts import WorkerParts
from perago.app.worker_container import notify_service, open_root_lock, open_worker_log
from perago.app.worker_description import worker_log_file
from perago.domain.attempt_fence import FenceWidth
from perago.domain.authoring_errors import RuntimeConfigError
from perago.domain.publication_policy import PolicySetting
from perago.domain.references import RepositoryId
from perago.ports.errors import WorldError

LOGGER = logging.getLogger("perago.worker")
BROKEN_EXIT = 70
SIGNAL_EXIT = 128
PROBE_REPOSITORY = RepositoryId("perago-probe")


@dataclass(frozen=True, slots=True)
class StartOrder:
    """What `perago start` was asked for."""

    settings: Settings
    targets: Sequence[str]
    tasks: Sequence[TaskDefinition]
    slots: int = 1
    strict_taskdef: bool = False
    domain: str | None = None
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)


def start_worker(order: StartOrder) -> int:
    """Run a worker until it has ended; the exit code of the process."""
    settings = order.settings
    container = Container(connections=connections_of(settings))
    worker_id = _worker_id(order, container)
    now: datetime = container.clock().now()
    module = order.targets[0]
    file = worker_log_file(
        settings.log_root, module_target=module, worker_id=worker_id, started=now
    )
    secrets = known_secrets(settings, order.environment)
    with (
        open_root_lock(settings.workspace_root),
        open_worker_log(settings, file, secrets),
    ):
        assembly = _Assembly(order, container, worker_id, secrets)
        end, number = asyncio.run(assembly.run())
    return exit_code(end, number)


def exit_code(end: WorkerEnd, number: signal.Signals | None) -> int:
    """Drained 0, aborted like a signal, broken 70."""
    match end:
        case WorkerEnd.DRAINED:
            return 0
        case WorkerEnd.ABORTED:
            return SIGNAL_EXIT + (signal.SIGTERM if number is None else number)
        case WorkerEnd.BROKEN:
            return BROKEN_EXIT


def known_secrets(settings: Settings, environment: Mapping[str, str]) -> set[str]:
    """Every text that must appear nowhere."""
    connections = connections_of(settings)
    found = set(secrets_in(environment))
    if connections.lakefs is not None:
        found.add(connections.lakefs.secret_access_key)
    if connections.conductor is not None:
        found.add(connections.conductor.auth_secret or "")
    return found - {""}


@final
class _Assembly:
    """The parts of one worker; they live as long as its loop."""

    def __init__(
        self, order: StartOrder, container: Container, worker_id: str, secrets: set[str]
    ) -> None:
        self._order = order
        self._container = container
        self._worker_id = worker_id
        self._secrets = secrets
        self._has_lakefs = any(task.has_workspace for task in order.tasks)

    async def run(self) -> tuple[WorkerEnd, signal.Signals | None]:
        """Run the worker in this loop."""
        container = self._container
        parts = self._parts()
        worker = Worker(parts)
        try:
            end = await worker.run()
            if end is not WorkerEnd.ABORTED:
                await self._sweep("after shutdown")
        finally:
            notify_service("STOPPING=1")
            if worker.exit_signal is None or not parts.bodies.ready:
                with suppress(WorldError):
                    await container.conductor().close()
        return end, worker.exit_signal

    def _parts(self) -> WorkerParts:
        container, order, settings = self._container, self._order, self._order.settings
        bodies = self._bodies()
        world = container.world(body=bodies)
        clock, fraction = world.clock, world.identities.fraction
        conductor = ServiceGate(
            CircuitBreaker("conductor", now=clock.monotonic, fraction=fraction), world.queue.check
        )
        lakefs = None
        if self._has_lakefs:
            lakefs = ServiceGate(
                CircuitBreaker("lakefs", now=clock.monotonic, fraction=fraction),
                lambda: world.lakefs.repositories.read(PROBE_REPOSITORY),
            )
        disk = DiskGate(self._disk_space, _warn_of_disk)
        forced = settings.shutdown_force_kill_after
        return WorkerParts(
            world=world,
            bodies=bodies,
            tasks={task.name: task for task in order.tasks},
            types=[self._polled(task, conductor, lakefs, disk) for task in order.tasks],
            settings=self._attempt_settings(),
            listener=Listeners([AttemptLog()]),
            conductor_gate=conductor,
            lakefs_gate=lakefs,
            before_polling=[self._check_services, self._sweep_at_start],
            periodic=[self._sweep_periodically],
            force_kill_seconds=None if forced is None else forced.total_seconds(),
            started=lambda: notify_service("READY=1"),
            beat=lambda: notify_service("WATCHDOG=1"),
        )

    def _polled(
        self,
        task: TaskDefinition,
        conductor: ServiceGate,
        lakefs: ServiceGate | None,
        disk: DiskGate,
    ) -> PolledType:
        gates: list[Gate] = [conductor]
        if task.has_workspace and lakefs is not None:
            gates += [lakefs, disk]
        domain = self._order.domain or domain_of(task.name, self._order.environment)
        return PolledType(task.name, domain, gates)

    def _bodies(self) -> Bodies:
        order, observer = self._order, BodyLog()
        if order.settings.execution_mode == "thread":
            tasks = {task.name: task for task in order.tasks}
            return ThreadBody(
                tasks, observer=observer, worker_id=self._worker_id, slots=order.slots
            )
        environment = executor_environment(order.environment, self._secrets)
        settings = ProcessBodySettings(
            ExecutorProgram(order.targets, environment),
            slots=order.slots,
            worker_id=self._worker_id,
            observer=observer,
        )
        return ProcessBody(settings, self._container.clock())

    def _attempt_settings(self) -> AttemptSettings:
        settings = self._order.settings
        return AttemptSettings(
            worker_id=self._worker_id,
            publication=PolicySetting(settings.publication_policy),
            fence_width=FenceWidth(settings.attempt_fence),
            require_ownership=settings.require_ownership,
            strict_input=settings.strict_input,
            failure_reason_max_length=settings.failure_reason_max_length,
            body_seconds=float(settings.body_seconds),
        )

    async def _check_services(self) -> None:
        """The server is a Conductor, and knows the tasks."""
        conductor = self._container.conductor()
        await conductor.queue.check()
        try:
            different = await check_registered(
                conductor.definitions, self._order.tasks, strict=self._order.strict_taskdef
            )
        except RuntimeConfigError:
            raise
        except Exception as error:
            raise RuntimeConfigError(
                f"failed to validate Conductor TaskDef: {error}", code="PRG-T019"
            ) from error
        for name, differences in different.items():
            facts = {"task_name": name, "differences": [str(each) for each in differences]}
            write(LOGGER, logging.WARNING, "registered TaskDef differs from the code", facts)

    async def _sweep_at_start(self) -> None:
        await self._sweep("at startup")

    async def _sweep_periodically(self) -> None:
        while True:
            await asyncio.sleep(self._order.settings.workspace_gc_interval.total_seconds())
            await self._sweep("while running")

    async def _sweep(self, when: str) -> None:
        done = await sweep_directories(self._container.directories())
        if done.removed or done.failed:
            facts = {"removed": list(map(str, done.removed)), "failed": list(map(str, done.failed))}
            text = f"swept abandoned attempt workspaces {when}"
            write(LOGGER, logging.INFO, text, facts)

    def _disk_space(self) -> DiskSpace:
        usage = shutil.disk_usage(self._order.settings.workspace_root)
        return DiskSpace(usage.total, usage.free)


def _warn_of_disk(space: DiskSpace) -> None:
    facts = {"free_bytes": space.free, "total_bytes": space.total}
    write(LOGGER, logging.WARNING, "disk nearly full; polling no workspace tasks", facts)


def _worker_id(order: StartOrder, container: Container) -> str:
    settings = order.settings
    prefix = settings.worker_id or worker_id_prefix_of(settings.worker_id_prefix, order.targets[0])
    return worker_incarnation(prefix, container.identities().new_execution_id())
