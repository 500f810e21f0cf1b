"""The in-memory lakeFS installation: repositories, server time, and the hooks switch.

Holds what its operations share; what each does is in `committing.py`, `merging.py`, `naming.py`
and `storing.py`. Everything is synchronous: an operation takes effect at once or not at all, and
who may crash around it is the worker handle's business.
"""

import shutil
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from perago.adapters.memory.action_hooks import HookEvent, HookRefusal, HookRefused, run_hooks
from perago.adapters.memory.object_tree import StoredObject, Tree, store_object
from perago.adapters.memory.repository_state import RepositoryState
from perago.domain.logical_execution import NO_METADATA, BranchName, RepositoryId
from perago.ports.errors import (
    BrokenActionsError,
    ExistsError,
    RepositoryMissingError,
    RequestRefusedError,
)
from perago.ports.objects import DEFAULT_CONTENT_TYPE

# Below this a file costs more than the memory it saves.
FILE_BYTES_MIN = 64 * 1024


@dataclass(slots=True)
class ServerTime:
    """The server's clock, which stands still until somebody moves it; commits count seconds."""

    seconds: int = 1_700_000_000

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
        """The content of somebody's file, as it is now: a large one as a copy in a file of ours."""
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
