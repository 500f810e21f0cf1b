"""What a body changed: a walk, hashes of the suspects in threads, and the plan.

Knows no server; the index says what was there.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from perago.adapters.local.directory_scan import ScannedFile
from perago.adapters.local.disk_errors import disk_errors
from perago.adapters.local.port_transport import md5_of_file
from perago.adapters.local.workspace_index import Survey, WorkspaceIndex
from perago.domain.errors import ReservedPathError
from perago.domain.prefix_projection import name_problem, object_path
from perago.domain.reserved_paths import is_refused_object
from perago.domain.sync_plan import FileFacts, SyncPlan, plan_sync
from perago.ports.concurrency import Concurrency
from perago.ports.errors import UnsafeNameError, WorkspaceLostError

HASHING_LANES_MAX = 8


async def compare(
    concurrency: Concurrency, index: WorkspaceIndex, directory: Path, prefix: str
) -> SyncPlan:
    """Plan how a staging branch becomes equal to the directory."""
    survey = await concurrency.blocking(lambda: _survey(index, directory))
    for suspect in survey.suspects:
        refuse_name(prefix, suspect.path)
    local = dict(survey.untouched)
    batches = _batches(survey.suspects)

    async def hash_batch(batch: Sequence[ScannedFile]) -> Mapping[str, FileFacts]:
        return await concurrency.blocking(lambda: _hashed(directory, batch))

    for found in await concurrency.each(batches, hash_batch, at_most=HASHING_LANES_MAX):
        local.update(found)
    if not await concurrency.blocking(index.is_same_directory):
        raise lost_workspace(directory)
    return plan_sync(index.base, local)


def _survey(index: WorkspaceIndex, directory: Path) -> Survey:
    if not index.is_same_directory():
        raise lost_workspace(directory)
    with disk_errors(directory):
        return index.survey()


def _batches(suspects: list[ScannedFile]) -> list[list[ScannedFile]]:
    """Suspects dealt out largest first, so that no lane is left with all the bytes."""
    dealt = sorted(suspects, key=lambda file: file.size, reverse=True)
    count = min(HASHING_LANES_MAX, len(dealt))
    return [dealt[start::count] for start in range(count)]


def _hashed(directory: Path, batch: Sequence[ScannedFile]) -> dict[str, FileFacts]:
    found: dict[str, FileFacts] = {}
    for file in batch:
        with disk_errors(directory / file.path):
            found[file.path] = FileFacts(file.path, md5_of_file(directory / file.path), file.size)
    return found


def refuse_name(prefix: str, relative: str) -> None:
    """Raise for a file that may not be staged, or that no later task could materialise."""
    path = object_path(prefix, relative)
    if is_refused_object(path) or is_refused_object(f"{path}/"):
        raise ReservedPathError(path)
    problem = name_problem(relative)
    if problem is not None:
        raise UnsafeNameError(
            f"file {relative!r} {problem}: no later task could materialise it;"
            " nothing was staged; rename it in the task"
        )


def lost_workspace(directory: Path) -> WorkspaceLostError:
    """The error for a directory that is not the one that was filled."""
    return WorkspaceLostError(
        f"workspace {directory} vanished or was replaced while the task ran;"
        " nothing was staged; keep temporary-file cleaners away from PERAGO_WORKSPACE_ROOT"
    )
