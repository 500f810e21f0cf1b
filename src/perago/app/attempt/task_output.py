"""The envelope of an attempt: what Conductor gave, and what it gets back."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from perago.app.attempt.dispatch import Dispatch
from perago.app.attempt.resume import Finished
from perago.app.authoring.envelope import (
    read_params,
    read_workspace_input,
    workspace_task_output,
)
from perago.app.authoring.failure import result_for_exception
from perago.app.authoring.workspace_contract import WorkspaceInput
from perago.domain.attempt import AttemptStatus
from perago.domain.errors import StaleAttemptError
from perago.domain.references import BranchName, CommitId, RepositoryId, WorkspaceReference
from perago.ports.task_queue import TerminalUpdate


@dataclass(frozen=True, slots=True)
class GivenInput:
    """The validated input; the workspace is None for a workspace-free task."""

    params: Mapping[str, object]
    workspace: WorkspaceInput | None

    @property
    def reference(self) -> WorkspaceReference:
        """The workspace as a domain value."""
        assert self.workspace is not None, "only workspace tasks have one"
        given = self.workspace
        return WorkspaceReference(
            RepositoryId(given.repository), BranchName(given.branch), CommitId(given.ref)
        )


def read_input(dispatch: Dispatch) -> GivenInput:
    """Validate envelope and parameters before anything is moved."""
    data = dispatch.record.input_data
    workspace = None
    strict = dispatch.settings.strict_input
    if dispatch.task.has_workspace:
        workspace = read_workspace_input(data, strict=strict)
    read_params(dispatch.task, data, strict=strict)
    params = cast("Mapping[str, object]", data["params"])  # validated above
    return GivenInput(params, workspace)


def workspace_output(given: GivenInput, finished: Finished) -> Mapping[str, object]:
    """Input workspace with only `ref` changed, and the result.

    It was checked where it came from: the body's as it returned, a stored one as it was read.
    """
    assert given.workspace is not None, "only workspace tasks publish"
    return workspace_task_output(given.workspace, finished.ref, finished.result)


def free_output(result: Mapping[str, object]) -> Mapping[str, object]:
    """The result alone."""
    return {"result": dict(result)}


def failed_update(dispatch: Dispatch, error: Exception) -> TerminalUpdate | None:
    """The terminal update of a failure; None for a stale attempt, which ends nothing.

    An update names the task id alone. What it would end is the row of a rerun or a redelivery,
    or a row that a late heartbeat brought back beside its own retry.
    """
    if isinstance(error, StaleAttemptError):
        return None
    settings, attempt = dispatch.settings, dispatch.attempt
    result = result_for_exception(
        error,
        max_length=settings.failure_reason_max_length,
        secrets=settings.secrets,
        task=(attempt.workflow_id, attempt.reference_name),
    )
    return TerminalUpdate(
        attempt=attempt,
        worker_id=settings.worker_id,
        status=AttemptStatus(result.status),
        reason=result.reason_for_incompletion or "",
    )
