"""What a task changed: the directory as it was filled, a walk over it, and the plan.

A file whose stamp (size, mtime, ctime, inode) is the recorded one was not written since. Every
other file is a suspect and is hashed. Knows no server.
"""

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, final

from perago.adapters.workspace.disk import md5_of_file
from perago.domain.errors import ReservedPathError
from perago.domain.paths import ATTEMPT_MARKER, is_refused_object, name_problem, object_path
from perago.domain.sync_plan import FileFacts, SyncPlan, plan_sync
from perago.ports.errors import (
    LocalDiskError,
    RequestRefusedError,
    UnsafeNameError,
    WorkspaceLostError,
    disk_errors,
)
from perago.ports.objects import Fetched, FileStamp, ObjectEntry, stamp_of
from perago.ports.system import Concurrency

SYMLINK_REFUSAL = "workspace publication does not support symlinks: {path}"
# Each thread holds one processor while it hashes: on most hosts the number of processors is the
# limit, not this one. It is for large hosts, where a worker has other attempts to look after, and
# where one disk is not read faster by more readers.
HASHING_THREADS_MAX = 8


class SymlinkError(RequestRefusedError, RuntimeError):
    """A symlink stands in the workspace; lakeFS has no such thing."""

    code = "PRG-W005"

    def __init__(self, path: str) -> None:
        super().__init__(SYMLINK_REFUSAL.format(path=path))
        self.path = path


class ScannedFile(NamedTuple):
    """One regular file as lstat shows it."""

    path: str
    stamp: FileStamp


def scan(directory: Path, folder: str = "", *, is_deep: bool = True) -> Iterator[ScannedFile]:
    """Every regular file below a directory but the marker, by relative path, in no order.

    A symlink raises; sockets, pipes and devices are skipped; an empty directory is nothing. With
    a folder, only what is below it; with `is_deep=False`, only what stands in the folder itself.
    """
    # Text and no Path, because os.scandir gives text for every folder below.
    pending = [(os.path.join(directory, folder), f"{folder}/" if folder else "")]  # noqa: PTH118
    while pending:
        current, outer = pending.pop()
        with os.scandir(current) as entries:
            for entry in entries:
                path = outer + entry.name
                if entry.is_symlink():
                    raise SymlinkError(path)
                if entry.is_dir(follow_symlinks=False):
                    if is_deep:
                        pending.append((entry.path, f"{path}/"))
                elif entry.name != ATTEMPT_MARKER:
                    status = entry.stat(follow_symlinks=False)
                    if stat.S_ISREG(status.st_mode):
                        yield ScannedFile(path, stamp_of(status))


@final
class WorkspaceIndex:
    """The files of one materialised workspace, each with what was written and its stamp."""

    def __init__(self, directory: Path, fetched: Sequence[Fetched]) -> None:
        """Begin with files that have just been written and closed."""
        self._directory = directory
        self._fetched = fetched
        self._digests: dict[ScannedFile, str] = {}
        with disk_errors(directory):
            status = directory.lstat()
        self._identity = status.st_dev, status.st_ino

    @cached_property
    def files(self) -> Mapping[str, Fetched]:
        """What was materialised by relative path; made when the plan first asks for it.

        A task that only reads never makes a plan, so its attempt does not pay for this.
        """
        outer = len(f"{self._directory}/")
        return {str(one.order.where)[outer:]: one for one in self._fetched}

    def remember(self, digests: Mapping[ScannedFile, str]) -> None:
        """Digests of files whose stamps were older than the reading: a later write changes them."""
        self._digests.update(digests)

    def digest(self, file: ScannedFile) -> str | None:
        """The digest of a file as it is, if it is remembered."""
        return self._digests.get(file)

    def entry(self, path: str) -> ObjectEntry | None:
        """The object that a file was when it was materialised; None for a new file."""
        one = self.files.get(path)
        return None if one is None else one.order.entry

    def left_alone(self, plan: SyncPlan) -> int:
        """How many files a plan leaves as they were."""
        written = sum(facts.path in self.files for facts in plan.upload)
        return len(self.files) - written - len(plan.delete)

    def require_same_directory(self) -> None:
        """Raise WorkspaceLostError unless the directory is still the one that was filled."""
        try:
            status = self._directory.lstat()
        except OSError as error:
            raise lost_workspace(self._directory) from error
        if (status.st_dev, status.st_ino) != self._identity:
            raise lost_workspace(self._directory)

    def survey(self) -> tuple[dict[str, FileFacts], list[ScannedFile]]:
        """Walk the directory: which files are untouched, and which are to be hashed."""
        self.require_same_directory()
        untouched: dict[str, FileFacts] = {}
        suspects: list[ScannedFile] = []
        newest_ctime_ns = max((one.stamp[2] for one in self._fetched), default=0)
        with disk_errors(self._directory):
            for file in scan(self._directory):
                one = self.files.get(file.path)
                # A write in the very clock tick of the last recorded file could leave the stamp
                # as it was. Files of that tick are always read.
                is_settled = file.stamp[2] < newest_ctime_ns
                if one is not None and one.stamp == file.stamp and is_settled:
                    untouched[file.path] = _facts(file.path, one)
                else:
                    suspects.append(file)
        return untouched, suspects


def _facts(path: str, one: Fetched) -> FileFacts:
    return FileFacts(path, one.md5, one.order.entry.size)


async def compare(
    concurrency: Concurrency, index: WorkspaceIndex, directory: Path, prefix: str
) -> SyncPlan:
    """Plan how a staging branch becomes equal to the directory."""
    found, suspects = await concurrency.blocking(index.survey)
    for suspect in suspects:
        refuse_name(prefix, suspect.path)
    unread: list[ScannedFile] = []
    for suspect in suspects:
        digest = index.digest(suspect)
        if digest is None:
            unread.append(suspect)
        else:
            found[suspect.path] = FileFacts(suspect.path, digest, suspect.stamp[0])
    found.update(await hashed_files(concurrency, directory, unread))
    # Asked again, because a directory that was replaced during the walk looks like one whose
    # files were all deleted.
    await concurrency.blocking(index.require_same_directory)
    return plan_sync({path: _facts(path, one) for path, one in index.files.items()}, found)


async def hashed_files(
    concurrency: Concurrency,
    directory: Path,
    files: Sequence[ScannedFile],
    *,
    threads_max: int = HASHING_THREADS_MAX,
) -> dict[str, FileFacts]:
    """Read files side by side; their facts by relative path."""

    async def hash_share(share: Sequence[ScannedFile]) -> Sequence[FileFacts]:
        return await concurrency.blocking(lambda: [_hashed(directory, file) for file in share])

    # Dealt out largest first, so that no thread is left with all the bytes.
    files = sorted(files, key=lambda file: file.stamp[0], reverse=True)
    shares = [files[start::threads_max] for start in range(threads_max)]
    shares = [share for share in shares if share]
    answers = await concurrency.each(shares, hash_share, at_most=threads_max)
    return {facts.path: facts for hashed in answers for facts in hashed}


def _hashed(directory: Path, file: ScannedFile) -> FileFacts:
    where = f"{directory}/{file.path}"
    try:
        return FileFacts(file.path, md5_of_file(where), file.stamp[0])
    except OSError as error:  # not `disk_errors`, which costs as much as a small file
        raise LocalDiskError.of(where, error) from error


def refuse_name(prefix: str, relative: str) -> None:
    """Raise for a file that may not be staged, or that no later task could materialise."""
    path = object_path(prefix, relative)
    # A file with the name of the actions' folder is refused, too: no disk can hold both.
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


def unknown_workspace(directory: Path) -> WorkspaceLostError:
    """The error for a directory that this process did not fill, or has forgotten."""
    return WorkspaceLostError(
        f"nothing is known of workspace {directory}: it was not materialised"
        " by this process, or was forgotten; start the attempt again"
    )
