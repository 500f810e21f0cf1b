"""What the steps of an attempt are given: the ports, the attempt, and where it may publish.

Each holds the one before it, so a step takes one of them: the `Target` where it publishes, else the
`Attempt`, or the `AttemptPorts` alone where it asks a service and decides nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Self, cast

from perago.app.attempt.patience import NoStopOrder, Patience, StopOrder
from perago.app.authoring.task_definition import TaskDefinition
from perago.app.authoring.workspace_spec import WorkspaceInput, WorkspaceSpec
from perago.app.fence.trust import FenceTrust
from perago.domain.attempt import (
    PATIENCE_SECONDS,
    AttemptRecord,
    AttemptSnapshot,
    ExecutionId,
    FenceWidth,
)
from perago.domain.checkpoints import BYTES_MAX, INTERVAL_SECONDS
from perago.domain.commit_metadata import PublicationIdentity
from perago.domain.errors import InputNotCommitError, PublicationRefusedError, RunRefusedError
from perago.domain.hand_back import Moment
from perago.domain.lakefs import (
    BranchName,
    CommitId,
    CommitRecord,
    RepositoryId,
    WorkspaceReference,
)
from perago.domain.logical_execution import LogicalExecutionKey
from perago.domain.names import staging_branch_name
from perago.domain.policy import Level, PolicySetting
from perago.domain.publication import Isolation
from perago.domain.run import key_of_run, start_anew
from perago.domain.text import NO_SECRETS, Secrets
from perago.ports.conductor import TaskQueue
from perago.ports.errors import BranchMissingError
from perago.ports.installations import LakeFSInstallation
from perago.ports.lakefs import (
    BranchList,
    RepositoryFacts,
    TagRecord,
)
from perago.ports.system import Clock, Concurrency, Identities
from perago.ports.task_body import TaskBody
from perago.ports.workspace import (
    AttemptDirectories,
    AttemptMarker,
    DirectoryUploads,
    Materialised,
    Phase,
    Progress,
    SparkGateway,
    WorkspacePipeline,
)


class KnownRepositories:
    """Repositories and branches that were seen; shared by all attempts of a process."""

    def __init__(self, lakefs: LakeFSInstallation) -> None:
        self._lakefs = lakefs
        self._facts: dict[RepositoryId, RepositoryFacts] = {}
        self._seen: set[tuple[RepositoryId, BranchName]] = set()

    async def check(
        self, workspace: WorkspaceReference, concurrency: Concurrency, *, writes: bool
    ) -> CommitRecord:
        """Raise with the workspace's name unless the input can be worked on; its commit.

        The three questions are asked side by side; the repository's answer counts first.
        """
        repository = workspace.repository
        facts, _, record = await concurrency.together3(
            self._read_repository(repository),
            self._find_branch(repository, workspace.branch),
            self._lakefs.commits.read(repository, workspace.ref),
        )
        if writes and facts.read_only:
            text = f"repository {repository} is read-only; nothing can be published"
            raise PublicationRefusedError(text, code="PRG-L011")
        if record.commit != workspace.ref:  # a branch or half an id names another one tomorrow
            raise InputNotCommitError(
                f"workspace ref {workspace.ref} is not a commit id; it names {record.commit} now"
            )
        return record

    async def _read_repository(self, repository: RepositoryId) -> RepositoryFacts:
        if repository not in self._facts:
            self._facts[repository] = await self._lakefs.repositories.read(repository)
        return self._facts[repository]

    async def _find_branch(self, repository: RepositoryId, branch: BranchName) -> None:
        """A run branch is looked for each time: it goes, and each workflow has one of its own."""
        if key_of_run(branch) is not None:
            try:
                await self._lakefs.branches.head(repository, branch)
            except BranchMissingError as missing:
                text = f"run branch {branch} of {repository} is gone: its run was published or"
                more = f"given up; {start_anew(repository, branch)}"
                raise RunRefusedError(f"{text} {more}", code="PRG-N009") from missing
        elif (repository, branch) not in self._seen:
            await self._lakefs.branches.head(repository, branch)
            self._seen.add((repository, branch))


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeFS(LakeFSInstallation):
    """One lakeFS installation, what moves workspaces of it, and what is known of its fences."""

    pipeline: WorkspacePipeline
    trust: FenceTrust
    known: KnownRepositories
    uploads: DirectoryUploads | None = None  # without it task functions have no checkpoints

    @classmethod
    def of(
        cls,
        lakefs: LakeFSInstallation,
        pipeline: WorkspacePipeline,
        trust: FenceTrust,
        uploads: DirectoryUploads | None,
    ) -> Self:
        """An installation, with what attempts need beside its ports."""
        ports = {each.name: getattr(lakefs, each.name) for each in fields(LakeFSInstallation)}
        known = KnownRepositories(lakefs)
        return cls(**ports, pipeline=pipeline, trust=trust, known=known, uploads=uploads)


@dataclass(frozen=True, slots=True)
class AttemptPorts:
    """Everything outside the process, and this process's own directories and loops.

    Without a gateway Spark works on local files. `warned` holds the warnings that a worker gives
    once in its life and not for every attempt that they hold for. `patience` is one attempt's.
    """

    lakefs: LakeFS
    queue: TaskQueue
    body: TaskBody
    directories: AttemptDirectories
    clock: Clock
    identities: Identities
    concurrency: Concurrency
    progress: Progress
    stop_order: StopOrder = field(default_factory=NoStopOrder)
    spark_gateway: SparkGateway | None = None
    warned: set[str] = field(default_factory=set[str])
    patience: Patience = field(default_factory=Patience)

    def warn(self, warning: str, **facts: object) -> None:
        """Tell the listeners of an attempt what did not go well, and does not end it."""
        self.progress.phase(Phase.WARNED, {"warning": warning, **facts})


@dataclass(frozen=True, slots=True)
class AttemptSettings:
    """What an operator decided for every attempt of a worker."""

    worker_id: str
    publication: PolicySetting = PolicySetting.AUTO
    fence_width: FenceWidth = FenceWidth.WIDE
    require_ownership: bool = False
    strict_input: bool = False
    failure_reason_max_length: int = 500  # the default of PERAGO_FAILURE_REASON_MAX_LENGTH
    body_seconds: float = 0.0
    patience_seconds: float = PATIENCE_SECONDS
    checkpoint_seconds: float = INTERVAL_SECONDS
    checkpoint_bytes_max: int = BYTES_MAX
    secrets: Secrets = NO_SECRETS
    code_version: str = ""  # of the task modules, as commits say it
    keeps_outcomes: bool = True  # False where no later attempt can have the same root
    reads_before_end: bool = True
    """False for the callbacks of 0.6.1: they send no end, and are asked only when 0.6.1 asked."""


@dataclass(slots=True)
class Leftovers:
    """What exists because of this attempt, noted before it is made, so that clean-up finds it."""

    directory: Path | None = None
    materialised: Materialised | None = None
    staging: tuple[RepositoryId, BranchName] | None = None
    scratch: BranchList = field(default_factory=BranchList)
    checkpoints: BranchList = field(default_factory=BranchList)  # they go with the decision
    unlisted: tuple[RepositoryId, str] | None = None  # how the names of earlier ones begin
    commits: set[CommitId] = field(default_factory=set[CommitId])
    """Commits on private branches whose ids came in answers. The answer of any other was lost."""
    staging_may_go: bool = True
    proposed: CommitId | None = None
    """The decided commit; or the one this attempt proposed and got no answer for."""
    decided: bool = False
    outcome_unknown: bool = False
    has_outcome: bool = False  # kept beside the directory
    left: Path | None = None  # the directory, where a later attempt may go on with it
    moment: Moment = Moment.BEFORE_FUNCTION
    """What the task function has done so far decides whether the row may be handed back."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt, from the moment its row was polled, and what exists because of it."""

    ports: AttemptPorts = field(compare=False, repr=False)
    task: TaskDefinition
    record: AttemptRecord
    execution_id: ExecutionId
    settings: AttemptSettings
    traceparent: str | None = None
    leftovers: Leftovers = field(default_factory=Leftovers, compare=False)

    @property
    def row(self) -> AttemptSnapshot:
        """The row as it was polled."""
        return self.record.snapshot

    @property
    def params(self) -> Mapping[str, object]:
        """What Conductor delivered; `read_input` has validated it before any step asks."""
        return cast("Mapping[str, object]", self.record.input_data["params"])

    @property
    def workspace(self) -> WorkspaceReference:
        """The workspace of its input; only steps of workspace tasks ask, after `read_input`."""
        return WorkspaceInput.model_validate(self.record.input_data["workspace"]).as_value()

    @property
    def spec(self) -> WorkspaceSpec:
        """How the author declared the workspace; only steps of workspace tasks ask."""
        assert self.task.workspace is not None, "only workspace tasks have one"
        return self.task.workspace

    @property
    def body_seconds_max(self) -> float:
        """How long the task function and the checks may run together; 0 means no limit."""
        return self.task.controls.body_seconds or self.settings.body_seconds

    @property
    def publication(self) -> PolicySetting:
        """The policy asked for: the task's own wish wins over the operator's."""
        wish = PolicySetting(self.task.controls.publication)
        return self.settings.publication if wish is PolicySetting.AUTO else wish

    @property
    def staging_branch(self) -> BranchName:
        """The name of this execution's private branch."""
        return staging_branch_name(self.row, self.execution_id)

    @property
    def marker(self) -> AttemptMarker:
        """What stands in its directory, so that others know whose that is."""
        return AttemptMarker(self.row, self.execution_id, owner_worker_id=self.settings.worker_id)

    @property
    def effect_seconds(self) -> float:
        """How long an effect may stay unanswered, and how long settling may take."""
        return self.task.times.merge_timeout_seconds


@dataclass(frozen=True, slots=True)
class Target:
    """Where and under which rules an attempt may publish.

    `decided` is what an earlier attempt decided for this very key, `others` are the decisions for
    other inputs of its chain.
    """

    attempt: Attempt
    workspace: WorkspaceReference
    prefix: str
    isolation: Isolation
    level: Level
    key: LogicalExecutionKey | None
    decided: CommitId | None = None
    others: Sequence[TagRecord] = ()

    @property
    def ports(self) -> AttemptPorts:
        """The ports of its attempt."""
        return self.attempt.ports

    @property
    def shared_key(self) -> LogicalExecutionKey | None:
        """The key by which the attempts of an execution agree; None where the policy has no tag."""
        return self.key if self.level.shape.decides_by_tag else None

    @property
    def identity(self) -> PublicationIdentity:
        """Who publishes, as commits say it."""
        attempt = self.attempt
        return PublicationIdentity(
            attempt=attempt.row,
            execution_id=attempt.execution_id,
            workspace=self.workspace,
            prefix=self.prefix,
            staging_branch=attempt.staging_branch,
            policy=self.level.policy.value,
            level=self.level.value,
            execution_key=self.shared_key,
            traceparent=attempt.traceparent,
            code_version=attempt.settings.code_version,
        )
