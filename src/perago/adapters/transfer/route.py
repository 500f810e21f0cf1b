"""What a way for the bytes of objects is: requests for one object, down and up."""

from typing import Protocol

from perago.adapters.transfer.api_route import Place
from perago.adapters.transfer.connections import Request
from perago.ports.object_transport import FetchOrder
from perago.ports.objects import ObjectEntry, ObjectUpload


class Route(Protocol):
    """One way for the bytes of one object."""

    name: str
    asks_before: bool  # whether a request costs a question to the server first

    def fetch(self, place: Place, order: FetchOrder) -> str:
        """Bring one object down; gives its MD5."""
        ...

    def part_request(self, place: Place, order: FetchOrder) -> Request:
        """The request that an object, or parts of it, are asked with."""
        ...

    def store(self, place: Place, upload: ObjectUpload) -> ObjectEntry:
        """Write one object."""
        ...
