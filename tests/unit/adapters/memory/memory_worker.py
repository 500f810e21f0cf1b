"""One worker on an in-memory lakeFS with one repository, for tests of the fake itself."""

from perago.adapters.memory.installations import RepositoryBuilder, lakefs_installation
from perago.adapters.memory.lakefs import MemoryLakeFS
from perago.adapters.memory.repository_state import MAIN
from perago.adapters.memory.system import WorkerHandle
from perago.domain.lakefs import BranchName, CommitId
from perago.ports.lakefs import MergeRequest
from perago.testing.fault_injector import FaultInjector, faulty_installation

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
