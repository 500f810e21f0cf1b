"""What one executor does of a large workspace, here one part after the other and without Spark."""

import asyncio
import shutil
from functools import partial
from pathlib import Path

import pytest

from perago.adapters.memory.installations import RepositoryBuilder, lakefs_installation
from perago.adapters.memory.lakefs import MemoryLakeFS
from perago.adapters.memory.system import SequentialConcurrency, WorkerHandle
from perago.adapters.spark.parts import PartWork, content_of, files_of, folders_of
from perago.domain.errors import ReservedPathError
from perago.domain.key_ranges import KeyRange
from perago.domain.lakefs import BranchName, StagedReference
from perago.domain.paths import NameRules
from perago.domain.sync_plan import ListedObject, PlanKind, PlannedChange
from perago.ports.errors import DamagedObjectError, LocalDiskError, UnsafeNameError
from perago.ports.workspace import StagingArea, WorkspaceSource

RULES = NameRules()
FILES = {f"data/d{number % 7}/f{number:03}": f"{number}".encode() for number in range(40)}
RANGES = [
    KeyRange("", "data/d2/f030"),
    KeyRange("data/d2/f030", "data/d5"),
    KeyRange("data/d5", None),
]


class Scene:
    """One workspace on an in-memory lakeFS, a directory, and the work of its parts."""

    def __init__(self, place: Path) -> None:
        lakefs, handle = MemoryLakeFS(), WorkerHandle()
        self.builder = RepositoryBuilder(lakefs, "repo")
        ports = lakefs_installation(lakefs, handle)
        self.branches = ports.branches
        self.work = PartWork(ports, SequentialConcurrency())
        commit = self.builder.commit({**FILES, "database/other": b"not ours"})
        self.source = WorkspaceSource(self.builder.id, commit, "data")
        self.directory, self.landing = place / "attempt", place / "landing"
        self.directory.mkdir()
        self.landing.mkdir()

    def listed(self) -> list[ListedObject]:
        """The rows of every range."""
        return [row for part in RANGES for row in self.work.list_range(self.source, RULES, part)]

    def staging(self) -> StagingArea:
        """An open staging branch at the input."""
        branch = BranchName("staging")
        with asyncio.Runner() as runner:
            runner.run(self.branches.create(self.builder.id, branch, self.source.commit))
        return StagingArea(StagedReference(self.builder.id, branch, self.source.commit), "data")


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_ranges_list_every_object_once(scene: Scene) -> None:
    assert [f"data/{row.path}" for row in scene.listed()] == sorted(FILES)


def test_where_names_fold_every_folder_is_named_with_what_it_is_taken_for(scene: Scene) -> None:
    folding = NameRules(folds_case=True)
    rows = [row for part in RANGES for row in scene.work.list_range(scene.source, folding, part)]
    assert {folder for row in rows for folder in row.folders or {}} == {
        f"d{number}" for number in range(7)
    }


def test_an_unsafe_name_is_refused_by_the_part_that_lists_it(scene: Scene) -> None:
    commit = scene.builder.commit({"data/d9/a\\b": b"x"})
    source = WorkspaceSource(scene.builder.id, commit, "data")
    assert list(scene.work.list_range(source, RULES, RANGES[0]))
    with pytest.raises(UnsafeNameError, match="d9/a"):
        list(scene.work.list_range(source, RULES, RANGES[2]))


@pytest.mark.parametrize("file", ["d2", "d2/f030", "d5", "d6/f006"])
@pytest.mark.parametrize("between", ["", "!", "-x/y"])
def test_a_file_beside_a_folder_of_its_name_is_refused(
    scene: Scene, file: str, between: str
) -> None:
    files = {f"data/{file}": b"a", f"data/{file}/deep/b": b"b", f"data/{file}{between}": b"c"}
    commit = scene.builder.commit(files)
    source = WorkspaceSource(scene.builder.id, commit, "data")
    rows = (row for part in RANGES for row in scene.work.list_range(source, RULES, part))
    with pytest.raises(UnsafeNameError, match=f"'{file}' and '{file}/"):
        list(rows)


def test_a_part_done_twice_places_the_same_files(scene: Scene) -> None:
    rows = scene.listed()
    fetch = partial(scene.work.fetch, scene.source, scene.directory, scene.landing)
    _, placed = list(fetch(rows)), list(fetch(rows))
    assert [row.path for row in placed] == [row.path for row in rows]
    for row in placed:
        path = scene.directory / row.path
        assert path.read_bytes() == FILES[f"data/{row.path}"]
        assert (row.size, row.ctime_ns) == (path.stat().st_size, path.stat().st_ctime_ns)


def test_a_part_that_was_given_up_places_nothing_once_landing_is_closed(scene: Scene) -> None:
    placing = scene.work.fetch(scene.source, scene.directory, scene.landing, scene.listed())
    first = next(placing)
    shutil.rmtree(scene.landing)
    with pytest.raises(LocalDiskError):
        list(placing)
    files = [path for path in scene.directory.rglob("*") if path.is_file()]
    assert files == [scene.directory / first.path]


@pytest.mark.parametrize("wanted", [1, 3, 8, 100])
def test_folders_show_every_file_once(scene: Scene, wanted: int) -> None:
    paths = ["top", "a/1", "a/deep/2", "a/deep/er/3", "b/4", "c/5", "d/6"]
    for path in paths:
        (scene.directory / path).parent.mkdir(parents=True, exist_ok=True)
        (scene.directory / path).write_text(path)
    folders = folders_of(scene.directory, wanted)
    found = [file.path for folder in folders for file in files_of(scene.directory, folder)]
    assert sorted(found) == sorted(paths)


def test_suspects_are_read_and_reserved_ones_refused(scene: Scene) -> None:
    (scene.directory / "_lakefs_actions").mkdir()
    (scene.directory / "_lakefs_actions/mine").write_text("mine")
    (scene.directory / "a").write_bytes(b"abc")
    read = content_of(scene.directory, "/", "a")
    assert read == ("900150983cd24fb0d6963f7d28e17f72", 3)
    with pytest.raises(ReservedPathError):
        content_of(scene.directory, "/", "_lakefs_actions/mine")


def changes_of(scene: Scene) -> list[PlannedChange]:
    """Some of each kind, their files in the directory, in order of path."""
    (scene.directory / "d0").mkdir()
    changes: list[PlannedChange] = []
    for number in range(0, 40, 7):
        path = f"d0/f{number:03}"
        (scene.directory / path).write_bytes(b"abc")
        md5 = "900150983cd24fb0d6963f7d28e17f72"
        changes.append(PlannedChange(PlanKind.UPLOAD.value, path, md5, 3, None, "text/plain", {}))
    source = scene.listed()[-1]
    copied = (source.path, None, None, True)
    changes.append(PlannedChange("copy", "moved", source.checksum, source.size, *copied))
    changes.append(PlannedChange(PlanKind.DELETE.value, source.path))
    return sorted(changes, key=lambda change: change.path)


def test_writing_a_part_twice_leaves_what_was_planned(scene: Scene) -> None:
    changes, area = changes_of(scene), scene.staging()
    write = partial(scene.work.write, scene.directory, area)
    first, (batch,) = list(write(changes)), list(write(changes))
    assert first == [batch]
    assert (batch.objects, batch.bytes, batch.reused, batch.requests) == (6, 18, 1, 8)
    seen = [row for part in RANGES for row in scene.work.changes(area, part)]
    assert [row.path for row in seen] == [f"data/{change.path}" for change in changes]
    scene.work.check(area, [change for change in changes if change.kind != PlanKind.DELETE])


def test_a_written_object_that_differs_is_found(scene: Scene) -> None:
    changes, area = changes_of(scene), scene.staging()
    list(scene.work.write(scene.directory, area, changes))
    written = [change for change in changes if change.kind != PlanKind.DELETE]
    other = written[-2]._replace(size=4)
    with pytest.raises(DamagedObjectError, match=other.path):
        scene.work.check(area, [*written[:-2], other, written[-1]])
