"""The composition root. With `pipeline_parts`, its part for workspaces, it alone names adapters.

Adapters are chosen by the scheme of an address: `memory:`, `http:` and `https:` are ours, any
other scheme is looked up in the entry point group `perago.adapters`. Those with libraries of their
own are imported when they are asked for, so that a command pays only for what it uses. Every
provider can be overridden. What only a worker has is opened at the end of this file: its log, its
lock, its probes, and where its telemetry goes.
"""

from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, TypeVar, cast
from urllib.parse import urlsplit

from dependency_injector import containers, providers

from perago.adapters import system
from perago.adapters.filesystem.attempt_directory import LocalAttemptDirectories
from perago.adapters.filesystem.locks import RootLock
from perago.adapters.observability.probe_server import probe_server
from perago.adapters.observability.progress import ProgressLog
from perago.app.attempt.context import AttemptPorts, LakeFS
from perago.app.attempt.reset_task import ResetTools
from perago.app.connections import (
    ConductorConnection,
    Connections,
    LakeFSConnection,
    ServerConnection,
)
from perago.app.fence.trust import FenceTools, FenceTrust
from perago.app.settings.settings import Settings
from perago.domain.errors import RuntimeConfigError
from perago.domain.text import Secrets
from perago.ports.installations import ConductorInstallation, LakeFSInstallation
from perago.ports.system import Clock, Concurrency
from perago.ports.task_body import TaskBody
from perago.ports.telemetry import DataEvents, ExportedSignals, Telemetry
from perago.ports.workspace import DirectoryUploads, Progress, SparkGateway, WorkspacePipeline

ADAPTERS_GROUP = "perago.adapters"
OWN_SCHEMES = frozenset({"memory", "http", "https"})


def open_lakefs(connection: LakeFSConnection | None) -> LakeFSInstallation:
    """The lakeFS behind an address."""
    if connection is None:
        text = "LakeFS config is required"
        raise RuntimeConfigError(text, code="PRG-C010")
    match urlsplit(connection.url).scheme:
        case "memory":
            from perago.adapters.memory.installations import shared_lakefs  # noqa: PLC0415 - lazy

            return shared_lakefs(connection.url)
        case "http" | "https":
            from perago.adapters.lakefs import installation  # noqa: PLC0415 - lazy
            from perago.app.pipeline_parts import lakefs_configuration  # noqa: PLC0415 - lazy

            return installation.open_lakefs(lakefs_configuration(connection))
        case scheme:
            return cast("LakeFSInstallation", _open_foreign("lakefs", scheme, connection))


def open_conductor(connection: ConductorConnection | None) -> ConductorInstallation:
    """The Conductor behind an address."""
    if connection is None:
        text = "CONDUCTOR_SERVER_URL is required; set PERAGO_CONDUCTOR, its name in Perago"
        raise RuntimeConfigError(text, code="PRG-C011")
    match urlsplit(connection.url).scheme:
        case "memory":
            from perago.adapters.memory.installations import (  # noqa: PLC0415 - lazy
                shared_conductor,
            )

            return shared_conductor(connection.url)
        case "http" | "https":
            from perago.adapters.conductor import installation  # noqa: PLC0415 - lazy
            from perago.adapters.conductor.client import ConductorSettings  # noqa: PLC0415 - lazy
            from perago.app.pipeline_parts import http_terms  # noqa: PLC0415 - lazy

            return installation.open_conductor(
                ConductorSettings(
                    url=connection.url,
                    auth_key=connection.auth_key,
                    auth_secret=connection.auth_secret,
                    http=http_terms(connection),
                )
            )
        case scheme:
            return cast("ConductorInstallation", _open_foreign("conductor", scheme, connection))


def _open_foreign(kind: str, scheme: str, connection: ServerConnection) -> Any:  # noqa: ANN401 - one of the two installations
    """What the entry point `<kind>.<scheme>` of a package opens."""
    points = {point.name: point for point in entry_points(group=ADAPTERS_GROUP)}
    if f"{kind}.{scheme}" in points:
        return points[f"{kind}.{scheme}"].load()(connection)
    foreign = {name.removeprefix(f"{kind}.") for name in points if name.startswith(f"{kind}.")}
    known = ", ".join(sorted(OWN_SCHEMES | foreign))
    what, remedy = scheme, ""
    if "://" not in connection.url:
        # 0.6.1 took http, and the keys travelled in clear without a word. That is to be chosen.
        address = connection.url.rpartition("@")[2]
        what = f"{address}, which has no scheme such as http://"
        remedy = f"; write https://{address}, or http://{address} where keys may travel unencrypted"
    text = f"no {kind} adapter for {what}; known: {known}{remedy}"
    raise RuntimeConfigError(text, code="PRG-C012")


Installation = TypeVar("Installation", LakeFSInstallation, ConductorInstallation)
Opened = list[LakeFSInstallation | ConductorInstallation]


def _noted(installation: Installation, opened: Opened) -> Installation:
    opened.append(installation)
    return installation


def _pipeline(
    connections: Connections,
    lakefs: LakeFSInstallation,
    concurrency: Concurrency,
    progress: Progress,
    clock: Clock,
) -> WorkspacePipeline:
    from perago.adapters.workspace.pipeline import TransferListener  # noqa: PLC0415 - lazy
    from perago.app.pipeline_parts import open_pipeline  # noqa: PLC0415 - lazy

    listener = TransferListener(progress, clock)
    return open_pipeline(connections, lakefs, concurrency, listener, open_lakefs)


def _uploads(lakefs: LakeFSInstallation, concurrency: Concurrency) -> DirectoryUploads:
    from perago.adapters.workspace.staging import Staging  # noqa: PLC0415 - lazy

    transport = lakefs.transport(concurrency)
    return Staging(lakefs.objects, lakefs.commits, transport, concurrency)


def spark_gateway(connections: Connections) -> SparkGateway | None:
    """How Spark reaches lakeFS; a lakeFS without an address is worked on through local files."""
    connection = connections.lakefs
    if connection is None or not connection.is_over_http:
        return None
    return SparkGateway(connection.url, connection.access_key_id, connection.secret_access_key)


class Container(containers.DeclarativeContainer):
    """Everything of one process, each part made once and on first use."""

    connections = providers.Dependency(instance_of=Connections)

    clock = providers.Singleton(system.SystemClock)
    identities = providers.Singleton(system.SystemIdentities)
    concurrency = providers.Singleton(system.AsyncioConcurrency)
    progress = providers.Singleton(ProgressLog)
    directories = providers.Singleton(
        LocalAttemptDirectories, connections.provided.settings.workspace_root, clock, concurrency
    )

    # What was opened has to be closed, and asking a provider for it would open the rest as well.
    opened: providers.Singleton[Opened] = providers.Singleton(Opened)
    lakefs: providers.Singleton[LakeFSInstallation] = providers.Singleton(
        _noted, providers.Callable(open_lakefs, connections.provided.lakefs), opened
    )
    conductor: providers.Singleton[ConductorInstallation] = providers.Singleton(
        _noted, providers.Callable(open_conductor, connections.provided.conductor), opened
    )

    pipeline = providers.Singleton(_pipeline, connections, lakefs, concurrency, progress, clock)
    fence_tools = providers.Factory(FenceTools, lakefs, identities)
    trust = providers.Singleton(FenceTrust, fence_tools, concurrency, clock)
    uploads = providers.Singleton(_uploads, lakefs, concurrency)
    lakefs_ports = providers.Singleton(LakeFS.of, lakefs, pipeline, trust, uploads)

    reset_tools = providers.Factory(ResetTools, lakefs, conductor.provided.workflows, clock)

    body: providers.Dependency[TaskBody] = providers.Dependency(
        instance_of=cast("type[TaskBody]", object)
    )
    ports = providers.Factory(
        AttemptPorts,
        lakefs=lakefs_ports,
        queue=conductor.provided.queue,
        body=body,
        directories=directories,
        clock=clock,
        identities=identities,
        concurrency=concurrency,
        progress=progress,
        spark_gateway=providers.Callable(spark_gateway, connections),
    )


notify_service = system.notify_service
open_root_lock = RootLock
open_probe_server = probe_server


def open_worker_log(
    settings: Settings, file: Path, secrets: Collection[str]
) -> AbstractContextManager[None]:
    """Send the log of this process to its file, for a block."""
    from perago.adapters.observability import json_lines  # noqa: PLC0415 - lazy

    return json_lines.worker_log(
        json_lines.WorkerLogSettings(
            file=file,
            root=settings.log_root,
            bytes_max=settings.log_file_max_size,
            retention=settings.log_retention,
            secrets=Secrets.of(secrets),
        )
    )


def open_telemetry(signals: ExportedSignals, service: Mapping[str, str]) -> Telemetry:
    """Send spans and samples to a collector; ImportError without the extra `otel`."""
    from perago.adapters.observability import otlp  # noqa: PLC0415 - lazy

    return otlp.open_otlp(signals, service)


def open_data_events() -> DataEvents:
    """Tell a catalogue which data attempts use; ImportError without the extra `openlineage`."""
    from perago.adapters.observability import open_lineage  # noqa: PLC0415 - lazy

    return open_lineage.open_data_events()
