"""Merges of the in-memory lakeFS, with the retries the server makes on its own.

Knows nothing of publication. A merge is computed against the head it finds, hooks included, and
starts over when the head has moved before the branch is updated: nothing in a request says which
head was meant, so only a hook can object.
"""

from dataclasses import dataclass
from typing import TypeAlias

from perago.adapters.memory.action_hooks import HookEvent, HookRefused, HooksBroken
from perago.adapters.memory.branch_state import BranchState
from perago.adapters.memory.commit_graph import Commit
from perago.adapters.memory.lakefs import MemoryLakeFS
from perago.adapters.memory.object_tree import Tree
from perago.adapters.memory.repository_state import RepositoryState
from perago.adapters.memory.three_way_merge import ConflictingPaths, Strategy, merge_trees
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
from perago.domain.publication import HEAD_MOVED_TEXT
from perago.ports.lakefs import MergeRequest

TRIES_MAX = 10
STRATEGY_KEY = ".lakefs.merge.strategy"

_Refusal: TypeAlias = MergeConflict | NoChanges


@dataclass(frozen=True, slots=True)
class _Lost:
    """The branch moved between the computation and the update."""


@dataclass(frozen=True, slots=True)
class _Merge:
    """One request with the places it touches."""

    lakefs: MemoryLakeFS
    state: RepositoryState
    branch: BranchState
    request: MergeRequest
    squash: bool
    strategy: Strategy

    @property
    def where(self) -> str:
        return f"update branch {self.request.target}"


def merge_into_branch(
    lakefs: MemoryLakeFS,
    request: MergeRequest,
    *,
    squash: bool = True,
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
    merge = _Merge(lakefs, state, branch, request, squash, strategy)
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
        parents=(head.id,) if merge.squash else (head.id, source.id),
        message=merge.request.message,
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
        commit=commit.id,
        message=commit.record.message,
        metarange=commit.record.metarange,
        metadata=commit.record.metadata,
        parents=commit.record.parents,
    )
