"""A disk that is really full: a clear error, nothing half-written, and the cache never matters.

A file system of two MiB where this process may mount one; elsewhere the kernel's own bound on the
size of a file stands in for it.
"""

import os
import resource
import signal
import subprocess
from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.contract.lakefs_world import MAIN
from tests.contract.real_lakefs import RealLakeFS, connected
from tools.servers import LakefsServer

from perago.adapters.lakefs.object_requests import RouteChoice, TransferConfiguration
from perago.adapters.lakefs.transport import LakeFSTransport
from perago.adapters.system.concurrency import AsyncioConcurrency
from perago.adapters.workspace.pipeline import LocalWorkspacePipeline, open_local_cache
from perago.domain.logical_execution import CommitId, RepositoryId
from perago.ports.errors import LocalDiskError
from perago.ports.workspace import WorkspaceSource

pytestmark = pytest.mark.lakefs

DISK_BYTES = 2 * 1024 * 1024
SMALL = {f"small-{number:03}": os.urandom(60_000) for number in range(80)}
LARGE = {"large": os.urandom(3 * DISK_BYTES)}


@contextmanager
def small_disk(place: Path) -> Generator[Path]:
    """A directory on a disk that takes two MiB."""
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "perago-test", str(place)]
    if subprocess.run(mount, check=False, capture_output=True).returncode == 0:
        try:
            yield place
        finally:
            subprocess.run(["umount", str(place)], check=True)  # noqa: S607 - found by PATH
        return
    before, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.getsignal(signal.SIGXFSZ)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, before[1]))
    try:
        yield place
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


@dataclass
class Host:
    """One worker's way to lakeFS."""

    lakefs: RealLakeFS
    transport: LakeFSTransport
    concurrency: AsyncioConcurrency
    repository: RepositoryId
    commit: CommitId
    files: dict[str, bytes]

    async def materialise(self, directory: Path, cache: Path) -> dict[str, bytes]:
        """Materialise into a directory that exists; gives what is there afterwards."""
        opened = open_local_cache(cache, "test")
        pipeline = LocalWorkspacePipeline(
            self.lakefs.objects, self.lakefs.commits, self.concurrency, self.transport, opened
        )
        await pipeline.materialise(WorkspaceSource(self.repository, self.commit, "ws"), directory)
        return held(directory)


def is_small(disk: Path) -> bool:
    return disk.is_mount()


def held(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


@pytest.fixture(params=[SMALL, LARGE], ids=["many small", "one large"])
async def host(request: pytest.FixtureRequest, lakefs_server: LakefsServer) -> AsyncIterator[Host]:
    files: dict[str, bytes] = request.param
    concurrency = AsyncioConcurrency()
    transport = LakeFSTransport(
        TransferConfiguration(
            endpoint_url=lakefs_server.endpoint,
            access_key_id=lakefs_server.access_key_id,
            secret_access_key=lakefs_server.secret_access_key,
            route=RouteChoice.API,
        ),
    )
    async with connected(lakefs_server) as world:
        repository = await world.create_repository()
        named = {f"ws/{name}": content for name, content in files.items()}
        commit = await world.commit_files(repository, MAIN, named)
        yield Host(world, transport, concurrency, repository, commit, files)
    transport.close()
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
