"""Normal form of the paths and patterns that guardrails name: relative, POSIX, inside the prefix.

Knows no file system; whether something is there is asked by `guardrails`.
"""

import os
from pathlib import PurePath, PureWindowsPath

from perago.domain.authoring_errors import TaskDefinitionError

_CODE = "PRG-T016"
_REFUSED_SEGMENTS = frozenset({"", ".", ".."})
_LEAVES_WORKSPACE = "workspace guardrail paths must be relative and must not contain '..'"


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
        raise TaskDefinitionError("string guardrail paths must use '/' separators", code=_CODE)
    if text.startswith("/"):
        raise TaskDefinitionError(
            "guardrail paths must be relative to WorkspaceSpec(prefix=...)", code=_CODE
        )
    if text[1:2] == ":" and text[0].isascii() and text[0].isalpha():
        raise TaskDefinitionError("drive-qualified guardrail paths are not allowed", code=_CODE)
    _check_segments(text.split("/"))


def _from_pure_path(path: PurePath) -> str:
    if not path.parts:
        raise TaskDefinitionError("workspace guardrail paths must not be empty", code=_CODE)
    if isinstance(path, PureWindowsPath) and (path.drive or path.root):
        raise TaskDefinitionError(
            "drive-qualified or absolute guardrail paths are not allowed", code=_CODE
        )
    if path.is_absolute():
        raise TaskDefinitionError("absolute guardrail paths are not allowed", code=_CODE)
    _check_segments(path.parts)
    return path.as_posix()


def _check_segments(segments: tuple[str, ...] | list[str]) -> None:
    if not _REFUSED_SEGMENTS.isdisjoint(segments):
        raise TaskDefinitionError(_LEAVES_WORKSPACE, code=_CODE)
