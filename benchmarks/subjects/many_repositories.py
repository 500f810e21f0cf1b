"""Perago: one attempt in each of many repositories of one server, one after the other.

Whole attempts under `settled`: download, a body that changes one file, stage, publish. Conductor is
in memory, because only what lakeFS is asked for is measured.
"""

import asyncio
import gc
import json
import os
import time
from dataclasses import replace
from pathlib import Path

from pydantic import BaseModel
from tests.attempt_workers import AttemptWorker, attempt_worker

from benchmarks.subjects.assignment import (
    Assignment,
    answered_requests,
    processor_seconds,
    tell,
)
from benchmarks.subjects.ours import opened
from perago.adapters.memory.conductor_server import MemoryConductor
from perago.adapters.memory.installations import conductor_installation
from perago.adapters.memory.system import VirtualClock, WorkerHandle
from perago.adapters.system import AsyncioConcurrency, SystemClock, SystemIdentities
from perago.adapters.workspace.pipeline import LocalCache, LocalWorkspacePipeline
from perago.app.attempt.context import AttemptSettings
from perago.app.authoring.task_declaration import task, task_of
from perago.app.authoring.workspace_spec import WorkspaceSpec
from perago.domain.lakefs import RepositoryId
from perago.domain.policy import PolicySetting
from perago.ports.installations import ConductorInstallation
from perago.testing.contract.conductor_under_test import simple, workflow_of
from perago.testing.servers import Surroundings

TASK = "song"


class Params(BaseModel):
    """No parameters."""


class Result(BaseModel):
    """How many files there were."""

    files: int


@task(name=TASK, owner_email="data@example.com", workspace=WorkspaceSpec(prefix="ws"))
def song(workspace: Path, params: Params) -> Result:
    """Change one file."""
    del params
    files = sorted(workspace.rglob("*.bin"))
    files[0].write_bytes(os.urandom(files[0].stat().st_size))
    return Result(files=len(files))


async def main() -> None:
    """Run the attempts; tell the first, the last, and all."""
    told = Assignment()
    inputs: dict[str, str] = json.loads(os.environ["BENCH_INPUTS"])
    conductor = conductor_installation(MemoryConductor(VirtualClock()), WorkerHandle())
    concurrency = AsyncioConcurrency()
    lakefs = opened(told)
    transport = lakefs.transport(concurrency)
    around = Surroundings(SystemClock(), told.directory, SystemIdentities(), concurrency)
    settings = AttemptSettings("bench", publication=PolicySetting.SETTLED)
    worker = attempt_worker(lakefs, conductor, around, [task_of(song)], settings)
    cache = LocalCache(told.directory / "cache", told.endpoint, keeps_aside=True)
    pipeline = LocalWorkspacePipeline(lakefs.objects, lakefs.commits, concurrency, transport, cache)
    # Tests move bytes by the port's own calls; a worker moves them as its pipeline does.
    harness = replace(worker.harness, lakefs=replace(worker.harness.lakefs, pipeline=pipeline))
    worker = replace(worker, harness=harness)
    await _queue(conductor, told, inputs)
    # Import and connect: a worker does it once and not for each attempt.
    await lakefs.commits.read(RepositoryId(told.repository), told.commit)
    gc.freeze()
    await _measure(worker, len(inputs))
    concurrency.close()
    await lakefs.close()


async def _queue(
    conductor: ConductorInstallation, told: Assignment, inputs: dict[str, str]
) -> None:
    row = simple(TASK, TASK, {"workspace": "${workflow.input.workspace}", "params": {}})
    await conductor.workflows.put_definition(workflow_of("songs", row))
    for repository, commit in inputs.items():
        place = {"repository": repository, "branch": told.branch, "refType": "commit"}
        await conductor.workflows.start("songs", {"workspace": place | {"ref": commit}})


async def _measure(worker: AttemptWorker, count: int) -> None:
    begun = before = answered_requests()
    used = processor_seconds()
    total = 0.0
    for number in range(count):
        cpu, started = processor_seconds(), time.perf_counter()
        report = await worker.work(TASK)
        seconds = time.perf_counter() - started
        if report.error is not None:
            raise report.error
        total += seconds
        if number in {0, count - 1}:
            now = answered_requests()
            step = "attempts: the first" if number == 0 else "attempts: the last"
            tell(step, seconds, requests=now - before, cpu=processor_seconds() - cpu)
        if number == count - 2:
            before = answered_requests()
    requests = answered_requests() - begun
    tell("attempts", total, requests=requests, cpu=processor_seconds() - used)


if __name__ == "__main__":
    asyncio.run(main())
