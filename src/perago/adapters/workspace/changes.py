"""What a task changed: the directory as it was filled, a walk over it, and the plan.

A file whose stamp (size, mtime, ctime, inode) is the recorded one was not written since. Every
other file is a suspect and is hashed. `describe_workspace` writes down what is known of a directory
and what the task function left there, so that another process can go on with it;
`reopen_workspace` gives it back if the directory is still what was described: same files, same
stamps, and same bytes where stamps are not enough. Knows no server.
"""

import json
import os
import stat
import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, cast, final

from perago.adapters.workspace.disk import md5_of_file
from perago.adapters.workspace.inventory import columns_of, entries_of
from perago.domain.errors import ReservedPathError
from perago.domain.paths import ATTEMPT_MARKER, is_refused_object, name_problem, object_path
from perago.domain.sync_plan import FileFacts, SyncPlan, plan_sync
from perago.ports import errors
from perago.ports.objects import Fetched, FetchOrder, FileStamp, ObjectEntry, stamp_of
from perago.ports.system import Concurrency

SYMLINK_REFUSAL = "workspace publication does not support symlinks: {path}"
# Each thread holds one processor while it hashes: on most hosts the number of processors is the
# limit, not this one. It is for large hosts, where a worker has other attempts to look after, and
# where one disk is not read faster by more readers.
HASHING_THREADS_MAX = 8
# Hashing this much takes about 0.1 s. Files beyond it have their stamps only, and stamps say
# nothing after a power cut: the disk may have kept the stamp of a write and not its bytes.
DIGESTED_BYTES_MAX = 64 * 1024 * 1024
_PROBE_NAME = ".perago-probe-now"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class SymlinkError(errors.RequestRefusedError, RuntimeError):
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
        self.directory = directory
        self._fetched = fetched
        self._digests: dict[ScannedFile, str] = {}
        with errors.disk_errors(directory):
            status = directory.lstat()
        self._identity = status.st_dev, status.st_ino

    @cached_property
    def files(self) -> Mapping[str, Fetched]:
        """What was materialised by relative path; made when the plan first asks for it.

        A task that only reads never makes a plan, so its attempt does not pay for this.
        """
        outer = len(f"{self.directory}/")
        return {str(one.order.where)[outer:]: one for one in self._fetched}

    def remember(self, digests: Mapping[ScannedFile, str], now: int) -> None:
        """Remember the digests of files, unless their stamps are of the very tick of the reading.

        A file of that tick may change and keep its stamp.
        """
        settled = {file: md5 for file, md5 in digests.items() if file.stamp[2] < now}
        self._digests.update(settled)

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
            status = self.directory.lstat()
        except OSError as error:
            raise lost_workspace(self.directory) from error
        if (status.st_dev, status.st_ino) != self._identity:
            raise lost_workspace(self.directory)

    def survey(self) -> tuple[dict[str, FileFacts], list[ScannedFile]]:
        """Walk the directory: which files are untouched, and which are to be hashed."""
        self.require_same_directory()
        untouched: dict[str, FileFacts] = {}
        suspects: list[ScannedFile] = []
        newest_ctime_ns = max((one.stamp[2] for one in self._fetched), default=0)
        with errors.disk_errors(self.directory):
            for file in scan(self.directory):
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


async def compare(concurrency: Concurrency, index: WorkspaceIndex, prefix: str) -> SyncPlan:
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
    found.update(await hashed_files(concurrency, index.directory, unread))
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
        raise errors.LocalDiskError.of(where, error) from error


def refuse_name(prefix: str, relative: str) -> None:
    """Raise for a file that may not be staged, or that no later task could materialise."""
    path = object_path(prefix, relative)
    # A file with the name of the actions' folder is refused, too: no disk can hold both.
    if is_refused_object(path) or is_refused_object(f"{path}/"):
        raise ReservedPathError(path)
    problem = name_problem(relative)
    if problem is not None:
        raise errors.UnsafeNameError(
            f"file {relative!r} {problem}: no later task could materialise it;"
            " nothing was staged; rename it in the task"
        )


class LeftFiles(NamedTuple):
    """What a task function left: files that are not as they were, and paths that are gone.

    `to_read` are those of the files whose stamps are not enough, `now` is when they were looked at.
    """

    now: int
    files: Sequence[ScannedFile]
    to_read: Sequence[ScannedFile]
    gone: Sequence[str]


async def describe_workspace(concurrency: Concurrency, index: WorkspaceIndex) -> str:
    """Write down an index and the directory as it is now; hashes what stamps do not hold still.

    The digests of what it reads stay in the index: the comparison does not read those files again.
    """
    left = await concurrency.blocking(lambda: _left(index))
    read = await hashed_files(concurrency, index.directory, left.to_read)
    digests = {file: read[file.path].checksum for file in left.to_read}
    index.remember(digests, left.now)
    return await concurrency.blocking(lambda: _written(index, left, digests))


def _written(index: WorkspaceIndex, left: LeftFiles, digests: Mapping[ScannedFile, str]) -> str:
    with errors.disk_errors(index.directory):
        inode = index.directory.lstat().st_ino
    facts = {
        "boot": _boot(),
        "inode": inode,
        "entries": columns_of([one.order.entry for one in index.files.values()]),
        "fetched": [[one.md5, *one.stamp] for one in index.files.values()],
        "paths": list(index.files),
        "left": [[file.path, list(file.stamp), digests.get(file)] for file in left.files],
        "gone": left.gone,
    }
    packed = zlib.compress(json.dumps(facts, separators=(",", ":")).encode(), level=1)
    return b64encode(packed).decode()


def reopen_workspace(directory: Path, described: str) -> WorkspaceIndex:
    """Read an index back; WorkspaceLostError where the directory is not what was described."""
    try:
        facts: dict[str, Any] = json.loads(zlib.decompress(b64decode(described)))
        fetched = list(_fetched(directory, facts))
        # A file without a digest has its stamp only.
        left = {ScannedFile(path, tuple(stamp)): md5 for path, stamp, md5 in facts["left"]}
        others = {*facts["gone"], *(file.path for file in left)}
        expected = left | {
            ScannedFile(path, one.stamp): one.md5
            for path, one in zip(facts["paths"], fetched, strict=True)
            if path not in others
        }
        inode, boot = facts["inode"], facts["boot"]
    except (zlib.error, ValueError, KeyError, TypeError, IndexError) as error:
        raise _changed(directory, "what was written down of it cannot be read") from error
    with errors.disk_errors(directory):
        if not directory.is_dir() or directory.lstat().st_ino != inode:
            raise _changed(directory, "it was replaced")
        _refuse_other_stamps(directory, dict(expected.keys()))
        # The kernel that wrote the stamps still has the bytes, whether they are on the disk or not.
        # After another boot only the bytes themselves can tell.
        same_boot = bool(boot) and boot == _boot()
        now = _now(directory)
        if same_boot:
            _refuse_other_bytes(directory, left, all_of_them=False)
        else:
            _refuse_other_bytes(directory, expected, all_of_them=True)
    index = WorkspaceIndex(directory, fetched)
    index.remember({file: md5 for file, md5 in left.items() if md5 is not None}, now)
    return index


def _left(index: WorkspaceIndex) -> LeftFiles:
    """The files that are not as they were materialised, and the paths that are gone."""
    index.require_same_directory()
    before, seen = index.files, set[str]()
    left: list[ScannedFile] = []
    to_read: list[ScannedFile] = []
    digested = 0
    with errors.disk_errors(index.directory):
        now = _now(index.directory)
        for file in scan(index.directory):
            path, stamp = file
            seen.add(path)
            one = before.get(path)
            # A write in the clock tick of this very moment may leave the stamp as it is.
            is_settled = stamp[2] < now
            if one is not None and one.stamp == stamp and is_settled:
                continue
            left.append(file)
            digested += stamp[0]
            if digested <= DIGESTED_BYTES_MAX or not is_settled:
                to_read.append(file)
    return LeftFiles(now, left, to_read, [path for path in before if path not in seen])


def _now(directory: Path) -> int:
    """The time that the disk of a directory would give to a write at this moment."""
    probe = directory / _PROBE_NAME
    descriptor = os.open(probe, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    try:
        return os.fstat(descriptor).st_ctime_ns
    finally:
        os.close(descriptor)
        probe.unlink()


def _fetched(directory: Path, facts: Mapping[str, Any]) -> Iterator[Fetched]:
    entries = entries_of(facts["entries"])
    for entry, path, (md5, *stamp) in zip(entries, facts["paths"], facts["fetched"], strict=True):
        order = FetchOrder(entry, f"{directory}/{path}")
        yield Fetched(order, md5, cast("FileStamp", tuple(stamp)))


def _refuse_other_stamps(directory: Path, missing: dict[str, FileStamp]) -> None:
    for path, stamp in scan(directory):
        if path not in missing:
            raise _changed(directory, f"{path} appeared")
        if missing.pop(path) != stamp:
            raise _changed(directory, f"{path} was written")
    if missing:
        raise _changed(directory, f"{min(missing)} is gone")


def _refuse_other_bytes(
    directory: Path, digests: Mapping[ScannedFile, str | None], *, all_of_them: bool
) -> None:
    """Compare the bytes of files with a digest; `all_of_them` refuses a file that has none."""
    for (path, _), md5 in digests.items():
        if md5 is None:
            if all_of_them:
                text = f"the machine was started again and {path} has no digest"
                raise _changed(directory, text)
        elif md5_of_file(f"{directory}/{path}") != md5:
            raise _changed(directory, f"the bytes of {path} are others")


def _boot() -> str:
    """A name of this start of this machine; empty where the system gives none."""
    with suppress(OSError):
        return _BOOT_ID.read_text(encoding="ascii").strip()
    return ""


def lost_workspace(directory: Path) -> errors.WorkspaceLostError:
    """The error for a directory that is not the one that was filled."""
    return errors.WorkspaceLostError(
        f"workspace {directory} vanished or was replaced while the task ran;"
        " nothing was staged; keep temporary-file cleaners away from PERAGO_WORKSPACE_ROOT"
    )


def unknown_workspace(directory: Path) -> errors.WorkspaceLostError:
    """The error for a directory that this process did not fill, or has forgotten."""
    return errors.WorkspaceLostError(
        f"nothing is known of workspace {directory}: it was not materialised"
        " by this process, or was forgotten; start the attempt again"
    )


def _changed(directory: Path, how: str) -> errors.WorkspaceLostError:
    return errors.WorkspaceLostError(
        f"attempt directory {directory} is not what its task function left: {how};"
        " the function runs again"
    )
