"""One task in a repository of its own on real lakeFS and real Conductor, attempt by attempt.

Faults strike a process at its calls; what is checked afterwards is the test's choice.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from pydantic import BaseModel
from tests.attempt_workers import AttemptWorker, attempt_worker
from tests.contract.real_lakefs import RealLakeFS

from perago.adapters.system import AsyncioConcurrency, SystemClock, SystemIdentities
from perago.app.attempt.context import AttemptSettings
from perago.app.attempt.run_attempt import AttemptReport
from perago.app.authoring.task_declaration import task, task_of
from perago.app.authoring.task_definition import TaskDefinition
from perago.app.authoring.workspace_spec import WorkspaceSpec
from perago.domain.attempt import AttemptStatus
from perago.domain.fence import FENCE_FILE
from perago.domain.lakefs import CommitId, RepositoryId
from perago.domain.paths import FENCE_PATH
from perago.domain.policy import PolicySetting
from perago.ports.conductor import PollRequest, TerminalUpdate
from perago.ports.installations import ConductorInstallation, LakeFSInstallation
from perago.testing.contract.conductor_under_test import simple, workflow_of
from perago.testing.contract.lakefs_under_test import MAIN
from perago.testing.fault_injector import FaultInjector, ProcessDied, faulty_installation
from perago.testing.faults import Fault
from perago.testing.servers import Surroundings

FILES: Mapping[str, bytes | None] = {
    FENCE_PATH: FENCE_FILE,
    "data/old.txt": b"old",
    "data/kept.txt": b"kept",
    "elsewhere/x": b"x",
}
GIVEN = object()
"""The input that the scene itself made."""

OWNER = "data@example.com"


class Params(BaseModel):
    """No parameters."""


class Result(BaseModel):
    """The number of the run."""

    run: int


def edit_workspace(workspace: Path, run: int) -> None:
    """Write one file with the number of the run, remove another."""
    (workspace / "out.txt").write_text(f"run {run}")
    (workspace / "old.txt").unlink()


@dataclass
class AttemptScene:
    """One workflow of one task; `body` is what its function does."""

    lakefs: RealLakeFS
    conductor: ConductorInstallation
    root: Path
    policy: PolicySetting
    spec: WorkspaceSpec = field(default_factory=lambda: WorkspaceSpec(prefix="data"))
    body: Callable[[Path, int], None] = edit_workspace
    runs: int = 0

    def __post_init__(self) -> None:
        name = self.lakefs.unique_name("edit")

        @task(name=name, owner_email=OWNER, workspace=self.spec)
        def edit(workspace: Path, params: Params) -> Result:
            del params
            self.runs += 1
            self.body(workspace, self.runs)
            return Result(run=self.runs)

        self.task: TaskDefinition = task_of(edit)
        self.workflow = ""

    async def create(self, files: Mapping[str, bytes | None] = FILES) -> None:
        """The repository and the input commit."""
        self.repository: RepositoryId = await self.lakefs.create_repository()
        self.input: CommitId = await self.lakefs.commit_files(self.repository, MAIN, files)

    async def start(self, workspace: object = GIVEN) -> None:
        """Register and start; the first attempt waits."""
        name = self.task.name
        definition: dict[str, object] = {"name": name, "ownerEmail": OWNER, "retryCount": 10}
        definition |= {"retryDelaySeconds": 0, "timeoutSeconds": 0, "responseTimeoutSeconds": 600}
        await self.conductor.definitions.put(definition)
        row = simple(name, name, {"workspace": "${workflow.input.workspace}", "params": {}})
        await self.conductor.workflows.put_definition(workflow_of(name, row))
        place = self.workspace() if workspace is GIVEN else workspace
        self.workflow = await self.conductor.workflows.start(name, {"workspace": place})

    def workspace(self, **changes: object) -> dict[str, object]:
        """The task's workspace input, with changes."""
        place = {"repository": self.repository, "branch": MAIN, "refType": "commit"}
        return {**place, "ref": self.input, **changes}

    async def attempt(self, *faults: Fault) -> AttemptReport | None:
        """One attempt in a process of its own; a death is reported as whoever watches would."""
        worker = self._worker(FaultInjector(list(faults)))
        request = PollRequest(self.task.name, worker.settings.worker_id)
        (record,) = await self.conductor.queue.poll(request)
        try:
            return await worker.run(record)
        except ProcessDied:
            attempt, reason = record.snapshot, "the process died"
            worker_id = worker.settings.worker_id
            failed = TerminalUpdate(attempt, worker_id, AttemptStatus.FAILED, reason=reason)
            await self.conductor.queue.complete(failed, timeout_seconds=30)
            return None

    async def completed(self) -> CommitId:
        """One attempt that must complete; the commit it put out."""
        report = await self.attempt()
        assert report is not None
        assert report.update is not None
        assert report.update.status is AttemptStatus.COMPLETED, report.update.reason
        place = report.update.output["workspace"]
        assert isinstance(place, Mapping)
        return CommitId(str(cast("Mapping[str, object]", place)["ref"]))

    async def failed(self, status: AttemptStatus = AttemptStatus.FAILED) -> str:
        """One attempt that must fail, in this way; its reason."""
        report = await self.attempt()
        assert report is not None
        assert report.update is not None
        assert report.update.status is status
        return str(report.update.reason)

    async def files(self) -> dict[str, bytes]:
        """What the target branch holds."""
        page = await self.lakefs.objects.list_page(self.repository, MAIN, prefix="")
        read = self.lakefs.objects.read
        return {entry.path: await read(self.repository, MAIN, entry.path) for entry in page.items}

    async def head(self) -> CommitId:
        """The target's head."""
        return (await self.lakefs.branches.head(self.repository, MAIN)).commit

    async def branches(self) -> set[str]:
        """All branches."""
        page = await self.lakefs.branches.list_page(self.repository, "", show_hidden=True)
        return {branch.name for branch in page.items}

    def ports(self) -> LakeFSInstallation:
        """The ports of lakeFS as a worker has them."""
        return self.lakefs.installation()

    def _worker(self, injector: FaultInjector) -> AttemptWorker:
        around = Surroundings(SystemClock(), self.root, SystemIdentities(), AsyncioConcurrency())
        settings = AttemptSettings(self.lakefs.unique_name("worker"), publication=self.policy)
        lakefs = faulty_installation(self.ports(), injector)
        conductor = faulty_installation(self.conductor, injector)
        return attempt_worker(lakefs, conductor, around, [self.task], settings)
