"""What has to move so that a staging branch equals a directory: a plan as a value.

Knows paths, sizes and checksums; who listed them is not known here.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FileFacts:
    """One file or object by its relative path."""

    path: str
    checksum: str
    size: int


@dataclass(frozen=True, slots=True)
class SyncPlan:
    """Relative paths to write, to copy on the server (target -> source), and to delete.

    Each is counted and gone through in order of path, nothing else: a large plan is read from
    where it is kept, page by page.
    """

    upload: Collection[FileFacts] = ()
    copy: Collection[tuple[FileFacts, str]] = ()
    delete: Collection[str] = ()

    @property
    def is_empty(self) -> bool:
        """Whether nothing changed: the writable no-op."""
        return not (self.upload or self.copy or self.delete)


def plan_sync(base: Mapping[str, FileFacts], local: Mapping[str, FileFacts]) -> SyncPlan:
    """Compare what was materialised with what is there now.

    A new path whose bytes stand in the base is copied on the server instead of uploaded. An
    empty file is uploaded: it costs the same and takes nobody else's content type along.
    """
    changed = [facts for path, facts in sorted(local.items()) if _differs(base.get(path), facts)]
    added = {(facts.checksum, facts.size) for facts in changed if facts.path not in base}
    sources = _sources(base, added)
    upload: list[FileFacts] = []
    copy: list[tuple[FileFacts, str]] = []
    for facts in changed:
        source = sources.get((facts.checksum, facts.size))
        if source is None or facts.path in base or facts.size == 0:
            upload.append(facts)
        else:
            copy.append((facts, source))
    return SyncPlan(tuple(upload), tuple(copy), tuple(sorted(set(base) - set(local))))


def _differs(before: FileFacts | None, now: FileFacts) -> bool:
    return before is None or (before.checksum, before.size) != (now.checksum, now.size)


def _sources(
    base: Mapping[str, FileFacts], wanted: set[tuple[str, int]]
) -> dict[tuple[str, int], str]:
    """The first path of the base, in order, that holds each wanted content."""
    found: dict[tuple[str, int], str] = {}
    if wanted:
        for path in sorted(base):
            content = base[path].checksum, base[path].size
            if content in wanted:
                found.setdefault(content, path)
    return found
