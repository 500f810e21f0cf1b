"""The local pipeline: disks that refuse, files that move, large workspaces, and its reports."""

import errno
import resource
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.recordings import RecordingProgress

from perago.adapters.memory.installations import RepositoryBuilder
from perago.adapters.memory.lakefs import MemoryLakeFS
from perago.adapters.memory.lakefs_ports import (
    MemoryBranches,
    MemoryCommits,
    MemoryObjects,
    MemoryTransport,
)
from perago.adapters.memory.system import (
    SequentialConcurrency,
    VirtualClock,
    WorkerHandle,
)
from perago.adapters.spark.workspace_pipeline import SizedPipeline
from perago.adapters.workspace.inventory import WorkspaceTooLargeError
from perago.adapters.workspace.pipeline import (
    LocalCache,
    LocalWorkspacePipeline,
    TransferListener,
    TransferMeter,
)
from perago.domain.lakefs import BranchName, CommitId, StagedReference
from perago.ports.errors import (
    DamagedObjectError,
    LocalDiskError,
    WorkspaceLostError,
    disk_errors,
)
from perago.ports.workspace import Materialised, Phase, StagingArea, WorkspaceSource


def pipeline_on(
    lakefs: MemoryLakeFS, handle: WorkerHandle, cache: LocalCache | None = None
) -> LocalWorkspacePipeline:
    """A local pipeline of one worker."""
    objects, concurrency = MemoryObjects(lakefs, handle), SequentialConcurrency()
    transport = MemoryTransport(objects, concurrency)
    commits = MemoryCommits(lakefs, handle)
    return LocalWorkspacePipeline(objects, commits, concurrency, transport, cache)


class Scene:
    """One workspace on an in-memory lakeFS."""

    def __init__(self, place: Path) -> None:
        lakefs, handle = MemoryLakeFS(), WorkerHandle()
        self.place = place
        self.builder = RepositoryBuilder(lakefs, "repo")
        self.branches = MemoryBranches(lakefs, handle)
        self.pipeline = pipeline_on(lakefs, handle, LocalCache(place / "cache", "memory"))
        self.commit: CommitId = self.builder.commit({"data/a": b"a" * 5000, "data/b": b"b"})

    async def materialise(self) -> Materialised:
        """Materialise into a fresh directory."""
        directory = self.place / "attempt"
        directory.mkdir()
        source = WorkspaceSource(self.builder.id, self.commit, "data")
        return await self.pipeline.materialise(source, directory)

    async def transfer_after(self, materialised: Materialised, meddle: bytes | None) -> None:
        """Plan a change of one file, let it be changed again or removed, and transfer."""
        changed = materialised.directory / "a"
        changed.write_bytes(b"planned")
        plan = await self.pipeline.plan(materialised)
        staging = BranchName("staging")
        await self.branches.create(self.builder.id, staging, self.commit)
        if meddle is None:
            changed.unlink()
        else:
            changed.write_bytes(meddle)
        area = StagingArea(StagedReference(self.builder.id, staging, self.commit), "data")
        await self.pipeline.transfer(materialised, plan, area)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


@contextmanager
def files_no_larger_than(size: int) -> Generator[None]:
    """Make the kernel refuse longer files, as a full disk does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def test_a_disk_that_takes_no_more_is_a_clear_error(scene: Scene) -> None:
    with files_no_larger_than(1000), pytest.raises(LocalDiskError, match="a: file too large"):
        await scene.materialise()


@pytest.mark.parametrize(
    "meddle", [b"PLANNED", b"longer than planned"], ids=["same size", "longer"]
)
async def test_a_file_that_changes_while_it_is_uploaded(scene: Scene, meddle: bytes) -> None:
    materialised = await scene.materialise()
    with pytest.raises(DamagedObjectError, match="a process of the task may still write to it"):
        await scene.transfer_after(materialised, meddle)


async def test_a_file_that_vanishes_while_it_is_uploaded(scene: Scene) -> None:
    materialised = await scene.materialise()
    with pytest.raises(LocalDiskError, match="no such file"):
        await scene.transfer_after(materialised, None)


async def test_a_forgotten_workspace_is_never_an_empty_difference(scene: Scene) -> None:
    materialised = await scene.materialise()
    await scene.pipeline.forget(materialised)
    with pytest.raises(WorkspaceLostError):
        await scene.pipeline.plan(materialised)


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (errno.ENOSPC, "free space"),
        (errno.EDQUOT, "raise the quota"),
        (errno.EACCES, "give the worker's user access"),
        (errno.EROFS, "writable disk"),
        (errno.EMFILE, "ulimit"),
    ],
)
def test_every_refusal_names_the_path_and_a_remedy(number: int, remedy: str) -> None:
    error = LocalDiskError.of(Path("/place"), OSError(number, "refused"))
    assert "/place: refused; " in str(error)
    assert remedy in str(error)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (OSError(errno.EBUSY, "Busy", "/place/file"), "/place/file: busy"),
        (OSError(errno.EBUSY, "Busy", b"/place/file"), "/place/file: busy"),
        (OSError(errno.EBUSY, "Busy", "file"), "/place: busy"),  # of a call on an open directory
        (OSError(errno.EBUSY, "Busy", 7), "/place: busy"),
        (OSError("sub was moved"), "/place: sub was moved"),
        (OSError(), "/place: OSError"),
    ],
    ids=str,
)
def test_a_refusal_says_where_and_what(error: OSError, text: str) -> None:
    assert str(LocalDiskError.of(Path("/place"), error)) == text


def test_a_refusal_keeps_its_cause(tmp_path: Path) -> None:
    with pytest.raises(LocalDiskError) as raised, disk_errors(tmp_path):
        (tmp_path / "no" / "such").read_bytes()
    assert isinstance(raised.value.__cause__, FileNotFoundError)
    assert str(tmp_path / "no" / "such") in str(raised.value)


BOUND = 3


@pytest.mark.parametrize("cached", [False, True])
@pytest.mark.parametrize(("files", "by_large"), [(0, False), (3, False), (4, True)])
async def test_the_bound_parts_the_two(
    tmp_path: Path, *, cached: bool, files: int, by_large: bool
) -> None:
    lakefs, handle = MemoryLakeFS(), WorkerHandle()
    builder = RepositoryBuilder(lakefs, "repo")
    commit = builder.commit({"other": b"x", **{f"data/{n}": b"x" for n in range(files)}})
    source = WorkspaceSource(builder.id, commit, "data")
    cache = LocalCache(tmp_path / "cache", "memory") if cached else None
    if cache is not None:  # whoever has moved it before left a manifest
        await pipeline_on(lakefs, handle, cache).materialise(source, room(tmp_path, "0"))
    local, large = pipeline_on(lakefs, handle, cache), pipeline_on(lakefs, handle)
    sized = SizedPipeline(local, large, objects_max=BOUND)

    materialised = await sized.materialise(source, room(tmp_path, "1"))

    assert len(list(materialised.directory.iterdir())) == files
    assert await knows(large, materialised) == by_large
    assert await knows(local, materialised) == (not by_large)
    assert (await sized.plan(materialised)).is_empty
    await sized.forget(materialised)
    assert not await knows(large, materialised)


def room(place: Path, name: str) -> Path:
    """A fresh directory."""
    (place / name).mkdir()
    return place / name


async def knows(pipeline: LocalWorkspacePipeline, materialised: Materialised) -> bool:
    """Whether a pipeline has materialised a workspace."""
    try:
        await pipeline.plan(materialised)
    except WorkspaceLostError:
        return False
    return True


async def test_the_local_pipeline_gives_up_before_anything_moves(tmp_path: Path) -> None:
    lakefs, handle = MemoryLakeFS(), WorkerHandle()
    builder = RepositoryBuilder(lakefs, "repo")
    source = WorkspaceSource(builder.id, builder.commit({f"{n:05}": b"" for n in range(2500)}), "/")
    local = pipeline_on(lakefs, handle)
    local.refuse_more_than(999)
    with pytest.raises(WorkspaceTooLargeError, match="more than 999"):
        await local.materialise(source, room(tmp_path, "1"))
    assert list((tmp_path / "1").iterdir()) == []


def test_a_transfer_speaks_about_once_a_second() -> None:
    progress, clock = RecordingProgress(), VirtualClock()
    listener = TransferListener(progress, clock)
    meter = TransferMeter(listener, "down", files=100, size=1000, cached=7, skipped=3)
    for number in range(40):
        clock.advance(0.1)
        meter.moved(10, number % 2)
    assert [phase for phase, _ in progress.events] == [Phase.TRANSFERRING] * 4
    assert progress.events[0][1] == {
        "direction": "down",
        "files_total": 100,
        "bytes_total": 1000,
        "cached": 7,
        "skipped": 3,
        "files": 5,
        "requests": 10,
        "bytes": 100,
        "bytes_per_second": 100,
        "eta_seconds": 9.0,
    }


def test_a_transfer_that_spoke_tells_its_end() -> None:
    progress, clock = RecordingProgress(), VirtualClock()
    meter = TransferMeter(TransferListener(progress, clock), "up", files=2, size=20)
    clock.advance(2)
    meter.moved(10, 1)
    meter.moved(10, 1)
    assert [facts["bytes"] for _, facts in progress.events] == [10, 20]


def test_a_short_transfer_says_nothing() -> None:
    progress, clock = RecordingProgress(), VirtualClock()
    meter = TransferMeter(TransferListener(progress, clock), "up", files=1, size=10)
    meter.moved(10, 1)
    assert progress.events == []


def test_a_listener_is_optional() -> None:
    TransferMeter(None, "up", files=1, size=10).moved(10, 1)
