"""The S3 gateway of the lakeFS server: signed requests, one for each object.

For installations that allow nothing else; metadata that its headers cannot carry goes by the API.
"""

from datetime import UTC, datetime
from typing import final
from urllib.parse import urlsplit

from perago.adapters.transfer.api_route import ApiRoute, Place
from perago.adapters.transfer.configuration import TransferConfiguration
from perago.adapters.transfer.connections import Body, Connections, Request
from perago.adapters.transfer.landing import land
from perago.adapters.transfer.sending import FileBody, open_to_send
from perago.adapters.transfer.signature_v4 import Credentials, escaped_path, signed_headers
from perago.ports.object_transport import FetchOrder
from perago.ports.objects import ObjectEntry, ObjectUpload


@final
class GatewayRoute:
    """Objects through the gateway."""

    name = "gateway"
    asks_before = False

    def __init__(
        self,
        configuration: TransferConfiguration,
        connections: Connections,
        api: ApiRoute,
    ) -> None:
        parts = urlsplit(configuration.endpoint_url)
        self._host = parts.netloc
        self._origin = f"{parts.scheme}://{parts.netloc}"
        self._credentials = Credentials(
            configuration.access_key_id, configuration.secret_access_key
        )
        self._connections = connections
        self._api = api

    def fetch(self, place: Place, order: FetchOrder) -> str:
        """Bring one object down; gives its MD5."""
        with self._connections.exchange(self.part_request(place, order)) as answer:
            return land(order, answer)

    def part_request(self, place: Place, order: FetchOrder) -> Request:
        """A freshly signed request for an object."""
        return self._request("GET", place, order.entry.path)

    def store(self, place: Place, upload: ObjectUpload) -> ObjectEntry:
        """Write one object; one that needs more than bytes and a type goes by the API."""
        if upload.metadata or not upload.content_type.isprintable():
            return self._api.store(place, upload)
        with open_to_send(upload.source) as (file, size):
            body = FileBody(upload.source, file, 0, size)
            request = self._request("PUT", place, upload.path, body)
            headers = {**request.headers, "Content-Type": upload.content_type}
            request = Request("PUT", request.origin, request.target, headers, body)
            with self._connections.exchange(request) as answer:
                answer.read()
                checksum = (answer.getheader("ETag") or "").strip('"')
        return ObjectEntry(upload.path, checksum, size, content_type=upload.content_type)

    def _request(self, method: str, place: Place, path: str, body: Body | None = None) -> Request:
        target = escaped_path(place.repository, place.ref, path)
        now = datetime.now(UTC)  # noqa: TID251 - a signature is about the wall time
        headers = signed_headers(self._credentials, method, self._host, target, now)
        return Request(method, self._origin, target, headers, body)
