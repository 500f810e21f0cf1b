"""The part of the composition root that makes the workspace pipeline.

Named adapters of a real server get transfer and cache of their own; any other lakeFS is moved by
its objects port. Connects to nothing.
"""

from urllib.parse import urlsplit

from perago.adapters.local.local_cache import open_local_cache
from perago.adapters.local.transfer_meter import TransferListener
from perago.adapters.local.workspace_pipeline import LocalWorkspacePipeline
from perago.app.connections import Connections, LakeFSConnection, TransferTerms
from perago.ports.clock import Clock
from perago.ports.concurrency import Concurrency
from perago.ports.installations import LakeFSInstallation
from perago.ports.object_transport import ObjectTransport
from perago.ports.progress import Progress
from perago.ports.workspace_pipeline import WorkspacePipeline

CACHE_DIRECTORY = ".perago-cache"


def open_pipeline(
    connections: Connections,
    lakefs: LakeFSInstallation,
    concurrency: Concurrency,
    progress: Progress,
    clock: Clock,
) -> WorkspacePipeline:
    """The pipeline of this process."""
    connection, terms = connections.lakefs, connections.transfer
    transport = None if connection is None else _transport(connection, terms, concurrency)
    if connection is None or transport is None:
        return LocalWorkspacePipeline(lakefs.objects, lakefs.commits, concurrency)
    cache = open_local_cache(
        terms.cache_directory or connections.workspace_root / CACHE_DIRECTORY,
        connection.url,
        bytes_max=terms.cache_bytes_max,
        keeps_aside=True,
    )
    return LocalWorkspacePipeline(
        lakefs.objects,
        lakefs.commits,
        concurrency,
        transport,
        cache,
        listener=TransferListener(progress, clock),
    )


def _transport(
    connection: LakeFSConnection, terms: TransferTerms, concurrency: Concurrency
) -> ObjectTransport | None:
    """Transfer of its own for a real server; behind a proxy bytes go by the objects port."""
    if connection.proxy is not None or urlsplit(connection.url).scheme not in {"http", "https"}:
        return None
    from perago.adapters.transfer.configuration import (  # noqa: PLC0415 - lazy
        REQUESTS_CONCURRENT_MAX,
        RouteChoice,
        TransferConfiguration,
    )
    from perago.adapters.transfer.http_transport import HttpTransport  # noqa: PLC0415 - lazy

    return HttpTransport(
        TransferConfiguration(
            endpoint_url=connection.url,
            access_key_id=connection.access_key_id,
            secret_access_key=connection.secret_access_key,
            ca_file=connection.ca_file,
            verify_tls=connection.verify_tls,
            route=RouteChoice(terms.route),
            requests_concurrent_max=terms.requests_max or REQUESTS_CONCURRENT_MAX,
        ),
        concurrency,
    )
