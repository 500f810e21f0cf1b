"""Directories and folders of repositories as trees of files, and what changed between two."""

import difflib
import filecmp
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import final

from perago.domain.errors import PeragoError
from perago.domain.paths import ROOT_PREFIX, is_reserved_object, object_path

Files = Mapping[str, bytes]
SHOWN_BYTES_MAX = 256 * 1024  # the time of difflib grows with the square of the lines
CONTEXT_LINES = 3  # as `diff -u`


class SymlinkFoundError(PeragoError, RuntimeError):
    """A link stands where an attempt would have to publish a file."""

    code = "PRG-W005"


@dataclass(frozen=True, slots=True)
class TreeDiff:
    """Paths that were added, changed and removed, each in order."""

    added: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]

    @property
    def is_empty(self) -> bool:
        """Whether nothing differs."""
        return not (self.added or self.changed or self.removed)


@final
class DirectoryFiles(Mapping[str, bytes]):
    """The files of a directory by their paths from there; each is read when it is asked for."""

    def __init__(self, paths: Mapping[str, Path]) -> None:
        self._paths = paths

    def __getitem__(self, path: str) -> bytes:
        return self._paths[path].read_bytes()

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths)

    def __len__(self) -> int:
        return len(self._paths)

    def __contains__(self, path: object) -> bool:
        return path in self._paths  # the inherited one would read the file

    def local_path(self, path: str) -> Path:
        """Where the file lies."""
        return self._paths[path]


def read_tree(root: Path, *, prefix: str = ROOT_PREFIX, skip_links: bool = False) -> DirectoryFiles:
    """Every file below a directory that stands for a folder of a repository."""
    paths: dict[str, Path] = {}
    for path in [] if root.is_symlink() and skip_links else sorted(root.rglob("*")):
        relative = path.relative_to(root).as_posix()
        if path.is_symlink():
            if skip_links:
                continue
            text = f"workspace publication does not support symlinks: {relative}"
            raise SymlinkFoundError(text)
        if path.is_file() and not is_reserved_object(object_path(prefix, relative)):
            paths[relative] = path
    return DirectoryFiles(paths)


def write_back(root: Path, before: Files, after: Files) -> None:
    """Bring a directory from one tree to another; files that did not change are not touched."""
    found = compare_trees(before, after)
    for relative in (*found.added, *found.changed):
        target = root / relative
        if not target.resolve().is_relative_to(root.resolve()):
            raise ValueError(f"{relative!r} is outside of the workspace")
        target.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(after, DirectoryFiles):
            shutil.copyfile(after.local_path(relative), target)
        else:
            target.write_bytes(after[relative])
    for path in found.removed:
        (root / path).unlink(missing_ok=True)


def compare_trees(before: Files, after: Files) -> TreeDiff:
    """What differs between two trees."""
    return TreeDiff(
        added=tuple(sorted(after.keys() - before.keys())),
        changed=tuple(
            sorted(path for path in before.keys() & after.keys() if _differs(before, after, path))
        ),
        removed=tuple(sorted(before.keys() - after.keys())),
    )


def diff_lines(before: Files, after: Files) -> Iterator[str]:
    """The difference as a unified diff; binary and very long files by their sizes."""
    found = compare_trees(before, after)
    for path in sorted({*found.added, *found.changed, *found.removed}):
        old, new = _size(before, path), _size(after, path)
        texts = _text(before, path), _text(after, path)
        if texts[0] is None or texts[1] is None:
            yield f"binary {path}: {_bytes(old)} -> {_bytes(new)}"
            continue
        yield from difflib.unified_diff(
            texts[0].splitlines(),
            texts[1].splitlines(),
            fromfile="/dev/null" if old is None else f"a/{path}",
            tofile="/dev/null" if new is None else f"b/{path}",
            lineterm="",
            n=CONTEXT_LINES,
        )
        if not old and not new:  # of two texts without a line `unified_diff` yields nothing
            yield f"{'added' if old is None else 'removed'} empty file {path}"


def _differs(before: Files, after: Files, path: str) -> bool:
    """Compare two files on the disk piece by piece: they may be larger than the memory."""
    if isinstance(before, DirectoryFiles) and isinstance(after, DirectoryFiles):
        return not filecmp.cmp(before.local_path(path), after.local_path(path), shallow=False)
    return _size(before, path) != _size(after, path) or before[path] != after[path]


def _text(files: Files, path: str) -> str | None:
    """What a diff can show: nothing of a file that is absent, None of what is no short text."""
    size = _size(files, path)
    if size is None:
        return ""
    if size > SHOWN_BYTES_MAX or b"\0" in (content := files[path]):
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None


def _size(files: Files, path: str) -> int | None:
    if path not in files:
        return None
    if isinstance(files, DirectoryFiles):
        return files.local_path(path).stat().st_size
    return len(files[path])


def _bytes(size: int | None) -> str:
    return "nothing" if size is None else f"{size} bytes"
