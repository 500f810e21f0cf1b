"""A network that fails in every way: the exact bytes or a clean failure, and nothing left over."""

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from tests.contract.real_lakefs import RealLakeFS, configuration_of, connected

from perago.adapters.lakefs.client import LakeFSClient
from perago.adapters.lakefs.configuration import RetryTerms, RouteChoice
from perago.adapters.lakefs.objects import LakeFSObjects
from perago.adapters.system import AsyncioConcurrency
from perago.adapters.workspace.pipeline import LocalWorkspacePipeline
from perago.domain.lakefs import BranchName, CommitId, RepositoryId, StagedReference
from perago.ports.errors import ServiceError
from perago.ports.workspace import StagingArea, WorkspaceSource
from perago.testing.contract.lakefs_under_test import MAIN
from perago_servers import LakefsServer, Proxy, ToxiproxyServer

pytestmark = pytest.mark.lakefs

FILES: Mapping[str, bytes] = {
    **{f"ws/small-{number:03}": b"%d" % number * 50 for number in range(60)},
    **{f"ws/large-{number}": os.urandom(3 * 1024 * 1024) for number in range(4)},
}


@dataclass
class Line:
    """A workspace behind a line that can be made bad."""

    harness: RealLakeFS
    pipeline: LocalWorkspacePipeline
    proxy: Proxy
    repository: RepositoryId
    commit: CommitId
    place: Path

    async def materialise(self) -> Path:
        """Materialise into a fresh directory."""
        directory = self.place / "attempt"
        directory.mkdir()
        source = WorkspaceSource(self.repository, self.commit, "ws")
        await self.pipeline.materialise(source, directory)
        return directory


@pytest.fixture
async def line(
    lakefs_server: LakefsServer, toxiproxy: ToxiproxyServer, tmp_path: Path
) -> AsyncIterator[Line]:
    concurrency = AsyncioConcurrency()
    with toxiproxy.proxied(lakefs_server.endpoint) as proxy:
        configuration = replace(
            configuration_of(lakefs_server),
            endpoint_url=proxy.endpoint,
            route=RouteChoice.API,
            answer_seconds=3.0,
            retry=RetryTerms(first_pause_seconds=0.05, seconds_max=10),
        )
        client = LakeFSClient(configuration)
        transport = LakeFSObjects(client)
        async with connected(lakefs_server) as harness:
            repository = await harness.create_repository()
            commit = await harness.commit_files(repository, MAIN, FILES)
            pipeline = LocalWorkspacePipeline(
                harness.objects, harness.commits, concurrency, transport
            )
            yield Line(harness, pipeline, proxy, repository, commit, tmp_path)
        client.close()
    concurrency.close()


def held(directory: Path) -> dict[str, bytes]:
    return {f"ws/{path.relative_to(directory)}": path.read_bytes() for path in directory.iterdir()}


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


TOXICS: Mapping[str, tuple[str, Mapping[str, float]]] = {
    "latency with jitter": ("latency", {"latency": 30, "jitter": 30}),
    "reset in mid body": ("reset_peer", {"timeout": 40}),
    "truncated body": ("limit_data", {"bytes": 700_000}),
    "slices": ("slicer", {"average_size": 500, "size_variation": 300, "delay": 10}),
}


@pytest.mark.parametrize(("kind", "attributes"), TOXICS.values(), ids=TOXICS)
async def test_a_bad_line_gives_the_exact_bytes_or_a_clean_failure(
    line: Line, kind: str, attributes: Mapping[str, float]
) -> None:
    before, threads = descriptors(), threading.active_count()
    line.proxy.add_toxic(kind, direction="downstream", toxicity=0.5, **attributes)
    try:
        directory = await line.materialise()
    except ServiceError:
        present = held(line.place / "attempt")
        assert all(FILES[path] == content for path, content in present.items())
    else:
        assert held(directory) == FILES
    line.proxy.remove_toxics()
    assert not list((line.place / "attempt").glob(".perago-p*"))
    assert descriptors() <= before + 64
    assert threading.active_count() <= threads + 32


async def test_a_black_hole_of_five_seconds_is_survived(line: Line) -> None:
    line.proxy.add_toxic("timeout", timeout=0)

    async def heal() -> None:
        await asyncio.sleep(5)
        line.proxy.remove_toxics()

    healing = asyncio.ensure_future(heal())
    directory = await line.materialise()
    await healing
    assert held(directory) == FILES


async def test_a_dead_line_is_a_clean_failure(line: Line) -> None:
    line.proxy.set_enabled(enabled=False)
    with pytest.raises(ServiceError, match=r"was not reached|no usable answer"):
        await line.materialise()
    assert held(line.place / "attempt") == {}


async def test_uploads_over_a_bad_line_are_exact_or_fail_cleanly(line: Line) -> None:
    directory = await line.materialise()
    source = WorkspaceSource(line.repository, line.commit, "ws")
    materialised = await line.pipeline.materialise(source, _fresh(line.place / "second"))
    changed = {path: os.urandom(2_000_000) for path in FILES if "large" in path}
    for path, content in changed.items():
        (materialised.directory / path.removeprefix("ws/")).write_bytes(content)
    plan = await line.pipeline.plan(materialised)
    branch = BranchName(line.harness.unique_name("staging"))
    await line.harness.branches.create(line.repository, branch, line.commit)
    area = StagingArea(StagedReference(line.repository, branch, line.commit), "ws")
    line.proxy.add_toxic("reset_peer", direction="upstream", toxicity=0.4, timeout=20)
    try:
        await line.pipeline.transfer(materialised, plan, area)
    except ServiceError:
        return
    finally:
        line.proxy.remove_toxics()
    await line.pipeline.verify(materialised, plan, area)
    for path, content in changed.items():
        assert await line.harness.objects.read(line.repository, branch, path) == content
    assert held(directory) == FILES


def _fresh(directory: Path) -> Path:
    directory.mkdir()
    return directory
