"""One repository of the in-memory lakeFS: commits, their graph, branches, and references to them.

Two commits that differ in nothing, the second they were made in included, are one commit, as on the
server. Runs no hook.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from hashlib import sha256
from heapq import heappop, heappush
from types import MappingProxyType

from perago.adapters.memory.object_tree import EMPTY_TREE, Changes, StoredObject, Tree, change_of
from perago.domain import lakefs
from perago.ports import errors
from perago.ports.lakefs import Change

MAIN = lakefs.BranchName("main")  # the default branch of every repository here


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit with its tree; `generation` grows from parent to child, `number` with time."""

    record: lakefs.CommitRecord
    tree: Tree
    generation: int
    number: int

    @property
    def id(self) -> lakefs.CommitId:
        return self.record.commit


class CommitGraph:
    """Every commit of one repository; nothing is ever removed."""

    def __init__(self) -> None:
        self._commits: dict[lakefs.CommitId, Commit] = {}
        self._trees: dict[str, Tree] = {}
        self._hidden: dict[lakefs.CommitId, tuple[int, Commit]] = {}

    def add(
        self,
        tree: Tree,
        *,
        parents: tuple[lakefs.CommitId, ...],
        message: str,
        metadata: Mapping[str, str] = lakefs.NO_METADATA,
        created_at: int,
    ) -> Commit:
        """Add a commit, or find the equal one that is there."""
        facts = (message, tree.metarange, created_at, sorted(metadata.items()), parents)
        address = lakefs.CommitId(sha256(repr(facts).encode(errors="surrogatepass")).hexdigest())
        if address not in self._commits:
            record = lakefs.CommitRecord(
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
            self._commits[address] = Commit(record, tree, generation, number=len(self._commits))
            self._trees[tree.metarange] = tree
        return self._commits[address]

    def __getitem__(self, commit: lakefs.CommitId) -> Commit:
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
        return lakefs.CommitId(text) in self._hidden

    def find_whole(self, text: str) -> Commit | None:
        """The commit of exactly this id."""
        return self._commits.get(lakefs.CommitId(text))

    def find(self, text: str) -> Commit | None:
        """The commit whose id starts like this, when there is only one."""
        matches = [commit for address, commit in self._commits.items() if address.startswith(text)]
        return matches[0] if len(matches) == 1 else None

    def tree(self, metarange: str) -> Tree:
        """The tree that some commit has under this name."""
        if metarange not in self._trees:
            raise errors.ReferenceMissingError(f"no commit has the metarange {metarange!r}")
        return self._trees[metarange]

    def first_parents(self, start: lakefs.CommitId) -> Iterator[Commit]:
        """The commit and its first parents, down to the root."""
        commit = self._commits[start]
        yield commit
        while commit.record.parents:
            commit = self._commits[commit.record.parents[0]]
            yield commit

    def merge_base(self, left: lakefs.CommitId, right: lakefs.CommitId) -> Commit:
        """The best common ancestor: the first commit that both sides reach, youngest first.

        Of one generation the one made last is the youngest: after merges in both directions the
        base is one of several, and the server takes this one.
        """
        if left == right:
            return self._commits[left]
        reached = {left: 1, right: 2}
        queue: list[tuple[int, int, lakefs.CommitId]] = []
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

    def _age(self, address: lakefs.CommitId) -> tuple[int, int, lakefs.CommitId]:
        commit = self._commits[address]
        return -commit.generation, -commit.number, address


class BranchState:
    """A mutable branch of one repository."""

    def __init__(self, head: Commit, *, hidden: bool = False) -> None:
        self.head = head
        self.hidden = hidden
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


_REFERENCE = re.compile(r"(?P<name>[^~^@$]+)(?:(?P<view>[@$])|(?P<steps>(?:[~^][0-9]*)*))")
_STEP = re.compile(r"([~^])([0-9]*)")


@dataclass(frozen=True, slots=True)
class _Reference:
    """`main~2^1` is steps from a commit; `main@` a branch as committed, `main$` with the rest."""

    name: str
    view: str
    steps: tuple[tuple[str, int], ...]

    @property
    def has_staging(self) -> bool:
        """Whether a branch of this name is meant with its uncommitted objects."""
        return not self.steps and self.view != "@"


def _parse_reference(text: str) -> _Reference:
    found = _REFERENCE.fullmatch(text)
    if found is None:
        raise errors.ReferenceMissingError(f"{text!r} is not a reference")
    steps = ((sign, int(number or 1)) for sign, number in _STEP.findall(found["steps"] or ""))
    return _Reference(found["name"], found["view"] or "", tuple(steps))


class RepositoryState:
    """A mutable repository; it begins with one empty commit on its default branch."""

    def __init__(self, repository: lakefs.RepositoryId, *, created_at: int) -> None:
        self.id = repository
        self.read_only = False
        self.graph = CommitGraph()
        root = self.graph.add(
            EMPTY_TREE, parents=(), message="Repository created", created_at=created_at
        )
        self.branches: dict[lakefs.BranchName, BranchState] = {MAIN: BranchState(root)}
        self.tags: dict[lakefs.TagName, lakefs.CommitId] = {}
        self.protected_patterns: set[str] = set()

    def branch(self, name: lakefs.BranchName) -> BranchState:
        """The branch, or BranchMissingError."""
        if name not in self.branches:
            raise errors.BranchMissingError(f"repository {self.id} has no branch {name}")
        return self.branches[name]

    def is_protected(self, name: lakefs.BranchName) -> bool:
        """Whether a protection rule covers this name."""
        return any(fnmatchcase(name, pattern) for pattern in self.protected_patterns)

    def require_writable(self, branch: lakefs.BranchName | None = None) -> None:
        """Refuse writes to a read-only repository, or to a protected branch."""
        if branch is not None and self.is_protected(branch):
            raise errors.ProtectedBranchError(
                f"cannot write to protected branch {branch} of {self.id}"
            )
        if self.read_only:
            raise errors.RequestRefusedError(f"repository {self.id} is read-only")

    def commit_of(self, reference: str, *, past_server: bool = False) -> Commit:
        """The commit a reference means now, or ReferenceMissingError.

        Past the server nothing is hidden.
        """
        parsed = _parse_reference(reference)
        if not past_server and self.graph.is_hidden(parsed.name):
            raise errors.ReferenceMissingError(
                f"read commit {self.id}/{reference}: commit not found"
            )
        commit = self._named(parsed.name, reference)
        if parsed.view and lakefs.BranchName(parsed.name) not in self.branches:
            raise errors.ReferenceMissingError(f"{reference}: only a branch has such a view")
        if parsed.view == "$":
            raise errors.ReferenceMissingError(f"{reference}: what is not committed is no commit")
        for sign, number in parsed.steps:
            if sign == "~":
                for _ in range(number):
                    commit = self._parent(commit, 1, reference)
            elif number > 0:  # `^0` is the commit itself, as in git
                commit = self._parent(commit, number, reference)
        return commit

    def tree_of(self, reference: str, *, past_server: bool = False) -> Tree:
        """The objects a reference shows: a plain branch shows its uncommitted ones too."""
        parsed = _parse_reference(reference)
        branch = self.branches.get(lakefs.BranchName(parsed.name)) if parsed.has_staging else None
        if branch is not None:
            return branch.tree
        return self.commit_of(reference, past_server=past_server).tree

    def _named(self, name: str, reference: str) -> Commit:
        # A whole id first, because it needs no search; no branch or tag has such a name (law B39).
        # The beginning of an id last: a branch or a tag may be named like it, and is meant then.
        commit = self.graph.find_whole(name)
        if commit is not None:
            return commit
        if lakefs.BranchName(name) in self.branches:
            return self.branches[lakefs.BranchName(name)].head
        if lakefs.TagName(name) in self.tags:
            return self.graph[self.tags[lakefs.TagName(name)]]
        commit = self.graph.find(name)
        if commit is None:
            raise errors.ReferenceMissingError(f"repository {self.id} has no reference {reference}")
        return commit

    def _parent(self, commit: Commit, number: int, reference: str) -> Commit:
        parents = commit.record.parents
        if number > len(parents):
            raise errors.ReferenceMissingError(
                f"{reference}: commit {commit.id} has {len(parents)} parents, not {number}"
            )
        return self.graph[parents[number - 1]]
