"""The in-memory lakeFS: its repositories, and what each request does to one of them.

Everything is synchronous: an operation takes effect at once or not at all, and the worker handle
makes crashes around it. A merge tries again when the branch moved between the computation and the
update, on a head that the caller never saw, because this is the behaviour that the fence exists
for.
"""

import re
import shutil
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from perago.adapters.memory import object_tree
from perago.adapters.memory.hooks import HookEvent, run_hooks
from perago.adapters.memory.repository_state import MAIN, BranchState, Commit, RepositoryState
from perago.adapters.memory.system import VirtualClock, as_epoch_ms
from perago.domain import outcome
from perago.domain.fence import HEAD_MOVED_TEXT
from perago.domain.lakefs import NO_METADATA, BranchName, CommitId, RepositoryId, TagName
from perago.ports import errors
from perago.ports.lakefs import CommitRequest, MergeRequest
from perago.ports.objects import DEFAULT_CONTENT_TYPE, DELETE_PATHS_MAX
from perago.ports.system import Clock

# Below this a file of its own takes more (a block of the disk, a system call each time) than the
# memory that it saves.
FILE_BYTES_MIN = 64 * 1024
PATH_BYTES_MAX = 1024  # lakeFS 1.86 counts bytes of UTF-8, not characters
TRIES_MAX = 10  # as the server; then it answers 423 or 429 and nothing has happened
STRATEGY_KEY = ".lakefs.merge.strategy"
# lakeFS's rules; tags follow those of git, branches are stricter.
_BRANCH_NAME = re.compile(r"\w[-\w]*", re.ASCII)
_TAG_REFUSED = re.compile(r"@|.*(\.|\.lock)|.*(\.\.|/|@\{|[\^:?*\[\\\x00-\x20]).*", re.DOTALL)


class MemoryLakeFS:
    """One installation, shared by every worker that has a handle on it.

    Without a clock it stands still at one moment. With `files`, a directory, objects that are not
    small lie in files there.
    """

    def __init__(self, clock: Clock | None = None, *, files: Path | None = None) -> None:
        self.clock = VirtualClock() if clock is None else clock
        self.actions_enabled = True
        # Each runs once, between the computation of a merge and its update of the branch.
        self.merge_interruptions: deque[Callable[[], object]] = deque()
        self._repositories: dict[RepositoryId, RepositoryState] = {}
        self._contents: dict[str, bytes] = {}
        self._addresses = 0
        self._files = files
        self._taken = 0
        self._runs = 0

    def now(self) -> int:
        """The server's time in seconds, which is what commits count."""
        return as_epoch_ms(self.clock.now()) // 1000

    def create_repository(self, name: str) -> RepositoryState:
        """Create a repository with one empty commit."""
        repository = RepositoryId(name)
        if repository in self._repositories:
            raise errors.ExistsError(f"repository {name} exists")
        state = RepositoryState(repository, created_at=self.now())
        self._repositories[repository] = state
        return state

    @property
    def repositories(self) -> Collection[RepositoryId]:
        return self._repositories.keys()

    def repository(self, repository: RepositoryId) -> RepositoryState:
        """The repository, or RepositoryMissingError."""
        if repository not in self._repositories:
            raise errors.RepositoryMissingError(f"there is no repository {repository}")
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
    ) -> object_tree.StoredObject:
        """Take bytes in, or a file that stays as it is; equal bytes are kept once."""
        self._addresses += 1
        stored = object_tree.store_object(
            content,
            content_type=content_type,
            metadata=metadata,
            modified_at=self.now(),
            address=self._addresses,
        )
        if isinstance(content, Path):
            return stored
        kept = self._contents.setdefault(stored.checksum, content)
        return stored if kept is content else replace(stored, held=kept)

    def run_hooks(self, event: HookEvent, tree: object_tree.Tree) -> None:
        """Run the hooks of a tree, unless actions are switched off in the server."""
        if not self.actions_enabled:
            return
        self._runs += 1
        run_hooks(event, tree, run_id=self._runs)

    def create_branch(
        self, repository: RepositoryId, branch: BranchName, source: str, *, hidden: bool = False
    ) -> None:
        """Create a branch at the commit a reference means."""
        state = self.repository(repository)
        if not _BRANCH_NAME.fullmatch(branch):
            raise errors.RequestRefusedError(
                f"{branch!r} is not a branch name: expected letters, digits, `_` and `-`, "
                "and no `-` at the start"
            )
        _refuse_commit_id(state, branch)
        if TagName(branch) in state.tags:
            raise errors.ExistsError(
                f"repository {repository} has a tag {branch}; branches share its names"
            )
        state.require_writable()
        commit = state.commit_of(source)
        if branch in state.branches:
            raise errors.BranchExistsError(f"repository {repository} has a branch {branch} already")
        event = HookEvent(
            "pre-create-branch", repository, branch=branch, source_ref=source, commit=commit.id
        )
        self.run_hooks(event, state.tree_of(source))
        state.branches[branch] = BranchState(commit, hidden=hidden)

    def delete_branch(self, repository: RepositoryId, branch: BranchName) -> None:
        """Delete a branch with what is uncommitted on it; an absent one is no error."""
        state = self.repository(repository)
        state.require_writable()
        if branch == MAIN:  # as lakeFS does
            raise errors.RequestRefusedError(f"{branch} is the default branch of {repository}")
        if branch not in state.branches:
            return
        head = state.branches[branch].head
        event = HookEvent("pre-delete-branch", repository, branch=branch, source_ref=head.id)
        self.run_hooks(event, head.tree)
        del state.branches[branch]

    def relocate_branch(
        self, repository: RepositoryId, branch: BranchName, to: str
    ) -> outcome.RelocationAnswer:
        """Hard reset: `to` is resolved now, so `main~1` is relative to the head of this moment.

        Open writes are not looked at and stay; sealed ones refuse.
        """
        state = self.repository(repository)
        try:
            state.require_writable(branch)
        except (errors.ProtectedBranchError, errors.RequestRefusedError) as refusal:
            protected = isinstance(refusal, errors.ProtectedBranchError)
            return outcome.RelocationRefused(str(refusal), protected=protected)
        moved = state.branch(branch)
        if moved.is_sealed_dirty:
            return outcome.RelocationRefused(f"{branch}: uncommitted changes (dirty branch)")
        moved.relocate(state.commit_of(to))
        return outcome.Relocated()

    def create_tag(self, repository: RepositoryId, tag: TagName, commit: CommitId) -> None:
        """Put a tag if the name is free."""
        state = self.repository(repository)
        if not tag or _TAG_REFUSED.fullmatch(tag):
            raise errors.RequestRefusedError(f"{tag!r} is not a tag name")
        _refuse_commit_id(state, tag)
        if BranchName(tag) in state.branches:
            raise errors.ExistsError(
                f"repository {repository} has a branch {tag}; tags share its names"
            )
        found = state.commit_of(commit)
        state.require_writable()
        if tag in state.tags:
            raise errors.TagExistsError(f"repository {repository} has a tag {tag} already")
        self._run_tag_hooks("pre-create-tag", repository, tag, found)
        state.tags[tag] = found.id

    def delete_tag(self, repository: RepositoryId, tag: TagName) -> None:
        """Delete a tag; an absent one is no error."""
        state = self.repository(repository)
        state.require_writable()
        if tag in state.tags:
            commit = state.graph[state.tags[tag]]
            self._run_tag_hooks("pre-delete-tag", repository, tag, commit)
            del state.tags[tag]

    def _run_tag_hooks(
        self, name: str, repository: RepositoryId, tag: TagName, commit: Commit
    ) -> None:
        event = HookEvent(name, repository, tag=tag, source_ref=commit.id, commit=commit.id)
        self.run_hooks(event, commit.tree)

    def merge(
        self, request: MergeRequest, strategy: object_tree.Strategy = object_tree.Strategy.NONE
    ) -> outcome.MergeAnswer:
        """Merge; an unknown target or source is an error, every other refusal an answer."""
        state = self.repository(request.repository)
        if state.read_only:
            return outcome.MergeRefused("read-only repository")
        branch = state.branch(request.target)
        if branch.is_dirty:
            return outcome.DirtyTarget(f"{request.target}: uncommitted changes (dirty branch)")
        branch.seal()
        for _ in range(TRIES_MAX):
            head = branch.head
            made = self._make_merge_commit(state, branch, request, strategy)
            if not isinstance(made, Commit):
                return made
            if self.merge_interruptions:
                self.merge_interruptions.popleft()()
            # It may be deleted and made anew meanwhile, perhaps at the same commit.
            if state.branch(request.target) is branch and branch.head is head:
                branch.move(made)
                return outcome.Merged(made.id)
        return outcome.TooManyTries(f"update branch {request.target}: too many tries")

    def _make_merge_commit(
        self,
        state: RepositoryState,
        branch: BranchState,
        request: MergeRequest,
        strategy: object_tree.Strategy,
    ) -> Commit | outcome.MergeAnswer:
        """The commit is there before the hook runs; refused, it belongs to no branch."""
        where = f"update branch {request.target}"
        head, source = branch.head, state.commit_of(request.source)
        if branch.is_sealed_dirty:
            return outcome.DirtyTarget(f"{where}: uncommitted changes (dirty branch)")
        base = state.graph.merge_base(source.id, head.id)
        if source.tree.metarange == base.tree.metarange and not request.allow_empty:
            return outcome.NoChanges(f"{where}: no changes")
        tree = object_tree.merge_trees(
            base=base.tree, source=source.tree, target=head.tree, strategy=strategy
        )
        if isinstance(tree, object_tree.ConflictingPaths):
            return outcome.MergeConflict(f"conflict found: {', '.join(tree.paths[:10])}")
        commit = state.graph.add(
            tree,
            parents=(head.id,) if request.squash else (head.id, source.id),
            # What the server writes where nothing was sent.
            message=request.message or f"Merge '{request.source}' into '{request.target}'",
            metadata={**request.metadata, STRATEGY_KEY: strategy.value},
            created_at=self.now(),
        )
        try:
            self.run_hooks(_merge_event(request, source, commit), source.tree)
        except (errors.BrokenActionsError, errors.RequestRefusedError) as refusal:
            return _refused_merge(where, refusal)
        return commit

    def commit(self, request: CommitRequest, *, unchecked: bool = False) -> CommitId:
        """Commit on a branch; `unchecked` skips the hooks, as a stale cache of the server does."""
        state = self.repository(request.repository)
        state.require_writable(request.branch)
        branch = state.branch(request.branch)
        if request.source_metarange == "":
            raise errors.RequestRefusedError("source_metarange: empty value is not allowed")
        event = HookEvent(
            "prepare-commit",
            request.repository,
            branch=request.branch,
            source_ref=request.branch,
            message=request.message,
            metadata=request.metadata,
            parents=(branch.head.id,),
        )
        if not unchecked:
            self.run_hooks(event, branch.tree)
        if request.source_metarange is not None and branch.is_dirty:
            raise errors.DirtyBranchError(
                f"{request.branch} of {request.repository} has uncommitted objects; expected none, "
                "because the commit takes another commit's tree"
            )
        readers_tree = branch.tree
        branch.seal()
        if not unchecked:
            self.run_hooks(replace(event, name="pre-commit"), readers_tree)
        commit = state.graph.add(
            _tree_to_commit(state, branch, request),
            parents=(branch.head.id,),
            message=request.message,
            metadata=request.metadata,
            created_at=self.now(),
        )
        branch.move(commit)
        return commit.id

    def read_object(
        self, repository: RepositoryId, ref: str, path: str
    ) -> object_tree.StoredObject:
        """The object a reference shows at a path; an unknown reference shows none."""
        state = self.repository(repository)
        try:
            stored = state.tree_of(ref).get(path)
        except errors.ReferenceMissingError:
            stored = None
        if stored is None:
            raise errors.ObjectMissingError(f"{repository}/{ref} has no object {path!r}")
        return stored

    def write_object(
        self,
        repository: RepositoryId,
        branch: BranchName,
        path: str,
        stored: object_tree.StoredObject,
    ) -> None:
        """Put one object on a branch, uncommitted."""
        state = self.repository(repository)
        target = state.branch(branch)  # before its protection: the server looks for it first
        state.require_writable(branch)
        if not path:
            raise errors.RequestRefusedError("an object needs a path")
        if (length := len(path.encode())) > PATH_BYTES_MAX:
            raise errors.RequestRefusedError(
                f"path: {length} is above maximum length ({PATH_BYTES_MAX}): {path[:60]}..."
            )
        target.stage(path, stored)

    def delete_objects(
        self, repository: RepositoryId, branch: BranchName, paths: Sequence[str]
    ) -> None:
        """Delete objects on a branch, uncommitted; absent ones, or no such branch, are no error."""
        state = self.repository(repository)
        if len(paths) > DELETE_PATHS_MAX:
            raise errors.RequestRefusedError(
                f"expected at most {DELETE_PATHS_MAX} paths to delete, found {len(paths)}"
            )
        state.require_writable(branch)
        if branch not in state.branches:
            return
        target = state.branch(branch)
        for path in paths:
            if target.get(path) is not None:
                target.stage(path, None)


def _merge_event(request: MergeRequest, source: Commit, commit: Commit) -> HookEvent:
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


def _refused_merge(where: str, refusal: errors.ServiceError) -> outcome.MergeAnswer:
    text = f"{where}: {refusal}"
    if isinstance(refusal, errors.BrokenActionsError):
        return outcome.BrokenActions(text)
    return outcome.HeadMoved(text) if HEAD_MOVED_TEXT in text else outcome.RefusedByHook(text)


def _refuse_commit_id(state: RepositoryState, name: str) -> None:
    """Names of branches and tags are those of commits too: the server refuses a whole id."""
    if state.graph.find_whole(name) is not None:
        raise errors.ExistsError(f"repository {state.id} has a commit {name}")


def _tree_to_commit(
    state: RepositoryState, branch: BranchState, request: CommitRequest
) -> object_tree.Tree:
    if request.source_metarange is not None:
        return state.graph.tree(request.source_metarange)
    if branch.is_dirty:
        return object_tree.named(branch.tree_to_commit)
    if not request.allow_empty:
        raise errors.NothingToCommitError(
            f"commit on {request.branch} of {request.repository}: no changes"
        )
    return object_tree.named(branch.head.tree)
