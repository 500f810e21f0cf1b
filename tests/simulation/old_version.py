"""An attempt of the release before this one, 0.6.1, as lakeFS and Conductor see it.

Made from what its users know of it, not from its code: the narrow fence twice, the head looked at
after the fence, a squash merge that names no head, a reset over whatever child of the input it
finds, no metadata, a staging branch that stays where staging failed, and an end that is sent
without a look. What is still running while it is replaced has to live beside the new version.
"""

from collections.abc import Mapping

from perago.app.attempt.context import AttemptPorts
from perago.domain.attempt import (
    AttemptRecord,
    AttemptSnapshot,
    AttemptStatus,
    ExecutionId,
    Stale,
    as_mapping,
    compare_narrow,
)
from perago.domain.lakefs import (
    BranchName,
    CommitId,
    RepositoryId,
    StagedReference,
    WorkspaceReference,
)
from perago.domain.names import staging_branch_name
from perago.domain.outcome import Merged, Relocated
from perago.domain.sync_plan import SyncPlan
from perago.ports.conductor import TerminalUpdate
from perago.ports.errors import OutcomeUnknownError, ServiceError, UnavailableError
from perago.ports.lakefs import CommitRequest, MergeRequest
from perago.ports.task_body import BodyCall, BodyRaised, BodyReturned, BodyStopped
from perago.ports.workspace import (
    AttemptMarker,
    Materialised,
    StagingArea,
    WorkspaceSource,
)

PREFIX = "data"
PAUSES_SECONDS = (10.0, 20.0, 30.0, 0.0)
TIMEOUT_SECONDS = 60.0


class FailedError(Exception):
    """Whatever ends an attempt other than well."""

    def __init__(self, reason: str, *, terminal: bool = False) -> None:
        super().__init__(reason)
        self.terminal = terminal


class DrainedError(Exception):
    """The worker was told to stop while the task function ran."""


async def run_old_attempt(
    harness: AttemptPorts, record: AttemptRecord, worker_id: str, execution_id: ExecutionId
) -> None:
    """From the polled row to its end."""
    status, reason = AttemptStatus.COMPLETED, None
    output: Mapping[str, object] = {}
    try:
        output = await _work(harness, record, execution_id)
    except DrainedError:
        return None  # 0.6.1 leaves the row to its response time-out
    except FailedError as error:
        ends_for_good = AttemptStatus.FAILED_WITH_TERMINAL_ERROR
        status = ends_for_good if error.terminal else AttemptStatus.FAILED
        reason = str(error)
    except ServiceError as error:
        status, reason = AttemptStatus.FAILED, str(error)
    update = TerminalUpdate(record.snapshot, worker_id, status, output, reason)
    for pause in PAUSES_SECONDS:
        try:
            return await harness.queue.complete(update, timeout_seconds=TIMEOUT_SECONDS)
        except (UnavailableError, OutcomeUnknownError):
            await harness.clock.sleep(pause)
        except ServiceError:
            return None
    return None


async def _work(
    harness: AttemptPorts, record: AttemptRecord, execution_id: ExecutionId
) -> Mapping[str, object]:
    attempt = record.snapshot
    given = as_mapping(record.input_data.get("workspace"))
    target = WorkspaceReference(
        RepositoryId(str(given["repository"])),
        BranchName(str(given["branch"])),
        CommitId(str(given["ref"])),
    )
    directory = await harness.directories.create(AttemptMarker(attempt, execution_id, "old"))
    pipeline = harness.lakefs.pipeline
    source = WorkspaceSource(target.repository, target.ref, PREFIX)
    workspace = await pipeline.materialise(source, directory)
    params = as_mapping(record.input_data.get("params"))
    call = BodyCall(attempt.task_type, attempt, execution_id, params, directory)
    ended = await harness.body.run(call)
    if isinstance(ended, BodyRaised):
        raise FailedError(ended.reason, terminal=ended.terminal)
    if isinstance(ended, BodyStopped):
        raise DrainedError
    assert isinstance(ended, BodyReturned), ended
    plan = await pipeline.plan(workspace)
    await _fence(harness, attempt)
    if plan.is_empty:
        ref = await _complete_unchanged(harness, target)
    else:
        ref = await _publish(harness, record, execution_id, target, (workspace, plan))
    return {"workspace": {**given, "ref": ref}, "result": ended.result}


async def _fence(harness: AttemptPorts, attempt: AttemptSnapshot) -> None:
    fresh = await harness.queue.read_attempt(attempt.workflow_id, attempt.task_id)
    if isinstance(compare_narrow(attempt, None if fresh is None else fresh.snapshot), Stale):
        raise FailedError(attempt.task_id)


async def _publish(
    harness: AttemptPorts,
    record: AttemptRecord,
    execution_id: ExecutionId,
    target: WorkspaceReference,
    changed: tuple[Materialised, SyncPlan],
) -> CommitId:
    branch = staging_branch_name(record.snapshot, execution_id)
    await harness.lakefs.branches.create(target.repository, branch, target.ref)
    area = StagingArea(StagedReference(target.repository, branch, target.ref), PREFIX)
    await harness.lakefs.pipeline.transfer(*changed, area)
    staged = await harness.lakefs.commits.commit(
        CommitRequest(target.repository, branch, "perago try", {})
    )
    try:
        await _fence(harness, record.snapshot)
        head = await harness.lakefs.branches.head(target.repository, target.branch)
        if head.commit == target.ref:
            return await _merge(harness, target, staged)
        if head.parents[:1] == (target.ref,):
            return await _reset(harness, target, staged)
        text = f"{target.branch} cannot publish from input ref {target.ref}"
        raise FailedError(f"{text}; current head is {head.commit}")
    finally:
        await _clean(harness, target.repository, branch)


async def _complete_unchanged(harness: AttemptPorts, target: WorkspaceReference) -> CommitId:
    head = await harness.lakefs.branches.head(target.repository, target.branch)
    if head.commit == target.ref:
        return target.ref
    if head.parents[:1] == (target.ref,):
        return await _reset(harness, target, target.ref)
    text = f"{target.branch} cannot complete no-op from input ref {target.ref}"
    raise FailedError(f"{text}; current head is {head.commit}")


async def _merge(harness: AttemptPorts, target: WorkspaceReference, staged: CommitId) -> CommitId:
    request = MergeRequest(target.repository, staged, target.branch, "")
    answer = await harness.lakefs.branches.merge(request)
    if isinstance(answer, Merged):
        return answer.commit
    raise FailedError(f"merge: {answer}")


async def _reset(harness: AttemptPorts, target: WorkspaceReference, to: CommitId) -> CommitId:
    answer = await harness.lakefs.branches.relocate(target.repository, target.branch, to)
    if isinstance(answer, Relocated):
        return to
    raise FailedError(f"reset: {answer}")


async def _clean(harness: AttemptPorts, repository: RepositoryId, branch: BranchName) -> None:
    try:
        await harness.lakefs.branches.delete(repository, branch)
    except ServiceError:
        return
