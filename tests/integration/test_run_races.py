"""Runs that race on one target, on a real lakeFS: disjoint ones all publish, others are refused."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from pydantic import BaseModel
from tests.attempt_workers import AttemptWorker, attempt_worker
from tests.contract.real_lakefs import RealLakeFS

from perago.adapters.memory.conductor_server import MemoryConductor
from perago.adapters.memory.installations import conductor_installation
from perago.adapters.memory.system import VirtualClock, WorkerHandle
from perago.adapters.system import AsyncioConcurrency, SystemClock, SystemIdentities
from perago.app.attempt.context import AttemptSettings
from perago.app.authoring.task_declaration import task, task_of
from perago.app.authoring.workspace_spec import WorkspaceSpec
from perago.app.runs.finish import BUILT_IN, FinishResult
from perago.domain.attempt import AttemptStatus, WorkflowStatus
from perago.domain.commit_metadata import RUN, RUN_TASKS
from perago.domain.fence import FENCE_FILE
from perago.domain.lakefs import CommitId, RepositoryId
from perago.domain.paths import FENCE_PATH
from perago.ports.installations import ConductorInstallation
from perago.testing.contract.conductor_under_test import simple, workflow_of
from perago.testing.contract.lakefs_under_test import MAIN
from perago.testing.servers import Surroundings

pytestmark = [pytest.mark.lakefs, pytest.mark.timeout(1800)]

TASKS = 4
# Three runs have folders of their own, and three want the same one.
FOLDERS = ("a", "b", "c", "shared", "shared", "shared")
STEP = "step"


class Params(BaseModel):
    """Whose folder, and which of its tasks this is."""

    folder: str
    number: int
    run: int


class Result(BaseModel):
    """Nothing to say."""


@task(
    name=STEP,
    owner_email="data@example.com",
    workspace=WorkspaceSpec(prefix="runs/{params.folder}"),
)
def step(workspace: Path, params: Params) -> Result:
    """Write a file of its own, and one that each task of the run changes."""
    (workspace / f"step-{params.number}").write_text(f"run {params.run}")
    (workspace / "last").write_text(f"{params.run} {params.number}")
    return Result()


@dataclass
class RunRace:
    """One lakeFS, one in-memory Conductor, and a worker that serves all runs at once."""

    lakefs: RealLakeFS
    root: Path
    repository: RepositoryId
    operator: ConductorInstallation = field(init=False)
    worker: AttemptWorker = field(init=False)

    def __post_init__(self) -> None:
        conductor = MemoryConductor(VirtualClock())
        self.operator = conductor_installation(conductor, WorkerHandle())
        around = Surroundings(SystemClock(), self.root, SystemIdentities(), AsyncioConcurrency())
        tasks = [task_of(step), *BUILT_IN]
        settings = AttemptSettings("racer")
        self.worker = attempt_worker(
            self.lakefs.installation(), self.operator, around, tasks, settings
        )

    async def start(self, number: int) -> list[str]:
        """Start a run for each folder; the workflows. No two rounds write the same bytes."""
        target = {"repository": self.repository, "branch": MAIN}
        rows = [simple("perago.begin", "begin", {"params": target})]
        workspace = "${begin.output.result.workspace}"
        for each in range(TASKS):
            given = {"folder": "${workflow.input.folder}", "run": "${workflow.input.run}"}
            reference = f"step_{each}"
            params = {**given, "number": each}
            rows.append(simple(STEP, reference, {"params": params, "workspace": workspace}))
            workspace = f"${{{reference}.output.workspace}}"
        given = {"run": "${begin.output.result.run}", "workspace": workspace}
        rows.append(simple("perago.finish", "finish", {"params": {**given, "on_moved": "rebase"}}))
        await self.operator.workflows.put_definition(workflow_of("race", *rows))
        return [
            await self.operator.workflows.start("race", {"folder": folder, "run": number + each})
            for each, folder in enumerate(FOLDERS)
        ]

    async def work(self, task_type: str, times: int = 1) -> None:
        """Each run works on its next task, all at once."""
        for _ in range(times):
            await asyncio.gather(*(self.worker.work(task_type) for _ in FOLDERS))

    async def published(self, workflows: Sequence[str]) -> dict[int, CommitId]:
        """The commits of the runs that were published, by their numbers; others were refused."""
        found: dict[int, CommitId] = {}
        for number, workflow in enumerate(workflows):
            record = await self.operator.workflows.read(workflow)
            assert record is not None
            row = record.attempts[-1]
            if record.status is WorkflowStatus.COMPLETED:
                result = FinishResult.model_validate(row.output_data["result"])
                found[number] = CommitId(result.workspace.ref)
            else:
                assert row.snapshot.status is AttemptStatus.FAILED_WITH_TERMINAL_ERROR
                assert "PRG-N005" in str(row.reason)
        return found


@pytest.mark.parametrize(
    "rounds", [pytest.param(3, id="short"), pytest.param(30, id="full", marks=pytest.mark.soak)]
)
async def test_disjoint_runs_all_publish_and_of_those_that_meet_one_does(
    lakefs: RealLakeFS, tmp_path: Path, rounds: int
) -> None:
    repository = await lakefs.create_repository()
    files = {FENCE_PATH: FENCE_FILE, "other/kept": b"kept"}
    base = await lakefs.commit_files(repository, MAIN, files)
    race = RunRace(lakefs, tmp_path, repository)
    shown: dict[str, bytes] = dict(files)
    for first in range(0, rounds * len(FOLDERS), len(FOLDERS)):
        workflows = await race.start(first)
        await race.work("perago.begin")
        await race.work(STEP, TASKS)
        await race.work("perago.finish")
        published = await race.published(workflows)
        assert {0, 1, 2} <= published.keys()
        assert len(published) == 4, "one of those that want the same folder"
        walk = await lakefs.commits.first_parents(repository, MAIN, base, commits_max=100)
        assert {each.commit for each in walk.above} == set(published.values())
        assert all({RUN, RUN_TASKS} <= each.metadata.keys() for each in walk.above)
        for number in published:
            folder = f"runs/{FOLDERS[number]}"
            run = first + number
            steps = {f"{folder}/step-{n}": f"run {run}".encode() for n in range(TASKS)}
            shown |= {**steps, f"{folder}/last": f"{run} {TASKS - 1}".encode()}
        base = walk.head.commit
        page = await lakefs.objects.list_page(repository, base, prefix="")
        assert {each.path for each in page.items} == shown.keys()
        for path, content in shown.items():
            assert await lakefs.objects.read(repository, base, path) == content
