"""Bulk transfer over HTTP: chooses the route of each object and lets the crew do the rest.

Knows sizes and capabilities; requests, retries and files are its neighbours'.
"""

from collections.abc import Sequence
from functools import partial
from typing import final

from perago.adapters.transfer.abandonable_moves import AbandonableMoves
from perago.adapters.transfer.api_route import ApiRoute, LakeFSApi, Place, branch_place
from perago.adapters.transfer.bulk_fetch import BulkFetch
from perago.adapters.transfer.configuration import RouteChoice, TransferConfiguration
from perago.adapters.transfer.connections import Connections
from perago.adapters.transfer.crew import Crew, Job
from perago.adapters.transfer.failures import read_failure, write_failure
from perago.adapters.transfer.pace import Pace
from perago.adapters.transfer.presigned_route import PresignedRoute
from perago.adapters.transfer.route import Route
from perago.adapters.transfer.server_route import storage_capabilities
from perago.domain.references import BranchName, RepositoryId
from perago.ports.concurrency import Concurrency
from perago.ports.errors import RequestRefusedError
from perago.ports.object_transport import (
    Fetched,
    FetchOrder,
    Moved,
    ObjectTransport,
    nobody_counts,
)
from perago.ports.objects import ObjectEntry, ObjectUpload


@final
class HttpTransport(ObjectTransport):
    """Objects of one installation; one instance per process."""

    def __init__(self, configuration: TransferConfiguration, concurrency: Concurrency) -> None:
        self._configuration = configuration
        self._concurrency = concurrency
        self._connections = Connections(configuration)
        self._api = LakeFSApi(configuration, self._connections)
        pace = Pace(configuration.requests_concurrent_max)
        self._crew = Crew(configuration, pace)
        self._small: Route = ApiRoute(self._api)
        self._large: Route | None = None
        self._fetching = BulkFetch(self._connections, self._crew, pace, self._route_for)

    @property
    def route(self) -> str:
        large = self._large
        if large is None:
            return f"{self._configuration.route} (not asked for yet)"
        if large.name == self._small.name:
            return large.name
        return f"{large.name} from {self._configuration.presigned_bytes_min} bytes, else api"

    async def fetch(
        self,
        repository: RepositoryId,
        ref: str,
        orders: Sequence[FetchOrder],
        moved: Moved = nobody_counts,
    ) -> Sequence[Fetched]:
        if not orders:
            return []
        place, counted = Place(repository, ref), AbandonableMoves(moved)
        return await self._concurrency.blocking(
            lambda: self._fetching.run(place, orders, counted), abandon=counted.abandon
        )

    async def store(
        self,
        repository: RepositoryId,
        branch: BranchName,
        uploads: Sequence[ObjectUpload],
        moved: Moved = nobody_counts,
    ) -> Sequence[ObjectEntry]:
        if not uploads:
            return []
        place, counted = branch_place(repository, branch), AbandonableMoves(moved)
        return await self._concurrency.blocking(
            lambda: self._store(place, uploads, counted), abandon=counted.abandon
        )

    def close(self) -> None:
        """Close the idle connections."""
        self._connections.close()

    def _store(
        self, place: Place, uploads: Sequence[ObjectUpload], moved: Moved
    ) -> list[ObjectEntry]:
        jobs = [
            Job(
                partial(self._route_for(size).store, place, upload),
                size,
                partial(write_failure, f"{place.repository}/{place.ref}/{upload.path}"),
            )
            for upload, size in ((upload, _size(upload)) for upload in uploads)
        ]
        return self._crew.run(jobs, moved)

    def _route_for(self, size: int) -> Route:
        choice = self._configuration.route
        if choice is RouteChoice.AUTO and size < self._configuration.presigned_bytes_min:
            return self._small
        if self._large is None:
            self._large = self._chosen(choice)
            if choice is not RouteChoice.AUTO:
                self._small = self._large
        return self._large

    def _chosen(self, choice: RouteChoice) -> Route:
        match choice:
            case RouteChoice.API:
                return self._small
            case RouteChoice.AUTO | RouteChoice.PRESIGNED:
                capabilities = self._capabilities()
                if capabilities.get("pre_sign_support"):
                    multipart = bool(capabilities.get("pre_sign_multipart_upload"))
                    return PresignedRoute(self._api, multipart=multipart)
                if choice is RouteChoice.PRESIGNED:
                    raise RequestRefusedError(
                        "presigned transfer was asked for, and this lakeFS's block store does not"
                        " sign; set PERAGO_TRANSFER_ROUTE=auto or api"
                    )
                return self._small

    def _capabilities(self) -> dict[str, object]:
        give_up = partial(read_failure, "the server's configuration")
        ask = partial(storage_capabilities, self._api)
        return self._crew.run([Job(ask, 0, give_up)])[0]


def _size(upload: ObjectUpload) -> int:
    """The size that decides the route; a file that cannot be read says so when it is opened."""
    try:
        return upload.source.stat().st_size
    except OSError:
        return 0
