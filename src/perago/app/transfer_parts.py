"""The part of the composition root that knows how object bytes travel.

Builds the transport of a real server, says which route is in force, and shows how far it has come.
Only the question for the route asks a service.
"""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from perago.app.connections import Connections, LakeFSConnection, TransferTerms
from perago.ports.concurrency import Concurrency
from perago.ports.errors import WorldError
from perago.ports.object_transport import ObjectTransport
from perago.ports.progress import Progress

if TYPE_CHECKING:
    from perago.adapters.transfer.configuration import TransferConfiguration

_QUESTION_SECONDS = 3.0


def open_transport(
    connection: LakeFSConnection, terms: TransferTerms, concurrency: Concurrency
) -> ObjectTransport | None:
    """Transfer of its own for a real server; behind a proxy bytes go by the objects port."""
    if not _has_transport(connection):
        return None
    from perago.adapters.transfer.http_transport import HttpTransport  # noqa: PLC0415 - lazy

    return HttpTransport(_configuration(connection, terms), concurrency)


def route_in_force(connections: Connections, origin: str) -> tuple[str, str]:
    """The way of object bytes and who decided it; `origin` is where the setting was found."""
    connection, terms = connections.lakefs, connections.transfer
    if connection is None:
        return "none", "no lakeFS is configured"
    if not _has_transport(connection):
        proxied = connection.proxies(connection.url) is not None
        why = "a proxy stands before lakeFS" if proxied else connection.url
        return "objects port", why
    if terms.route != "auto":
        return terms.route, origin
    from perago.adapters.transfer.server_route import route_of_server  # noqa: PLC0415 - lazy

    try:
        return route_of_server(_configuration(connection, terms, seconds=_QUESTION_SECONDS))
    except WorldError as error:
        return "auto", f"lakeFS was asked and did not say: {error}"


@contextmanager
def transfer_bar() -> Generator[Progress]:
    """Progress for a command that somebody waits for: its transfers are seen."""
    from perago.adapters.observability.transfer_bar import TransferBar  # noqa: PLC0415 - lazy

    bar = TransferBar()
    try:
        yield bar
    finally:
        bar.close()


def _has_transport(connection: LakeFSConnection) -> bool:
    return connection.proxies(connection.url) is None and urlsplit(connection.url).scheme in {
        "http",
        "https",
    }


def _configuration(
    connection: LakeFSConnection, terms: TransferTerms, *, seconds: float | None = None
) -> "TransferConfiguration":
    from perago.adapters.transfer.configuration import (  # noqa: PLC0415 - lazy
        REQUESTS_CONCURRENT_MAX,
        RouteChoice,
        TransferConfiguration,
    )

    configuration = TransferConfiguration(
        endpoint_url=connection.url,
        access_key_id=connection.access_key_id,
        secret_access_key=connection.secret_access_key,
        ca_file=connection.ca_file,
        verify_tls=connection.verify_tls,
        route=RouteChoice(terms.route),
        requests_concurrent_max=terms.requests_max or REQUESTS_CONCURRENT_MAX,
    )
    if seconds is None:
        return configuration
    return replace(configuration, connect_seconds=seconds, answer_seconds=seconds)
