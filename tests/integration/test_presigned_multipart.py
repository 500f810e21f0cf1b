"""Large objects straight into the block store, in parts side by side."""

import json
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.contract.lakefs_world import MAIN
from tests.contract.real_lakefs import connected
from tools.servers import LakefsServer

from perago.adapters.system.concurrency import AsyncioConcurrency
from perago.adapters.transfer.api_route import LakeFSApi, branch_place
from perago.adapters.transfer.configuration import RouteChoice, TransferConfiguration
from perago.adapters.transfer.connections import Connections
from perago.adapters.transfer.http_transport import HttpTransport
from perago.adapters.transfer.presigned_route import MULTIPART_BYTES_MIN, PART_BYTES, PresignedRoute
from perago.domain.references import RepositoryId
from perago.ports.errors import LocalDiskError
from perago.ports.object_transport import FetchOrder
from perago.ports.objects import ObjectEntry, ObjectUpload

pytestmark = pytest.mark.lakefs

SIZE = MULTIPART_BYTES_MIN + PART_BYTES // 2


@dataclass
class Store:
    """A repository on a block store that signs, and a large file."""

    configuration: TransferConfiguration
    repository: RepositoryId
    file: Path


@pytest.fixture
async def store(lakefs_s3_server: LakefsServer, tmp_path: Path) -> AsyncIterator[Store]:
    configuration = TransferConfiguration(
        endpoint_url=lakefs_s3_server.endpoint,
        access_key_id=lakefs_s3_server.access_key_id,
        secret_access_key=lakefs_s3_server.secret_access_key,
        route=RouteChoice.PRESIGNED,
    )
    file = tmp_path / "large"
    file.write_bytes(os.urandom(SIZE))
    async with connected(lakefs_s3_server) as world:
        yield Store(configuration, await world.create_repository(), file)


async def test_parts_arrive_in_their_order(store: Store, tmp_path: Path) -> None:
    concurrency = AsyncioConcurrency()
    transport = HttpTransport(store.configuration, concurrency)
    upload = ObjectUpload("large", store.file, "text/odd", {"owner": "somebody"})
    (entry,) = await transport.store(store.repository, MAIN, [upload])
    assert (entry.size, entry.content_type) == (SIZE, "text/odd")
    assert entry.metadata == {"owner": "somebody"}
    again = ObjectEntry("large", entry.checksum, SIZE)
    await transport.fetch(store.repository, MAIN, [FetchOrder(again, tmp_path / "again")])
    transport.close()
    concurrency.close()
    assert (tmp_path / "again").read_bytes() == store.file.read_bytes()


async def test_a_file_that_becomes_shorter_leaves_no_parts_behind(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    connections = Connections(store.configuration)
    api = LakeFSApi(store.configuration, connections)
    asked: list[tuple[str, str]] = []
    ask = api.ask

    def shortening(
        method: str, path: str, query: dict[str, str], content: dict[str, object] | None = None
    ) -> dict[str, object]:
        answer = ask(method, path, query, content)
        asked.append((method, json.dumps(answer)))
        if "pmpu" in path and method == "POST":
            os.truncate(store.file, PART_BYTES)
        return answer

    monkeypatch.setattr(api, "ask", shortening)
    route = PresignedRoute(api, multipart=True)
    place = branch_place(store.repository, MAIN)
    with pytest.raises(LocalDiskError, match="became shorter while it was uploaded"):
        route.store(place, ObjectUpload("large", store.file))
    connections.close()
    assert [method for method, _ in asked] == ["POST", "DELETE"]
