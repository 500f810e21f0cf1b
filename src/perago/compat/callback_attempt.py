"""One attempt with the callbacks of a caller of 0.6.1 behind the ports that its steps ask.

Calls them with what 0.6.1 promised. Decides nothing: directories and clocks are those of a worker,
and so are the steps of an attempt.
"""

import hashlib
import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn, cast, final

from perago.app.attempt.context import Attempt, AttemptPorts, AttemptSettings
from perago.app.attempt.run_attempt import run_attempt
from perago.app.authoring.current_attempt import CurrentAttempt, running
from perago.app.authoring.envelope import read_workspace_input, resolved_prefix
from perago.app.authoring.failure import (
    RuntimeTaskResult,
    error_is_terminal,
    failure_reason,
    result_for_exception,
)
from perago.app.authoring.invocation import invoke_body
from perago.app.authoring.metrics import MetricRecorder
from perago.app.authoring.task_definition import TaskDefinition
from perago.app.authoring.workspace_spec import WorkspaceInput, WorkspaceSpec
from perago.app.connections import Connections
from perago.app.container import Container
from perago.app.settings.layers import FLAGS, Layer
from perago.app.settings.settings import Settings
from perago.compat.caller_transfers import (
    StagedWorkspace,
    TaskExecutionContext,
    assert_current_attempt_snapshot,
    snapshot_of,
)
from perago.domain.attempt import AttemptRecord, ExecutionId, FenceWidth
from perago.domain.errors import ChangesRefusedError, CheckpointRefusedError, TaskInputError
from perago.domain.lakefs import BranchName, CommitId, CommitRecord, RepositoryId
from perago.domain.outcome import MergeAnswer, Merged
from perago.domain.paths import ATTEMPT_MARKER
from perago.domain.policy import PolicySetting
from perago.domain.sync_plan import FileFacts, SyncPlan, plan_sync
from perago.ports import task_body
from perago.ports.conductor import TerminalUpdate
from perago.ports.errors import ObjectMissingError
from perago.ports.installations import ConductorInstallation, LakeFSInstallation
from perago.ports.lakefs import CommitRequest, MergeRequest, RepositoryFacts
from perago.ports.workspace import Materialised, StagingArea, TransferCounts, WorkspaceSource

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
    """One attempt: what its callbacks are given, and how far it is."""

    task: TaskDefinition
    spec: WorkspaceSpec
    workspace: WorkspaceInput
    record: AttemptRecord
    context: TaskExecutionContext
    callbacks: WorkspaceCallbacks
    staged: StagedWorkspace | None = None
    is_unchanged: bool = False
    noop_ref: str | None = None


def begin(
    task: TaskDefinition,
    input_data: Mapping[str, Any],
    context: TaskExecutionContext,
    callbacks: WorkspaceCallbacks,
    worker_id: str,
) -> CallbackAttempt:
    """Read the input and the attempt; whatever is wrong with them is raised."""
    assert task.workspace is not None, "only workspace tasks have callbacks"
    if task.workspace.checks:
        # The callbacks stage by themselves, and none of them can read a commit.
        text = "callbacks have no staged commit to show to WorkspaceSpec(checks=...)"
        raise TaskInputError(f"{text}; run the task in a worker", code="PRG-I007")
    workspace = read_workspace_input(input_data, strict=False)
    prefix = resolved_prefix(task, input_data.get("params"))
    return CallbackAttempt(
        task=task,
        spec=task.workspace.model_copy(update={"prefix": prefix}),
        workspace=workspace,
        record=AttemptRecord(
            replace(snapshot_of(context.attempt), worker_id=worker_id), input_data=input_data
        ),
        context=context,
        callbacks=callbacks,
    )


async def run_on_callbacks(
    run: CallbackAttempt,
    metrics: MetricRecorder | None,
    workspace_root: Path,
    failure_reason_max_length: int,
) -> RuntimeTaskResult:
    """Run the steps of an attempt and return how the attempt ended."""
    attempt = Attempt(
        ports=_ports(run, metrics, workspace_root),
        task=_published_by_callback(run.task),
        record=run.record,
        execution_id=ExecutionId(run.context.execution_id),
        settings=AttemptSettings(
            worker_id=run.record.snapshot.worker_id or "",
            publication=PolicySetting.HEAD_PARENT,
            fence_width=FenceWidth.NARROW,
            failure_reason_max_length=failure_reason_max_length,
            reads_before_end=False,
            patience_seconds=0.0,  # the caller's functions repeat what they want repeated
        ),
    )
    report = await run_attempt(attempt, task_body.NoLease())
    if report.update is None:
        assert report.error is not None, "only a failure is not sent"
        return result_for_exception(report.error, max_length=failure_reason_max_length)
    output = dict(report.update.output)
    if run.noop_ref is not None and "workspace" in output:
        # The caller's rule says which commit an unchanged workspace is handed on as.
        output["workspace"] = run.workspace.published_output(run.noop_ref).model_dump(mode="json")
    return RuntimeTaskResult(
        status=cast("Any", report.update.status.value),
        output=output if report.update.reason is None else None,
        reason_for_incompletion=report.update.reason,
    )


def _ports(
    run: CallbackAttempt, metrics: MetricRecorder | None, workspace_root: Path
) -> AttemptPorts:
    """What the attempt asks: lakeFS and Conductor are the caller's, the rest is a worker's."""
    missing: Any = None  # no step of such an attempt asks it
    branches: Any = CallbackBranches(run)
    commits: Any = CallbackCommits(run)
    objects: Any = CallbackObjects()
    repositories: Any = CallbackRepositories()
    queue: Any = CallbackQueue(run)
    settings = Settings.of([Layer(FLAGS, {"PERAGO_WORKSPACE_ROOT": workspace_root})])
    container = Container(
        connections=Connections(settings),
        lakefs=LakeFSInstallation(branches, commits, missing, objects, repositories, missing),
        conductor=ConductorInstallation(queue, missing, missing),
        pipeline=CallbackPipeline(run),
        uploads=None,
        body=DirectBody(run.task, metrics),
    )
    ports: AttemptPorts = container.ports()
    return ports


def _published_by_callback(task: TaskDefinition) -> TaskDefinition:
    """The task without a wish for a policy: the callbacks decide how it is published."""
    assert task.workspace is not None, "only workspace tasks are published"
    return replace(
        task,
        controls=task.controls.model_copy(update={"publication": "auto"}),
        workspace=task.workspace.model_copy(update={"isolation": "branch"}),
    )


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


# What an attempt with callbacks does not ask is missing in these classes: asking would be a defect,
# and shows as one.
class CallbackPipeline:
    """Downloads and stages by callback; finds changes by comparing every file."""

    def __init__(self, run: CallbackAttempt) -> None:
        self._run = run
        self._before: dict[str, FileFacts] = {}

    async def materialise(self, source: WorkspaceSource, directory: Path) -> Materialised:
        """Download, then remember what there is."""
        self._run.callbacks.download(self._run.workspace, self._run.spec, directory)
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
        """Stage the whole directory; from here on there is something to clean up."""
        del plan, area
        run = self._run
        directory = materialised.directory
        run.staged = run.callbacks.stage(directory, run.workspace, run.spec, run.context)
        return TransferCounts()

    async def verify(self, materialised: Materialised, plan: SyncPlan, area: StagingArea) -> None:
        """The callback has staged; nothing can be compared."""

    async def forget(self, materialised: Materialised) -> None:
        """This pipeline ends with its one attempt."""


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
        """Clean up what the stage callback returned, if it did."""
        del repository, branch
        if self._run.staged is not None:
            self._run.callbacks.cleanup(self._run.staged)

    async def merge(self, request: MergeRequest) -> MergeAnswer:
        """Publish by callback."""
        del request
        run = self._run
        assert run.staged is not None, "only staged workspaces are published"
        commit = run.callbacks.publish(run.staged, run.workspace, run.spec, run.context)
        return Merged(CommitId(commit))


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

    def __init__(self, run: CallbackAttempt) -> None:
        self._run = run
        self._ended: AttemptRecord | None = None

    async def read_attempt(self, workflow_id: str, task_id: str) -> AttemptRecord:
        """Ask the caller; it raises when the attempt no longer counts.

        An attempt that changed nothing is completed right after, by the caller's rule.
        """
        del workflow_id, task_id
        if self._ended is not None:
            return self._ended
        run = self._run
        fresh = run.callbacks.load_current_attempt(run.context.attempt)
        assert_current_attempt_snapshot(run.context.attempt, fresh)
        if run.is_unchanged:
            if run.callbacks.complete_noop is None:
                raise TaskInputError(
                    "complete_noop_workspace callback is required for writable no-op workspace"
                    " completion",
                    code="PRG-I007",
                )
            run.noop_ref = run.callbacks.complete_noop(run.workspace, run.spec, run.context)
        return run.record

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
class DirectBody(task_body.TaskBody):
    """Runs the body in the thread of the caller, as 0.6.1 did."""

    def __init__(self, task: TaskDefinition, metrics: MetricRecorder | None) -> None:
        self._task = task
        self._metrics = metrics

    async def run(self, call: task_body.BodyCall) -> task_body.BodyOutcome:
        """Call the function; what it raises becomes a value, an exit of the interpreter passes."""
        assert call.workspace is None or isinstance(call.workspace, Path), "no Spark here"
        try:
            with refusing_questions():
                result = invoke_body(self._task, call.params, call.workspace, metrics=self._metrics)
        except Exception as error:  # noqa: BLE001 - a body may raise anything
            return task_body.BodyRaised(failure_reason(error), terminal=error_is_terminal(error))
        return task_body.BodyReturned(result)


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
