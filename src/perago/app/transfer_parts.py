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
from perago.ports.errors import WorldError
from perago.ports.object_transport import ObjectTransport
from perago.ports.progress import Progress

if TYPE_CHECKING:
    from perago.adapters.lakefs.object_requests import TransferConfiguration

_QUESTION_SECONDS = 3.0


def open_transport(connection: LakeFSConnection, terms: TransferTerms) -> ObjectTransport | None:
    """Transfer of its own for a real server; any other lakeFS is moved by its objects port."""
    if urlsplit(connection.url).scheme not in {"http", "https"}:
        return None
    from perago.adapters.lakefs.transport import LakeFSTransport  # noqa: PLC0415 - lazy

    return LakeFSTransport(_configuration(connection, terms))


def route_in_force(connections: Connections, origin: str) -> tuple[str, str]:
    """The way of object bytes and who decided it; `origin` is where the setting was found."""
    connection, terms = connections.lakefs, connections.transfer
    if connection is None:
        return "none", "no lakeFS is configured"
    if urlsplit(connection.url).scheme not in {"http", "https"}:
        return "objects port", connection.url
    if terms.route != "auto":
        return terms.route, origin
    from perago.adapters.lakefs.transport import LakeFSTransport  # noqa: PLC0415 - lazy

    transport = LakeFSTransport(_configuration(connection, terms, seconds=_QUESTION_SECONDS))
    try:
        return transport.ask_for_route()
    except WorldError as error:
        return "auto", f"lakeFS was asked and did not say: {error}"
    finally:
        transport.close()


@contextmanager
def transfer_bar() -> Generator[Progress]:
    """Progress for a command that somebody waits for: its transfers are seen."""
    from perago.adapters.observability.transfer_bar import TransferBar  # noqa: PLC0415 - lazy

    bar = TransferBar()
    try:
        yield bar
    finally:
        bar.close()


def _configuration(
    connection: LakeFSConnection, terms: TransferTerms, *, seconds: float | None = None
) -> "TransferConfiguration":
    """The terms of a transport; `seconds` is all the time that a single question may take."""
    from perago.adapters.http import HttpTerms  # noqa: PLC0415 - lazy
    from perago.adapters.lakefs.object_requests import (  # noqa: PLC0415 - lazy
        REQUESTS_CONCURRENT_MAX,
        RouteChoice,
        TransferConfiguration,
    )
    from perago.adapters.lakefs.retry import RetryTerms  # noqa: PLC0415 - lazy

    http = HttpTerms(
        ca_file=connection.ca_file, verify_tls=connection.verify_tls, proxy_of=connection.proxies
    )
    configuration = TransferConfiguration(
        endpoint_url=connection.url,
        access_key_id=connection.access_key_id,
        secret_access_key=connection.secret_access_key,
        http=http,
        route=RouteChoice(terms.route),
        requests_concurrent_max=terms.requests_max or REQUESTS_CONCURRENT_MAX,
    )
    if seconds is None:
        return configuration
    return replace(
        configuration,
        http=replace(http, connect_seconds=seconds),
        silence_seconds=seconds,
        retry=RetryTerms(seconds_max=0.0),
    )
