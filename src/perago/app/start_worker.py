"""Runs one worker from `perago start` to its end, and says how the process should end.

`check_conductor` and `check_services` are asked before, in the order and words of 0.6.1. The worker
has lock, log and probes around it; its parts come from `worker_assembly`.
"""

import asyncio
import gc
import logging
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from functools import partial
from typing import TypeVar

from perago._version import __version__
from perago.app.authoring.task_definition import TaskDefinition
from perago.app.connections import connections_of
from perago.app.container import (
    Container,
    notify_service,
    open_data_events,
    open_probe_server,
    open_root_lock,
    open_telemetry,
    open_worker_log,
)
from perago.app.gc.local_pass import WorkerNames
from perago.app.settings.runtime_config import metrics_config, worker_id_prefix_of
from perago.app.settings.settings import Settings
from perago.app.telemetry.exports import Collectors, exported_signals, wants_data_events
from perago.app.telemetry.listeners import write
from perago.app.worker.executor import secrets_in
from perago.app.worker.executor_user import executor_user_of, prepare_executor_user
from perago.app.worker.processes import close_memory_to_others, give_no_rights_to_others
from perago.app.worker.worker import Worker, WorkerEnd, WorkerPhase
from perago.app.worker_assembly import Assembled, StartOrder, assemble
from perago.app.worker_description import worker_incarnation, worker_log_file
from perago.domain.errors import RuntimeConfigError
from perago.ports.errors import ServiceError
from perago.ports.telemetry import DataEvents, Telemetry

LOGGER = logging.getLogger("perago.worker")
BROKEN_EXIT = 70  # EX_SOFTWARE of sysexits.h
Opened = TypeVar("Opened", Telemetry, DataEvents)
SIGNAL_EXIT = 128  # a shell reports a process that died of signal N as 128 + N


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


def start_worker(order: StartOrder) -> int:
    """Run a worker until it has ended; the exit code for its process, which goes on."""
    close_memory_to_others()  # before the first executor, which runs code that is not ours
    settings = order.settings
    if (user := executor_user_of(settings)) is not None:
        give_no_rights_to_others()
        prepare_executor_user(user, settings.workspace_root)
    container = Container(connections=connections_of(settings))
    prefix = settings.worker_id or worker_id_prefix_of(settings.worker_id_prefix, order.targets[0])
    worker_id = worker_incarnation(prefix, container.identities().new_execution_id())
    file = worker_log_file(
        settings.log_root,
        module_target=order.targets[0],
        worker_id=worker_id,
        started=container.clock().now(),
    )
    secrets = known_secrets(settings, order.environment)
    with (
        open_root_lock(settings.workspace_root) as names,
        open_worker_log(settings, file, secrets),
    ):
        gc.freeze()  # what is imported stays: no collection has to look through it again
        end, number = asyncio.run(_run(order, container, worker_id, secrets, names))
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
    ours = settings.lakectl_credentials_secret_access_key, settings.conductor_auth_secret
    found = {each.get_secret_value() for each in ours if each is not None}
    return found.union(secrets_in(environment)) - {""}


async def _run(
    order: StartOrder,
    container: Container,
    worker_id: str,
    secrets: set[str],
    names: WorkerNames,
) -> tuple[WorkerEnd, signal.Signals | None]:
    async with AsyncExitStack() as stack:
        collectors = open_collectors(stack, order, worker_id)
        assembled = assemble(
            order, container, worker_id, secrets=secrets, collectors=collectors, names=names
        )
        worker = Worker(assembled.parts)
        if order.settings.probe_address is not None:
            await stack.enter_async_context(
                _probes(order.settings.probe_address, worker, assembled)
            )
        try:
            end = await worker.run()
            if end is not WorkerEnd.ABORTED:
                # A start that was stopped has not handed back the rows of dead workers, and the
                # directories name them to the next start.
                if worker.has_started:
                    await assembled.upkeep.sweep("after shutdown")
                with suppress(ServiceError):  # all rows have ended; the process ends in any case
                    await container.conductor().close()
        finally:
            notify_service("STOPPING=1")
    return end, worker.exit_signal


def open_collectors(stack: AsyncExitStack, order: StartOrder, worker_id: str) -> Collectors:
    """What the environment names of a collector and a catalogue; what is left is sent at the end.

    A worker goes on without one that cannot start.
    """
    signals = exported_signals(order.settings, order.environment)
    telemetry = data_events = None
    if signals.any:
        service = {
            "service.name": "perago-worker",
            "service.version": __version__,
            "service.instance.id": order.settings.instance_id or worker_id,
        }
        opening = partial(open_telemetry, signals, service)
        telemetry = _unless_it_cannot_start(stack, "OpenTelemetry", "otel", opening)
    if wants_data_events(order.environment):
        data_events = _unless_it_cannot_start(stack, "OpenLineage", "openlineage", open_data_events)
    return Collectors(telemetry, data_events)


def _unless_it_cannot_start(
    stack: AsyncExitStack, name: str, extra: str, opening: Callable[[], Opened]
) -> Opened | None:
    """Open something that the end of the worker closes, or warn why the worker goes on without."""
    try:
        opened = opening()
    except ImportError as error:
        facts = {"error": str(error), "remedy": f"pip install 'perago[{extra}]'"}
        write(LOGGER, logging.WARNING, f"{name} is configured but not installed", facts)
        return None
    except Exception as error:  # noqa: BLE001 - each library refuses its own variables
        facts = {"error": f"{type(error).__name__}: {error}"}
        write(LOGGER, logging.WARNING, f"{name} is configured but cannot start", facts)
        return None
    stack.push_async_callback(asyncio.to_thread, opened.close)
    return opened


def _probes(address: str, worker: Worker, assembled: Assembled) -> AbstractAsyncContextManager[int]:
    host, _, port = address.rpartition(":")
    return open_probe_server(
        host.strip("[]"),
        int(port),
        {
            "/livez": lambda: worker.is_live,
            "/readyz": lambda: worker.is_ready,
            # A kubelet kills a container whose start takes long. One that waits has begun well.
            "/startupz": lambda: (
                worker.phase is not WorkerPhase.STARTING or assembled.start.has_waited
            ),
        },
        assembled.metrics.text,
        assembled.notes,
    )
