"""What moving a workspace costs in requests, counted on the in-memory lakeFS: no clock."""

import tracemalloc
from collections.abc import Iterator, Mapping
from math import ceil
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from perago.adapters.memory.installations import RepositoryBuilder, lakefs_installation
from perago.adapters.memory.lakefs import MemoryLakeFS
from perago.adapters.memory.lakefs_ports import MemoryTransport
from perago.adapters.memory.system import SequentialConcurrency, WorkerHandle
from perago.adapters.workspace.inventory import take_inventory
from perago.adapters.workspace.pipeline import LocalCache, LocalWorkspacePipeline
from perago.domain.lakefs import BranchName, CommitId, StagedReference
from perago.ports.lakefs import CommitRequest
from perago.ports.workspace import Materialised, StagingArea, WorkspaceSource
from perago.testing.fault_injector import FaultInjector, faulty_installation

PREFIX = "data"
STAGING = BranchName("staging")
SCALE = [pytest.mark.scale, pytest.mark.timeout(300)]
SIZES = [1_000, pytest.param(10_000, marks=SCALE), pytest.param(100_000, marks=SCALE)]


class Workshop:
    """One in-memory lakeFS, one host with its cache, and a count of requests."""

    def __init__(self, place: Path) -> None:
        memory = MemoryLakeFS()
        self.injector = FaultInjector()  # without a fault it counts what it lets through
        self.builder = RepositoryBuilder(memory, "repo")
        lakefs = faulty_installation(lakefs_installation(memory, WorkerHandle()), self.injector)
        self.branches, self.commits = lakefs.branches, lakefs.commits
        self.objects, concurrency = lakefs.objects, SequentialConcurrency()
        self.pipeline = LocalWorkspacePipeline(
            self.objects,
            self.commits,
            concurrency,
            MemoryTransport(self.objects, concurrency),
            cache=LocalCache(place / "cache", "memory"),
        )
        self._place = place
        self._attempts = 0

    def commit(self, files: Mapping[str, bytes | None]) -> CommitId:
        """Commit files below the prefix."""
        return self.builder.commit({f"{PREFIX}/{path}": body for path, body in files.items()})

    async def materialise(self, commit: CommitId) -> Materialised:
        """Materialise as one attempt of this host would."""
        self._attempts += 1
        directory = self._place / f"attempt-{self._attempts}"
        directory.mkdir()
        source = WorkspaceSource(self.builder.id, commit, PREFIX)
        return await self.pipeline.materialise(source, directory)

    async def stage(self, materialised: Materialised) -> None:
        """Do what staging does, from the branch to its commit."""
        plan = await self.pipeline.plan(materialised)
        commit = materialised.source.commit
        await self.branches.create(self.builder.id, STAGING, commit)
        area = StagingArea(StagedReference(self.builder.id, STAGING, commit), PREFIX)
        await self.pipeline.transfer(materialised, plan, area)
        await self.pipeline.verify(materialised, plan, area)
        await self.commits.commit(CommitRequest(self.builder.id, STAGING, "try", {}))


@pytest.fixture
def workshop(tmp_path: Path) -> Iterator[Workshop]:
    # Hundreds of thousands of files: in memory where the machine has such a place.
    in_memory = Path("/dev/shm")  # noqa: S108 - a fresh private directory is made in it
    with TemporaryDirectory(dir=in_memory if in_memory.is_dir() else tmp_path) as place:
        yield Workshop(Path(place))


def many(count: int) -> dict[str, bytes | None]:
    return {f"part-{number % 100:02}/{number:06}": b"%d" % number for number in range(count)}


@pytest.mark.scale
async def test_one_changed_file_of_10_000_is_one_upload_and_at_most_six_other_requests(
    workshop: Workshop,
) -> None:
    materialised = await workshop.materialise(workshop.commit(many(10_000)))
    (materialised.directory / "part-42/000042").write_bytes(b"changed")
    before = workshop.injector.calls.copy()
    await workshop.stage(materialised)
    spent = workshop.injector.calls - before
    assert spent["objects.upload"] == 1
    assert spent.total() <= 1 + 6


@pytest.mark.parametrize("count", SIZES)
async def test_a_warm_start_costs_the_difference_and_not_the_workspace(
    workshop: Workshop, count: int
) -> None:
    cold = await workshop.materialise(workshop.commit(many(count)))
    assert cold.counts.requests == count + ceil(count / 1000)
    for changed in (1, count // 100):
        fresh: dict[str, bytes | None] = {
            path: b"changed %d of %d" % (number, changed)
            for number, path in enumerate(list(many(count))[:changed])
        }
        commit = workshop.commit({**fresh, f"new-{changed}": b"new %d" % changed})
        before = workshop.injector.calls.total()
        warm = await workshop.materialise(commit)
        spent = workshop.injector.calls.total() - before
        total = changed + 1
        assert spent <= total + ceil(total / 1000) + 4
        assert spent == warm.counts.requests
        assert warm.counts.reused == warm.counts.objects - total
        for path, content in fresh.items():
            assert (warm.directory / path).read_bytes() == content
        assert (await workshop.pipeline.plan(warm)).is_empty


async def test_the_same_commit_again_costs_nothing(workshop: Workshop) -> None:
    commit = workshop.commit(many(1_500))
    await workshop.materialise(commit)
    before = workshop.injector.calls.total()
    again = await workshop.materialise(commit)
    assert workshop.injector.calls.total() == before
    assert len(list(again.directory.rglob("0*"))) == 1_500


@pytest.mark.scale
async def test_a_difference_as_large_as_the_workspace_is_not_asked_to_its_end(
    workshop: Workshop,
) -> None:
    await workshop.materialise(workshop.commit(many(1_000)))
    commit = workshop.commit({f"other/{number:06}": b"%d" % number for number in range(5_000)})
    before = workshop.injector.calls.copy()
    await workshop.materialise(commit)
    spent = workshop.injector.calls - before
    assert spent["commits.diff_page"] <= 2
    assert spent["objects.list_page"] == 6


@pytest.mark.scale
@pytest.mark.timeout(300)
async def test_an_inventory_of_100_000_objects_stays_under_150_mb(workshop: Workshop) -> None:
    commit = workshop.commit(many(100_000))
    source = WorkspaceSource(workshop.builder.id, commit, PREFIX)
    tracemalloc.start()
    try:
        idle, _ = tracemalloc.get_traced_memory()
        inventory = await take_inventory(workshop.objects, SequentialConcurrency(), source)
        assert len(inventory.names()) == 100_000
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak - idle < 150 * 1024 * 1024
