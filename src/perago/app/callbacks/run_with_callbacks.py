"""`run_workspace_task_attempt` and its sibling: the signatures of 0.6.1 on the one spine.

Blocks until the attempt has ended and returns how. Sends nothing to Conductor.
"""

import asyncio
import os
import threading
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

from perago.app.authoring.attempt_objects import TaskExecutionContext
from perago.app.authoring.failure import (
    RuntimeTaskResult,
    completed_result,
    result_for_exception,
)
from perago.app.authoring.invocation import invoke_workspace_free_task
from perago.app.authoring.metric_recorder import MetricRecorder
from perago.app.authoring.task_definition import TaskDefinition
from perago.app.authoring.workspace_contract import WorkspaceInput
from perago.app.callbacks.callback_attempt import (
    CallbackAttempt,
    CleanupStaging,
    CompleteNoOpWorkspace,
    DownloadWorkspace,
    LoadCurrentAttempt,
    PublishWorkspace,
    StageWorkspace,
    WorkspaceCallbacks,
)
from perago.domain.authoring_errors import TaskInputError

Answer = TypeVar("Answer")


def run_workspace_task_attempt(  # noqa: PLR0913  # the public signature of 0.6.1
    task: TaskDefinition,
    input_data: Mapping[str, Any],
    attempt: object,
    workspace_root: Path,
    *,
    download_workspace: DownloadWorkspace,
    load_current_attempt: LoadCurrentAttempt,
    stage_workspace: StageWorkspace,
    publish_workspace: PublishWorkspace,
    cleanup_staging: CleanupStaging,
    complete_noop_workspace: CompleteNoOpWorkspace | None = None,
    owner_worker_id: str | None = None,
    execution_id: str | None = None,
    metrics: MetricRecorder | None = None,
    failure_reason_max_length: int,
) -> RuntimeTaskResult:
    """Run one attempt of a workspace task with the caller's own transfers."""
    if task.workspace is None:
        raise TaskInputError(
            "run_workspace_task_attempt only supports workspace tasks", code="PRG-I007"
        )
