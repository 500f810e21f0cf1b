"""Makes the parts of a worker (`assemble`), with the readers of its events.

And what a worker does beside its attempts: ask services, collect garbage, upload checkpoints. One
failure never stops a pass, and no pass stops the worker.
"""

import asyncio
import logging
import os
import shutil
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import final

from perago.app.attempt.context import AttemptPorts, AttemptSettings
from perago.app.attempt.patience import Patience
from perago.app.authoring.task_definition import TaskDefinition
from perago.app.code_version import code_version_of
from perago.app.container import Container
from perago.app.gc.judging import GcTools, retention_times
from perago.app.gc.local_pass import DeadRows, LostRows, WorkerNames, sweep_directories
from perago.app.gc.remote_pass import RemotePass
from perago.app.runs.built_in import served_tasks
from perago.app.settings.settings import Settings
from perago.app.start_checks import check_service
from perago.app.telemetry.attempt_log import AttemptLog, BodyLog, warn_of_disk, warn_of_service
from perago.app.telemetry.attempt_spans import AttemptSpans
from perago.app.telemetry.data_events import AttemptDataEvents, Collectors
from perago.app.telemetry.listeners import (
    AttemptListener,
    BodyObservers,
    SeenRepositories,
    WaitingAttempts,
    write,
)
from perago.app.telemetry.metrics import (
    BUSY_SLOTS,
    AttemptMetrics,
    BodyMetrics,
    Metrics,
    Samples,
    SharedSamples,
)
from perago.app.worker.attempts import Bodies, Order, StopOrders
from perago.app.worker.executor import ExecutorProgram
from perago.app.worker.executor_process import end_left_programs, executor_environment
from perago.app.worker.patient_start import StartWait, patience_of_start
from perago.app.worker.polling import (
    CircuitBreaker,
    DiskGate,
    DiskSpace,
    Gate,
    PolledType,
    ServiceGate,
)
from perago.app.worker.process_body import ProcessBody, ProcessBodySettings
from perago.app.worker.processes import (
    HandedOverBody,
    Orphans,
    executor_python_of,
    executor_user_of,
)
from perago.app.worker.slot_budget import first_of
from perago.app.worker.thread_body import ThreadBody
from perago.app.worker.worker import Job, WorkerParts, domain_of
from perago.app.worker_container import notify_service
from perago.domain.attempt import FenceWidth
from perago.domain.logical_execution import RepositoryId
from perago.domain.policy import PolicySetting
from perago.domain.text import Secrets
from perago.ports.task_body import BodyCall, BodyOutcome, BodyReturned, Checkpoints, TaskBody

LOGGER = logging.getLogger("perago.worker")
FAILURES_LOGGED_MAX = 20  # a screen of an operator; what failed is met again by the next pass


@dataclass(frozen=True, slots=True)
class Upkeep:
    """The jobs of one worker."""

    settings: Settings
    tasks: Sequence[TaskDefinition]
    container: Container
    repositories: Callable[[], Collection[RepositoryId]]
    strict_taskdef: bool = False
    patience: Patience = field(default_factory=Patience)

    async def check_services(self) -> None:
        """The server is a Conductor, and knows the tasks."""
        different = await check_service(
            self.container.conductor(),
            self.tasks,
            strict=self.strict_taskdef,
            patience=self.patience,
        )
        for name, differences in different.items():
            facts = {"task_name": name, "differences": [str(each) for each in differences]}
            write(LOGGER, logging.WARNING, "registered TaskDef differs from the code", facts)

    async def sweep_at_start(self) -> None:
        """What an earlier worker on this root left."""
        await self.sweep("at startup")

    async def sweep_periodically(self) -> None:
        """Until the worker ends."""
        while True:
            await asyncio.sleep(self.settings.workspace_gc_interval.total_seconds())
            await self.sweep("while running")
            for repository in sorted(self.repositories()):
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
            write(LOGGER, logging.WARNING, "workspace garbage collection failed", _why(error))
            return
        if done.removed or done.failed:
            facts = {"removed": list(map(str, done.removed)), "failed": list(map(str, done.failed))}
            text = f"swept abandoned attempt workspaces {when}"
            write(LOGGER, logging.INFO, text, facts)

    async def _collect(self, repository: RepositoryId) -> None:
        """One pass over a repository."""
        lakefs, conductor = self.container.lakefs(), self.container.conductor()
        tools = GcTools(
            lakefs.branches,
            lakefs.commits,
            lakefs.tags,
            conductor.queue,
            self.container.clock(),
        )
        try:
            judged = await RemotePass(tools, repository, retention_times(self.settings)).run()
        except Exception as error:  # noqa: BLE001 - litter is no reason to end a worker
            write(LOGGER, logging.WARNING, "remote garbage collection failed", _why(error))
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


def _why(error: Exception) -> dict[str, object]:
    return {"error": str(error)}


@final
class UploadingBody(TaskBody):
    """Runs calls elsewhere, and uploads what they keep."""

    def __init__(self, beneath: TaskBody, orders: StopOrders) -> None:
        self._beneath = beneath
        self._orders = orders

    async def run(self, call: BodyCall) -> BodyOutcome:
        """Run one call; its last upload has ended when it returns."""
        if call.checkpoints is None:
            return await self._beneath.run(call)
        with self._orders.for_execution(call.execution_id) as order:
            return await self._run(call, call.checkpoints, order)

    async def _run(self, call: BodyCall, checkpoints: Checkpoints, order: Order) -> BodyOutcome:
        uploads = _Uploads(checkpoints.upload)
        given = replace(checkpoints, taken=uploads.wake)
        try:
            outcome = await self._beneath.run(replace(call, checkpoints=given))
            if not isinstance(outcome, BodyReturned):
                # The next attempt goes on from the upload that is under way. A function that has
                # returned needs none, and an order to stop leaves no time for it.
                await uploads.last(order)
        finally:
            await uploads.end()
        return outcome


@final
class _Uploads:
    """The uploads of one call."""

    def __init__(self, upload: Callable[[], Awaitable[None]]) -> None:
        self._upload = upload
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[None] | None = None
        self._waits = False
        self._ended = False

    def wake(self) -> None:
        """A copy waits; said from any thread."""
        try:
            self._loop.call_soon_threadsafe(self._start)
        except RuntimeError:  # the loop is closed: a thread outlived the worker's end
            return

    async def last(self, order: Order) -> None:
        """Wait for the upload under way, until the order to stop."""
        self._ended = True  # a thread that the function left behind may still take copies
        self._waits = False
        if self._task is not None:
            await first_of(self._task, order)

    async def end(self) -> None:
        """Give up what is still under way."""
        self._ended = True
        self._waits = False
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task])

    def _start(self) -> None:
        if self._ended:
            return
        self._waits = True
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="perago-checkpoint")

    async def _run(self) -> None:
        while self._waits:
            self._waits = False
            await self._upload()


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


@dataclass(frozen=True, slots=True)
class Assembled:
    """A worker's parts, and what is asked of it from outside."""

    parts: WorkerParts
    upkeep: Upkeep
    metrics: Metrics
    waiting: WaitingAttempts
    start: StartWait

    def notes(self) -> list[str]:
        """What is waited for, below the answers of the probes."""
        return self.start.lines() + self.waiting.lines()


def assemble(
    order: StartOrder,
    container: Container,
    worker_id: str,
    *,
    secrets: Collection[str],
    collectors: Collectors | None = None,
    names: WorkerNames | None = None,
) -> Assembled:
    """Make every part; called in the worker's loop."""
    metrics, seen, waiting = Metrics(), SeenRepositories(), WaitingAttempts()
    masking, sinks = Secrets.of(secrets), collectors or Collectors()
    telemetry, data_events = sinks.telemetry, sinks.data_events
    samples = metrics if telemetry is None else SharedSamples([metrics, telemetry])
    program = _program(order, secrets)
    bodies = _bodies(order, container, worker_id, program, samples)
    # Attempts without a workspace never ask for lakeFS, which may not even be configured.
    lakefs = {} if any(task.has_workspace for task in order.tasks) else {"lakefs": None}
    ports: AttemptPorts = container.ports(body=_around(bodies, program, container), **lakefs)
    tasks = {task.name: task for task in served_tasks(order.tasks)}
    gates, settings = _gates(order, ports), _attempt_settings(order, worker_id, masking)
    start = StartWait(samples)
    patience = patience_of_start(ports, settings.patience_seconds, start)
    upkeep = Upkeep(
        order.settings, order.tasks, container, lambda: seen.names, order.strict_taskdef, patience
    )
    dead = DeadRows(ports, tasks, settings, patience)
    listeners: list[AttemptListener] = [AttemptLog(), AttemptMetrics(samples), seen, waiting]
    if telemetry is not None:
        listeners.append(AttemptSpans(telemetry, container.clock(), masking))
    if data_events is not None:
        listeners.append(AttemptDataEvents(data_events, container.clock(), masking))
    lost = LostRows(ports, tasks, settings, names)
    parts = WorkerParts(
        ports=ports,
        bodies=bodies,
        tasks=tasks,
        types=[_polled(order, task, gates) for task in tasks.values()],
        settings=settings,
        listeners=listeners,
        conductor_gate=gates.conductor,
        lakefs_gate=gates.lakefs,
        before_polling=_before_polling(upkeep, dead, lost, gates),
        periodic=[upkeep.sweep_periodically, lost.after_the_last_poll],
        unheard=lost.unheard,
        force_kill_seconds=_force_kill_seconds(order.settings),
        started=lambda: notify_service("READY=1"),
        beat=_beat(order, bodies, samples, worker_id),
    )
    return Assembled(parts, upkeep, metrics, waiting, start)


def _force_kill_seconds(settings: Settings) -> float | None:
    forced = settings.shutdown_force_kill_after
    return None if forced is None else forced.total_seconds()


def _before_polling(
    upkeep: Upkeep, dead: DeadRows, lost: LostRows, gates: "_Gates"
) -> Sequence[Job]:
    """Rows go back before the sweep, which removes the markers that name them."""
    return [
        upkeep.check_services,
        dead.hand_back,
        lost.at_start,
        upkeep.sweep_at_start,
        gates.look_at_lakefs,
    ]


def _beat(
    order: StartOrder, bodies: Bodies, samples: Samples, worker_id: str
) -> Callable[[], None]:
    """Once a second: tell the service manager, reap orphans, count each task's busy slots."""
    orphans = Orphans()
    instance = {"perago_instance_id": order.settings.instance_id or worker_id}

    def beat() -> None:
        notify_service("WATCHDOG=1")
        orphans.reap()
        busy = [slot.task_name for slot in bodies.facts()]
        for task in order.tasks:
            samples.gauge(BUSY_SLOTS, instance | {"task_name": task.name}, busy.count(task.name))

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
            warn_of_service(self.lakefs.breaker.name, self.lakefs.breaker.last_error)


def _gates(order: StartOrder, ports: AttemptPorts) -> _Gates:
    now, fraction = ports.clock.monotonic, ports.identities.fraction
    conductor = CircuitBreaker("conductor", now=now, fraction=fraction)
    lakefs = None
    if any(task.has_workspace for task in order.tasks):
        lakefs = ServiceGate(
            CircuitBreaker("lakefs", now=now, fraction=fraction),
            lambda: ports.lakefs.repositories.read(PROBE_REPOSITORY),
        )

    def warn(disk: DiskSpace) -> None:
        warn_of_disk(disk.total, disk.free)

    disk = DiskGate(lambda: _disk_space(order.settings), warn)
    return _Gates(ServiceGate(conductor, ports.queue.check), lakefs, disk)


def _polled(order: StartOrder, task: TaskDefinition, gates: _Gates) -> PolledType:
    needed: list[Gate] = [gates.conductor]
    if gates.lakefs is not None and task.asks_lakefs:
        needed += [gates.lakefs, gates.disk]
    return PolledType(task.name, order.domain or domain_of(task.name, order.environment), needed)


def _program(order: StartOrder, secrets: Collection[str]) -> ExecutorProgram:
    environment = executor_environment(order.environment, secrets)
    user, python = executor_user_of(order.settings), executor_python_of(order.settings)
    return ExecutorProgram(order.targets, environment, user, python)


def _bodies(
    order: StartOrder,
    container: Container,
    worker_id: str,
    program: ExecutorProgram,
    samples: Samples,
) -> Bodies:
    observer = BodyObservers([BodyLog(), BodyMetrics(samples)])
    if order.settings.execution_mode == "thread":
        tasks = {task.name: task for task in order.tasks}
        return ThreadBody(tasks, observer=observer, worker_id=worker_id, slots=order.slots)
    settings = ProcessBodySettings(
        program,
        slots=order.slots,
        worker_id=worker_id,
        observer=observer,
    )
    return ProcessBody(settings, container.clock())


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


def _disk_space(settings: Settings) -> DiskSpace:
    usage = shutil.disk_usage(settings.workspace_root)
    return DiskSpace(usage.total, usage.free, settings.disk_free_min)
