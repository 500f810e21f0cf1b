"""Three-way merge of trees: what both sides made of their base, or that they disagree.

Knows no commit. Compares identities, as the server does: the same bytes written twice agree.
"""

from dataclasses import dataclass
from enum import StrEnum

from perago.adapters.memory.object_tree import StoredObject, Tree, named, touched


class Strategy(StrEnum):
    """Who wins where both sides changed one object."""

    NONE = "default"
    SOURCE_WINS = "source-wins"
    TARGET_WINS = "dest-wins"


@dataclass(frozen=True, slots=True)
class ConflictingPaths:
    """Both sides changed these objects, differently."""

    paths: tuple[str, ...]


def merge_trees(
    *, base: Tree, source: Tree, target: Tree, strategy: Strategy = Strategy.NONE
) -> Tree | ConflictingPaths:
    """The target's tree with what the source changed since the base."""
    if target.metarange == base.metarange:
        return source
    taken: dict[str, StoredObject | None] = {}
    conflicts: list[str] = []
    for path in touched(base, source):
        before, theirs, ours = base.get(path), source.get(path), target.get(path)
        if _same(theirs, before) or _same(theirs, ours):
            continue
        if _same(ours, before) or strategy is Strategy.SOURCE_WINS:
            taken[path] = theirs
        elif strategy is Strategy.NONE:
            conflicts.append(path)
    if conflicts:
        return ConflictingPaths(tuple(sorted(conflicts)))
    return named(target.with_changes(taken))


def _same(one: StoredObject | None, other: StoredObject | None) -> bool:
    if one is None or other is None:
        return one is other
    return one.identity == other.identity
