"""Immutable trees of objects: what a commit points to, how two of them differ, and how they merge.

Knows nothing of commits, branches or hooks. A tree shares its objects with the trees it was made
from and sorts its paths once, when it is first listed; a page then costs its own length.
`merge_trees` compares identities, as the server does: the same bytes written twice agree.
"""

from bisect import bisect_left, bisect_right
from collections.abc import ItemsView, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property, lru_cache, partial
from hashlib import blake2b, file_digest, md5
from pathlib import Path
from typing import TypeAlias

from perago.domain.lakefs import NO_METADATA
from perago.ports.lakefs import Change, ChangeKind
from perago.ports.objects import ObjectEntry

# A tree's fingerprint is the sum of its objects' digests of 128 bits, modulo this: one changed
# object changes it without a walk over all of them.
_FINGERPRINTS = 1 << 128


@dataclass(frozen=True, slots=True, eq=False)
class StoredObject:
    """One written object; `address` is new for each write, so equal bytes are told apart.

    `held` is the bytes or, of a large object, the file that has them.
    """

    held: bytes | Path
    size: int
    checksum: str
    content_type: str
    metadata: Mapping[str, str]
    modified_at: int
    address: int
    identity: bytes = field(repr=False)

    @property
    def content(self) -> bytes:
        return self.held.read_bytes() if isinstance(self.held, Path) else self.held

    def entry(self, path: str) -> ObjectEntry:
        """What a listing shows of this object at this path."""
        return ObjectEntry(
            path=path,
            checksum=self.checksum,
            size=self.size,
            modified_at=self.modified_at,
            content_type=self.content_type,
            metadata=self.metadata,
        )

    def fingerprint(self, path: str) -> int:
        """A number for this object at this path; a tree's is the sum of its objects'."""
        text = f"{len(path)} {path} {self.address} ".encode(errors="surrogatepass")
        return int.from_bytes(blake2b(text + self.identity, digest_size=16).digest())


def store_object(
    content: bytes | Path,
    *,
    content_type: str,
    metadata: Mapping[str, str] = NO_METADATA,
    modified_at: int,
    address: int,
) -> StoredObject:
    """Make an object; two of one identity do not differ for a diff, a merge or a commit."""
    if isinstance(content, Path):
        size = content.stat().st_size
        with content.open("rb") as file:
            checksum = file_digest(file, partial(md5, usedforsecurity=False)).hexdigest()
    else:
        size, checksum = len(content), md5(content, usedforsecurity=False).hexdigest()
    facts = (checksum, content_type, sorted(metadata.items()))
    return StoredObject(
        held=content,
        size=size,
        checksum=checksum,
        content_type=content_type,
        metadata=dict(metadata),
        modified_at=modified_at,
        address=address,
        identity=blake2b(repr(facts).encode(errors="surrogatepass"), digest_size=16).digest(),
    )


# What a write leaves behind: None is a deletion.
Changes: TypeAlias = Mapping[str, StoredObject | None]


class Tree:
    """Objects by path; never changes."""

    def __init__(self, objects: dict[str, StoredObject], fingerprint: int) -> None:
        self._objects = objects
        self._fingerprint = fingerprint
        self.metarange = f"{fingerprint:032x}"

    def get(self, path: str) -> StoredObject | None:
        """The object at a path, or None."""
        return self._objects.get(path)

    def items(self) -> ItemsView[str, StoredObject]:
        """Every path with its object, in no order."""
        return self._objects.items()

    def with_changes(self, changes: Changes) -> "Tree":
        """The tree after these writes and deletions."""
        if not changes:
            return self
        objects = dict(self._objects)
        fingerprint = self._fingerprint
        for path, stored in changes.items():
            before = objects.pop(path, None)
            if before is not None:
                fingerprint -= before.fingerprint(path)
            if stored is not None:
                fingerprint += stored.fingerprint(path)
                objects[path] = stored
        return Tree(objects, fingerprint % _FINGERPRINTS)

    def under(self, prefix: str, after: str = "") -> Iterator[tuple[str, StoredObject]]:
        """Objects whose path starts with `prefix`, in order of path, after a path."""
        for path in _paths_under(self._paths, prefix, after):
            yield path, self._objects[path]

    @cached_property
    def _paths(self) -> list[str]:
        return sorted(self._objects)


# The first commit of a repository has no metarange, as on the server.
EMPTY_TREE = Tree({}, 0)
EMPTY_TREE.metarange = ""
# Whoever commits no objects later gets one, which a merge does not take for the first.
NAMED_EMPTY_TREE = Tree({}, 0)


def named(tree: Tree) -> Tree:
    """The tree as the server writes it down: only the first commit's has no name."""
    return tree if tree.metarange else NAMED_EMPTY_TREE


def diff(left: Tree, right: Tree, prefix: str = "", after: str = "") -> Iterator[Change]:
    """Paths under `prefix` that differ from left to right, in order, after a path."""
    paths, changes = _all_changes(left, right)
    for path in _paths_under(paths, prefix, after):
        yield changes[path]


def change_of(path: str, before: StoredObject | None, now: StoredObject | None) -> Change | None:
    """What happened to one path, or None when nothing did."""
    if before is None:
        return None if now is None else Change(path, ChangeKind.ADDED, now.entry(path))
    if now is None:
        return Change(path, ChangeKind.REMOVED)
    if before.identity == now.identity:
        return None
    return Change(path, ChangeKind.CHANGED, now.entry(path))


# Pages of one diff come one after the other: the whole answer is worked out once.
@lru_cache(maxsize=16)
def _all_changes(left: Tree, right: Tree) -> tuple[Sequence[str], Mapping[str, Change]]:
    found = (change_of(path, left.get(path), right.get(path)) for path in touched(left, right))
    changes = {change.path: change for change in found if change is not None}
    return sorted(changes), changes


def touched(left: Tree, right: Tree) -> set[str]:
    """Paths that may differ: everything that is not one and the same object on both sides."""
    if left is right:
        return set()
    return {path for path, _ in left.items() ^ right.items()}


def _paths_under(paths: Sequence[str], prefix: str, after: str) -> Iterator[str]:
    """The paths, which are in order, that have a prefix and come after one."""
    start = max(bisect_left(paths, prefix), bisect_right(paths, after) if after else 0)
    for position in range(start, len(paths)):
        if not paths[position].startswith(prefix):
            return
        yield paths[position]


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
    # As the server: a target that is as the base takes the source's tree without a look into it.
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
    if source.metarange != base.metarange:
        # Where both have equal objects the server writes the source's, which names another tree.
        equal = ((path, source.get(path), target.get(path)) for path in touched(source, target))
        taken |= {path: theirs for path, theirs, ours in equal if theirs and _same(theirs, ours)}
    if conflicts:
        return ConflictingPaths(tuple(sorted(conflicts)))
    return named(target.with_changes(taken))


def _same(one: StoredObject | None, other: StoredObject | None) -> bool:
    if one is None or other is None:
        return one is other
    return one.identity == other.identity
