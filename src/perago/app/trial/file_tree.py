"""Trees of files as values: read a directory, write one, and say what differs.

Symlinks are refused as an attempt refuses them; reserved names are nobody's business.
"""

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from perago.domain.errors import PeragoError
from perago.domain.reserved_paths import is_reserved_object

Files = Mapping[str, bytes]
SHOWN_BYTES_MAX = 256 * 1024
CONTEXT_LINES = 3


class SymlinkFoundError(PeragoError, RuntimeError):
    """A link stands where an attempt would have to publish a file."""

    code = "PRG-W005"

    def __init__(self, path: str) -> None:
        super().__init__(f"workspace publication does not support symlinks: {path}")
        self.path = path


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


def read_tree(root: Path, *, skip_links: bool = False) -> dict[str, bytes]:
    """Every file below a directory by its path from there."""
    files: dict[str, bytes] = {}
    for path in sorted(root.rglob("*")):
        relative = path.relative_to(root).as_posix()
        if path.is_symlink():
            if skip_links:
                continue
            raise SymlinkFoundError(relative)
        if path.is_file() and not is_reserved_object(relative):
            files[relative] = path.read_bytes()
    return files


def write_tree(root: Path, files: Mapping[str, bytes | str]) -> None:
    """Write files below a directory."""
    for relative, content in files.items():
        target = root / relative
        if not target.resolve().is_relative_to(root.resolve()):
            raise ValueError(f"{relative!r} is outside of the workspace")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.encode() if isinstance(content, str) else content)


def write_back(root: Path, before: Files, after: Files) -> None:
    """Bring a directory from one tree to another; files that did not change are not touched."""
    found = compare_trees(before, after)
    write_tree(root, {path: after[path] for path in (*found.added, *found.changed)})
    for path in found.removed:
        (root / path).unlink(missing_ok=True)


def compare_trees(before: Files, after: Files) -> TreeDiff:
    """What differs between two trees."""
    return TreeDiff(
        added=tuple(sorted(after.keys() - before.keys())),
        changed=tuple(sorted(p for p in before.keys() & after.keys() if before[p] != after[p])),
        removed=tuple(sorted(before.keys() - after.keys())),
    )


def diff_lines(before: Files, after: Files) -> Iterator[str]:
    """The difference as a unified diff; binary and very long files by their sizes."""
    found = compare_trees(before, after)
    for path in sorted({*found.added, *found.changed, *found.removed}):
        old, new = before.get(path), after.get(path)
        texts = _text(old), _text(new)
        if texts[0] is None or texts[1] is None:
            yield f"binary {path}: {_size(old)} -> {_size(new)}"
            continue
        yield from difflib.unified_diff(
            texts[0].splitlines(),
            texts[1].splitlines(),
            fromfile="/dev/null" if old is None else f"a/{path}",
            tofile="/dev/null" if new is None else f"b/{path}",
            lineterm="",
            n=CONTEXT_LINES,
        )
        if not old and not new:
            yield f"{'added' if old is None else 'removed'} empty file {path}"


def _text(content: bytes | None) -> str | None:
    if content is None:
        return ""
    if b"\0" in content or len(content) > SHOWN_BYTES_MAX:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None


def _size(content: bytes | None) -> str:
    return "nothing" if content is None else f"{len(content)} bytes"
