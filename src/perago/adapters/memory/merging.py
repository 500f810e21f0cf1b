"""Merges, commits and object writes of the in-memory lakeFS.

`merge_trees` compares identities, as the server does: the same bytes written twice agree.
`merge_into_branch` tries again when the branch moved between the computation and the update, on a
head that the caller never saw, because this is the behaviour that the fence exists for.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from perago.adapters.memory.hooks import HookEvent, HookRefused, HooksBroken
from perago.adapters.memory.lakefs import MemoryLakeFS
from perago.adapters.memory.object_tree import StoredObject, Tree, named, touched
from perago.adapters.memory.repository_state import BranchState, Commit, RepositoryState
from perago.domain.fence import HEAD_MOVED_TEXT
from perago.domain.logical_execution import BranchName, CommitId, RepositoryId
from perago.domain.outcome import (
    BrokenActions,
    DirtyTarget,
    HeadMoved,
    MergeAnswer,
    MergeConflict,
    Merged,
    MergeRefused,
    NoChanges,
    RefusedByHook,
    TooManyTries,
)
from perago.ports.errors import (
    DirtyBranchError,
    NothingToCommitError,
    ObjectMissingError,
    ReferenceMissingError,
    RequestRefusedError,
)
from perago.ports.lakefs import CommitRequest, MergeRequest
from perago.ports.objects import DELETE_PATHS_MAX


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


TRIES_MAX = 10  # as the server; then it answers 423 or 429 and nothing has happened
STRATEGY_KEY = ".lakefs.merge.strategy"

_Refusal: TypeAlias = MergeConflict | NoChanges


@dataclass(frozen=True, slots=True)
class _Lost:
    """The branch moved between the computation and the update."""


@dataclass(frozen=True, slots=True)
class _Merge:
    """One merge request, with the repository and the branch that it changes."""

    lakefs: MemoryLakeFS
    state: RepositoryState
    branch: BranchState
    request: MergeRequest
    strategy: Strategy

    @property
    def where(self) -> str:
        return f"update branch {self.request.target}"

    @property
    def message(self) -> str:
        """What the server writes where nothing was sent."""
        asked = self.request
        return asked.message or f"Merge '{asked.source}' into '{asked.target}'"


def merge_into_branch(
    lakefs: MemoryLakeFS,
    request: MergeRequest,
    *,
    strategy: Strategy = Strategy.NONE,
) -> MergeAnswer:
    """Merge; an unknown target or source is an error, every other refusal an answer."""
    state = lakefs.repository(request.repository)
    if state.read_only:
        return MergeRefused("read-only repository")
    branch = state.branch(request.target)
    if branch.is_dirty:
        return DirtyTarget(f"{request.target}: uncommitted changes (dirty branch)")
    branch.seal()
    merge = _Merge(lakefs, state, branch, request, strategy)
    for _ in range(TRIES_MAX):
        answer = _try_once(merge)
        if not isinstance(answer, _Lost):
            return answer
    return TooManyTries(f"{merge.where}: too many tries")


def _try_once(merge: _Merge) -> MergeAnswer | _Lost:
    head, source = merge.branch.head, merge.state.commit_of(merge.request.source)
    if merge.branch.is_sealed_dirty:
        return DirtyTarget(f"{merge.where}: uncommitted changes (dirty branch)")
    tree = _merged_tree(merge, head, source)
    if not isinstance(tree, Tree):
        return tree
    # The commit is there before the hook runs; refused, it belongs to no branch.
    commit = merge.state.graph.add(
        tree,
        parents=(head.id,) if merge.request.squash else (head.id, source.id),
        message=merge.message,
        metadata={**merge.request.metadata, STRATEGY_KEY: merge.strategy.value},
        created_at=merge.lakefs.now(),
    )
    match merge.lakefs.run_hooks(_event(merge.request, source, commit), source.tree):
        case HookRefused(text) if HEAD_MOVED_TEXT in text:
            return HeadMoved(f"{merge.where}: {text}")
        case HookRefused(text):
            return RefusedByHook(f"{merge.where}: {text}")
        case HooksBroken(text):
            return BrokenActions(f"{merge.where}: {text}")
        case None:
            return _update(merge, head, commit)


def _update(merge: _Merge, head: Commit, commit: Commit) -> Merged | _Lost:
    if merge.lakefs.merge_interruptions:
        merge.lakefs.merge_interruptions.popleft()()
    # Deleted and made anew meanwhile, perhaps at the same commit.
    if merge.state.branch(merge.request.target) is not merge.branch:
        return _Lost()
    if merge.branch.head is not head:
        return _Lost()
    merge.branch.move(commit)
    return Merged(commit.id)


def _merged_tree(merge: _Merge, head: Commit, source: Commit) -> Tree | _Refusal:
    base = merge.state.graph.merge_base(source.id, head.id)
    if source.tree.metarange == base.tree.metarange and not merge.request.allow_empty:
        return NoChanges(f"{merge.where}: no changes")
    merged = merge_trees(
        base=base.tree, source=source.tree, target=head.tree, strategy=merge.strategy
    )
    if isinstance(merged, ConflictingPaths):
        return MergeConflict(f"conflict found: {', '.join(merged.paths[:10])}")
    return merged


def _event(request: MergeRequest, source: Commit, commit: Commit) -> HookEvent:
    return HookEvent(
        "pre-merge",
        request.repository,
        branch=request.target,
        source_ref=source.id,
        merge_source=request.source,
        commit=commit.id,
        message=commit.record.message,
        metarange=commit.record.metarange,
        metadata=commit.record.metadata,
        parents=commit.record.parents,
    )


def commit_branch(
    lakefs: MemoryLakeFS, request: CommitRequest, *, unchecked: bool = False
) -> CommitId:
    """Commit on a branch; `unchecked` skips the hooks, as a stale cache of the server does."""
    state = lakefs.repository(request.repository)
    state.require_writable(request.branch)
    branch = state.branch(request.branch)
    if request.source_metarange == "":
        raise RequestRefusedError("source_metarange: empty value is not allowed")
    if not unchecked:
        lakefs.require_hooks_pass(_commit_event("prepare-commit", request, branch), branch.tree)
    if request.source_metarange is not None and branch.is_dirty:
        raise DirtyBranchError(
            f"{request.branch} of {request.repository} has uncommitted objects; expected none, "
            "because the commit takes another commit's tree"
        )
    readers_tree = branch.tree
    branch.seal()
    if not unchecked:
        lakefs.require_hooks_pass(_commit_event("pre-commit", request, branch), readers_tree)
    commit = state.graph.add(
        _tree_to_commit(state, branch, request),
        parents=(branch.head.id,),
        message=request.message,
        metadata=request.metadata,
        created_at=lakefs.now(),
    )
    branch.move(commit)
    return commit.id


def _tree_to_commit(state: RepositoryState, branch: BranchState, request: CommitRequest) -> Tree:
    if request.source_metarange is not None:
        return state.graph.tree(request.source_metarange)
    if branch.is_dirty:
        return named(branch.tree_to_commit)
    if not request.allow_empty:
        raise NothingToCommitError(
            f"commit on {request.branch} of {request.repository}: no changes"
        )
    return named(branch.head.tree)


def _commit_event(name: str, request: CommitRequest, branch: BranchState) -> HookEvent:
    return HookEvent(
        name,
        request.repository,
        branch=request.branch,
        source_ref=request.branch,
        message=request.message,
        metadata=request.metadata,
        parents=(branch.head.id,),
    )


PATH_BYTES_MAX = 1024  # lakeFS 1.86 counts bytes of UTF-8, not characters


def read_object(
    lakefs: MemoryLakeFS, repository: RepositoryId, ref: str, path: str
) -> StoredObject:
    """The object a reference shows at a path; an unknown reference shows none."""
    state = lakefs.repository(repository)
    try:
        stored = state.object_at(ref, path)
    except ReferenceMissingError:
        stored = None
    if stored is None:
        raise ObjectMissingError(f"{repository}/{ref} has no object {path!r}")
    return stored


def write_object(
    lakefs: MemoryLakeFS,
    repository: RepositoryId,
    branch: BranchName,
    path: str,
    stored: StoredObject,
) -> StoredObject:
    """Put one object on a branch, uncommitted."""
    state = lakefs.repository(repository)
    target = state.branch(branch)  # before its protection: the server looks for it first
    state.require_writable(branch)
    if not path:
        raise RequestRefusedError("an object needs a path")
    if (length := len(path.encode())) > PATH_BYTES_MAX:
        raise RequestRefusedError(
            f"path: {length} is above maximum length ({PATH_BYTES_MAX}): {path[:60]}..."
        )
    target.stage(path, stored)
    return stored


def delete_objects(
    lakefs: MemoryLakeFS, repository: RepositoryId, branch: BranchName, paths: Sequence[str]
) -> None:
    """Delete objects on a branch, uncommitted; absent ones, or no such branch, are no error."""
    state = lakefs.repository(repository)
    if len(paths) > DELETE_PATHS_MAX:
        raise RequestRefusedError(
            f"expected at most {DELETE_PATHS_MAX} paths to delete, found {len(paths)}"
        )
    state.require_writable(branch)
    if branch not in state.branches:
        return
    target = state.branch(branch)
    for path in paths:
        if target.get(path) is not None:
            target.stage(path, None)
