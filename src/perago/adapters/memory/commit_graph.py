"""Commits as content addresses, their graph, and the walks over it.

Knows no branch, no tag and no hook. Two commits that differ in nothing, the second they were made
in included, are one commit, as on the server.
"""

from bisect import bisect_left, insort
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from heapq import heappop, heappush
from types import MappingProxyType

from perago.adapters.memory.object_tree import Tree
from perago.domain.logical_execution import NO_METADATA, CommitId, CommitRecord
from perago.ports.errors import ReferenceMissingError


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit with its tree; `generation` grows from parent to child, `number` with time."""

    record: CommitRecord
    tree: Tree
    generation: int
    number: int

    @property
    def id(self) -> CommitId:
        """The commit's address."""
        return self.record.commit


class CommitGraph:
    """Every commit of one repository; nothing is ever removed."""

    def __init__(self) -> None:
        self._commits: dict[CommitId, Commit] = {}
        self._ids: list[CommitId] = []
        self._trees: dict[str, Tree] = {}
        self._hidden: dict[CommitId, tuple[int, Commit]] = {}
        self._seen_through = False

    def add(
        self,
        tree: Tree,
        *,
        parents: tuple[CommitId, ...],
        message: str,
        metadata: Mapping[str, str] = NO_METADATA,
        created_at: int,
    ) -> Commit:
        """Add a commit, or find the equal one that is there."""
        facts = (message, tree.metarange, created_at, sorted(metadata.items()), parents)
        address = CommitId(sha256(repr(facts).encode(errors="surrogatepass")).hexdigest())
        if address not in self._commits:
            record = CommitRecord(
                commit=address,
                parents=parents,
                metadata=MappingProxyType(dict(metadata)),
                message=message,
                metarange=tree.metarange,
                created_at=created_at,
            )
            generation = 1 + max(
                (self._commits[parent].generation for parent in parents), default=0
            )
            self._commits[address] = Commit(record, tree, generation, len(self._ids))
            self._trees[tree.metarange] = tree
            insort(self._ids, address)
        return self._commits[address]

    def __getitem__(self, commit: CommitId) -> Commit:
        return self._commits[commit]

    def hide(self, commit: Commit, seen_as: Mapping[str, str], *, until: int) -> None:
        """Show other metadata than a commit was made with, and do not find it by its whole id.

        The server does so after a cherry-pick: it writes the metadata of the copy into the cached
        original, whose id then no longer fits.
        """
        _, original = self._hidden.get(commit.id, (until, commit))
        self._hidden[commit.id] = until, original
        record = replace(original.record, metadata=MappingProxyType(dict(seen_as)))
        self._commits[commit.id] = replace(original, record=record)

    def show_hidden(self, now: int) -> None:
        """Bring back what was hidden until now."""
        for commit in [each for each, (until, _) in self._hidden.items() if until <= now]:
            _, self._commits[commit] = self._hidden.pop(commit)

    def is_hidden(self, text: str) -> bool:
        """Whether this is the whole id of a hidden commit."""
        return not self._seen_through and CommitId(text) in self._hidden

    @contextmanager
    def seen_through(self) -> Generator[None]:
        """Nothing is hidden from whoever looks at the state, and asks no server."""
        self._seen_through = True
        try:
            yield
        finally:
            self._seen_through = False

    def find_whole(self, text: str) -> Commit | None:
        """The commit of exactly this id."""
        return self._commits.get(CommitId(text))

    def find(self, text: str) -> Commit | None:
        """The commit whose id starts like this, when there is only one."""
        start = bisect_left(self._ids, text)
        matches = [found for found in self._ids[start : start + 2] if found.startswith(text)]
        return self._commits[matches[0]] if len(matches) == 1 else None

    def tree(self, metarange: str) -> Tree:
        """The tree that some commit has under this name."""
        if metarange not in self._trees:
            raise ReferenceMissingError(f"no commit has the metarange {metarange!r}")
        return self._trees[metarange]

    def first_parents(self, start: CommitId) -> Iterator[Commit]:
        """The commit and its first parents, down to the root."""
        commit = self._commits[start]
        yield commit
        while commit.record.parents:
            commit = self._commits[commit.record.parents[0]]
            yield commit

    def merge_base(self, left: CommitId, right: CommitId) -> Commit:
        """The best common ancestor: the first commit that both sides reach, youngest first.

        Of one generation the one made last is the youngest: after merges in both directions the
        base is one of several, and the server takes this one.
        """
        if left == right:
            return self._commits[left]
        reached = {left: 1, right: 2}
        queue: list[tuple[int, int, CommitId]] = []
        for side in (left, right):
            heappush(queue, self._age(side))
        while queue:
            _, _, address = heappop(queue)
            for parent in self._commits[address].record.parents:
                if parent not in reached:
                    heappush(queue, self._age(parent))
                reached[parent] = reached.get(parent, 0) | reached[address]
                if reached[parent] == 1 | 2:
                    return self._commits[parent]
        # Every commit descends from the one the repository was created with.
        raise AssertionError((left, right))

    def _age(self, address: CommitId) -> tuple[int, int, CommitId]:
        commit = self._commits[address]
        return -commit.generation, -commit.number, address
