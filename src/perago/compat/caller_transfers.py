"""What callers of 0.6.1 compute with who transfer workspaces themselves.

Attempts as their callbacks see them, which are any objects with the right attributes: they are
translated into the values that the core compares. Plans of what to upload, download and delete for
a workspace on the disk. And the output of a task. Reads no server, and transfers nothing.
"""

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perago.app.authoring.envelope import validate_result, workspace_task_output
from perago.app.authoring.task_definition import TaskDefinition
from perago.app.authoring.workspace_spec import WorkspaceInput, WorkspaceSpec
from perago.domain import names, paths
from perago.domain.attempt import AttemptSnapshot, AttemptStatus, ExecutionId, Stale, compare_narrow
from perago.domain.errors import StaleAttemptError, TaskInputError

_STATUSES = frozenset(each.value for each in AttemptStatus)
_CODE = "PRG-W002"


@dataclass(frozen=True)
class StagedWorkspace:
    """A staged commit with the branch that keeps it."""

    repository: str
    branch: str
    commit: str


@dataclass(frozen=True)
class TaskExecutionContext:
    """One execution of an attempt; attributes it does not have are those of the attempt."""

    attempt: Any
    execution_id: str

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  # whatever the attempt has
        return getattr(self.attempt, name)


def staging_branch_name(task: object) -> str:
    """Name the staging branch of an execution given as an object."""
    execution_id = ExecutionId(str(_required(task, "execution_id")))
    return names.staging_branch_name(snapshot_of(task), execution_id)


def snapshot_of(task: object) -> AttemptSnapshot:
    """The attempt that an object describes."""
    return AttemptSnapshot(
        workflow_id=str(_required(task, "workflow_instance_id")),
        task_id=str(_required(task, "task_id")),
        reference_name=str(_required(task, "reference_task_name")),
        task_type=str(getattr(task, "task_def_name", "")),
        status=AttemptStatus(str(getattr(task, "status", AttemptStatus.IN_PROGRESS))),
        retry_count=_required(task, "retry_count"),
        seq=_required(task, "seq"),
        iteration=_required(task, "iteration"),
    )


def assert_current_attempt_snapshot(task: object, fresh: object) -> None:
    """Raise `StaleAttemptError` unless `fresh` still shows the attempt `task` was polled as."""
    status = str(_required(fresh, "status"))
    polled = _identity(task, AttemptStatus.IN_PROGRESS)
    if status not in _STATUSES:
        verdict = Stale("status", AttemptStatus.IN_PROGRESS, status)
        raise StaleAttemptError(polled.task_id, stale=verdict)
    compared = compare_narrow(polled, _identity(fresh, AttemptStatus(status)))
    if isinstance(compared, Stale):
        raise StaleAttemptError(polled.task_id, stale=compared)


def _identity(task: object, status: AttemptStatus) -> AttemptSnapshot:
    return AttemptSnapshot(
        workflow_id=_required(task, "workflow_instance_id"),
        task_id=_required(task, "task_id"),
        reference_name="",
        task_type="",
        status=status,
        retry_count=_required(task, "retry_count"),
    )


def _required(task: object, name: str) -> Any:  # noqa: ANN401  # whatever the caller's object has
    missing = object()
    value = getattr(task, name, missing)
    if value is missing:
        raise AttributeError(f"task is missing required attribute {name}")
    return value


@dataclass(frozen=True)
class WorkspaceUploadFile:
    """One file that becomes an object."""

    local_path: Path
    object_path: str


@dataclass(frozen=True)
class WorkspaceDownloadFile:
    """One object that becomes a file."""

    object_path: str
    local_path: Path


@dataclass(frozen=True)
class WorkspaceSyncPlan:
    """What makes the objects of a prefix equal to a directory."""

    upload_files: list[WorkspaceUploadFile]
    delete_object_paths: list[str]

    @property
    def changed_object_count(self) -> int:
        """Objects that are written or deleted."""
        return len(self.upload_files) + len(self.delete_object_paths)

    @property
    def upload_bytes(self) -> int:
        """Bytes that are written."""
        return sum(each.local_path.stat().st_size for each in self.upload_files)


def workspace_local_path(
    workspace_spec: WorkspaceSpec, object_path: str | os.PathLike[str]
) -> Path | None:
    """Return where an object goes below the workspace, or None when it is no file of a task.

    Objects outside the prefix are never looked at closer: their names are other people's. A name
    with a slash at its end can be no file, whatever its size, so it counts as a directory marker.
    """
    name = os.fspath(object_path)
    relative = paths.relative_path(workspace_spec.prefix, name)
    if relative is None or paths.is_reserved_object(name) or paths.is_directory_marker(relative, 0):
        return None
    problem = paths.name_problem(relative)
    if problem is not None:
        raise TaskInputError(f"object {name!r} cannot be a local file: it {problem}", code=_CODE)
    return Path(relative)


def workspace_download_files(
    workspace_dir: Path, workspace_spec: WorkspaceSpec, object_paths: Iterable[str]
) -> list[WorkspaceDownloadFile]:
    """Return the files that a listing of objects becomes, in order."""
    local_paths = {path: workspace_local_path(workspace_spec, path) for path in object_paths}
    return [
        WorkspaceDownloadFile(path, workspace_dir / local)
        for path, local in sorted(local_paths.items())
        if local is not None
    ]


def workspace_upload_files(
    workspace_dir: Path, workspace_spec: WorkspaceSpec
) -> list[WorkspaceUploadFile]:
    """Return the objects that the regular files of a directory become, in order."""
    return [
        WorkspaceUploadFile(
            workspace_dir / relative, _published_name(workspace_spec, relative.as_posix())
        )
        for relative in sorted(_regular_files(workspace_dir))
    ]


def workspace_delete_object_paths(
    workspace_spec: WorkspaceSpec,
    existing_object_paths: Iterable[str],
    uploaded_files: Collection[WorkspaceUploadFile],
) -> list[str]:
    """Return the objects of the prefix that no file stands for any more."""
    kept = {each.object_path for each in uploaded_files}
    return sorted(
        path
        for path in set(existing_object_paths) - kept
        if workspace_local_path(workspace_spec, path) is not None
    )


def build_workspace_sync_plan(
    workspace_dir: Path, workspace_spec: WorkspaceSpec, existing_object_paths: Iterable[str]
) -> WorkspaceSyncPlan:
    """Return what makes the existing objects equal to the directory."""
    uploads = workspace_upload_files(workspace_dir, workspace_spec)
    deletes = workspace_delete_object_paths(workspace_spec, existing_object_paths, uploads)
    return WorkspaceSyncPlan(uploads, deletes)


def _published_name(workspace_spec: WorkspaceSpec, relative: str) -> str:
    problem = paths.name_problem(relative)
    if problem is not None:
        raise TaskInputError(f"file {relative!r} cannot be an object: it {problem}", code=_CODE)
    return paths.object_path(workspace_spec.prefix, relative)


def _regular_files(workspace_dir: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(workspace_dir):
        for name in [*folders, *files]:
            path = Path(folder) / name
            relative = path.relative_to(workspace_dir)
            if path.is_symlink():
                raise TaskInputError(
                    f"workspace publication does not support symlinks: {relative.as_posix()}",
                    code="PRG-W005",
                )
            if name != paths.ATTEMPT_MARKER and path.is_file():
                yield relative


def build_workspace_task_output(
    task: TaskDefinition,
    input_workspace: WorkspaceInput | Mapping[str, Any],
    published_ref: str,
    raw_result: object,
) -> dict[str, Any]:
    """Return the output of a workspace task: its input with another commit, and its result."""
    if not task.has_workspace:
        raise TaskInputError(
            "workspace output can only be built for workspace tasks", code="PRG-I007"
        )
    workspace = WorkspaceInput.model_validate(input_workspace)
    result = validate_result(task, raw_result)
    return workspace_task_output(workspace, published_ref, result)


def build_workspace_free_task_output(task: TaskDefinition, raw_result: object) -> dict[str, Any]:
    """Return the output of a task without a workspace."""
    if task.has_workspace:
        raise TaskInputError(
            "workspace-free output can only be built for workspace-free tasks",
            code="PRG-I007",
        )
    return {"result": validate_result(task, raw_result)}
