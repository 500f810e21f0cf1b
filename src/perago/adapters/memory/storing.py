"""Objects of the in-memory lakeFS: reading what a reference shows, writing on a branch.

Knows nothing of commits being made; a write is uncommitted until somebody commits.
"""

from collections.abc import Sequence

from perago.adapters.memory.lakefs import MemoryLakeFS
from perago.adapters.memory.object_tree import StoredObject
from perago.domain.logical_execution import BranchName, RepositoryId
from perago.ports.errors import (
    ObjectMissingError,
    ReferenceMissingError,
    RequestRefusedError,
)
from perago.ports.objects import DELETE_PATHS_MAX

PATH_BYTES_MAX = 1024  # lakeFS 1.86 counts bytes of UTF-8, not characters


def read_object(
    lakefs: MemoryLakeFS, repository: RepositoryId, ref: str, path: str
) -> StoredObject:
    """The object a reference shows at a path; an unknown reference shows none."""
    state = lakefs.repository(repository)
    try:
        stored = state.object_at(ref, path)
    except ReferenceMissingError:
        stored = None
    if stored is None:
        raise ObjectMissingError(f"{repository}/{ref} has no object {path!r}")
    return stored


def write_object(
    lakefs: MemoryLakeFS,
    repository: RepositoryId,
    branch: BranchName,
    path: str,
    stored: StoredObject,
) -> StoredObject:
    """Put one object on a branch, uncommitted."""
    state = lakefs.repository(repository)
    target = state.branch(branch)  # before its protection: the server looks for it first
    state.require_writable(branch)
    if not path:
        raise RequestRefusedError("an object needs a path")
    if (length := len(path.encode())) > PATH_BYTES_MAX:
        raise RequestRefusedError(
            f"path: {length} is above maximum length ({PATH_BYTES_MAX}): {path[:60]}..."
        )
    target.stage(path, stored)
    return stored


def delete_objects(
    lakefs: MemoryLakeFS, repository: RepositoryId, branch: BranchName, paths: Sequence[str]
) -> None:
    """Delete objects on a branch, uncommitted; absent ones, or no such branch, are no error."""
    state = lakefs.repository(repository)
    if len(paths) > DELETE_PATHS_MAX:
        raise RequestRefusedError(
            f"expected at most {DELETE_PATHS_MAX} paths to delete, found {len(paths)}"
        )
    state.require_writable(branch)
    if branch not in state.branches:
        return
    target = state.branch(branch)
    for path in paths:
        if target.get(path) is not None:
            target.stage(path, None)
