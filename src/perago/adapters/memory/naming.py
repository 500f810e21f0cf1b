"""Branches and tags of the in-memory lakeFS: creating, deleting and relocating names.

Knows nothing of what a commit contains, except that its action files may forbid the change.
"""

import re

from perago.adapters.memory.action_hooks import HookEvent
from perago.adapters.memory.branch_state import BranchState
from perago.adapters.memory.lakefs import MemoryLakeFS
from perago.domain.logical_execution import BranchName, CommitId, RepositoryId, TagName
from perago.domain.outcome import Relocated, RelocationAnswer, RelocationRefused
from perago.ports.errors import (
    BranchExistsError,
    ExistsError,
    ProtectedBranchError,
    RequestRefusedError,
    TagExistsError,
)

_BRANCH_NAME = re.compile(r"\w[-\w]*", re.ASCII)
_TAG_REFUSED = re.compile(r"@|.*(\.|\.lock)|.*(\.\.|/|@\{|[\^:?*\[\\\x00-\x20]).*", re.DOTALL)


def create_branch(
    lakefs: MemoryLakeFS, repository: RepositoryId, branch: BranchName, source: str
) -> None:
    """Create a branch at the commit a reference means."""
    state = lakefs.repository(repository)
    if not _BRANCH_NAME.fullmatch(branch):
        raise RequestRefusedError(
            f"{branch!r} is not a branch name: expected letters, digits, `_` and `-`, "
            "and no `-` at the start"
        )
    if TagName(branch) in state.tags:
        raise ExistsError(f"repository {repository} has a tag {branch}; branches share its names")
    state.require_writable()
    commit = state.commit_of(source)
    if branch in state.branches:
        raise BranchExistsError(f"repository {repository} has a branch {branch} already")
    event = HookEvent(
        "pre-create-branch", repository, branch=branch, source_ref=source, commit=commit.id
    )
    lakefs.require_hooks_pass(event, state.tree_of(source))
    state.branches[branch] = BranchState(commit)


def delete_branch(lakefs: MemoryLakeFS, repository: RepositoryId, branch: BranchName) -> None:
    """Delete a branch with what is uncommitted on it; an absent one is no error."""
    state = lakefs.repository(repository)
    state.require_writable()
    if branch == state.default_branch:
        raise RequestRefusedError(f"{branch} is the default branch of {repository}")
    if branch not in state.branches:
        return
    head = state.branches[branch].head
    event = HookEvent("pre-delete-branch", repository, branch=branch, source_ref=head.id)
    lakefs.require_hooks_pass(event, head.tree)
    del state.branches[branch]


def relocate_branch(
    lakefs: MemoryLakeFS, repository: RepositoryId, branch: BranchName, to: str
) -> RelocationAnswer:
    """Hard reset: `to` is resolved now, so `main~1` is relative to the head of this moment.

    Open writes are not looked at and stay; sealed ones refuse.
    """
    state = lakefs.repository(repository)
    try:
        state.require_writable(branch)
    except ProtectedBranchError as refusal:
        return RelocationRefused(str(refusal), protected=True)
    except RequestRefusedError as refusal:
        return RelocationRefused(str(refusal))
    moved = state.branch(branch)
    if moved.is_sealed_dirty:
        return RelocationRefused(f"{branch}: uncommitted changes (dirty branch)")
    moved.relocate(state.commit_of(to))
    return Relocated()


def create_tag(
    lakefs: MemoryLakeFS, repository: RepositoryId, tag: TagName, commit: CommitId
) -> None:
    """Put a tag if the name is free."""
    state = lakefs.repository(repository)
    if not tag or _TAG_REFUSED.fullmatch(tag):
        raise RequestRefusedError(f"{tag!r} is not a tag name")
    if BranchName(tag) in state.branches:
        raise ExistsError(f"repository {repository} has a branch {tag}; tags share its names")
    found = state.commit_of(commit)
    state.require_writable()
    if tag in state.tags:
        raise TagExistsError(f"repository {repository} has a tag {tag} already")
    event = HookEvent("pre-create-tag", repository, tag=tag, source_ref=found.id, commit=found.id)
    lakefs.require_hooks_pass(event, found.tree)
    state.tags[tag] = found.id


def delete_tag(lakefs: MemoryLakeFS, repository: RepositoryId, tag: TagName) -> None:
    """Delete a tag; an absent one is no error."""
    state = lakefs.repository(repository)
    state.require_writable()
    if tag not in state.tags:
        return
    commit = state.graph[state.tags[tag]]
    event = HookEvent("pre-delete-tag", repository, tag=tag, source_ref=commit.id, commit=commit.id)
    lakefs.require_hooks_pass(event, commit.tree)
    del state.tags[tag]
