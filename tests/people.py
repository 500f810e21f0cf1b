"""What people do to a branch by hand, on a lakeFS in memory: merges, resets, and commits repeated.

Not of `RepositoryBuilder`, which ships with Perago, because only our own tests need them.
"""

from collections.abc import Mapping

from perago.adapters.memory.installations import RepositoryBuilder
from perago.adapters.memory.object_tree import (
    EMPTY_TREE,
    ConflictingPaths,
    Strategy,
    Tree,
    merge_trees,
)
from perago.adapters.memory.repository_state import MAIN, Commit, RepositoryState
from perago.domain.lakefs import NO_METADATA, BranchName, CommitId
from perago.domain.outcome import Merged
from perago.ports.errors import DirtyBranchError, RequestRefusedError
from perago.ports.lakefs import MergeRequest

COMMITTER = "perago"  # of commits that are made past the ports
CACHED_SECONDS = 600  # how long the server keeps a commit in its cache, unless told otherwise


def merge(
    repository: RepositoryBuilder,
    source: str,
    target: str = MAIN,
    *,
    squash: bool = False,
    strategy: Strategy = Strategy.NONE,
    metadata: Mapping[str, str] = NO_METADATA,
) -> CommitId:
    """Merge as a person does, without squash unless asked."""
    request = MergeRequest(
        repository.id, source, BranchName(target), "merge", metadata, squash=squash
    )
    answer = repository.lakefs.merge(request, strategy)
    if not isinstance(answer, Merged):
        raise RequestRefusedError(f"merge of {source} into {target}: {answer}")
    return answer.commit


def reset_hard(repository: RepositoryBuilder, to: str, branch: str = MAIN) -> None:
    """Point a branch to what a reference means now."""
    repository.lakefs.relocate_branch(repository.id, BranchName(branch), to)


def discard_uncommitted(repository: RepositoryBuilder, branch: str = MAIN) -> None:
    """Reset a branch: forget what is not committed."""
    repository.lakefs.repository(repository.id).branch(BranchName(branch)).discard()


def revert(
    repository: RepositoryBuilder, ref: str, branch: str = MAIN, *, parent: int = 0
) -> CommitId:
    """Take back what a commit did, with a new commit; of a merge, `parent` says what it did."""
    state, undone = _found(repository, ref)
    before = _parent(state, undone, parent).tree if undone.record.parents else EMPTY_TREE
    merged = _replay(state, branch, base=undone.tree, source=before)
    if merged.metarange == state.branch(BranchName(branch)).head.tree.metarange:
        raise RequestRefusedError(f"revert of {ref} on {branch}: no changes")
    return _add(repository, branch, merged, f"Revert {ref}", NO_METADATA)


def cherry_pick(
    repository: RepositoryBuilder, ref: str, branch: str = MAIN, *, parent: int = 0
) -> CommitId:
    """Do again what a commit did; message and metadata are copied.

    For ten minutes the server does not find an original with metadata by its whole id.
    """
    state, picked = _found(repository, ref)
    before = _parent(state, picked, parent).tree
    origin = {"cherry-pick-origin": picked.id, "cherry-pick-committer": COMMITTER}
    metadata = {**picked.record.metadata, **origin}
    merged = _replay(state, branch, base=before, source=picked.tree)
    made = _add(repository, branch, merged, picked.record.message, metadata)
    if picked.record.metadata:  # else the server has nothing to write the copy's into
        state.graph.hide(picked, metadata, until=repository.lakefs.now() + CACHED_SECONDS)
    return made


def _found(repository: RepositoryBuilder, ref: str) -> tuple[RepositoryState, Commit]:
    state = repository.lakefs.repository(repository.id)
    return state, state.commit_of(ref, past_server=True)


def _replay(state: RepositoryState, branch: str, *, base: Tree, source: Tree) -> Tree:
    """Merge trees with a branch's head; the branch is sealed first, as before any merge."""
    state.require_writable()
    target = state.branch(BranchName(branch))
    if target.is_dirty:
        raise DirtyBranchError(f"{branch}: uncommitted changes (dirty branch)")
    target.seal()
    if source.metarange == base.metarange:
        raise RequestRefusedError(f"{branch}: no changes")
    merged = merge_trees(base=base, source=source, target=target.head.tree)
    if isinstance(merged, ConflictingPaths):
        raise RequestRefusedError(f"{branch}: conflict in {merged.paths}")
    return merged


def _add(
    repository: RepositoryBuilder,
    branch: str,
    tree: Tree,
    message: str,
    metadata: Mapping[str, str],
) -> CommitId:
    state = repository.lakefs.repository(repository.id)
    target = state.branch(BranchName(branch))
    commit = state.graph.add(
        tree,
        parents=(target.head.id,),
        message=message,
        metadata=metadata,
        created_at=repository.lakefs.now(),
    )
    target.move(commit)
    return commit.id


def _parent(state: RepositoryState, commit: Commit, number: int) -> Commit:
    """A parent by its number, counted from 1; 0 is the only one.

    Of a merge it has to be named, as on the server: there are two trees to go back to.
    """
    parents = commit.record.parents
    if number > len(parents) or not parents or (len(parents) > 1 and not number):
        raise RequestRefusedError(f"commit {commit.id} has {len(parents)} parents, not {number}")
    return state.graph[parents[max(number, 1) - 1]]
