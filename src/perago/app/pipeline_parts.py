"""The part of the composition root that knows how object bytes travel.

Builds the pipeline, says which route is in force, and shows how far a transfer has come. Only the
question for the route asks a service.
"""

import asyncio
import gc
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache, partial
from importlib.util import find_spec
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from perago.adapters.workspace.pipeline import LocalCache, LocalWorkspacePipeline, TransferListener
from perago.adapters.workspace.staging import Staging
from perago.app.connections import Connections, LakeFSConnection
from perago.domain.errors import RuntimeConfigError
from perago.ports.errors import ServiceError
from perago.ports.installations import LakeFSInstallation
from perago.ports.system import Concurrency
from perago.ports.workspace import Progress, WorkspacePipeline

if TYPE_CHECKING:
    from perago.adapters.lakefs.configuration import LakeFSConfiguration

_QUESTION_SECONDS = 3.0  # a person waits at a terminal, and an answer is not needed


def route_in_force(connections: Connections, origin: str) -> tuple[str, str]:
    """The way of object bytes and who decided it; `origin` is where the setting was found."""
    connection = connections.lakefs
    if connection is None:
        return "none", "no lakeFS is configured"
    if not _is_over_http(connection):
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


@contextmanager
def transfer_bar() -> Generator[Progress]:
    """Progress for a command that a person waits for: its transfers are seen."""
    from perago.adapters.observability.progress import TransferBar  # noqa: PLC0415 - lazy

    bar = TransferBar()
    try:
        yield bar
    finally:
        bar.close()


def lakefs_configuration(connection: LakeFSConnection) -> "LakeFSConfiguration":
    """What the adapter has to be told of a connection."""
    from perago.adapters.http import HttpTerms  # noqa: PLC0415 - lazy
    from perago.adapters.lakefs.configuration import (  # noqa: PLC0415 - lazy
        REQUESTS_CONCURRENT_MAX,
        LakeFSConfiguration,
        RouteChoice,
    )

    configuration = LakeFSConfiguration(
        endpoint_url=connection.url,
        access_key_id=connection.access_key_id,
        secret_access_key=connection.secret_access_key,
        http=HttpTerms(
            ca_file=connection.ca_file,
            verify_tls=connection.verify_tls,
            proxy_of=connection.proxies,
        ),
        route=RouteChoice(connection.route),
        requests_concurrent_max=connection.requests_max or REQUESTS_CONCURRENT_MAX,
    )
    if not connection.answer_seconds:
        return configuration
    from perago.adapters.lakefs.retry import RetryTerms  # noqa: PLC0415 - lazy

    return replace(
        configuration,
        http=replace(configuration.http, connect_seconds=connection.answer_seconds),
        answer_seconds=connection.answer_seconds,
        retry=RetryTerms(seconds_max=0.0),
    )


if TYPE_CHECKING:
    from perago.adapters.spark.parts import PartWork

OpenLakeFS = Callable[[LakeFSConnection], LakeFSInstallation]
"""The container's own; its name travels to executors, so that they open what it opens."""

CACHE_DIRECTORY = ".perago-cache"
STATE_DIRECTORY = ".perago-pipeline"


def open_pipeline(
    connections: Connections,
    lakefs: LakeFSInstallation,
    concurrency: Concurrency,
    listener: TransferListener,
    open_lakefs: OpenLakeFS,
) -> WorkspacePipeline:
    """The pipeline of this process, as the setting or the size of a workspace asks for."""
    local = _local(connections, lakefs, concurrency, listener)
    terms = connections.pipeline
    if terms.kind == "local" or (terms.kind == "auto" and find_spec("pyspark") is None):
        return local
    spark = _spark(connections, lakefs, concurrency, open_lakefs)
    if spark is None and terms.kind == "spark":
        text = "PERAGO_PIPELINE=spark needs a lakeFS that executors reach over http or https"
        raise RuntimeConfigError(text, code="PRG-C002")
    if spark is None:
        return local
    if terms.kind == "spark":
        return spark
    from perago.adapters.spark.workspace_pipeline import SizedPipeline  # noqa: PLC0415 - lazy

    return SizedPipeline(local, spark, objects_max=terms.local_objects_max)


def _local(
    connections: Connections,
    lakefs: LakeFSInstallation,
    concurrency: Concurrency,
    listener: TransferListener,
) -> LocalWorkspacePipeline:
    connection, terms, cache = connections.lakefs, connections.cache, None
    # A lakeFS in memory is nearer than a disk.
    if connection is not None and _is_over_http(connection):
        cache = LocalCache(
            terms.directory or connections.workspace_root / CACHE_DIRECTORY,
            connection.url,
            bytes_max=terms.bytes_max,
            keeps_aside=True,
        )
    transport = lakefs.transport(concurrency)
    return LocalWorkspacePipeline(
        lakefs.objects, lakefs.commits, concurrency, transport, cache, listener=listener
    )


def _is_over_http(connection: LakeFSConnection) -> bool:
    return urlsplit(connection.url).scheme in {"http", "https"}


def _spark(
    connections: Connections,
    lakefs: LakeFSInstallation,
    concurrency: Concurrency,
    open_lakefs: OpenLakeFS,
) -> WorkspacePipeline | None:
    """The pipeline as Spark jobs, or None where executors could not reach lakeFS."""
    connection, terms = connections.lakefs, connections.pipeline
    if connection is None or not _is_over_http(connection):
        return None
    from perago.adapters.spark.session import SparkConfiguration  # noqa: PLC0415 - lazy
    from perago.adapters.spark.workspace_pipeline import (  # noqa: PLC0415 - lazy
        SparkWorkspacePipeline,
    )

    return SparkWorkspacePipeline(
        SparkConfiguration(master=terms.spark_master, options=terms.spark_options),
        lakefs.objects,
        partial(open_part_work, open_lakefs, connection),
        concurrency,
        state_root=(connections.workspace_root / STATE_DIRECTORY).absolute(),
    )


@lru_cache
def open_part_work(open_lakefs: OpenLakeFS, connection: LakeFSConnection) -> "PartWork":
    """What an executor of the Spark pipeline does; one set of connections for each process."""
    from perago.adapters.spark.parts import (  # noqa: PLC0415 - lazy
        PartDown,
        PartScan,
        PartUp,
        PartWork,
    )
    from perago.adapters.system.host import AsyncioConcurrency  # noqa: PLC0415 - lazy

    concurrency = AsyncioConcurrency()
    lakefs = open_lakefs(connection)
    transport = lakefs.transport(concurrency)
    staging = Staging(lakefs.objects, lakefs.commits, transport, concurrency)
    gc.freeze()  # Spark's Python collects after every task, and what is imported stays
    return PartWork(
        PartDown(lakefs.objects, transport),
        PartScan(),
        PartUp(lakefs.objects, lakefs.commits, staging),
    )
