"""Laws of `DirectoryUploads`, on every way in which object bytes travel."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.contract.adapters import Factory, parameters
from tests.contract.pipelines import TRANSPORTS, TransportHarness

from perago.adapters.workspace.changes import SymlinkError
from perago.adapters.workspace.staging import Staging
from perago.domain.lakefs import BranchName, CommitId, RepositoryId, StagedReference
from perago.domain.sync_plan import FileFacts
from perago.ports.errors import BranchMissingError
from perago.ports.workspace import DirectoryUploads, StagingArea
from perago.testing.contract.lakefs_under_test import MAIN

FOLDER = "kept"
NOTHING: Mapping[str, FileFacts] = {}


@dataclass
class Bench:
    """One repository, a directory, and what brings it onto the main branch."""

    opened: TransportHarness
    repository: RepositoryId
    directory: Path

    def uploads(self) -> DirectoryUploads:
        """The adapter under test."""
        harness, moved = self.opened.harness, self.opened.transport
        return Staging(harness.objects, harness.commits, moved, self.opened.concurrency)

    def area(self, branch: BranchName = MAIN) -> StagingArea:
        """The folder of a branch."""
        return StagingArea(StagedReference(self.repository, branch, CommitId("-")), FOLDER)

    def write(self, **files: str) -> None:
        """Write local files; a name with two underscores is in a folder."""
        for name, text in files.items():
            path = self.directory / name.replace("__", "/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    async def tree(self) -> dict[str, bytes]:
        """Every object of the branch, as it shows now."""
        objects = self.opened.harness.objects
        page = await objects.list_page(self.repository, MAIN, prefix="")
        return {
            entry.path: await objects.read(self.repository, MAIN, entry.path)
            for entry in page.items
        }


@pytest.fixture(params=parameters(TRANSPORTS))
async def bench(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Bench]:
    factory: Factory[TransportHarness] = request.param
    async with factory(request) as opened:
        repository = await opened.harness.create_repository()
        (tmp_path / "local").mkdir()
        yield Bench(opened, repository, tmp_path / "local")


async def test_U1_bring_makes_the_tree(bench: Bench) -> None:
    await bench.opened.harness.write(bench.repository, MAIN, "beside.txt", b"not ours")
    bench.write(a="first", b="gone", deep__er__c="c", empty="")
    held, _ = await bench.uploads().bring(bench.directory, NOTHING, bench.area())
    bench.write(a="second", d="first")
    (bench.directory / "b").unlink()
    await bench.uploads().bring(bench.directory, held, bench.area())
    assert await bench.tree() == {
        "beside.txt": b"not ours",
        "kept/a": b"second",
        "kept/d": b"first",
        "kept/deep/er/c": b"c",
        "kept/empty": b"",
    }


async def test_U2_only_changes_travel(bench: Bench) -> None:
    bench.write(a="a" * 100, b="b" * 100)
    held, first = await bench.uploads().bring(bench.directory, NOTHING, bench.area())
    bench.write(a="a" * 100, b="c" * 50)
    _, second = await bench.uploads().bring(bench.directory, held, bench.area())
    assert (first.objects, first.bytes, first.reused) == (2, 200, 0)
    assert (second.objects, second.bytes, second.reused) == (1, 50, 1)


async def test_U3_held_is_what_the_branch_shows(bench: Bench) -> None:
    bench.write(a="a", deep__er__b="b")
    held, _ = await bench.uploads().bring(bench.directory, NOTHING, bench.area())
    assert await bench.uploads().held(bench.area()) == held
    assert sorted(held) == ["a", "deep/er/b"]
    assert {facts.size for facts in held.values()} == {1}


async def test_U4_symlinks_are_refused(bench: Bench) -> None:
    bench.write(a="a")
    (bench.directory / "link").symlink_to("a")
    with pytest.raises(SymlinkError, match="does not support symlinks: link"):
        await bench.uploads().bring(bench.directory, NOTHING, bench.area())
    assert await bench.tree() == {}


async def test_U5_a_missing_branch(bench: Bench) -> None:
    bench.write(a="a")
    with pytest.raises(BranchMissingError):
        await bench.uploads().bring(bench.directory, NOTHING, bench.area(BranchName("absent")))
