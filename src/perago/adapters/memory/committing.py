"""Commits on a branch of the in-memory lakeFS: of what is staged, or of an exact tree.

Knows nothing of merges. The staging area is sealed before anything can refuse, so a refused
commit leaves the branch dirty in the way that also refuses hard resets.
"""

from perago.adapters.memory.action_hooks import HookEvent
from perago.adapters.memory.branch_state import BranchState
from perago.adapters.memory.lakefs import MemoryLakeFS
from perago.adapters.memory.object_tree import Tree, named
from perago.adapters.memory.repository_state import RepositoryState
from perago.domain.logical_execution import CommitId
from perago.ports.errors import DirtyBranchError, NothingToCommitError, RequestRefusedError
from perago.ports.lakefs import CommitRequest


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
        lakefs.require_hooks_pass(_event("prepare-commit", request, branch), branch.tree)
    if request.source_metarange is not None and branch.is_dirty:
        raise DirtyBranchError(
            f"{request.branch} of {request.repository} has uncommitted objects; expected none, "
            "because the commit takes another commit's tree"
        )
    readers_tree = branch.tree
    branch.seal()
    if not unchecked:
        lakefs.require_hooks_pass(_event("pre-commit", request, branch), readers_tree)
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


def _event(name: str, request: CommitRequest, branch: BranchState) -> HookEvent:
    return HookEvent(
        name,
        request.repository,
        branch=request.branch,
        source_ref=request.branch,
        message=request.message,
        metadata=request.metadata,
        parents=(branch.head.id,),
    )
