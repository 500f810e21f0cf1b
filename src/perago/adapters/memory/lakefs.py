"""The in-memory lakeFS: repositories, server time, the hooks switch, branch and tag names.

Merges, commits and objects are in `merging`. Everything is synchronous: an operation takes effect
at once or not at all, and the worker handle makes crashes around it.
"""

import re
import shutil
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from perago.adapters.memory.hooks import HookEvent, HookRefusal, HookRefused, run_hooks
from perago.adapters.memory.object_tree import StoredObject, Tree, store_object
from perago.adapters.memory.repository_state import BranchState, RepositoryState
from perago.domain.logical_execution import NO_METADATA, BranchName, CommitId, RepositoryId, TagName
from perago.domain.outcome import Relocated, RelocationAnswer, RelocationRefused
from perago.ports.errors import (
    BranchExistsError,
    BrokenActionsError,
    ExistsError,
    ProtectedBranchError,
    RepositoryMissingError,
    RequestRefusedError,
    TagExistsError,
)
from perago.ports.objects import DEFAULT_CONTENT_TYPE

# Below this a file of its own takes more (a block of the disk, a system call each time) than the
# memory that it saves.
FILE_BYTES_MIN = 64 * 1024


@dataclass(slots=True)
class ServerTime:
    """The server's clock, which stands still until a test moves it; commits count seconds."""

    seconds: int = 1_700_000_000  # any moment: always the same, so that ids and texts of tests are

    def __call__(self) -> int:
        return self.seconds


class MemoryLakeFS:
    """One installation, shared by every worker that has a handle on it."""

    def __init__(
        self,
        *,
        now: Callable[[], int] | None = None,
        actions_enabled: bool = True,
        files: Path | None = None,
    ) -> None:
        """With `files`, a directory, objects that are not small lie in files there."""
        self.now: Callable[[], int] = now or ServerTime()
        self.actions_enabled = actions_enabled
        # Each runs once, between the computation of a merge and its update of the branch.
        self.merge_interruptions: deque[Callable[[], object]] = deque()
        self._repositories: dict[RepositoryId, RepositoryState] = {}
        self._contents: dict[str, bytes] = {}
        self._addresses = 0
        self._files = files
        self._taken = 0
        self._runs = 0

    def create_repository(self, name: str, *, default_branch: str = "main") -> RepositoryState:
        """Create a repository with one empty commit."""
        repository = RepositoryId(name)
        if repository in self._repositories:
            raise ExistsError(f"repository {name} exists")
        state = RepositoryState(
            repository, default_branch=BranchName(default_branch), created_at=self.now()
        )
        self._repositories[repository] = state
        return state

    @property
    def repositories(self) -> Collection[RepositoryId]:
        """The names of all."""
        return self._repositories.keys()

    def repository(self, repository: RepositoryId) -> RepositoryState:
        """The repository, or RepositoryMissingError."""
        if repository not in self._repositories:
            raise RepositoryMissingError(f"there is no repository {repository}")
        state = self._repositories[repository]
        state.graph.show_hidden(self.now())
        return state

    def take(self, path: Path) -> bytes | Path:
        """The content of a caller's file, as it is now: a large one as a copy in a file of ours."""
        if self._files is None or path.stat().st_size < FILE_BYTES_MIN:
            return path.read_bytes()
        self._taken += 1
        copy = self._files / str(self._taken)
        shutil.copyfile(path, copy)
        return copy

    def new_object(
        self,
        content: bytes | Path,
        *,
        content_type: str = DEFAULT_CONTENT_TYPE,
        metadata: Mapping[str, str] = NO_METADATA,
    ) -> StoredObject:
        """Take bytes in, or a file that stays as it is; equal bytes are kept once."""
        self._addresses += 1
        stored = store_object(
            content,
            content_type=content_type,
            metadata=metadata,
            modified_at=self.now(),
            address=self._addresses,
        )
        if isinstance(content, Path):
            return stored
        kept = self._contents.setdefault(stored.checksum, content)
        return stored if kept is content else stored.with_content(kept)

    def run_hooks(self, event: HookEvent, tree: Tree) -> HookRefusal | None:
        """Run the hooks of a tree, unless actions are switched off in the server."""
        if not self.actions_enabled:
            return None
        self._runs += 1
        return run_hooks(event, tree, run_id=self._runs)

    def require_hooks_pass(self, event: HookEvent, tree: Tree) -> None:
        """Run the hooks of a tree; their refusal is an error."""
        refusal = self.run_hooks(event, tree)
        if isinstance(refusal, HookRefused):
            raise RequestRefusedError(refusal.text)
        if refusal is not None:
            raise BrokenActionsError(refusal.text)


# lakeFS's rules; tags follow those of git, branches are stricter.
_BRANCH_NAME = re.compile(r"\w[-\w]*", re.ASCII)
_TAG_REFUSED = re.compile(r"@|.*(\.|\.lock)|.*(\.\.|/|@\{|[\^:?*\[\\\x00-\x20]).*", re.DOTALL)


def create_branch(
    lakefs: MemoryLakeFS,
    repository: RepositoryId,
    branch: BranchName,
    source: str,
    *,
    hidden: bool = False,
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
    state.branches[branch] = BranchState(commit, hidden=hidden)


def delete_branch(lakefs: MemoryLakeFS, repository: RepositoryId, branch: BranchName) -> None:
    """Delete a branch with what is uncommitted on it; an absent one is no error."""
    state = lakefs.repository(repository)
    state.require_writable()
    if branch == state.default_branch:  # as lakeFS does
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
