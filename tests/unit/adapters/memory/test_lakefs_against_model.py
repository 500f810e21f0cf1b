"""Any history made through the ports is the history a plain model makes."""

from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    rule,
)
from tests.people import merge

from perago.adapters.memory.installations import RepositoryBuilder
from perago.adapters.memory.lakefs import MemoryLakeFS
from perago.adapters.memory.lakefs_ports import MemoryBranches, MemoryCommits, MemoryTags
from perago.adapters.memory.system import VirtualClock, WorkerHandle
from perago.domain.lakefs import BranchName, CommitId, TagName
from perago.domain.outcome import (
    DirtyTarget,
    MergeConflict,
    Merged,
    NoChanges,
    Relocated,
    RelocationRefused,
)
from perago.ports.errors import NothingToCommitError, TagExistsError
from perago.ports.lakefs import CommitRequest, MergeRequest

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
    """A second, slow opinion of a repository: plain dictionaries, no sharing, no graph walks.

    Commits in order of creation, and what points to them. What it cannot say for certain, it says
    as a set: which common ancestor a merge takes is the server's business, so every outcome that
    some common ancestor explains is allowed.
    """

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


Result = TypeVar("Result")
WALK_MAX = 1024
ROOT_CHILD = 1
PATHS = st.sampled_from(["a", "a/b", "a0", "b"])
CONTENTS = st.sampled_from([b"0", b"1", b"2", None])
NAMES = st.sampled_from(["v1", "v2", "v3"])


def run_by_hand(coroutine: Coroutine[Any, Any, Result], *, turns_max: int = 100) -> Result:
    """Drive a coroutine without any event loop."""
    for _ in range(turns_max):
        try:
            coroutine.send(None)
        except StopIteration as finished:
            result: Result = finished.value
            return result
    raise AssertionError("the coroutine did not finish")


class HistoryMachine(RuleBasedStateMachine):
    """Branches, commits, merges, relocations and tags, on both sides."""

    branches = Bundle("branches")
    commits = Bundle("commits")

    def __init__(self) -> None:
        super().__init__()
        self.clock = VirtualClock()
        lakefs = MemoryLakeFS(self.clock)
        self.repository = RepositoryBuilder(lakefs, "repository")
        handle = WorkerHandle()
        self.branch_port = MemoryBranches(lakefs, handle)
        self.commit_port = MemoryCommits(lakefs, handle)
        self.tag_port = MemoryTags(lakefs, handle)
        self.model = LakeFSModel()
        self.ids: list[CommitId] = [self.repository.head().commit]
        self.writes = 0

    def run(self, question: Coroutine[Any, Any, Result]) -> Result:
        """Drive one call of a port."""
        # A second passes, so that no two commits are one by accident.
        self.clock.advance(1)
        return run_by_hand(question)

    @initialize(target=commits)
    def begin(self) -> int:
        """A file that stays: the server tells an emptied tree from one that was never filled."""
        self.write("main", "kept", b"kept")
        return self._commit("main", allow_empty=False)

    @initialize(target=branches)
    def use_main(self) -> str:
        """The default branch."""
        return "main"

    @rule(target=branches, source=commits)
    def create_branch(self, source: int) -> str:
        """Create a branch at any commit."""
        name = f"branch-{self.clock.epoch_ms}"
        self.run(self.branch_port.create(self.repository.id, BranchName(name), self.ids[source]))
        self.model.create_branch(name, source)
        return name

    @rule(branch=branches, path=PATHS, content=CONTENTS)
    def stage(self, branch: str, path: str, content: bytes | None) -> None:
        """Write or delete one object."""
        self.write(branch, path, content)

    def write(self, branch: str, path: str, content: bytes | None) -> None:
        """Write on both sides, unless the branch is gone."""
        if branch not in self.model.heads:
            return
        self.writes += 1
        self.repository.write(path, content, branch)
        self.model.write(branch, path, None if content is None else (content, self.writes))

    @rule(target=commits, branch=branches, allow_empty=st.booleans())
    def commit(self, branch: str, *, allow_empty: bool) -> int:
        """Commit what is staged."""
        return self._commit(branch, allow_empty=allow_empty)

    def _commit(self, branch: str, *, allow_empty: bool) -> int:
        if branch not in self.model.heads:
            return ROOT_CHILD
        head = self.model.heads[branch]
        request = CommitRequest(
            self.repository.id, BranchName(branch), "commit", {}, allow_empty=allow_empty
        )
        if not allow_empty and not self.model.is_dirty(branch):
            with pytest.raises(NothingToCommitError):
                self.run(self.commit_port.commit(request))
            self.model.seal(branch)
            return head
        self.ids.append(self.run(self.commit_port.commit(request)))
        return self.model.add(branch, self.model.files_to_commit(branch), head)

    @rule(target=commits, branch=branches, path=PATHS, content=CONTENTS)
    def write_and_commit(self, branch: str, path: str, content: bytes | None) -> int:
        """Grow a branch by one commit, empty when nothing changes."""
        self.write(branch, path, content)
        return self._commit(branch, allow_empty=True)

    @rule(target=commits, source=branches, target_branch=branches)
    def merge_branch(self, source: str, target_branch: str) -> int:
        """Squash-merge the head of one branch into another."""
        return self._merge(self.model.heads.get(source, ROOT_CHILD), target_branch)

    @rule(target=commits, source=commits, branch=branches)
    def merge(self, source: int, branch: str) -> int:
        """Squash-merge any commit into any branch."""
        return self._merge(source, branch)

    def _merge(self, source: int, branch: str) -> int:
        if branch not in self.model.heads:
            return ROOT_CHILD
        head = self.model.heads[branch]
        request = MergeRequest(self.repository.id, self.ids[source], BranchName(branch), "merge")
        answer = self.run(self.branch_port.merge(request))
        if self.model.is_dirty(branch):
            assert isinstance(answer, DirtyTarget)
            return head
        self.model.seal(branch)
        outcomes = self.model.merge_outcomes(source, head)
        if isinstance(answer, NoChanges):
            assert NO_CHANGES in outcomes
            return head
        if isinstance(answer, MergeConflict):
            assert CONFLICT in outcomes
            return head
        assert isinstance(answer, Merged)
        files = self.repository.files(answer.commit)
        assert files in outcomes
        self.ids.append(answer.commit)
        return self.model.add(branch, self._numbered(files, source, head), head)

    def _numbered(
        self, files: dict[str, bytes], source: int, head: int
    ) -> dict[str, tuple[bytes, int]]:
        """The merged files with the numbers of the writes they came from: ours, else theirs."""
        ours, theirs = (self.model.commits[side].files for side in (head, source))
        return {
            path: next(
                side[path] for side in (ours, theirs) if path in side and side[path][0] == content
            )
            for path, content in files.items()
        }

    @rule(target=commits, source=commits, branch=branches)
    def merge_keeping_both_parents(self, source: int, branch: str) -> int:
        """Merge without squash, where nothing can refuse."""
        if branch not in self.model.heads or self.model.is_dirty(branch):
            return ROOT_CHILD
        head = self.model.heads[branch]
        outcomes = self.model.merge_outcomes(source, head)
        if CONFLICT in outcomes or NO_CHANGES in outcomes:
            return head
        self.clock.advance(1)
        self.ids.append(merge(self.repository, self.ids[source], branch))
        files = self.repository.files(self.ids[-1])
        assert files in outcomes
        return self.model.add(branch, self._numbered(files, source, head), head, source)

    @rule(branch=branches, to=commits)
    def relocate(self, branch: str, to: int) -> None:
        """Point any branch to any commit."""
        if branch not in self.model.heads:
            return
        answer = self.run(
            self.branch_port.relocate(self.repository.id, BranchName(branch), self.ids[to])
        )
        if self.model.is_sealed_dirty(branch):
            assert isinstance(answer, RelocationRefused)
        else:
            assert answer == Relocated()
            self.model.heads[branch] = to

    @rule(branch=consumes(branches).filter(lambda name: name != "main"))
    def delete_branch(self, branch: str) -> None:
        """Delete a branch."""
        self.run(self.branch_port.delete(self.repository.id, BranchName(branch)))
        self.model.delete_branch(branch)

    @rule(name=NAMES, commit=commits)
    def tag(self, name: str, commit: int) -> None:
        """Put a tag if the name is free."""
        creation = self.tag_port.create(self.repository.id, TagName(name), self.ids[commit])
        if name in self.model.tags:
            with pytest.raises(TagExistsError):
                self.run(creation)
        else:
            self.run(creation)
            self.model.tags[name] = commit

    @rule(name=NAMES)
    def untag(self, name: str) -> None:
        """Delete a tag."""
        self.run(self.tag_port.delete(self.repository.id, TagName(name)))
        self.model.tags.pop(name, None)

    @rule(start=commits, goal=commits)
    def walk(self, start: int, goal: int) -> None:
        """Walk first parents from any commit to any other."""
        walk = self.run(
            self.commit_port.first_parents(
                self.repository.id, self.ids[start], self.ids[goal], commits_max=WALK_MAX
            )
        )
        chain = self.model.chain(start)
        assert walk.reached is (goal in chain)
        expected = chain[: chain.index(goal) + 1] if goal in chain else chain
        assert [record.commit for record in walk.commits] == [self.ids[one] for one in expected]

    @invariant()
    def both_sides_show_the_same(self) -> None:
        """Heads, tags and files agree after every step."""
        names = self.repository.branch_names()
        heads = {name: self.repository.head(name).commit for name in names}
        assert heads == {name: self.ids[commit] for name, commit in self.model.heads.items()}
        assert self.repository.tags() == {
            name: self.ids[commit] for name, commit in self.model.tags.items()
        }
        for name, commit in self.model.heads.items():
            assert self.repository.files(name) == shown(self.model.branch_files(name))
            assert self.repository.files(f"{name}@") == shown(self.model.commits[commit].files)


TestHistory = pytest.mark.simulation(HistoryMachine.TestCase)
TestHistory.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
