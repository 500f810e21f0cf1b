"""The part of the composition root that knows how object bytes travel, and what Spark does.

Builds the pipeline, says which route is in force, and shows how far a transfer has come. Only the
question for the route asks a service. For Spark it opens the workspaces of task functions, and
starts jobs over commits; pyspark is imported by the first session.
"""

import asyncio
import gc
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from dataclasses import replace
from functools import lru_cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from perago.adapters.workspace.pipeline import LocalCache, LocalWorkspacePipeline, TransferListener
from perago.app.authoring.current_attempt import CurrentAttempt
from perago.app.connections import (
    Connections,
    LakeFSConnection,
    ServerConnection,
    lakefs_connection,
)
from perago.app.settings.settings import Settings, load_settings
from perago.domain.errors import RuntimeConfigError
from perago.domain.lakefs import CommitId, RepositoryId
from perago.ports import workspace
from perago.ports.errors import ServiceError
from perago.ports.installations import LakeFSInstallation
from perago.ports.system import Concurrency

if TYPE_CHECKING:
    from perago.adapters.http import HttpTerms
    from perago.adapters.lakefs.configuration import LakeFSConfiguration
    from perago.adapters.spark.parts import PartWork
    from perago.adapters.spark.publication_report import ReportedPublications, Verified
    from perago.adapters.spark.session import SparkConfiguration

_QUESTION_SECONDS = 3.0  # a person waits at a terminal, and an answer is not needed
CACHE_DIRECTORY = ".perago-cache"
STATE_DIRECTORY = ".perago-pipeline"
OpenLakeFS = Callable[[LakeFSConnection | None], LakeFSInstallation]
"""The container's own; its name travels to executors, so that they open what it opens."""


def route_in_force(connection: LakeFSConnection | None, origin: str) -> tuple[str, str]:
    """The way of object bytes and who decided it; `origin` is where the setting was found."""
    if connection is None:
        return "none", "no lakeFS is configured"
    if not connection.is_over_http:
        return "objects port", connection.url
    if connection.route != "auto":
        return connection.route, origin
    from perago.adapters.lakefs.client import LakeFSClient  # noqa: PLC0415 - lazy
    from perago.adapters.lakefs.objects import LakeFSObjects  # noqa: PLC0415 - lazy

    question = replace(connection, answer_seconds=_QUESTION_SECONDS)
    client = LakeFSClient(lakefs_configuration(question))
    try:
        return asyncio.run(LakeFSObjects(client).ask_for_route())
    except ServiceError as error:
        return "auto", f"lakeFS was asked and did not say: {error}"
    finally:
        client.close()


def transfer_bar() -> AbstractContextManager[workspace.Progress]:
    """Progress for a command that a person waits for: its transfers are seen."""
    from perago.adapters.observability.progress import TransferBar  # noqa: PLC0415 - lazy

    return closing(TransferBar())


def lakefs_configuration(connection: LakeFSConnection) -> "LakeFSConfiguration":
    """What the adapter has to be told of a connection."""
    from perago.adapters.lakefs.configuration import (  # noqa: PLC0415 - lazy
        REQUESTS_CONCURRENT_MAX,
        LakeFSConfiguration,
        RetryTerms,
        RouteChoice,
    )

    configuration = LakeFSConfiguration(
        endpoint_url=connection.url,
        access_key_id=connection.access_key_id,
        secret_access_key=connection.secret_access_key,
        http=http_terms(connection),
        route=RouteChoice(connection.route),
        requests_concurrent_max=connection.requests_max or REQUESTS_CONCURRENT_MAX,
    )
    if not connection.answer_seconds:
        return configuration
    return replace(
        configuration,
        http=replace(configuration.http, connect_seconds=connection.answer_seconds),
        answer_seconds=connection.answer_seconds,
        retry=RetryTerms(seconds_max=0.0),
    )


def http_terms(connection: ServerConnection) -> "HttpTerms":
    """How requests to a server are sent."""
    from perago.adapters.http import HttpTerms  # noqa: PLC0415 - lazy

    return HttpTerms(
        ca_file=connection.ca_file,
        verify_tls=connection.verify_tls,
        proxy_of=connection.proxies,
    )


def open_pipeline(
    connections: Connections,
    lakefs: LakeFSInstallation,
    concurrency: Concurrency,
    listener: TransferListener,
    open_lakefs: OpenLakeFS,
) -> workspace.WorkspacePipeline:
    """The pipeline of this process, as the setting or the size of a workspace asks for."""
    local = _local(connections, lakefs, concurrency, listener)
    settings, connection = connections.settings, connections.lakefs
    kind = settings.pipeline
    if kind == "local" or (kind == "auto" and find_spec("pyspark") is None):
        return local
    if connection is None or not connection.is_over_http:
        if kind == "auto":
            return local
        text = "PERAGO_PIPELINE=spark needs a lakeFS that executors reach over http or https"
        raise RuntimeConfigError(text, code="PRG-C002")
    from perago.adapters.spark.workspace_pipeline import (  # noqa: PLC0415 - lazy
        SizedPipeline,
        SparkWorkspacePipeline,
    )

    spark = SparkWorkspacePipeline(
        _spark_configuration(settings),
        lakefs.objects,
        partial(open_part_work, open_lakefs, connection),
        concurrency,
        state_root=(settings.workspace_root / STATE_DIRECTORY).absolute(),
    )
    if kind == "spark":
        return spark
    return SizedPipeline(local, spark, objects_max=settings.pipeline_objects)


def cache_directory(settings: Settings) -> Path:
    """Where the content cache is: beside the workspaces, unless the settings say otherwise."""
    return settings.cache_dir or settings.workspace_root / CACHE_DIRECTORY


def _local(
    connections: Connections,
    lakefs: LakeFSInstallation,
    concurrency: Concurrency,
    listener: TransferListener,
) -> LocalWorkspacePipeline:
    connection, cache = connections.lakefs, None
    # A lakeFS in memory is nearer than a disk.
    if connection is not None and connection.is_over_http:
        cache = LocalCache(
            cache_directory(connections.settings),
            connection.url,
            bytes_max=connections.settings.cache_size,
            keeps_aside=True,
        )
    transport = lakefs.transport(concurrency)
    return LocalWorkspacePipeline(
        lakefs.objects, lakefs.commits, concurrency, transport, cache, listener=listener
    )


@lru_cache
def open_part_work(open_lakefs: OpenLakeFS, connection: LakeFSConnection) -> "PartWork":
    """What an executor of the Spark pipeline does; one set of connections for each process."""
    from perago.adapters.spark.parts import PartWork  # noqa: PLC0415 - lazy
    from perago.adapters.system import AsyncioConcurrency  # noqa: PLC0415 - lazy

    work = PartWork(open_lakefs(connection), AsyncioConcurrency())
    gc.freeze()  # Spark's Python collects after every task, and what is imported stays
    return work


def open_spark_workspace(
    roots: workspace.SparkRoots, attempt: CurrentAttempt
) -> AbstractContextManager[workspace.SparkWorkspace]:
    """Open a workspace in this process's Spark session, for the time of a body."""
    from perago.adapters.spark.workspace import SparkCall, open_workspace  # noqa: PLC0415 - lazy

    # Not through the connections: an executor has no keys, and may not read their files.
    configuration = _spark_configuration(load_settings())
    call = SparkCall(
        execution_id=attempt.execution_id,
        description=f"{attempt.task_name} {attempt.workflow_id} {attempt.task_id}",
        cancelled=attempt.cancel.is_set,
        report=attempt.report,
    )
    return open_workspace(configuration, roots, call)


def _spark_configuration(settings: Settings) -> "SparkConfiguration":
    """What the operator says about Spark."""
    from perago.adapters.spark.session import SparkConfiguration  # noqa: PLC0415 - lazy

    return SparkConfiguration(master=settings.spark_master, options=settings.spark_conf)


def fetch_spark_jars(ivy_settings: Path | None) -> list[Path]:
    """Fetch what is missing; offline once it is there."""
    from perago.adapters.spark import jars  # noqa: PLC0415 - lazy

    return jars.fetch_jars(settings=ivy_settings)


def installed_spark(settings: Settings, gateway: workspace.SparkGateway | None) -> tuple[str, str]:
    """The version of pyspark, and a line of all versions; raises for what does not fit together."""
    from perago.adapters.spark import jars  # noqa: PLC0415 - lazy

    jars.require_pyspark()
    facts = jars.read_facts()
    names = {path.name for path in jars.found_jars()} | jars.named_jars(settings.spark_conf)
    jars.check_versions(facts, names, needs_s3a=gateway is not None)
    return facts.pyspark, f"pyspark {facts.pyspark}, Hadoop {facts.hadoop}, Java {facts.java}"


def require_spark() -> None:
    """Refuse to go on without pyspark; asked before a server is, because it is known at once."""
    from perago.adapters.spark import jars  # noqa: PLC0415 - lazy

    jars.require_pyspark()


def verify(
    settings: Settings,
    open_lakefs: OpenLakeFS,
    repository: RepositoryId,
    commit: CommitId,
    prefix: str,
    report: str,
) -> "Verified":
    """Read every object of a commit on the executors."""
    from perago.adapters.spark import publication_report as reports  # noqa: PLC0415 - lazy

    source = workspace.WorkspaceSource(repository, commit, prefix.strip("/") or "/")
    opener = partial(open_lakefs, lakefs_connection(settings))
    return reports.verify_objects(_spark_configuration(settings), opener, source, report)


def publications(
    settings: Settings, open_lakefs: OpenLakeFS, repository: RepositoryId, commit: CommitId
) -> "ReportedPublications":
    """Count the publications in the history of a branch."""
    from perago.adapters.spark import publication_report as reports  # noqa: PLC0415 - lazy

    source = workspace.WorkspaceSource(repository, commit, "/")
    opener = partial(open_lakefs, lakefs_connection(settings))
    return reports.report_publications(_spark_configuration(settings), opener, source)
