"""The part of the composition root that knows how object bytes travel.

Builds the transport of a real server, says which route is in force, and shows how far it has come.
Only the question for the route asks a service.
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

from perago.adapters.workspace.pipeline import (
    LocalCache,
    LocalWorkspacePipeline,
    TransferListener,
)
from perago.adapters.workspace.staging import Staging
from perago.app.connections import Connections, LakeFSConnection, TransferTerms
from perago.domain.errors import RuntimeConfigError
from perago.ports.errors import ServiceError
from perago.ports.installations import LakeFSInstallation
from perago.ports.objects import ObjectTransport
from perago.ports.system import Concurrency
from perago.ports.workspace import Progress, WorkspacePipeline

if TYPE_CHECKING:
    from perago.adapters.lakefs.configuration import LakeFSConfiguration

_QUESTION_SECONDS = 3.0  # a person waits at a terminal, and an answer is not needed


def open_transport(connection: LakeFSConnection, terms: TransferTerms) -> ObjectTransport:
    """The way of object bytes to a real server."""
    from perago.adapters.lakefs.objects import LakeFSTransport  # noqa: PLC0415 - lazy

    return LakeFSTransport(lakefs_configuration(connection, terms))


def route_in_force(connections: Connections, origin: str) -> tuple[str, str]:
    """The way of object bytes and who decided it; `origin` is where the setting was found."""
    connection, terms = connections.lakefs, connections.transfer
    if connection is None:
        return "none", "no lakeFS is configured"
    if urlsplit(connection.url).scheme not in {"http", "https"}:
        return "objects port", connection.url
    if terms.route != "auto":
        return terms.route, origin
    from perago.adapters.lakefs.objects import LakeFSTransport  # noqa: PLC0415 - lazy

    transport = LakeFSTransport(_for_one_question(lakefs_configuration(connection, terms)))
    try:
        return asyncio.run(transport.ask_for_route())
    except ServiceError as error:
        return "auto", f"lakeFS was asked and did not say: {error}"
    finally:
        transport.close()


@contextmanager
def transfer_bar() -> Generator[Progress]:
    """Progress for a command that somebody waits for: its transfers are seen."""
    from perago.adapters.observability.progress import TransferBar  # noqa: PLC0415 - lazy

    bar = TransferBar()
    try:
        yield bar
    finally:
        bar.close()


def lakefs_configuration(
    connection: LakeFSConnection, terms: TransferTerms | None = None
) -> "LakeFSConfiguration":
    """What the adapter has to be told of a connection."""
    from perago.adapters.http import HttpTerms  # noqa: PLC0415 - lazy
    from perago.adapters.lakefs.configuration import (  # noqa: PLC0415 - lazy
        REQUESTS_CONCURRENT_MAX,
        LakeFSConfiguration,
        RouteChoice,
    )

    terms = terms or TransferTerms()
    return LakeFSConfiguration(
        endpoint_url=connection.url,
        access_key_id=connection.access_key_id,
        secret_access_key=connection.secret_access_key,
        http=HttpTerms(
            ca_file=connection.ca_file,
            verify_tls=connection.verify_tls,
            proxy_of=connection.proxies,
        ),
        route=RouteChoice(terms.route),
        requests_concurrent_max=terms.requests_max or REQUESTS_CONCURRENT_MAX,
    )


def _for_one_question(configuration: "LakeFSConfiguration") -> "LakeFSConfiguration":
    """The same with all the time that a single question may take."""
    from perago.adapters.lakefs.retry import RetryTerms  # noqa: PLC0415 - lazy

    return replace(
        configuration,
        http=replace(configuration.http, connect_seconds=_QUESTION_SECONDS),
        answer_seconds=_QUESTION_SECONDS,
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
    from perago.adapters.spark.sized_pipeline import SizedPipeline  # noqa: PLC0415 - lazy

    return SizedPipeline(local, spark, objects_max=terms.local_objects_max)


def _local(
    connections: Connections,
    lakefs: LakeFSInstallation,
    concurrency: Concurrency,
    listener: TransferListener,
) -> LocalWorkspacePipeline:
    connection, terms = connections.lakefs, connections.transfer
    if lakefs.transport is not None:
        transport = lakefs.transport(concurrency)
        return LocalWorkspacePipeline(lakefs.objects, lakefs.commits, concurrency, transport)
    assert connection is not None, "only a lakeFS with a transport of its own needs no address"
    transport = open_transport(connection, terms)
    cache = LocalCache(
        terms.cache_directory or connections.workspace_root / CACHE_DIRECTORY,
        connection.url,
        bytes_max=terms.cache_bytes_max,
        keeps_aside=True,
    )
    return LocalWorkspacePipeline(
        lakefs.objects, lakefs.commits, concurrency, transport, cache, listener=listener
    )


def _spark(
    connections: Connections,
    lakefs: LakeFSInstallation,
    concurrency: Concurrency,
    open_lakefs: OpenLakeFS,
) -> WorkspacePipeline | None:
    """The pipeline as Spark jobs, or None where executors could not reach lakeFS."""
    connection, terms = connections.lakefs, connections.pipeline
    if connection is None or urlsplit(connection.url).scheme not in {"http", "https"}:
        return None
    from perago.adapters.spark.session import SparkConfiguration  # noqa: PLC0415 - lazy
    from perago.adapters.spark.workspace_pipeline import (  # noqa: PLC0415 - lazy
        SparkWorkspacePipeline,
    )

    return SparkWorkspacePipeline(
        SparkConfiguration(master=terms.spark_master, options=terms.spark_options),
        lakefs.objects,
        partial(open_part_work, open_lakefs, connection, connections.transfer),
        concurrency,
        state_root=(connections.workspace_root / STATE_DIRECTORY).absolute(),
    )


@lru_cache
def open_part_work(
    open_lakefs: OpenLakeFS, connection: LakeFSConnection, terms: TransferTerms
) -> "PartWork":
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
    own = lakefs.transport
    transport = open_transport(connection, terms) if own is None else own(concurrency)
    staging = Staging(lakefs.objects, lakefs.commits, transport, concurrency)
    gc.freeze()  # Spark's Python collects after every task, and what is imported stays
    return PartWork(
        PartDown(lakefs.objects, transport),
        PartScan(),
        PartUp(lakefs.objects, lakefs.commits, staging),
    )
