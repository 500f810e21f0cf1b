"""Spark without a gateway: both sides of a workspace are local files, as in the in-memory world.

The input commit and a copy to write on are brought down; what Spark changed in the copy goes up
to the private branch. Everything after that is as if Spark had written there itself.
"""

import shutil
from dataclasses import dataclass, field
from pathlib import Path

from perago.app.attempt.world import World
from perago.domain.attempt import ExecutionId
from perago.domain.job_litter import is_job_litter
from perago.domain.prefix_projection import listing_prefix
from perago.domain.references import BranchName, StagedReference, WorkspaceReference
from perago.ports.workspace_pipeline import Materialised, StagingArea, WorkspaceSource


@dataclass(slots=True)
class SparkFiles:
    """The two directories of one attempt, below its own."""

    world: World
    workspace: WorkspaceReference
    prefix: str
    directory: Path
    execution_id: ExecutionId
    _output: Materialised | None = field(default=None)

    async def fetch(self, *, writes: bool) -> tuple[str, str | None]:
        """Bring down what is needed; the two roots as URIs."""
        await self._materialise("input")
        if not writes:
            return self._root("input"), None
        self._output = await self._materialise("output")
        return self._root("input"), self._root("output")

    async def store(self, branch: BranchName) -> None:
        """Bring what Spark changed onto the private branch, uncommitted."""
        assert self._output is not None, "fetched before"
        pipeline, output = self.world.lakefs.pipeline, self._output
        await self.world.concurrency.blocking(lambda: remove_litter(output.directory))
        # On both sides of the scan, as for a local workspace: a cleaner takes the marker too.
        await self.world.directories.check(self.directory, self.execution_id)
        plan = await pipeline.plan(output)
        await self.world.directories.check(self.directory, self.execution_id)
        place = self.workspace
        area = StagingArea(StagedReference(place.repository, branch, place.ref), self.prefix)
        await pipeline.transfer(output, plan, area)

    async def _materialise(self, name: str) -> Materialised:
        directory = self.directory / name / listing_prefix(self.prefix)
        await self.world.concurrency.blocking(lambda: directory.mkdir(parents=True))
        source = WorkspaceSource(self.workspace.repository, self.workspace.ref, self.prefix)
        return await self.world.lakefs.pipeline.materialise(source, directory)

    def _root(self, name: str) -> str:
        """Hadoop takes paths as they are: nothing is escaped as in other URIs."""
        return f"file://{(self.directory / name).as_posix()}/"


def remove_litter(root: Path) -> None:
    """Hadoop writes hidden checksums beside local files; task directories may be left."""
    for path in sorted(root.rglob("*"), reverse=True):
        relative = path.relative_to(root).as_posix()
        if is_job_litter(relative):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
