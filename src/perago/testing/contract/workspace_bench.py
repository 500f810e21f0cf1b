"""The repository and the directory that the suite of workspace pipelines plays on."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from perago.domain.references import BranchName, CommitId, RepositoryId, StagedReference
from perago.domain.reserved_paths import ATTEMPT_MARKER
from perago.domain.sync_plan import SyncPlan
from perago.ports.objects import ObjectEntry
from perago.ports.workspace_pipeline import (
    Materialised,
    StagingArea,
    WorkspacePipeline,
    WorkspaceSource,
)
from perago.testing.contract.lakefs_world import MAIN, LakeFSWorld

Files = Mapping[str, bytes]
TREE: Files = {
    "data/a.csv": b"one,two\n",
    "data/deep/er/b.bin": bytes(range(256)),
    "data/empty": b"",
    "data/spaß mit + % ? # &.txt": "ümläut".encode(),
    "data2/sibling.csv": b"not ours",
    "datafile": b"not ours either",
    "top.txt": b"top",
}


@dataclass
class Bench:
    """One repository with one workspace, and the pipeline that moves it."""

    world: LakeFSWorld
    pipeline: WorkspacePipeline
    repository: RepositoryId
    directory: Path

    async def commit(self, files: Mapping[str, bytes | None]) -> CommitId:
        """Commit files on main."""
        return await self.world.commit_files(self.repository, MAIN, files)

    async def materialise(self, commit: CommitId, prefix: str = "data") -> Materialised:
        """Materialise into a fresh directory that holds its marker."""
        self.directory.mkdir()
        (self.directory / ATTEMPT_MARKER).write_text("{}")
        source = WorkspaceSource(self.repository, commit, prefix)
        return await self.pipeline.materialise(source, self.directory)

    async def open_staging(self, materialised: Materialised) -> StagingArea:
        """Open a staging branch at the input."""
        branch = BranchName(self.world.unique_name("staging"))
        source = materialised.source
        await self.world.branches.create(self.repository, branch, source.commit)
        return StagingArea(StagedReference(self.repository, branch, source.commit), source.prefix)

    async def stage(self, materialised: Materialised) -> tuple[SyncPlan, StagingArea]:
        """Plan and transfer."""
        plan = await self.pipeline.plan(materialised)
        area = await self.open_staging(materialised)
        await self.pipeline.transfer(materialised, plan, area)
        return plan, area

    async def tree(self, ref: str) -> dict[str, bytes]:
        """Every object with its bytes."""
        return {
            path: await self.world.objects.read(self.repository, ref, path)
            for path in await self.entries(ref)
        }

    async def entries(self, ref: str) -> dict[str, ObjectEntry]:
        """Every object as the listing shows it."""
        page = await self.world.objects.list_page(self.repository, ref, prefix="")
        return {entry.path: entry for entry in page.entries}

    def local(self) -> dict[str, bytes]:
        """Every file of the directory but the marker."""
        return {
            path.relative_to(self.directory).as_posix(): path.read_bytes()
            for path in self.directory.rglob("*")
            if path.is_file() and path.name != ATTEMPT_MARKER
        }

    def write(self, path: str, content: bytes) -> None:
        """Do what a body does."""
        target = self.directory / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)


def below(prefix: str, files: Files) -> dict[str, bytes]:
    outer = f"{prefix}/"
    return {
        path.removeprefix(outer): content
        for path, content in files.items()
        if path.startswith(outer)
    }
