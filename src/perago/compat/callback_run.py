"""The spine on the ports of one callback attempt: directories and clocks are the real ones.

Wires what the container makes with what the caller answers. Decides nothing.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from perago.app.attempt.context import (
    Attempt,
    AttemptPorts,
    AttemptSettings,
    KnownRepositories,
    LakeFS,
)
from perago.app.attempt.run_attempt import run_attempt
from perago.app.authoring.failure import RuntimeTaskResult, result_for_exception
from perago.app.authoring.metrics import MetricRecorder
from perago.app.authoring.task_definition import TaskDefinition
from perago.app.connections import Connections
from perago.app.container import Container
from perago.app.fence.trust import FenceTrust
from perago.compat.callback_ports import (
    CallbackAttempt,
    CallbackBranches,
    CallbackCommits,
    CallbackObjects,
    CallbackPipeline,
    CallbackQueue,
    CallbackRepositories,
    DirectBody,
    NoLease,
)
from perago.domain.attempt import AttemptRecord, ExecutionId, FenceWidth
from perago.domain.policy import PolicySetting


async def run_on_callbacks(
    run: CallbackAttempt,
    input_data: Mapping[str, Any],
    workspace_root: Path,
    *,
    metrics: MetricRecorder | None,
    failure_reason_max_length: int,
) -> RuntimeTaskResult:
    """Run the one spine and return how the attempt ended."""
    record = AttemptRecord(run.snapshot, input_data=input_data)
    attempt = Attempt(
        task=_published_by_callback(run.task),
        record=record,
        execution_id=ExecutionId(run.context.execution_id),
        settings=AttemptSettings(
            worker_id=run.snapshot.worker_id or "",
            publication=PolicySetting.HEAD_PARENT,
            fence_width=FenceWidth.NARROW,
            failure_reason_max_length=failure_reason_max_length,
            reads_before_end=False,
            patience_seconds=0.0,  # the caller's functions repeat what they want repeated
        ),
    )
    ports = _ports(run, record, DirectBody(run.task, metrics), workspace_root)
    report = await run_attempt(ports, attempt, NoLease())
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
    run: CallbackAttempt, record: AttemptRecord, body: DirectBody, workspace_root: Path
) -> AttemptPorts:
    container = Container(connections=Connections(workspace_root=workspace_root))
    # What a plain attempt does not ask is not there; asking would be a defect and shows as one.
    partial: Any = cast("Any", {})
    objects: Any = CallbackObjects()
    repositories: Any = CallbackRepositories()
    branches: Any = CallbackBranches(run)
    commits: Any = CallbackCommits(run)
    queue: Any = CallbackQueue(run, record)
    return AttemptPorts(
        lakefs=LakeFS(
            branches=branches,
            commits=commits,
            tags=partial,
            objects=objects,
            repositories=repositories,
            pipeline=CallbackPipeline(run),
            trust=FenceTrust(
                objects=objects,
                canary=partial,
                concurrency=container.concurrency(),
                clock=container.clock(),
            ),
            known=KnownRepositories(repositories, branches, commits),
        ),
        queue=queue,
        body=body,
        directories=container.directories(),
        clock=container.clock(),
        identities=container.identities(),
        concurrency=container.concurrency(),
        progress=container.progress(),
    )


def _published_by_callback(task: TaskDefinition) -> TaskDefinition:
    """The task without a wish for a policy: the callbacks decide how it is published."""
    assert task.workspace is not None, "only workspace tasks are published"
    return replace(
        task,
        controls=task.controls.model_copy(update={"publication": "auto"}),
        workspace=task.workspace.model_copy(update={"isolation": "branch"}),
    )
