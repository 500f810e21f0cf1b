"""A disk that is really full: a clear error, nothing half-written, and the cache never matters."""

import os
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from tests.contract.real_lakefs import RealLakeFS, configuration_of, connected
from tests.integration.small_disk import DISK_BYTES, is_small, small_disk

from perago.adapters.lakefs.client import LakeFSClient
from perago.adapters.lakefs.configuration import RouteChoice
from perago.adapters.lakefs.object_files import SPLIT_BYTES_MIN
from perago.adapters.lakefs.objects import LakeFSObjects
from perago.adapters.system import AsyncioConcurrency
from perago.adapters.workspace.pipeline import LocalCache, LocalWorkspacePipeline
from perago.domain.lakefs import CommitId, RepositoryId
from perago.ports.errors import LocalDiskError
from perago.ports.workspace import WorkspaceSource
from perago.testing.contract.lakefs_under_test import MAIN
from perago_servers import LakefsServer

pytestmark = pytest.mark.lakefs

SMALL = {f"small-{number:03}": os.urandom(60_000) for number in range(80)}
LARGE = {"large": os.urandom(3 * DISK_BYTES)}
IN_RANGES = {"in ranges": os.urandom(1024) * (SPLIT_BYTES_MIN // 1024)}


@dataclass
class Host:
    """One worker's way to lakeFS."""

    lakefs: RealLakeFS
    transport: LakeFSObjects
    concurrency: AsyncioConcurrency
    repository: RepositoryId
    commit: CommitId
    files: dict[str, bytes]

    async def materialise(self, directory: Path, cache: Path) -> dict[str, bytes]:
        """Materialise into a directory that exists; gives what is there afterwards."""
        opened = LocalCache(cache, "test")
        pipeline = LocalWorkspacePipeline(
            self.lakefs.objects, self.lakefs.commits, self.concurrency, self.transport, opened
        )
        await pipeline.materialise(WorkspaceSource(self.repository, self.commit, "ws"), directory)
        return held(directory)


def held(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


@pytest.fixture(params=[SMALL, LARGE, IN_RANGES], ids=["many small", "one large", "in ranges"])
async def host(request: pytest.FixtureRequest, lakefs_server: LakefsServer) -> AsyncIterator[Host]:
    files: dict[str, bytes] = request.param
    concurrency = AsyncioConcurrency()
    client = LakeFSClient(replace(configuration_of(lakefs_server), route=RouteChoice.API))
    transport = LakeFSObjects(client)
    async with connected(lakefs_server) as harness:
        repository = await harness.create_repository()
        named = {f"ws/{name}": content for name, content in files.items()}
        commit = await harness.commit_files(repository, MAIN, named)
        yield Host(harness, transport, concurrency, repository, commit, files)
    client.close()
    concurrency.close()


async def test_a_full_disk_is_a_clear_error_and_nothing_is_half_written(
    host: Host, tmp_path: Path
) -> None:
    with small_disk(tmp_path / "disk") as disk:
        directory = disk / "attempt"
        directory.mkdir()
        with pytest.raises(LocalDiskError, match=r"no space left on device; free|file too large"):
            await host.materialise(directory, tmp_path / "cache")
        present = held(directory)
        assert present.items() <= host.files.items(), "exact bytes or nothing"
        assert len(present) < len(host.files)


async def test_a_full_disk_under_the_cache_costs_an_attempt_nothing(
    host: Host, tmp_path: Path
) -> None:
    (tmp_path / "attempt").mkdir()
    (tmp_path / "again").mkdir()
    with small_disk(tmp_path / "disk") as disk:
        (disk / "filler").write_bytes(bytes(20_000))
        # The bound on file sizes, where it stands in, must not meet the workspace.
        if is_small(disk):
            assert await host.materialise(tmp_path / "attempt", disk / "cache") == host.files
    assert await host.materialise(tmp_path / "again", tmp_path / "cache") == host.files
