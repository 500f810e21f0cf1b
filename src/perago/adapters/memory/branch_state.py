"""One branch: its head and what is written on it and not committed.

A branch has one open staging area and sealed ones. An operation that is about to move the head
seals the open area first; when it is then refused, the sealed writes stay and keep the branch
dirty, which is what makes a later hard reset fail.
"""

from collections.abc import Iterator

from perago.adapters.memory.commit_graph import Commit
from perago.adapters.memory.object_tree import Changes, StoredObject, Tree, change_of
from perago.ports.lakefs import Change


class BranchState:
    """A mutable branch of one repository."""

    def __init__(self, head: Commit) -> None:
        self.head = head
        self._open: dict[str, StoredObject | None] = {}
        self._sealed: dict[str, StoredObject | None] = {}
        self._tree: Tree | None = head.tree

    @property
    def tree(self) -> Tree:
        """The branch as its readers see it: the head with all that is uncommitted."""
        if self._tree is None:
            self._tree = self.head.tree.with_changes(self._staged)
        return self._tree

    @property
    def tree_to_commit(self) -> Tree:
        """The head with what differs; an object written again as it was keeps its old address."""
        committed, staged = self.head.tree, self._staged
        different = {change.path: staged[change.path] for change in self._differences(staged)}
        return committed.with_changes(different)

    def get(self, path: str) -> StoredObject | None:
        """One object as the readers of the branch see it."""
        for area in (self._open, self._sealed):
            if path in area:
                return area[path]
        return self.head.tree.get(path)

    def stage(self, path: str, stored: StoredObject | None) -> None:
        """Write or delete one object, uncommitted."""
        self._open[path] = stored
        self._tree = None

    def seal(self) -> None:
        """Close the open area: what was written so far goes with the next commit, or blocks."""
        self._sealed = self._staged
        self._open = {}

    def uncommitted(self) -> list[Change]:
        """What differs from the head, in order of path."""
        return sorted(self._differences(self._staged), key=lambda change: change.path)

    @property
    def is_dirty(self) -> bool:
        """Whether anything uncommitted differs from the head."""
        return any(True for _ in self._differences(self._staged))

    @property
    def is_sealed_dirty(self) -> bool:
        """Whether anything sealed differs from the head; open writes do not count."""
        return any(True for _ in self._differences(self._sealed))

    def move(self, head: Commit) -> None:
        """Point to another commit and drop what was sealed for it."""
        self.head = head
        self._sealed = {}
        self._tree = None

    def relocate(self, head: Commit) -> None:
        """Point to another commit and keep everything uncommitted."""
        self.head = head
        self._tree = None

    def discard(self) -> None:
        """Forget everything uncommitted."""
        self._open = {}
        self._sealed = {}
        self._tree = None

    @property
    def _staged(self) -> dict[str, StoredObject | None]:
        return {**self._sealed, **self._open}

    def _differences(self, changes: Changes) -> Iterator[Change]:
        for path, now in changes.items():
            change = change_of(path, self.head.tree.get(path), now)
            if change is not None:
                yield change
