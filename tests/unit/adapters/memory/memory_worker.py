"""One worker on an in-memory lakeFS with one repository, for tests of the fake itself."""

from collections.abc import Coroutine
from typing import Any, TypeVar

from perago.adapters.memory.installations import MAIN, RepositoryBuilder, lakefs_installation
from perago.adapters.memory.lakefs import MemoryLakeFS
from perago.adapters.memory.worker_handle import WorkerHandle
from perago.domain.logical_execution import BranchName, CommitId
from perago.ports.lakefs import MergeRequest
from perago.testing.fault_injector import FaultInjector, faulty_installation

Result = TypeVar("Result")
STAGING = BranchName("staging")


class MemoryWorker:
    """A repository whose main has one commit, a staged commit on it, and a worker."""

    def __init__(self, files: dict[str, bytes | None] | None = None) -> None:
        self.lakefs = MemoryLakeFS()
        self.repository = RepositoryBuilder(self.lakefs, "repository")
        self.input_ref = self.repository.commit({"kept": b"kept", **(files or {})})
        self.repository.branch(STAGING)
        self.staged = self.repository.commit({"added": b"added"}, STAGING)
        self.injector = FaultInjector()
        ports = faulty_installation(lakefs_installation(self.lakefs, WorkerHandle()), self.injector)
        self.branches, self.commits = ports.branches, ports.commits
        self.tags, self.objects = ports.tags, ports.objects

    def request(self, source: str | None = None, **metadata: str) -> MergeRequest:
        """A merge of the staged commit into main."""
        return MergeRequest(self.repository.id, source or self.staged, MAIN, "publish", metadata)

    @property
    def head(self) -> CommitId:
        """The head of main."""
        return self.repository.head().commit


def run_by_hand(coroutine: Coroutine[Any, Any, Result], *, turns_max: int = 100) -> Result:
    """Drive a coroutine without any event loop."""
    for _ in range(turns_max):
        try:
            coroutine.send(None)
        except StopIteration as finished:
            result: Result = finished.value
            return result
    raise AssertionError("the coroutine did not finish")
