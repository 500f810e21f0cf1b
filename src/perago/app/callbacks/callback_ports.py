"""The ports of one attempt, answered by callbacks: the spine runs on them unchanged.

Each answers what a plain `head-parent` attempt asks and nothing else; the target is said to be
at the input commit, because where it really is, is the callbacks' business.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NoReturn, final

from perago.app.authoring.failure import error_is_terminal, failure_reason
from perago.app.authoring.invocation import invoke_body
from perago.app.authoring.metric_recorder import MetricRecorder
from perago.app.authoring.task_definition import TaskDefinition
from perago.app.callbacks.callback_attempt import CallbackAttempt
from perago.app.callbacks.directory_snapshot import snapshot
from perago.domain.attempt import AttemptRecord
from perago.domain.outcome import MergeAnswer, Merged
from perago.domain.references import (
    BranchName,
    CommitId,
    CommitRecord,
    RepositoryId,
)
from perago.domain.sync_plan import FileFacts, SyncPlan, plan_sync
from perago.ports.branches import MergeRequest
from perago.ports.commits import CommitRequest
from perago.ports.errors import ObjectMissingError
from perago.ports.repositories import RepositoryFacts
from perago.ports.task_body import BodyCall, BodyOutcome, BodyRaised, BodyReturned, TaskBody
from perago.ports.task_queue import TerminalUpdate
from perago.ports.workspace_pipeline import (
    Materialised,
    StagingArea,
    TransferCounts,
    WorkspacePipeline,
    WorkspaceSource,
)


@final
class CallbackPipeline(WorkspacePipeline):
    """Downloads and stages by callback; finds changes by comparing every file."""

    def __init__(self, run: CallbackAttempt) -> None:
        self._run = run
        self._before: dict[str, FileFacts] = {}

    async def materialise(self, source: WorkspaceSource, directory: Path) -> Materialised:
        """Download, then remember what there is."""
        self._run.download(directory)
        if not self._run.spec.read_only:
            self._before = snapshot(directory)
        return Materialised(source, directory, TransferCounts())

    async def plan(self, materialised: Materialised) -> SyncPlan:
        """Compare with what was downloaded; what a read-only task wrote is not looked at."""
        if self._run.spec.read_only:
            return SyncPlan()
        plan = plan_sync(self._before, snapshot(materialised.directory))
        self._run.is_unchanged = plan.is_empty
        return plan

    async def transfer(
        self, materialised: Materialised, plan: SyncPlan, area: StagingArea
    ) -> TransferCounts:
        """Stage the whole directory."""
        del plan, area
        self._run.stage(materialised.directory)
        return TransferCounts()

    async def verify(self, materialised: Materialised, plan: SyncPlan, area: StagingArea) -> None:
        """The callback has staged; nothing can be compared."""

    async def listing(self, source: WorkspaceSource) -> Sequence[str]:
        """Nobody asks for it."""
        return _not_asked(source)

    async def forget(self, materialised: Materialised) -> None:
        """Drop what is remembered."""
        del materialised
        self._before = {}


class CallbackBranches:
    """The target stands at the input commit; staging branches are the callbacks'."""

    def __init__(self, run: CallbackAttempt) -> None:
        self._run = run

    async def head(self, repository: RepositoryId, branch: BranchName) -> CommitRecord:
        """Say that nothing has moved."""
        del repository, branch
        return CommitRecord(CommitId(self._run.workspace.ref), ())

    async def create(self, repository: RepositoryId, branch: BranchName, source: CommitId) -> None:
        """The stage callback makes its own branch."""

    async def delete(self, repository: RepositoryId, branch: BranchName) -> None:
        """Clean up what the stage callback returned."""
        del repository, branch
        self._run.clean_up()

    async def merge(self, request: MergeRequest) -> MergeAnswer:
        """Publish by callback."""
        del request
        return Merged(CommitId(self._run.publish()))


class CallbackCommits:
    """The commits there are: the input, and what the stage callback returned."""

    def __init__(self, run: CallbackAttempt) -> None:
        self._run = run

    async def read(self, repository: RepositoryId, ref: str) -> CommitRecord:
        """Take a reference for the commit it names."""
        del repository
        return CommitRecord(CommitId(ref), ())

    async def commit(self, request: CommitRequest) -> CommitId:
        """Name the staged commit."""
        assert self._run.staged is not None, f"{request.branch} was staged before"
        return CommitId(self._run.staged.commit)


class CallbackQueue:
    """The attempt as the caller sees it; the end is kept instead of sent."""

    def __init__(self, run: CallbackAttempt, record: AttemptRecord) -> None:
        self._run = run
        self._record = record
        self._ended: AttemptRecord | None = None

    async def read_attempt(self, workflow_id: str, task_id: str) -> AttemptRecord:
        """Ask the caller; it raises when the attempt no longer counts."""
        del workflow_id, task_id
        if self._ended is not None:
            return self._ended
        self._run.check_current()
        return self._record

    async def complete(self, update: TerminalUpdate, *, timeout_seconds: float) -> None:
        """Keep the end of the attempt."""
        del timeout_seconds
        ended = replace(update.attempt, status=update.status, worker_id=update.worker_id)
        self._ended = AttemptRecord(ended)


class CallbackPlaces:
    """Every repository is there and writable: the download callback knows better."""

    async def read(self, repository: RepositoryId) -> RepositoryFacts:
        """Accept a repository."""
        return RepositoryFacts(repository, BranchName(""), "", read_only=False)


class CallbackObjects:
    """No object is known, so there is no fence."""

    async def read(self, repository: RepositoryId, ref: str, path: str) -> NoReturn:
        """Say that there is no such object."""
        raise ObjectMissingError(f"{path} of {repository}@{ref} is not looked for")


@final
class DirectBody(TaskBody):
    """Runs the body in the thread of the caller, as 0.6.1 did."""

    def __init__(self, task: TaskDefinition, metrics: MetricRecorder | None) -> None:
        self._task = task
        self._metrics = metrics

    async def run(self, call: BodyCall) -> BodyOutcome:
        """Call the function; what it raises becomes a value, an exit of the interpreter passes."""
        assert call.workspace is None or isinstance(call.workspace, Path), "no Spark here"
        try:
            result = invoke_body(self._task, call.params, call.workspace, metrics=self._metrics)
        except Exception as error:  # noqa: BLE001 - a body may raise anything
            return BodyRaised(failure_reason(error), terminal=error_is_terminal(error))
        return BodyReturned(result)


class NoLease:
    """There are no heartbeats."""

    @property
    def last_beat(self) -> None:
        """Nothing beats."""
        return

    async def end(self) -> None:
        """Nothing to join."""


def _not_asked(question: object) -> NoReturn:
    raise AssertionError(f"an attempt with callbacks asks no {question}")
