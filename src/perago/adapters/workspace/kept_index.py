"""What this process knows of a workspace, as text, so that another process can go on with it.

`describe_workspace` writes down what was materialised and what the task function left.
`reopen_workspace` gives the index back if the directory is still what was described: same files,
same stamps, and same bytes where stamps are not enough. Both leave the digests of what they read in
the index, so that the comparison that follows does not read those files again.
"""

import json
import os
import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, cast

from perago.adapters.workspace.changes import ScannedFile, WorkspaceIndex, hashed_files, scan
from perago.adapters.workspace.disk import md5_of_file
from perago.adapters.workspace.inventory import columns_of, entries_of
from perago.ports.errors import WorkspaceLostError, disk_errors
from perago.ports.objects import Fetched, FetchOrder, FileStamp
from perago.ports.system import Concurrency

# Hashing this much takes about 0.1 s. Files beyond it have their stamps only, and stamps say
# nothing after a power cut: the disk may have kept the stamp of a write and not its bytes.
DIGESTED_BYTES_MAX = 64 * 1024 * 1024
_PROBE_NAME = ".perago-probe-now"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class LeftFile(NamedTuple):
    """A file as the task function left it; without a digest its stamp has to do."""

    path: str
    stamp: FileStamp
    md5: str | None

    @property
    def scanned(self) -> ScannedFile:
        """The same without its digest."""
        return ScannedFile(self.path, self.stamp)


class LeftFiles(NamedTuple):
    """What a task function left: files that are not as they were, and paths that are gone.

    `to_read` are those of the files whose stamps are not enough, `now` is when they were looked at.
    """

    now: int
    files: Sequence[ScannedFile]
    to_read: Sequence[ScannedFile]
    gone: Sequence[str]


async def describe_workspace(
    concurrency: Concurrency, directory: Path, index: WorkspaceIndex
) -> str:
    """Write down an index and the directory as it is now; hashes what stamps do not hold still."""
    left = await concurrency.blocking(lambda: _left(directory, index))
    read = await hashed_files(concurrency, directory, left.to_read)
    digests = {path: facts.checksum for path, facts in read.items()}
    _remember(index, left.now, left.to_read, digests)
    return await concurrency.blocking(lambda: _written(directory, index, left, digests))


def _written(
    directory: Path, index: WorkspaceIndex, left: LeftFiles, digests: Mapping[str, str]
) -> str:
    with disk_errors(directory):
        inode = directory.lstat().st_ino
    facts = {
        "boot": _boot(),
        "inode": inode,
        "entries": columns_of([one.order.entry for one in index.files.values()]),
        "fetched": [[one.md5, *one.stamp] for one in index.files.values()],
        "paths": list(index.files),
        "left": [[path, list(stamp), digests.get(path)] for path, stamp in left.files],
        "gone": left.gone,
    }
    packed = zlib.compress(json.dumps(facts, separators=(",", ":")).encode(), level=1)
    return b64encode(packed).decode()


def _remember(
    index: WorkspaceIndex, now: int, files: Sequence[ScannedFile], digests: Mapping[str, str]
) -> None:
    """A file whose stamp is of the very tick in which it was read may change and keep it."""
    settled = [file for file in files if file.stamp[2] < now and file.path in digests]
    index.remember({file: digests[file.path] for file in settled})


def reopen_workspace(directory: Path, described: str) -> WorkspaceIndex:
    """Read an index back; WorkspaceLostError where the directory is not what was described."""
    try:
        facts = cast("dict[str, object]", json.loads(zlib.decompress(b64decode(described))))
        fetched = list(_fetched(directory, facts))
        left = [
            LeftFile(path, cast("FileStamp", tuple(stamp)), md5)
            for path, stamp, md5 in cast("list[tuple[str, list[int], str | None]]", facts["left"])
        ]
        gone = set(cast("list[str]", facts["gone"]))
        inode, boot = facts["inode"], facts["boot"]
        paths = cast("list[str]", facts["paths"])
    except (zlib.error, ValueError, KeyError, TypeError, IndexError) as error:
        raise _changed(directory, "what was written down of it cannot be read") from error
    expected = {
        path: LeftFile(path, one.stamp, one.md5)
        for path, one in zip(paths, fetched, strict=True)
        if path not in gone
    }
    expected |= {file.path: file for file in left}
    with disk_errors(directory):
        if not directory.is_dir() or directory.lstat().st_ino != inode:
            raise _changed(directory, "it was replaced")
        _refuse_other_stamps(directory, expected)
        # The kernel that wrote the stamps still has the bytes, whether they are on the disk or not.
        # After another boot only the bytes themselves can tell.
        same_boot = bool(boot) and boot == _boot()
        now = _now(directory)
        _refuse_other_bytes(
            directory, left if same_boot else list(expected.values()), all_of_them=not same_boot
        )
    index = WorkspaceIndex(directory, fetched)
    digests = {file.path: file.md5 for file in left if file.md5 is not None}
    _remember(index, now, [file.scanned for file in left], digests)
    return index


def _left(directory: Path, index: WorkspaceIndex) -> LeftFiles:
    """The files that are not as they were materialised, and the paths that are gone."""
    index.require_same_directory()
    before, seen = index.files, set[str]()
    left: list[ScannedFile] = []
    to_read: list[ScannedFile] = []
    digested = 0
    with disk_errors(directory):
        now = _now(directory)
        for file in scan(directory):
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


def _fetched(directory: Path, facts: Mapping[str, object]) -> Iterator[Fetched]:
    entries = entries_of(cast("dict[str, list[object]]", facts["entries"]))
    paths, rows = cast("list[str]", facts["paths"]), cast("list[list[object]]", facts["fetched"])
    for entry, path, (md5, *stamp) in zip(entries, paths, rows, strict=True):
        order = FetchOrder(entry, f"{directory}/{path}")
        yield Fetched(order, cast("str", md5), cast("FileStamp", tuple(stamp)))


def _refuse_other_stamps(directory: Path, expected: Mapping[str, LeftFile]) -> None:
    missing = set(expected)
    for path, stamp in scan(directory):
        file = expected.get(path)
        if file is None:
            raise _changed(directory, f"{path} appeared")
        if file.stamp != stamp:
            raise _changed(directory, f"{path} was written")
        missing.discard(path)
    if missing:
        raise _changed(directory, f"{min(missing)} is gone")


def _refuse_other_bytes(directory: Path, files: Sequence[LeftFile], *, all_of_them: bool) -> None:
    """Compare the bytes of files with a digest; `all_of_them` refuses a file that has none."""
    for file in files:
        if file.md5 is None:
            if all_of_them:
                raise _changed(
                    directory, f"the machine was started again and {file.path} has no digest"
                )
        elif md5_of_file(f"{directory}/{file.path}") != file.md5:
            raise _changed(directory, f"the bytes of {file.path} are others")


def _boot() -> str:
    """A name of this start of this machine; empty where the system gives none."""
    with suppress(OSError):
        return _BOOT_ID.read_text(encoding="ascii").strip()
    return ""


def _changed(directory: Path, how: str) -> WorkspaceLostError:
    return WorkspaceLostError(
        f"attempt directory {directory} is not what its task function left: {how};"
        " the function runs again"
    )
