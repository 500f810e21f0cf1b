"""What has to move so that a staging branch equals a directory: a plan as a value.

Knows paths, sizes and checksums; who listed them is not known here.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FileFacts:
    """One file or object by its relative path."""

    path: str
    checksum: str
    size: int


@dataclass(frozen=True, slots=True)
class SyncPlan:
    """Relative paths to write, to copy on the server (target -> source), and to delete."""

    upload: tuple[FileFacts, ...] = ()
    copy: tuple[tuple[FileFacts, str], ...] = ()
    delete: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether nothing changed: the writable no-op."""
        return not (self.upload or self.copy or self.delete)


def plan_sync(base: Mapping[str, FileFacts], local: Mapping[str, FileFacts]) -> SyncPlan:
    """Compare what was materialised with what is there now.

    A new path whose bytes stand in the base is copied on the server instead of uploaded.
    """
    by_content: dict[tuple[str, int], str] = {}
    for path in sorted(base, reverse=True):
        facts = base[path]
        by_content[facts.checksum, facts.size] = path
    upload: list[FileFacts] = []
    copy: list[tuple[FileFacts, str]] = []
    for path in sorted(local):
        facts = local[path]
        before = base.get(path)
        if before is not None and (before.checksum, before.size) == (
            facts.checksum,
            facts.size,
        ):
            continue
        source = by_content.get((facts.checksum, facts.size))
        if source is not None and before is None:
            copy.append((facts, source))
        else:
            upload.append(facts)
    delete = tuple(sorted(set(base) - set(local)))
    return SyncPlan(tuple(upload), tuple(copy), delete)
