"""Which files of a directory stand for which objects of a prefix: the plan functions of 0.6.1.

For those who write their own transfer callbacks. Lists a directory; moves nothing.
"""

import os
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from perago.app.authoring.workspace_spec import WorkspaceSpec
from perago.domain.authoring_errors import TaskInputError
from perago.domain.prefix_projection import (
    is_directory_marker,
    name_problem,
    relative_path,
)
from perago.domain.prefix_projection import object_path as published_path
from perago.domain.reserved_paths import ATTEMPT_MARKER, is_reserved_object

_CODE = "PRG-W002"


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
    """Return where an object goes below the workspace, or None when it is nobody's file.

    Objects outside the prefix are never looked at closer: their names are other people's.
    """
    name = os.fspath(object_path)
    relative = relative_path(workspace_spec.prefix, name)
    if relative is None or is_reserved_object(name) or is_directory_marker(relative, 0):
        return None
    problem = name_problem(relative)
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
    problem = name_problem(relative)
    if problem is not None:
        raise TaskInputError(f"file {relative!r} cannot be an object: it {problem}", code=_CODE)
    return published_path(workspace_spec.prefix, relative)


def _regular_files(workspace_dir: Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(workspace_dir):
        for name in [*folders, *names]:
            path = Path(folder) / name
            relative = path.relative_to(workspace_dir)
            if path.is_symlink():
                raise TaskInputError(
                    f"workspace publication does not support symlinks: {relative.as_posix()}",
                    code="PRG-W005",
                )
            if name != ATTEMPT_MARKER and path.is_file():
                yield relative
