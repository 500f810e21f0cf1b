"""Guardrails: what an author may expect of a workspace, and whether it holds.

The four functions declare, the model checks the path, and `check_guardrails` looks: at a directory
on the disk, or at a listing of object paths. Each directory is scanned at most once, and only when
a guardrail asks for it. The attempt marker and the repository's reserved folder are invisible.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from fnmatch import translate
from pathlib import Path, PurePath, PureWindowsPath
from typing import Annotated, Literal, Protocol, cast, final

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from perago.domain import errors
from perago.domain.paths import ACTIONS_PREFIX, ATTEMPT_MARKER

DEFAULT_REQUIRE_GLOB_MIN_COUNT = 1  # a name and a value of 0.6.1
_CODE = "PRG-T016"
_REFUSED_SEGMENTS = frozenset({"", ".", ".."})
_LEAVES_WORKSPACE = "workspace guardrail paths must be relative and must not contain '..'"
_MAGIC = re.compile(r"[*?\[]")
_VIOLATION = {"pre": errors.PreGuardrailViolation, "post": errors.PostGuardrailViolation}

GuardrailKind = Literal["require_file", "require_dir", "require_glob", "forbid_glob"]
_Count = Annotated[int, Field(ge=0)]


class WorkspaceGuardrail(BaseModel):
    """One declared expectation; made by the four functions below, not by hand."""

    model_config = ConfigDict(frozen=True)

    kind: GuardrailKind
    path: str
    min_count: _Count | None = None
    max_count: _Count | None = None

    @field_validator("path")
    @classmethod
    def _path_stays_inside(cls, path: str) -> str:
        check_guardrail_text(path)
        return path

    @model_validator(mode="before")
    @classmethod
    def _require_glob_has_a_minimum(cls, values: object) -> object:
        if not isinstance(values, dict):
            return values
        given = cast("dict[str, object]", values)
        if given.get("kind") == "require_glob":
            return {"min_count": DEFAULT_REQUIRE_GLOB_MIN_COUNT} | given
        return given

    @model_validator(mode="after")
    def _bounds_fit(self) -> "WorkspaceGuardrail":
        if self.kind != "require_glob":
            if self.min_count is not None or self.max_count is not None:
                raise errors.TaskDefinitionError(
                    f"{self.kind} does not accept count bounds", code=_CODE
                )
        elif self.max_count is not None and (self.min_count or 0) > self.max_count:
            raise errors.TaskDefinitionError("guardrail min_count must be <= max_count", code=_CODE)
        return self


def require_file(path: str | os.PathLike[str]) -> WorkspaceGuardrail:
    """Expect a file at `path`, relative to the prefix of the workspace."""
    return WorkspaceGuardrail(kind="require_file", path=guardrail_path(path))


def require_dir(path: str | os.PathLike[str]) -> WorkspaceGuardrail:
    """Expect a directory at `path`, relative to the prefix of the workspace."""
    return WorkspaceGuardrail(kind="require_dir", path=guardrail_path(path))


def require_glob(
    pattern: str | os.PathLike[str],
    *,
    min_count: int = DEFAULT_REQUIRE_GLOB_MIN_COUNT,
    max_count: int | None = None,
) -> WorkspaceGuardrail:
    """Expect that `pattern` matches at least `min_count` and at most `max_count` entries."""
    return WorkspaceGuardrail(
        kind="require_glob",
        path=guardrail_path(pattern),
        min_count=min_count,
        max_count=max_count,
    )


def forbid_glob(pattern: str | os.PathLike[str]) -> WorkspaceGuardrail:
    """Expect that `pattern` matches nothing."""
    return WorkspaceGuardrail(kind="forbid_glob", path=guardrail_path(pattern))


class EntryKind(Enum):
    """What an entry of a workspace is, as far as guardrails care."""

    FILE = "file"
    DIRECTORY = "directory"
    LINKED_DIRECTORY = "linked directory"
    OTHER = "other"

    @property
    def is_directory(self) -> bool:
        """Whether entries can be below it."""
        return self in {EntryKind.DIRECTORY, EntryKind.LINKED_DIRECTORY}


class WorkspaceTree(Protocol):
    """What a guardrail may ask. Paths are relative and POSIX; the empty path is the root."""

    def kind(self, path: str) -> EntryKind | None:
        """Say what is at `path`, links followed; None when nothing is."""
        ...

    def children(self, directory: str) -> Mapping[str, EntryKind]:
        """Return the entries of `directory` by name; empty when it is no directory."""
        ...


def is_visible(path: str) -> bool:
    """Whether a path of the workspace may be seen by a guardrail."""
    if path.rsplit("/", 1)[-1] == ATTEMPT_MARKER:
        return False
    return not f"{path}/".startswith(ACTIONS_PREFIX)


@final
class DirectoryTree(WorkspaceTree):
    """A workspace on the local disk."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._scanned: dict[str, Mapping[str, EntryKind]] = {}

    def kind(self, path: str) -> EntryKind | None:
        """Ask the file system about one path."""
        if not is_visible(path):
            return None
        full_path = self._root / path
        try:
            if full_path.is_file():
                return EntryKind.FILE
            if full_path.is_dir():
                return EntryKind.DIRECTORY
            return EntryKind.OTHER if full_path.exists() else None
        except ValueError:  # a NUL in the path: nothing can be there
            return None

    def children(self, directory: str) -> Mapping[str, EntryKind]:
        """Scan one directory, or answer from the scan made before."""
        if directory not in self._scanned:
            self._scanned[directory] = self._scan(directory)
        return self._scanned[directory]

    def _scan(self, directory: str) -> Mapping[str, EntryKind]:
        below = f"{directory}/" if directory else ""
        try:
            with os.scandir(self._root / directory) as entries:
                return {
                    entry.name: _kind_of(entry)
                    for entry in entries
                    if is_visible(below + entry.name)
                }
        except (FileNotFoundError, NotADirectoryError, PermissionError, ValueError):
            return {}


@final
class ListingTree(WorkspaceTree):
    """A workspace known by the paths of its files only; directories are what paths imply."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._paths = paths
        self._indexed: dict[str, dict[str, EntryKind]] | None = None

    def kind(self, path: str) -> EntryKind | None:
        """Look one path up."""
        directory, _, name = path.rpartition("/")
        return self.children(directory).get(name) if path else EntryKind.DIRECTORY

    def children(self, directory: str) -> Mapping[str, EntryKind]:
        """Return the entries below a directory; the listing is read through on first use."""
        if self._indexed is None:
            self._indexed = _index(self._paths)
        return self._indexed.get(directory, {})


def _index(paths: Iterable[str]) -> dict[str, dict[str, EntryKind]]:
    index: dict[str, dict[str, EntryKind]] = {"": {}}
    for path in paths:
        if not is_visible(path):
            continue
        child, kind = path, EntryKind.FILE
        while child:
            directory, _, name = child.rpartition("/")
            known = index.setdefault(directory, {})
            if name in known:
                break
            known[name] = kind
            child, kind = directory, EntryKind.DIRECTORY
    return index


def _kind_of(entry: os.DirEntry[str]) -> EntryKind:
    if entry.is_dir():
        return EntryKind.LINKED_DIRECTORY if entry.is_symlink() else EntryKind.DIRECTORY
    return EntryKind.FILE if entry.is_file() else EntryKind.OTHER


def check_guardrails(root: Path, guardrails: Sequence[WorkspaceGuardrail], phase: str) -> None:
    """Check a workspace on disk; each directory is read at most once for all guardrails."""
    check_guardrails_on_tree(DirectoryTree(root), guardrails, phase)


def check_guardrails_on_listing(
    paths: Iterable[str], guardrails: Sequence[WorkspaceGuardrail], phase: str
) -> None:
    """Check a workspace that is known by the relative paths of its files."""
    check_guardrails_on_tree(ListingTree(paths), guardrails, phase)


def check_guardrails_on_tree(
    tree: WorkspaceTree, guardrails: Sequence[WorkspaceGuardrail], phase: str
) -> None:
    """Raise the violation of `phase` for the first guardrail that does not hold."""
    for guardrail in guardrails:
        finding = _finding(tree, guardrail)
        if finding is not None:
            violation = _VIOLATION.get(phase, errors.GuardrailViolation)
            raise violation(f"{phase} guardrail {guardrail.kind}({guardrail.path!r}) {finding}")


def _finding(tree: WorkspaceTree, guardrail: WorkspaceGuardrail) -> str | None:
    path, low, high = guardrail.path, guardrail.min_count, guardrail.max_count
    if guardrail.kind == "require_file":
        return None if tree.kind(path) is EntryKind.FILE else "did not find a file"
    if guardrail.kind == "require_dir":
        kind = tree.kind(path)
        return None if kind is not None and kind.is_directory else "did not find a directory"
    count = sum(1 for _ in matching_paths(tree, path))
    if guardrail.kind == "forbid_glob":
        return f"matched {count} files" if count else None
    if low is not None and count < low:
        return f"matched {count} files; min_count={low}"
    if high is not None and count > high:
        return f"matched {count} files; max_count={high}"
    return None


def matching_paths(tree: WorkspaceTree, pattern: str) -> Iterator[str]:
    """Yield each matching path once; only directories the pattern can reach are scanned."""
    segments = pattern.split("/")
    for segment in segments:
        if "**" in segment and segment != "**":
            raise errors.TaskDefinitionError(
                "Invalid pattern: '**' can only be an entire path component", code=_CODE
            )
    seen: set[str] = set()
    for path in _select(tree, "", segments):
        if path not in seen:
            seen.add(path)
            yield path


def _select(tree: WorkspaceTree, directory: str, segments: list[str]) -> Iterator[str]:
    if not segments:
        yield directory
        return
    segment, rest = segments[0], segments[1:]
    if segment == "**":
        for found in _directories_below(tree, directory):
            yield from _select(tree, found, rest)
    elif _MAGIC.search(segment) is None:
        path = _join(directory, segment)
        kind = tree.kind(path)
        if kind is not None and (not rest or kind.is_directory):
            yield from _select(tree, path, rest)
    else:
        is_match = re.compile(translate(segment)).match
        for name, kind in tree.children(directory).items():
            if is_match(name) and (not rest or kind.is_directory):
                yield from _select(tree, _join(directory, name), rest)


def _directories_below(tree: WorkspaceTree, directory: str) -> Iterator[str]:
    kind = tree.kind(directory)
    if kind is None or not kind.is_directory:
        return
    pending = [directory]
    while pending:
        current = pending.pop()
        yield current
        pending += [
            _join(current, name)
            for name, kind in tree.children(current).items()
            if kind.is_directory and kind is not kind.LINKED_DIRECTORY
        ]


def _join(directory: str, name: str) -> str:
    return f"{directory}/{name}" if directory else name


def guardrail_path(path: str | os.PathLike[str]) -> str:
    """Return the POSIX form of what an author passed to a guardrail function."""
    if isinstance(path, PurePath):
        return _from_pure_path(path)
    text = os.fspath(path)
    check_guardrail_text(text)
    return text


def check_guardrail_text(text: str) -> None:
    """Refuse a stored path that could leave the workspace, on any operating system."""
    if "\\" in text:
        raise errors.TaskDefinitionError(
            "string guardrail paths must use '/' separators", code=_CODE
        )
    if text.startswith("/"):
        raise errors.TaskDefinitionError(
            "guardrail paths must be relative to WorkspaceSpec(prefix=...)", code=_CODE
        )
    if text[1:2] == ":" and text[0].isascii() and text[0].isalpha():
        raise errors.TaskDefinitionError(
            "drive-qualified guardrail paths are not allowed", code=_CODE
        )
    _check_segments(text.split("/"))


def _from_pure_path(path: PurePath) -> str:
    if not path.parts:
        raise errors.TaskDefinitionError("workspace guardrail paths must not be empty", code=_CODE)
    if isinstance(path, PureWindowsPath) and (path.drive or path.root):
        raise errors.TaskDefinitionError(
            "drive-qualified or absolute guardrail paths are not allowed", code=_CODE
        )
    if path.is_absolute():
        raise errors.TaskDefinitionError("absolute guardrail paths are not allowed", code=_CODE)
    _check_segments(path.parts)
    return path.as_posix()


def _check_segments(segments: tuple[str, ...] | list[str]) -> None:
    if not _REFUSED_SEGMENTS.isdisjoint(segments):
        raise errors.TaskDefinitionError(_LEAVES_WORKSPACE, code=_CODE)
