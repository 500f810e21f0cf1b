"""What a check sees: the staged commit, read-only, and in what it differs from the input."""

import io
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, final

from perago.domain.errors import TaskInputError
from perago.domain.paths import ATTEMPT_MARKER, is_reserved_object, object_path
from perago.ports.task_body import StagedChanges
from perago.ports.workspace import SparkWorkspace

_CODE = "PRG-I007"


@final
@dataclass(frozen=True, slots=True)
class StagedView:
    """The staged commit of a task, before it is decided or published; nothing can be written.

    All paths are relative to `WorkspaceSpec(prefix=...)` and in order. A check that raises fails
    the attempt: nothing is decided or published, and the staged commit stays for a look.
    """

    added: tuple[str, ...]
    """Files that the input commit does not have."""
    changed: tuple[str, ...]
    """Files that the input commit has with other bytes."""
    removed: tuple[str, ...]
    """Files of the input commit that the staged commit does not have."""
    _sizes: Mapping[str, int] = field(repr=False)
    _workspace: Path | SparkWorkspace = field(repr=False)

    @property
    def paths(self) -> tuple[str, ...]:
        """Every file of the staged commit."""
        return tuple(self._sizes)

    def size(self, path: str) -> int:
        """The bytes of one file; raises FileNotFoundError when the staged commit has none."""
        if path not in self._sizes:
            raise FileNotFoundError(f"{path} is not in the staged commit")
        return self._sizes[path]

    def open(self, path: str) -> BinaryIO:
        """Open one file to read its bytes; on Spark the file is read into memory."""
        self.size(path)
        if isinstance(self._workspace, Path):
            return (self._workspace / path).open("rb")
        row = self._workspace.table(path, format="binaryFile").select("content").head()
        if row is None:
            raise FileNotFoundError(f"Spark hides {path}, because a part of it begins with _ or .")
        return io.BufferedReader(io.BytesIO(bytes(row[0])))  # BytesIO alone could be written

    @property
    def spark(self) -> Any:  # noqa: ANN401 - a pyspark session
        """The session of a Spark task."""
        return self._on_spark().spark

    @property
    def read(self) -> Any:  # noqa: ANN401 - reads like pyspark's DataFrameReader
        """A Spark reader whose paths are relative to the prefix, at the staged commit."""
        return self._on_spark().read

    def _on_spark(self) -> SparkWorkspace:
        if isinstance(self._workspace, Path):
            text = "the workspace of this task is a directory, it has no Spark; use view.open(path)"
            raise TaskInputError(text, code=_CODE)
        return self._workspace


def open_view(staged: StagedChanges, workspace: Path | SparkWorkspace | None) -> StagedView:
    """Show what was staged; without sizes the directory has exactly its files."""
    assert workspace is not None, "only workspace tasks stage"
    sizes = staged.sizes
    if sizes is None:
        assert isinstance(workspace, Path), "Spark is given the sizes"
        sizes = dict(sorted(_sizes_below(workspace, staged.prefix)))
    return StagedView(staged.added, staged.changed, staged.removed, sizes, workspace)


def _sizes_below(root: Path, prefix: str) -> Iterator[tuple[str, int]]:
    """What of a directory is staged: neither the marker nor anything reserved, and no pipes."""
    for folder, _, names in os.walk(root):
        for name in names:
            path = Path(folder, name)
            relative = path.relative_to(root).as_posix()
            hidden = name == ATTEMPT_MARKER or is_reserved_object(object_path(prefix, relative))
            if not hidden and path.is_file():
                yield relative, path.stat().st_size
