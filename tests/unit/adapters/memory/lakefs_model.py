"""A second, slow opinion of a repository: plain dictionaries, no sharing, no graph walks.

What it cannot say for certain, it says as a set: which common ancestor a merge takes is the
server's business, so every outcome that some common ancestor explains is allowed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

# Bytes with the number of the write: rewritten bytes are equal to read and not the same object.
Files: TypeAlias = Mapping[str, tuple[bytes, int]]
CONFLICT = "conflict"
NO_CHANGES = "no changes"


@dataclass(frozen=True)
class ModelCommit:
    """Parents by position, the first one first, and every file."""

    parents: tuple[int, ...]
    files: Files


def shown(files: Files) -> dict[str, bytes]:
    """The files as a reader sees them."""
    return {path: content for path, (content, _) in files.items()}


@dataclass
class LakeFSModel:
    """Commits in order of creation, and what points to them."""

    commits: list[ModelCommit] = field(default_factory=lambda: [ModelCommit((), {})])
    heads: dict[str, int] = field(default_factory=lambda: {"main": 0})
    staged: dict[str, dict[str, tuple[bytes, int] | None]] = field(
        default_factory=lambda: {"main": {}}
    )
    # What was staged when something was last refused: it blocks relocations once it differs.
    sealed: dict[str, dict[str, tuple[bytes, int] | None]] = field(
        default_factory=lambda: {"main": {}}
    )
    tags: dict[str, int] = field(default_factory=dict[str, int])

    def create_branch(self, branch: str, commit: int) -> None:
        """Create a clean branch."""
        self.heads[branch] = commit
        self.staged[branch], self.sealed[branch] = {}, {}

    def delete_branch(self, branch: str) -> None:
        """Forget a branch, if there is one."""
        for names in (self.heads, self.staged, self.sealed):
            names.pop(branch, None)

    def branch_files(self, branch: str) -> dict[str, tuple[bytes, int]]:
        """The head with what is uncommitted."""
        return self._with(self.staged[branch], branch)

    def is_sealed_dirty(self, branch: str) -> bool:
        """Whether what was sealed differs from the head."""
        head = self.commits[self.heads[branch]].files
        return shown(self._with(self.sealed[branch], branch)) != shown(head)

    def seal(self, branch: str) -> None:
        """An operation that moves heads has looked at the branch."""
        self.sealed[branch] = dict(self.staged[branch])

    def _with(
        self, changes: Mapping[str, tuple[bytes, int] | None], branch: str
    ) -> dict[str, tuple[bytes, int]]:
        files = dict(self.commits[self.heads[branch]].files)
        for path, content in changes.items():
            files.pop(path, None)
            if content is not None:
                files[path] = content
        return files

    def write(self, branch: str, path: str, content: tuple[bytes, int] | None) -> None:
        """Stage one object; deleting what is not there leaves nothing behind."""
        if content is not None or path in self.branch_files(branch):
            self.staged[branch][path] = content

    def is_dirty(self, branch: str) -> bool:
        """Whether a reader sees anything uncommitted."""
        return shown(self.branch_files(branch)) != shown(self.commits[self.heads[branch]].files)

    def add(self, branch: str, files: Files, *parents: int) -> int:
        """Commit files on a branch."""
        self.commits.append(ModelCommit(parents, files))
        self.heads[branch] = len(self.commits) - 1
        self.staged[branch], self.sealed[branch] = {}, {}
        return self.heads[branch]

    def files_to_commit(self, branch: str) -> Files:
        """What a commit takes: rewritten bytes that were there already are not taken again."""
        before = self.commits[self.heads[branch]].files
        return {
            path: before[path] if path in before and before[path][0] == found[0] else found
            for path, found in self.branch_files(branch).items()
        }

    def chain(self, commit: int) -> list[int]:
        """The commit and its first parents."""
        found = [commit]
        while self.commits[found[-1]].parents:
            found.append(self.commits[found[-1]].parents[0])
        return found

    def ancestors(self, commit: int) -> set[int]:
        """The commit and everything it descends from."""
        return {commit}.union(*(self.ancestors(parent) for parent in self.commits[commit].parents))

    def merge_outcomes(self, source: int, target: int) -> list[str | dict[str, bytes]]:
        """Every outcome that some common ancestor explains."""
        common = self.ancestors(source) & self.ancestors(target)
        return [self._merge(base, source, target) for base in sorted(common)]

    def _merge(self, base: int, source: int, target: int) -> str | dict[str, bytes]:
        before, theirs, ours = (self.commits[side].files for side in (base, source, target))
        if before == theirs:
            return NO_CHANGES
        seen = tuple(map(shown, (before, theirs, ours)))
        merged: dict[str, bytes] = {}
        for path in {path for files in seen for path in files}:
            old, their, our = (files.get(path) for files in seen)
            if their not in (old, our) and our != old:
                return CONFLICT
            result = our if their == old else their
            if result is not None:
                merged[path] = result
        return merged
