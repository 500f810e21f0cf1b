"""The part of the composition root that makes the workspace pipeline.

Named adapters of a real server get transfer and cache of their own; any other lakeFS is moved by
its objects port. Chooses between this process and Spark. Connects to nothing.
"""

import gc
from collections.abc import Callable
from functools import lru_cache, partial
from importlib.util import find_spec
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from perago.adapters.workspace.cache import open_local_cache
from perago.adapters.workspace.pipeline import LocalWorkspacePipeline, SizedPipeline
from perago.adapters.workspace.port_transport import PortTransport
from perago.adapters.workspace.progress import TransferListener
from perago.adapters.workspace.staging import StagingWrites
from perago.app.connections import Connections, LakeFSConnection, TransferTerms
from perago.app.transfer_parts import open_transport
from perago.domain.authoring_errors import RuntimeConfigError
from perago.ports.concurrency import Concurrency
from perago.ports.installations import LakeFSInstallation
from perago.ports.workspace_pipeline import WorkspacePipeline

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
    return SizedPipeline(local, spark, objects_max=terms.local_objects_max)


def _local(
    connections: Connections,
    lakefs: LakeFSInstallation,
    concurrency: Concurrency,
    listener: TransferListener,
) -> LocalWorkspacePipeline:
    connection, terms = connections.lakefs, connections.transfer
    transport = None if connection is None else open_transport(connection, terms)
    if connection is None or transport is None:
        return LocalWorkspacePipeline(lakefs.objects, lakefs.commits, concurrency)
    cache = open_local_cache(
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
    from perago.adapters.spark.configuration import SparkConfiguration  # noqa: PLC0415 - lazy
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
    from perago.adapters.system.concurrency import AsyncioConcurrency  # noqa: PLC0415 - lazy

    concurrency = AsyncioConcurrency()
    lakefs = open_lakefs(connection)
    transport = open_transport(connection, terms)
    transport = transport or PortTransport(lakefs.objects, concurrency)
    writes = StagingWrites(lakefs.objects, transport, concurrency, None)
    gc.freeze()  # Spark's Python collects after every task, and what is imported stays
    return PartWork(
        PartDown(lakefs.objects, transport),
        PartScan(),
        PartUp(lakefs.objects, lakefs.commits, writes),
    )
