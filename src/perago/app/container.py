"""The composition root: the only module that names adapters.

Adapters are chosen by the scheme of an address: `memory:`, `http:` and `https:` are ours, any
other scheme is looked up in the entry point group `perago.adapters`. Each is imported when it
is asked for, so that a command pays only for what it uses. Every provider can be overridden.
"""

from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from typing import Any, TypeVar, cast
from urllib.parse import urlsplit

from dependency_injector import containers, providers

from perago.app.attempt.context import AttemptPorts, KnownRepositories, LakeFS
from perago.app.attempt.reset_task import ResetTools
from perago.app.connections import ConductorConnection, Connections, LakeFSConnection
from perago.app.fence.install import FenceTools
from perago.app.fence.trust import Canary, FenceTrust
from perago.domain.errors import RuntimeConfigError
from perago.ports.installations import ConductorInstallation, LakeFSInstallation
from perago.ports.system import Clock, Concurrency, Identities
from perago.ports.task_body import TaskBody
from perago.ports.workspace import (
    AttemptDirectories,
    DirectoryUploads,
    Progress,
    SparkGateway,
    WorkspacePipeline,
)

ADAPTERS_GROUP = "perago.adapters"
Connection = TypeVar("Connection", LakeFSConnection, ConductorConnection)
Installation = TypeVar("Installation", LakeFSInstallation, ConductorInstallation)


def open_lakefs(connection: LakeFSConnection | None) -> LakeFSInstallation:
    """The lakeFS behind an address."""
    if connection is None:
        text = "LakeFS config is required"
        raise RuntimeConfigError(text, code="PRG-C010")
    makers = {"memory": _memory_lakefs, "http": _real_lakefs, "https": _real_lakefs}
    return _maker(connection.url, makers, "lakefs")(connection)


def open_conductor(connection: ConductorConnection | None) -> ConductorInstallation:
    """The Conductor behind an address."""
    if connection is None:
        text = "CONDUCTOR_SERVER_URL is required; set PERAGO_CONDUCTOR, its name in Perago"
        raise RuntimeConfigError(text, code="PRG-C011")
    makers = {"memory": _memory_conductor, "http": _real_conductor, "https": _real_conductor}
    return _maker(connection.url, makers, "conductor")(connection)


def _maker(
    url: str, own: Mapping[str, Callable[[Connection], Installation]], kind: str
) -> Callable[[Connection], Installation]:
    """Our maker for the scheme, or a package's entry point named `<kind>.<scheme>`."""
    scheme = urlsplit(url).scheme
    if scheme in own:
        return own[scheme]
    found = entry_points(group=ADAPTERS_GROUP, name=f"{kind}.{scheme}")
    for point in found:
        return cast("Callable[[Connection], Installation]", point.load())
    known = ", ".join(sorted({*own, *(_scheme(p.name, kind) for p in _points(kind))}))
    what, remedy = scheme, ""
    if "://" not in url:
        # 0.6.1 took http, and the keys travelled in clear without a word. That is to be chosen.
        address = url.rpartition("@")[2]
        what = f"{address}, which has no scheme such as http://"
        remedy = f"; write https://{address}, or http://{address} where keys may travel unencrypted"
    text = f"no {kind} adapter for {what}; known: {known}{remedy}"
    raise RuntimeConfigError(text, code="PRG-C012")


def _points(kind: str) -> list[Any]:
    points = entry_points(group=ADAPTERS_GROUP)
    return [point for point in points if point.name.startswith(f"{kind}.")]


def _scheme(name: str, kind: str) -> str:
    return name.removeprefix(f"{kind}.")


def _memory_lakefs(connection: LakeFSConnection) -> LakeFSInstallation:
    from perago.adapters.memory.installations import shared_lakefs  # noqa: PLC0415 - lazy

    return shared_lakefs(connection.url)


def _memory_conductor(connection: ConductorConnection) -> ConductorInstallation:
    from perago.adapters.memory.installations import shared_conductor  # noqa: PLC0415 - lazy

    return shared_conductor(connection.url)


def _real_lakefs(connection: LakeFSConnection) -> LakeFSInstallation:
    from perago.adapters.lakefs import installation  # noqa: PLC0415 - lazy
    from perago.app.pipeline_parts import lakefs_configuration  # noqa: PLC0415 - lazy

    return installation.open_lakefs(lakefs_configuration(connection))


def _real_conductor(connection: ConductorConnection) -> ConductorInstallation:
    from perago.adapters.conductor import installation  # noqa: PLC0415 - lazy
    from perago.adapters.conductor.client import ConductorSettings  # noqa: PLC0415 - lazy
    from perago.adapters.http import HttpTerms  # noqa: PLC0415 - lazy

    return installation.open_conductor(
        ConductorSettings(
            url=connection.url,
            auth_key=connection.auth_key,
            auth_secret=connection.auth_secret,
            http=HttpTerms(
                ca_file=connection.ca_file,
                verify_tls=connection.verify_tls,
                proxy_of=connection.proxies,
            ),
        )
    )


Opened = list[LakeFSInstallation | ConductorInstallation]


def _opened_lakefs(connection: LakeFSConnection | None, opened: Opened) -> LakeFSInstallation:
    opened.append(found := open_lakefs(connection))
    return found


def _opened_conductor(
    connection: ConductorConnection | None, opened: Opened
) -> ConductorInstallation:
    opened.append(found := open_conductor(connection))
    return found


def _clock() -> Clock:
    from perago.adapters.system.host import SystemClock  # noqa: PLC0415 - lazy

    return SystemClock()


def _identities() -> Identities:
    from perago.adapters.system.host import SystemIdentities  # noqa: PLC0415 - lazy

    return SystemIdentities()


def _concurrency() -> Concurrency:
    from perago.adapters.system.host import AsyncioConcurrency  # noqa: PLC0415 - lazy

    return AsyncioConcurrency()


def _progress() -> Progress:
    from perago.adapters.observability.progress import ProgressLog  # noqa: PLC0415 - lazy

    return ProgressLog()


def _directories(
    connections: Connections, clock: Clock, concurrency: Concurrency
) -> AttemptDirectories:
    from perago.adapters.filesystem.attempt_directory import (  # noqa: PLC0415 - lazy
        LocalAttemptDirectories,
    )

    return LocalAttemptDirectories(connections.workspace_root, clock, concurrency)


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
    from perago.adapters.workspace.staging import LocalDirectoryUploads  # noqa: PLC0415 - lazy

    transport = lakefs.transport(concurrency)
    return LocalDirectoryUploads(lakefs.objects, lakefs.commits, transport, concurrency)


def _canary(lakefs: LakeFSInstallation, identities: Identities) -> Canary:
    return Canary(branches=lakefs.branches, commits=lakefs.commits, identities=identities)


def _trust(
    lakefs: LakeFSInstallation, canary: Canary, concurrency: Concurrency, clock: Clock
) -> FenceTrust:
    return FenceTrust(objects=lakefs.objects, canary=canary, concurrency=concurrency, clock=clock)


def _lakefs_ports(
    lakefs: LakeFSInstallation,
    pipeline: WorkspacePipeline,
    trust: FenceTrust,
    uploads: DirectoryUploads,
) -> LakeFS:
    return LakeFS(
        branches=lakefs.branches,
        commits=lakefs.commits,
        tags=lakefs.tags,
        objects=lakefs.objects,
        repositories=lakefs.repositories,
        pipeline=pipeline,
        trust=trust,
        known=KnownRepositories(lakefs.repositories, lakefs.branches, lakefs.commits),
        uploads=uploads,
    )


def _fence_tools(lakefs: LakeFSInstallation, identities: Identities) -> FenceTools:
    return FenceTools(lakefs.branches, lakefs.commits, lakefs.objects, identities)


def _reset_tools(
    lakefs: LakeFSInstallation, conductor: ConductorInstallation, clock: Clock
) -> ResetTools:
    return ResetTools(lakefs.branches, lakefs.commits, lakefs.tags, conductor.workflows, clock)


def spark_gateway(connections: Connections) -> SparkGateway | None:
    """How Spark reaches lakeFS; a lakeFS without an address is worked on through local files."""
    connection = connections.lakefs
    if connection is None or urlsplit(connection.url).scheme not in {"http", "https"}:
        return None
    return SparkGateway(connection.url, connection.access_key_id, connection.secret_access_key)


def _queue(conductor: ConductorInstallation) -> Any:  # noqa: ANN401 - a provider's value
    return conductor.queue


class Container(containers.DeclarativeContainer):
    """Everything of one process, each part made once and on first use."""

    connections = providers.Dependency(instance_of=Connections)

    clock = providers.Singleton(_clock)
    identities = providers.Singleton(_identities)
    concurrency = providers.Singleton(_concurrency)
    progress = providers.Singleton(_progress)
    directories = providers.Singleton(_directories, connections, clock, concurrency)

    # What was opened has to be closed, and asking a provider for it would open the rest as well.
    opened: providers.Singleton[Opened] = providers.Singleton(Opened)
    lakefs = providers.Singleton(_opened_lakefs, connections.provided.lakefs, opened)
    conductor = providers.Singleton(_opened_conductor, connections.provided.conductor, opened)
    pipeline = providers.Singleton(_pipeline, connections, lakefs, concurrency, progress, clock)
    canary = providers.Singleton(_canary, lakefs, identities)
    trust = providers.Singleton(_trust, lakefs, canary, concurrency, clock)
    uploads = providers.Singleton(_uploads, lakefs, concurrency)
    lakefs_ports = providers.Singleton(_lakefs_ports, lakefs, pipeline, trust, uploads)

    fence_tools = providers.Factory(_fence_tools, lakefs, identities)
    reset_tools = providers.Factory(_reset_tools, lakefs, conductor, clock)

    body: providers.Dependency[TaskBody] = providers.Dependency(
        instance_of=cast("type[TaskBody]", object)
    )
    ports = providers.Factory(
        AttemptPorts,
        lakefs=lakefs_ports,
        queue=providers.Callable(_queue, conductor),
        body=body,
        directories=directories,
        clock=clock,
        identities=identities,
        concurrency=concurrency,
        progress=progress,
        spark_gateway=providers.Callable(spark_gateway, connections),
    )
