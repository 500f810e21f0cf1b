"""Patterns over a workspace tree, with one meaning on every Python version and for listings too.

The meaning is that of `pathlib.Path.glob` in Python 3.11: `**` stands for directories only and
does not follow links, `*` also matches names that begin with a dot. Judges nothing.
"""

import re
from collections.abc import Iterator
from fnmatch import translate

from perago.app.authoring.workspace_tree import WorkspaceTree
from perago.domain.authoring_errors import TaskDefinitionError

_MAGIC = re.compile(r"[*?\[]")


def matching_paths(tree: WorkspaceTree, pattern: str) -> Iterator[str]:
    """Yield each matching path once; only directories the pattern can reach are scanned."""
    segments = pattern.split("/")
    for segment in segments:
        if "**" in segment and segment != "**":
            raise TaskDefinitionError(
                "Invalid pattern: '**' can only be an entire path component", code="PRG-T016"
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
