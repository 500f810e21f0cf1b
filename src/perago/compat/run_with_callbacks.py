"""`run_workspace_task_attempt` and its sibling: 0.6.1's signatures, on the real attempt.

Blocks until the attempt has ended and returns how. Sends nothing to Conductor.
"""

import asyncio
import os
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4  # noqa: TID251  # the signature of 0.6.1 has no source of identities

from perago.app.authoring.failure import RuntimeTaskResult, result_for_exception
from perago.app.authoring.invocation import invoke_workspace_free_task
from perago.app.authoring.metrics import MetricRecorder
from perago.app.authoring.task_definition import TaskDefinition
from perago.compat.caller_transfers import TaskExecutionContext
from perago.domain.errors import TaskInputError

# `from perago import *` of a task module imports this one. What runs an attempt is imported by
# those who run one, because `perago check` would wait for it.
if TYPE_CHECKING:
    from perago.compat.callback_attempt import (
        CleanupStaging,
        CompleteNoOpWorkspace,
        DownloadWorkspace,
        LoadCurrentAttempt,
        PublishWorkspace,
        StageWorkspace,
    )

Answer = TypeVar("Answer")


def run_workspace_task_attempt(  # noqa: PLR0913  # the public signature of 0.6.1
    task: TaskDefinition,
    input_data: Mapping[str, Any],
    attempt: object,
    workspace_root: Path,
    *,
    download_workspace: "DownloadWorkspace",
    load_current_attempt: "LoadCurrentAttempt",
    stage_workspace: "StageWorkspace",
    publish_workspace: "PublishWorkspace",
    cleanup_staging: "CleanupStaging",
    complete_noop_workspace: "CompleteNoOpWorkspace | None" = None,
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
    from perago.compat import callback_attempt  # noqa: PLC0415  # heavy

    callbacks = callback_attempt.WorkspaceCallbacks(
        download=download_workspace,
        load_current_attempt=load_current_attempt,
        stage=stage_workspace,
        publish=publish_workspace,
        cleanup=cleanup_staging,
        complete_noop=complete_noop_workspace,
    )
    execution = execution_id or getattr(attempt, "execution_id", None) or uuid4().hex
    worker_id = owner_worker_id or os.environ.get("PERAGO_WORKER_ID") or f"pid-{os.getpid()}"
    try:
        context = TaskExecutionContext(attempt, execution)
        run = callback_attempt.begin(task, input_data, context, callbacks, worker_id)
    except Exception as error:  # noqa: BLE001  # whatever is wrong with them ends the attempt
        return result_for_exception(error, max_length=failure_reason_max_length)
    return _finished(
        lambda: callback_attempt.run_on_callbacks(
            run, metrics, workspace_root, failure_reason_max_length
        )
    )


def run_workspace_free_task_attempt(
    task: TaskDefinition,
    input_data: Mapping[str, Any],
    *,
    metrics: MetricRecorder | None = None,
    failure_reason_max_length: int,
) -> RuntimeTaskResult:
    """Run one attempt of a task without a workspace."""
    if task.has_workspace:
        raise TaskInputError(
            "run_workspace_free_task_attempt only supports workspace-free tasks",
            code="PRG-I007",
        )
    from perago.compat.callback_attempt import refusing_questions  # noqa: PLC0415  # heavy

    try:
        with refusing_questions():
            output = invoke_workspace_free_task(task, input_data, metrics=metrics)
            return RuntimeTaskResult(status="COMPLETED", output=output)
    except Exception as error:  # noqa: BLE001  # a body may raise anything
        return result_for_exception(error, max_length=failure_reason_max_length)


def _finished(start: Callable[[], Coroutine[object, object, Answer]]) -> Answer:
    """Run a coroutine to its end, in a thread of its own where a loop runs in this one."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(start())
    with ThreadPoolExecutor(max_workers=1) as thread:
        return thread.submit(lambda: asyncio.run(start())).result()
