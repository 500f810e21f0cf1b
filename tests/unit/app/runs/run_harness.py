"""A workflow of begin, two tasks and finish on in-memory servers, worked by attempts that may fail.

Holds what every outcome must keep; which fault happens when is the test's choice.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.attempt_workers import AttemptWorker
from tests.unit.app.attempt.attempt_harness import AttemptHarness, reason_of
from tests.unit.app.attempt.attempt_scene import TASK

from perago.app.attempt.run_attempt import AttemptReport
from perago.app.runs.begin import BEGIN_TASK, RunReference
from perago.app.runs.finish import BUILT_IN, FINISH_TASK
from perago.domain.attempt import AttemptStatus, WorkflowStatus
from perago.domain.commit_metadata import RUN, RUN_TASKS
from perago.domain.lakefs import CommitId, CommitRecord
from perago.domain.policy import PolicySetting
from perago.domain.run import History, OnMoved
from perago.ports.conductor import TerminalUpdate, WorkflowRecord
from perago.ports.errors import OutcomeUnknownError, UnavailableError
from perago.testing.fault_injector import ProcessDied
from perago.testing.faults import Fault

BEGIN, FINISH = BEGIN_TASK.name, FINISH_TASK.name
STEPS = ("one", "two")
TARGET = {"repository": "repo", "branch": "main", "ref_type": "commit"}


def write_step(workspace: Path, run: int) -> None:
    """What each task of the run does: one object more, and one changed."""
    del run
    number = len(list(workspace.glob("step-*"))) + 1
    (workspace / f"step-{number}").write_text("made")
    (workspace / "kept.txt").write_text(f"kept in step {number}")


@dataclass
class RunHarness(AttemptHarness):
    """The servers, and a workflow that is a transaction."""

    on_moved: OnMoved = OnMoved.REFUSE
    history: History = History.MERGE
    ref: str | None = None
    policy: PolicySetting = PolicySetting.SETTLED

    def __post_init__(self) -> None:
        self.others = BUILT_IN
        self.body = self.body or write_step
        super().__post_init__()

    async def start(self, workspace: object = None) -> None:
        """Register and start; the attempt of begin waits."""
        del workspace
        for name in (BEGIN, TASK, FINISH):
            definition: dict[str, object] = {"name": name, "ownerEmail": "data@example.com"}
            definition |= {"retryCount": 10, "retryDelaySeconds": 0, "timeoutSeconds": 0}
            definition |= {"responseTimeoutSeconds": self.response_seconds}
            await self.operator.definitions.put(definition)
        target: dict[str, object] = {"repository": "repo", "branch": "${workflow.input.branch}"}
        rows = [
            _row(BEGIN, "begin", params=target if self.ref is None else {**target, "ref": self.ref})
        ]
        workspace = "${begin.output.result.workspace}"
        for step in STEPS:
            rows.append(_row(TASK, step, params=self.params, workspace=workspace))
            workspace = f"${{{step}.output.workspace}}"
        given = {"run": "${begin.output.result.run}", "workspace": workspace}
        given |= {"on_moved": self.on_moved, "history": self.history}
        rows.append(_row(FINISH, "finish", params=given))
        await self.operator.workflows.put_definition(
            {"name": "flow", "version": 1, "schemaVersion": 2, "tasks": rows}
        )
        await self.start_run()

    async def start_run(self, branch: str = "main") -> None:
        """Start the workflow, once more or for another target; the attempt of begin waits."""
        self.workflow = await self.operator.workflows.start("flow", {"branch": branch})

    async def attempt(self, worker: AttemptWorker) -> AttemptReport | None:
        """Poll and run what waits now; None when the process died or nothing waited."""
        waiting = await self.waits()
        if waiting is None:
            return None
        try:
            record = await worker.poll(waiting)
            return None if record is None else await self.drive(worker.run(record))
        except (ProcessDied, UnavailableError, OutcomeUnknownError):
            return None

    async def waits(self) -> str | None:
        """The task type whose row waits to be polled."""
        rows = (await self.read()).attempts
        waiting = (row for row in rows if row.snapshot.status is AttemptStatus.SCHEDULED)
        return next((row.snapshot.task_type for row in waiting), None)

    async def until(self, task_type: str | None) -> None:
        """Let healthy workers work until a row of this type waits, or nothing any more."""
        while (waiting := await self.waits()) is not None and waiting != task_type:
            report = await self.attempt(self.worker())
            assert report is not None
            assert report.error is None, report.error

    async def reports_of(self, task_type: str, faults: Iterable[Fault] = ()) -> AttemptReport:
        """Work up to this task type and run one attempt of it."""
        await self.until(task_type)
        return await self.report(*faults)

    async def begun(self) -> RunReference:
        """The run, as begin put it out."""
        rows = [row for row in (await self.read()).attempts if row.snapshot.task_type == BEGIN]
        result = rows[-1].output_data["result"]
        assert isinstance(result, dict)
        return RunReference.model_validate(result["run"])

    async def finish_again(self, **changes: object) -> AttemptReport:
        """Finish the run in a workflow of its own, with these params instead of the workflow's."""
        rows = [row for row in (await self.read()).attempts if row.snapshot.task_type == TASK]
        run = (await self.begun()).model_dump()
        given = {"run": run, "workspace": rows[-1].output_data["workspace"]}
        given |= {"on_moved": self.on_moved, "history": self.history, **changes}
        await self.operator.workflows.terminate(self.workflow, "its finish is another one's")
        row = _row(FINISH, "finish", params="${workflow.input.params}")
        await self.operator.workflows.put_definition(
            {"name": "finishing", "version": 1, "schemaVersion": 2, "tasks": [row]}
        )
        self.workflow = await self.operator.workflows.start("finishing", {"params": given})
        return await self.report()

    @property
    def run_head(self) -> CommitId:
        """The newest commit of the tasks on the newest run branch."""
        (branch,) = (
            name for name in self.repository.branch_names() if name.startswith("perago-run-")
        )
        return self.repository.head(branch).commit

    def commits_behind(self, commit: CommitId) -> list[CommitRecord]:
        """A commit and its first parents, also where no branch shows it."""
        self.repository.branch("look", commit)
        return self.repository.history("look")

    def runs_on_target(self) -> list[CommitRecord]:
        """Commits on the target that publish a run, newest first."""
        return [record for record in self.repository.history() if RUN in record.metadata]

    async def assert_untouched(self) -> None:
        """The target shows nothing of a run."""
        assert self.runs_on_target() == []
        assert not any(path.startswith("data/step-") for path in self.repository.files())

    async def assert_published(self, *, branch_gone: bool = True) -> WorkflowRecord:
        """The workflow completed, and the target has the run once, whole, as finish put it out."""
        workflow = await self.read()
        assert workflow.status is WorkflowStatus.COMPLETED, workflow.reason
        run = await self.begun()
        (record,) = self.runs_on_target()
        result = workflow.attempts[-1].output_data["result"]
        assert isinstance(result, dict)
        assert result["workspace"] == {
            "repository": "repo",
            "branch": "main",
            "ref_type": "commit",
            "ref": record.commit,
        }
        assert record.metadata[RUN] == run.key
        assert record.metadata[RUN_TASKS] == str(len(STEPS))
        assert len(record.parents) == (1 if self.history is History.SQUASH else 2)
        files = self.repository.files(record.commit)
        assert files["data/kept.txt"] == b"kept in step 2"
        assert {path for path in files if path.startswith("data/step-")} == {
            "data/step-1",
            "data/step-2",
        }
        mine = {"data/kept.txt", "data/step-1", "data/step-2"}
        before = self.repository.files(CommitId(record.parents[0]))
        assert {path: files[path] for path in files.keys() - mine} == {
            path: before[path] for path in before.keys() - mine
        }
        if branch_gone:
            left = {
                name for name in self.repository.branch_names() if name.startswith("perago-run-")
            }
            assert left == set()
        return workflow


def _row(task_type: str, reference: str, **given: object) -> dict[str, object]:
    row: dict[str, object] = {"name": task_type, "taskReferenceName": reference, "type": "SIMPLE"}
    return {**row, "inputParameters": given}


async def waiting(
    root: Path,
    on_moved: OnMoved = OnMoved.REFUSE,
    history: History = History.MERGE,
) -> RunHarness:
    """A harness in which finish waits."""
    harness = await RunHarness(root, on_moved=on_moved, history=history).started()
    await harness.until(FINISH)
    return harness


def refused(report: AttemptReport, code: str) -> str:
    """The reason of a refusal that no retry follows."""
    assert isinstance(report.update, TerminalUpdate)
    assert report.update.status is AttemptStatus.FAILED_WITH_TERMINAL_ERROR
    assert code in reason_of(report)
    return reason_of(report)
