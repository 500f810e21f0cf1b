"""Large objects straight into the block store, in parts side by side."""

import os
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from tests.contract.real_lakefs import configuration_of, connected

from perago.adapters.lakefs.block_store import MULTIPART_BYTES_MIN, PART_BYTES
from perago.adapters.lakefs.client import LakeFSClient
from perago.adapters.lakefs.configuration import LakeFSConfiguration, RouteChoice
from perago.adapters.lakefs.objects import LakeFSObjects
from perago.domain.lakefs import RepositoryId
from perago.ports.errors import OutcomeUnknownError
from perago.ports.objects import FetchOrder, ObjectEntry, ObjectUpload
from perago.testing.contract.cutting_proxy import cutting_proxy
from perago.testing.contract.lakefs_under_test import MAIN
from perago_servers import LakefsServer

pytestmark = pytest.mark.lakefs

SIZE = MULTIPART_BYTES_MIN + PART_BYTES // 2


@dataclass
class Store:
    """A repository on a block store that signs, and a large file."""

    configuration: LakeFSConfiguration
    repository: RepositoryId
    file: Path


@pytest.fixture
async def store(lakefs_s3_server: LakefsServer, tmp_path: Path) -> AsyncIterator[Store]:
    configuration = replace(configuration_of(lakefs_s3_server), route=RouteChoice.PRESIGNED)
    file = tmp_path / "large"
    file.write_bytes(os.urandom(SIZE))
    async with connected(lakefs_s3_server) as harness:
        yield Store(configuration, await harness.create_repository(), file)


async def test_parts_arrive_in_their_order(store: Store, tmp_path: Path) -> None:
    client = LakeFSClient(store.configuration)
    transport = LakeFSObjects(client)
    upload = ObjectUpload("large", store.file, "text/odd", {"owner": "somebody"})
    (entry,) = await transport.store(store.repository, MAIN, [upload])
    assert (entry.size, entry.content_type) == (SIZE, "text/odd")
    assert entry.metadata == {"owner": "somebody"}
    again = ObjectEntry("large", entry.checksum, SIZE)
    await transport.fetch(store.repository, MAIN, [FetchOrder(again, tmp_path / "again")])
    client.close()
    assert (tmp_path / "again").read_bytes() == store.file.read_bytes()


@pytest.mark.parametrize(
    ("sent", "size"),
    [
        (b"/staging/backing?path=large&presign=true", 1000),
        (b"/staging/backing?path=large ", 1000),
        (b"/staging/pmpu?", SIZE),
        (b"/parts/2?", SIZE),
        (b'"parts": [', SIZE),
    ],
    ids=["address", "link", "begin of the parts", "address of a part", "join of the parts"],
)
async def test_an_upload_whose_answer_is_lost_has_arrived_or_can_be_repeated(
    store: Store, tmp_path: Path, sent: bytes, size: int
) -> None:
    """What lakeFS says to a second link or join is not taken for what became of the first."""
    file = tmp_path / "file"
    file.write_bytes(store.file.read_bytes()[:size])
    upload = ObjectUpload("large", file)
    async with cutting_proxy(store.configuration.endpoint_url) as proxy:
        client = LakeFSClient(replace(store.configuration, endpoint_url=proxy.url))
        transport = LakeFSObjects(client)
        proxy.cut_after(sent)
        try:
            await transport.store(store.repository, MAIN, [upload])
        except OutcomeUnknownError:
            page = await transport.list_page(store.repository, MAIN, prefix="")
            assert [entry.size for entry in page.items] in ([], [size])
            await transport.store(store.repository, MAIN, [upload])
        assert proxy.answers_lost == 1
        assert await transport.read(store.repository, MAIN, "large") == file.read_bytes()
        client.close()
