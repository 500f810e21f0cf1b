"""What a caller hands in for one attempt, and what is known of it while it runs.

Holds the callbacks and calls them with what 0.6.1 promised. Decides nothing.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from perago.app.authoring.attempt_objects import (
    StagedWorkspace,
    TaskExecutionContext,
    assert_current_attempt_snapshot,
    snapshot_of,
)
from perago.app.authoring.envelope import read_workspace_input
from perago.app.authoring.task_definition import TaskDefinition
from perago.app.authoring.workspace_contract import WorkspaceInput
from perago.app.authoring.workspace_spec import WorkspaceSpec
from perago.domain.attempt import AttemptSnapshot
from perago.domain.authoring_errors import TaskInputError

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
        return cls(
            task=task,
            spec=task.workspace,
            workspace=read_workspace_input(input_data, strict=False),
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
