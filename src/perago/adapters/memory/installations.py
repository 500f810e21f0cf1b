"""Installations in memory, and a builder of repositories that acts as every writer but a worker.

`lakefs_installation` and `conductor_installation` are the ports of one worker; `shared_*` are the
installations of `memory:` addresses. `RepositoryBuilder` writes and looks as the set-up of a test
does, or another tool: at once, and without faults.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from perago.adapters.memory import lakefs_ports
from perago.adapters.memory.conductor import (
    MemoryConductorServer,
    MemoryTaskDefinitions,
    MemoryTaskQueue,
    MemoryWorkflows,
)
from perago.adapters.memory.conductor_server import MemoryConductor
from perago.adapters.memory.lakefs import MemoryLakeFS
from perago.adapters.memory.repository_state import MAIN
from perago.adapters.memory.system import VirtualClock, WorkerHandle
from perago.domain.lakefs import (
    NO_METADATA,
    BranchName,
    CommitId,
    CommitRecord,
    RepositoryId,
    TagName,
)
from perago.domain.names import is_private_branch
from perago.ports.installations import ConductorInstallation, LakeFSInstallation
from perago.ports.lakefs import CommitRequest
from perago.ports.objects import DEFAULT_CONTENT_TYPE


class RepositoryBuilder:
    """One repository, changed as by a human, another tool or a set-up, and not by a worker."""

    def __init__(self, lakefs: MemoryLakeFS, name: str) -> None:
        self.lakefs = lakefs
        self._state = lakefs.create_repository(name)

    @property
    def id(self) -> RepositoryId:
        return self._state.id

    def head(self, branch: str = MAIN) -> CommitRecord:
        return self._state.branch(BranchName(branch)).head.record

    def history(self, branch: str = MAIN) -> list[CommitRecord]:
        """The head and its first parents, down to the root."""
        return [
            commit.record for commit in self._state.graph.first_parents(self.head(branch).commit)
        ]

    def files(self, ref: str = MAIN) -> dict[str, bytes]:
        """Every object a reference shows, with its bytes."""
        tree = self._state.tree_of(ref, past_server=True)
        return {path: stored.content for path, stored in tree.under("")}

    def branch_names(self) -> set[str]:
        return set(self._state.branches)

    def tags(self) -> dict[TagName, CommitId]:
        return dict(self._state.tags)

    def branch(self, name: str, source: str = MAIN) -> BranchName:
        """Create a branch; of a private name, hidden as a worker's."""
        start, hidden = self._id(source), is_private_branch(name)
        self.lakefs.create_branch(self.id, BranchName(name), start, hidden=hidden)
        return BranchName(name)

    def delete_branch(self, name: str) -> None:
        self.lakefs.delete_branch(self.id, BranchName(name))

    def tag(self, name: str, ref: str) -> None:
        self.lakefs.create_tag(self.id, TagName(name), self._id(ref))

    def delete_tag(self, name: str) -> None:
        """Remove a tag, whatever hooks say."""
        self._state.tags.pop(TagName(name), None)

    def protect(self, pattern: str = MAIN) -> None:
        """Protect branches by name pattern; in force at once."""
        self._state.protected_patterns.add(pattern)

    def make_read_only(self) -> None:
        """Refuse every write from now on."""
        self._state.read_only = True

    def write(
        self,
        path: str,
        content: bytes | Path | None,
        branch: str = MAIN,
        *,
        content_type: str = DEFAULT_CONTENT_TYPE,
        metadata: Mapping[str, str] = NO_METADATA,
    ) -> None:
        """Write one object, or delete it (None), and leave that uncommitted.

        A file is not read in: it has to stay as it is for as long as the lakeFS is used.
        """
        if content is None:
            self.lakefs.delete_objects(self.id, BranchName(branch), [path])
            return
        stored = self.lakefs.new_object(content, content_type=content_type, metadata=metadata)
        self.lakefs.write_object(self.id, BranchName(branch), path, stored)

    def commit(
        self,
        files: Mapping[str, bytes | Path | None],
        branch: str = MAIN,
        *,
        metadata: Mapping[str, str] = NO_METADATA,
        message: str = "files",
        unchecked: bool = False,
    ) -> CommitId:
        """Write files (None deletes one) and commit them; without files, an empty commit."""
        for path, content in files.items():
            self.write(path, content, branch)
        request = CommitRequest(
            self.id, BranchName(branch), message, metadata, allow_empty=not files
        )
        return self.lakefs.commit(request, unchecked=unchecked)

    def _id(self, ref: str) -> CommitId:
        return self._state.commit_of(ref, past_server=True).id


def lakefs_installation(lakefs: MemoryLakeFS, handle: WorkerHandle) -> LakeFSInstallation:
    """The ports of one worker on an in-memory lakeFS."""
    objects = lakefs_ports.MemoryObjects(lakefs, handle)
    return LakeFSInstallation(
        branches=lakefs_ports.MemoryBranches(lakefs, handle),
        commits=lakefs_ports.MemoryCommits(lakefs, handle),
        tags=lakefs_ports.MemoryTags(lakefs, handle),
        objects=objects,
        repositories=lakefs_ports.MemoryRepositories(lakefs, handle),
        transport=lambda concurrency: lakefs_ports.MemoryTransport(objects, concurrency),
        server=lakefs_ports.MemoryLakeFSServer(lakefs, handle),
    )


def conductor_installation(
    conductor: MemoryConductor, handle: WorkerHandle
) -> ConductorInstallation:
    """The ports of one worker on an in-memory Conductor."""
    return ConductorInstallation(
        queue=MemoryTaskQueue(conductor, handle),
        definitions=MemoryTaskDefinitions(conductor, handle),
        workflows=MemoryWorkflows(conductor, handle),
        server=MemoryConductorServer(conductor, handle),
    )


@cache
def shared_lakefs(url: str) -> LakeFSInstallation:
    """The ports of the lakeFS of this name in this process."""
    return lakefs_installation(shared_memory(url), WorkerHandle())


@cache
def shared_memory(url: str) -> MemoryLakeFS:
    """The lakeFS of this name in this process."""
    del url  # it is the name under which the cache keeps the server
    return MemoryLakeFS()


@cache
def shared_conductor(url: str) -> ConductorInstallation:
    """The Conductor of this name in this process."""
    del url  # it is the name under which the cache keeps the server
    return conductor_installation(MemoryConductor(VirtualClock()), WorkerHandle())
