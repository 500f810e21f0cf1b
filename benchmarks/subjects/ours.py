"""Perago: materialise cold, stage a change of one percent, materialise the next commit warm."""

import asyncio
import gc
import os
import sys
import time
from pathlib import Path

from benchmarks.subjects.assignment import (
    Assignment,
    answered_requests,
    processor_seconds,
    tell,
)
from perago.adapters.http import HttpTerms
from perago.adapters.lakefs.configuration import LakeFSConfiguration, RouteChoice
from perago.adapters.lakefs.installation import open_lakefs
from perago.adapters.system import AsyncioConcurrency
from perago.adapters.workspace.pipeline import LocalCache, LocalWorkspacePipeline
from perago.domain.lakefs import BranchName, CommitId, RepositoryId, StagedReference
from perago.ports.installations import LakeFSInstallation
from perago.ports.lakefs import CommitRequest
from perago.ports.workspace import Materialised, StagingArea, WorkspaceSource

CHANGED_EACH = 100


def opened(told: Assignment) -> LakeFSInstallation:
    """The lakeFS of an assignment, as a worker has it."""
    authority = os.environ.get("SSL_CERT_FILE")
    ca_file = None if authority is None else Path(authority)
    return open_lakefs(
        LakeFSConfiguration(
            endpoint_url=told.endpoint,
            access_key_id=told.access_key_id,
            secret_access_key=told.secret_access_key,
            http=HttpTerms(ca_file=ca_file),
            route=RouteChoice(told.route),
        )
    )


class Measured:
    """One host with its pipeline."""

    def __init__(self, told: Assignment) -> None:
        self._told = told
        self._concurrency = AsyncioConcurrency()
        self._lakefs = opened(told)
        self._cache = LocalCache(told.directory / "cache", told.endpoint, keeps_aside=True)
        self._pipeline = LocalWorkspacePipeline(
            self._lakefs.objects,
            self._lakefs.commits,
            self._concurrency,
            self._lakefs.transport(self._concurrency),
            None if "BENCH_NO_CACHE" in os.environ else self._cache,
        )

    async def warm_up(self) -> None:
        """Import and connect: a worker does it once and not for each attempt."""
        await self._lakefs.commits.read(RepositoryId(self._told.repository), self._told.commit)
        gc.freeze()

    async def materialise(self, step: str, commit: str) -> Materialised:
        """Measure one materialisation into a fresh directory."""
        directory = self._told.directory / step
        directory.mkdir()
        source = WorkspaceSource(RepositoryId(self._told.repository), CommitId(commit), "ws")
        before, used = answered_requests(), processor_seconds()
        started = time.perf_counter()
        materialised = await self._pipeline.materialise(source, directory)
        seconds = time.perf_counter() - started
        cpu = processor_seconds() - used
        tell(step, seconds, requests=answered_requests() - before, cpu=cpu)
        # Contents are kept while a body runs; there is none here.
        if self._cache.thread is not None:
            self._cache.thread.submit(int).result()
        return materialised

    async def stage(self, materialised: Materialised) -> None:
        """Measure what follows a body that changed one file in a hundred, up to the commit."""
        files = sorted(path for path in materialised.directory.rglob("*") if path.is_file())
        for path in files[::CHANGED_EACH]:
            path.write_bytes(os.urandom(path.stat().st_size))
        source = materialised.source
        branch = BranchName(self._told.branch)
        before, used = answered_requests(), processor_seconds()
        started = time.perf_counter()
        plan = await self._pipeline.plan(materialised)
        await self._lakefs.branches.create(source.repository, branch, source.commit)
        area = StagingArea(StagedReference(source.repository, branch, source.commit), "ws")
        await self._pipeline.transfer(materialised, plan, area)
        await self._pipeline.verify(materialised, plan, area)
        await self._lakefs.commits.commit(CommitRequest(source.repository, branch, "try", {}))
        seconds = time.perf_counter() - started
        cpu = processor_seconds() - used
        tell("stage", seconds, requests=answered_requests() - before, cpu=cpu)

    async def close(self) -> None:
        """Let threads and connections go."""
        self._concurrency.close()
        await self._lakefs.close()


async def main() -> None:
    """Do the steps that were asked for, in their order."""
    told = Assignment()
    measured = Measured(told)
    await measured.warm_up()
    materialised = await measured.materialise("cold", told.commit)
    if "stage" in sys.argv:
        await measured.stage(materialised)
    if "warm" in sys.argv:
        await measured.materialise("warm", told.next_commit)
    await measured.close()


if __name__ == "__main__":
    asyncio.run(main())
