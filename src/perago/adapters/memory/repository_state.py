"""One repository: commits, branches, tags and protection, and what a reference means in it.

Says what is there and what a name means; what an operation does is in the modules named for it.
"""

from fnmatch import fnmatchcase

from perago.adapters.memory.branch_state import BranchState
from perago.adapters.memory.commit_graph import Commit, CommitGraph
from perago.adapters.memory.object_tree import EMPTY_TREE, StoredObject, Tree
from perago.adapters.memory.reference_expression import ReferenceExpression, Step, parse_reference
from perago.domain.logical_execution import BranchName, CommitId, RepositoryId, TagName
from perago.ports.errors import (
    BranchMissingError,
    ProtectedBranchError,
    ReferenceMissingError,
    RequestRefusedError,
)


class RepositoryState:
    """A mutable repository; it begins with one empty commit on its default branch."""

    def __init__(
        self, repository: RepositoryId, *, default_branch: BranchName, created_at: int
    ) -> None:
        self.id = repository
        self.default_branch = default_branch
        self.read_only = False
        self.graph = CommitGraph()
        root = self.graph.add(
            EMPTY_TREE, parents=(), message="Repository created", created_at=created_at
        )
        self.branches: dict[BranchName, BranchState] = {default_branch: BranchState(root)}
        self.tags: dict[TagName, CommitId] = {}
        self.protected_patterns: set[str] = set()

    def branch(self, name: BranchName) -> BranchState:
        """The branch, or BranchMissingError."""
        if name not in self.branches:
            raise BranchMissingError(f"repository {self.id} has no branch {name}")
        return self.branches[name]

    def is_protected(self, name: BranchName) -> bool:
        """Whether a protection rule covers this name."""
        return any(fnmatchcase(name, pattern) for pattern in self.protected_patterns)

    def require_writable(self, branch: BranchName | None = None) -> None:
        """Refuse writes to a read-only repository, or to a protected branch."""
        if branch is not None and self.is_protected(branch):
            raise ProtectedBranchError(f"cannot write to protected branch {branch} of {self.id}")
        if self.read_only:
            raise RequestRefusedError(f"repository {self.id} is read-only")

    def commit_of(self, reference: str) -> Commit:
        """The commit a reference means now, or ReferenceMissingError."""
        expression = parse_reference(reference)
        commit = self._named(expression, reference)
        if expression.is_view and self._branch_named(expression.name) is None:
            raise ReferenceMissingError(f"{reference}: only a branch has such a view")
        if expression.has_staging and expression.is_view:
            raise ReferenceMissingError(f"{reference}: what is not committed is no commit")
        for step, number in expression.steps:
            if step is Step.FIRST_PARENTS:
                for _ in range(number):
                    commit = self._parent(commit, 1, reference)
            elif step is Step.PARENT and number > 0:
                commit = self._parent(commit, number, reference)
        return commit

    def tree_of(self, reference: str) -> Tree:
        """The objects a reference shows: a plain branch shows its uncommitted ones too."""
        branch = self._staging_of(reference)
        return self.commit_of(reference).tree if branch is None else branch.tree

    def object_at(self, reference: str, path: str) -> StoredObject | None:
        """One object a reference shows, or None."""
        branch = self._staging_of(reference)
        return self.commit_of(reference).tree.get(path) if branch is None else branch.get(path)

    def _staging_of(self, reference: str) -> BranchState | None:
        expression = parse_reference(reference)
        return self._branch_named(expression.name) if expression.has_staging else None

    def _branch_named(self, name: str) -> BranchState | None:
        """The branch that a name means; a whole commit id means the commit."""
        if self.graph.find_whole(name) is not None:
            return None
        return self.branches.get(BranchName(name))

    def _named(self, expression: ReferenceExpression, reference: str) -> Commit:
        name = expression.name
        if self.graph.is_hidden(name):
            raise ReferenceMissingError(f"read commit {self.id}/{reference}: commit not found")
        commit = self.graph.find_whole(name)
        if commit is not None:
            return commit
        if BranchName(name) in self.branches:
            return self.branches[BranchName(name)].head
        if TagName(name) in self.tags:
            return self.graph[self.tags[TagName(name)]]
        commit = self.graph.find(name)
        if commit is None:
            raise ReferenceMissingError(f"repository {self.id} has no reference {reference}")
        return commit

    def _parent(self, commit: Commit, number: int, reference: str) -> Commit:
        parents = commit.record.parents
        if number > len(parents):
            raise ReferenceMissingError(
                f"{reference}: commit {commit.id} has {len(parents)} parents, not {number}"
            )
        return self.graph[parents[number - 1]]
