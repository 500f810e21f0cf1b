"""What a caller hands in for one attempt, and what is known of it while it runs.

Holds the callbacks and calls them with what 0.6.1 promised. Decides nothing.
"""

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn, Self, final

from perago.app.authoring.current_attempt import (
    CurrentAttempt,
    StagedWorkspace,
    TaskExecutionContext,
    assert_current_attempt_snapshot,
    running,
    snapshot_of,
)
from perago.app.authoring.envelope import read_workspace_input
from perago.app.authoring.failure import error_is_terminal, failure_reason
from perago.app.authoring.invocation import invoke_body
from perago.app.authoring.metrics import MetricRecorder
from perago.app.authoring.prefix_template import resolved_prefix
from perago.app.authoring.task_definition import TaskDefinition
from perago.app.authoring.workspace_spec import WorkspaceInput, WorkspaceSpec
from perago.domain.attempt import AttemptRecord, AttemptSnapshot
from perago.domain.errors import ChangesRefusedError, CheckpointRefusedError, TaskInputError
from perago.domain.logical_execution import BranchName, CommitId, CommitRecord, RepositoryId
from perago.domain.outcome import MergeAnswer, Merged
from perago.domain.paths import ATTEMPT_MARKER
from perago.domain.sync_plan import FileFacts, SyncPlan, plan_sync
from perago.ports.conductor import TerminalUpdate
from perago.ports.errors import ObjectMissingError
from perago.ports.lakefs import CommitRequest, MergeRequest, RepositoryFacts
from perago.ports.task_body import BodyCall, BodyOutcome, BodyRaised, BodyReturned, TaskBody
from perago.ports.workspace import (
    Materialised,
    StagingArea,
    TransferCounts,
    WorkspacePipeline,
    WorkspaceSource,
)

DownloadWorkspace = Callable[[WorkspaceInput, WorkspaceSpec, Path], object]
LoadCurrentAttempt = Callable[[object], object]
StageWorkspace = Callable[
    [Path, WorkspaceInput, WorkspaceSpec, TaskExecutionContext], StagedWorkspace
]
PublishWorkspace = Callable[
    [StagedWorkspace, WorkspaceInput, WorkspaceSpec, TaskExecutionContext], str
]
CompleteNoOpWorkspace = Callable[[WorkspaceInput, WorkspaceSpec, TaskExecutionContext], str]
CleanupStaging = Callable[[StagedWorkspace], object]


@dataclass(frozen=True)
class WorkspaceCallbacks:
    """The transfers of a workspace, as the caller does them."""

    download: DownloadWorkspace
    load_current_attempt: LoadCurrentAttempt
    stage: StageWorkspace
    publish: PublishWorkspace
    cleanup: CleanupStaging
    complete_noop: CompleteNoOpWorkspace | None = None


@dataclass
class CallbackAttempt:
    """One attempt: the callbacks bound to it, and how far it is."""

    task: TaskDefinition
    spec: WorkspaceSpec
    workspace: WorkspaceInput
    snapshot: AttemptSnapshot
    attempt: object
    context: TaskExecutionContext
    callbacks: WorkspaceCallbacks
    staged: StagedWorkspace | None = None
    is_unchanged: bool = False
    noop_ref: str | None = None

    @classmethod
    def begin(
        cls,
        task: TaskDefinition,
        input_data: Mapping[str, Any],
        context: TaskExecutionContext,
        callbacks: WorkspaceCallbacks,
    ) -> Self:
        """Read the input and the attempt; whatever is wrong with them is raised."""
        assert task.workspace is not None, "only workspace tasks have callbacks"
        if task.workspace.checks:
            # The callbacks stage by themselves, and none of them can read a commit.
            text = "callbacks have no staged commit to show to WorkspaceSpec(checks=...)"
            raise TaskInputError(f"{text}; run the task in a worker", code="PRG-I007")
        workspace = read_workspace_input(input_data, strict=False)
        prefix = resolved_prefix(task, input_data.get("params"))
        return cls(
            task=task,
            spec=task.workspace.model_copy(update={"prefix": prefix}),
            workspace=workspace,
            snapshot=snapshot_of(context.attempt),
            attempt=context.attempt,
            context=context,
            callbacks=callbacks,
        )

    def download(self, directory: Path) -> None:
        """Fill the directory."""
        self.callbacks.download(self.workspace, self.spec, directory)

    def check_current(self) -> None:
        """Ask whether the attempt still counts; an unchanged one is completed right after."""
        fresh = self.callbacks.load_current_attempt(self.attempt)
        assert_current_attempt_snapshot(self.attempt, fresh)
        if self.is_unchanged:
            self._complete_noop()

    def stage(self, directory: Path) -> None:
        """Stage the directory; from here on there is something to clean up."""
        self.staged = self.callbacks.stage(directory, self.workspace, self.spec, self.context)

    def publish(self) -> str:
        """Publish what was staged."""
        assert self.staged is not None, "only staged workspaces are published"
        return self.callbacks.publish(self.staged, self.workspace, self.spec, self.context)

    def clean_up(self) -> None:
        """Remove what was staged, if staging returned."""
        if self.staged is not None:
            self.callbacks.cleanup(self.staged)

    def _complete_noop(self) -> None:
        if self.callbacks.complete_noop is None:
            raise TaskInputError(
                "complete_noop_workspace callback is required for writable no-op workspace"
                " completion",
                code="PRG-I007",
            )
        self.noop_ref = self.callbacks.complete_noop(self.workspace, self.spec, self.context)


def snapshot(directory: Path) -> dict[str, FileFacts]:
    """Relative POSIX path -> facts, our marker and empty directories left out."""
    found: dict[str, FileFacts] = {}
    for parent, folders, names in os.walk(directory):
        links = [name for name in folders if (Path(parent) / name).is_symlink()]
        for name in (*names, *links):
            path = Path(parent) / name
            if name != ATTEMPT_MARKER:
                facts = _facts(path, path.relative_to(directory).as_posix())
                found[facts.path] = facts
    return found


def _facts(path: Path, relative: str) -> FileFacts:
    if path.is_symlink():
        return FileFacts(relative, f"link to {path.readlink()}", 0)
    if not path.is_file():
        return FileFacts(relative, "neither file nor link", 0)
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return FileFacts(relative, digest, path.stat().st_size)


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
        """No step asks a callback attempt for it."""
        return _not_asked(source)

    async def forget(self, materialised: Materialised) -> None:
        """Drop what is remembered."""
        del materialised
        self._before = {}

    async def describe(self, materialised: Materialised) -> None:
        """Only `settled` goes on in another process, and callbacks are never under it."""
        del materialised

    async def reopen(self, source: WorkspaceSource, directory: Path, described: str) -> NoReturn:
        """No step asks a callback attempt for it."""
        del directory, described
        _not_asked(source)


class CallbackBranches:
    """The target stands at the input commit; staging branches are the callbacks'."""

    def __init__(self, run: CallbackAttempt) -> None:
        self._run = run

    async def head(self, repository: RepositoryId, branch: BranchName) -> CommitRecord:
        """Say that nothing has moved."""
        del repository, branch
        return CommitRecord(CommitId(self._run.workspace.ref), ())

    async def create(
        self,
        repository: RepositoryId,
        branch: BranchName,
        source: CommitId,
        *,
        hidden: bool = False,
    ) -> None:
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


class CallbackRepositories:
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
            with refusing_questions():
                result = invoke_body(self._task, call.params, call.workspace, metrics=self._metrics)
        except Exception as error:  # noqa: BLE001 - a body may raise anything
            return BodyRaised(failure_reason(error), terminal=error_is_terminal(error))
        return BodyReturned(result)


def refusing_questions() -> AbstractContextManager[CurrentAttempt]:
    """Run a task function whose `checkpoint` raises, because no worker uploads what it copies.

    So does `changes`, because no worker asks lakeFS for it.
    """
    return running(CurrentAttempt(take=_refuse_checkpoint, ask=_refuse_changes))


def _refuse_checkpoint(path: Path, note: object) -> NoReturn:
    """The callbacks write to lakeFS by themselves, and none of them writes a checkpoint."""
    del path, note
    text = "the callbacks of 0.6.1 keep none; run the task in a worker: `perago start MODULE`"
    raise CheckpointRefusedError.because(text)


def _refuse_changes() -> NoReturn:
    """The callbacks read lakeFS by themselves, and none of them reads its history."""
    text = "the callbacks of 0.6.1 do not ask lakeFS for it; run the task in a worker"
    raise ChangesRefusedError.because(text)


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
