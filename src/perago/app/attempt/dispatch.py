"""One dispatch of an attempt, and the traces it leaves that somebody has to remove.

`Dispatch` never changes; `Traces` is the one thing an attempt writes to while it runs, so that
whatever ends it, cleaning up knows what there is.
"""

from dataclasses import dataclass, field
from pathlib import Path

from perago.app.attempt.world import AttemptSettings
from perago.app.authoring.task_definition import TaskDefinition
from perago.domain.attempt import AttemptRecord, AttemptSnapshot, ExecutionId
from perago.domain.commit_metadata import PublicationIdentity
from perago.domain.logical_execution import LogicalExecutionKey
from perago.domain.publication_facts import Isolation
from perago.domain.publication_policy import Level, PolicySetting
from perago.domain.publish_budget import PublishBudget, merge_timeout_seconds
from perago.domain.references import BranchName, CommitId, RepositoryId, WorkspaceReference
from perago.domain.staging_branch_name import staging_branch_name
from perago.ports.workspace_pipeline import Materialised


@dataclass(frozen=True, slots=True)
class Dispatch:
    """What is known the moment an attempt was polled."""

    task: TaskDefinition
    record: AttemptRecord
    execution_id: ExecutionId
    settings: AttemptSettings
    traceparent: str | None = None

    @property
    def attempt(self) -> AttemptSnapshot:
        """The polled row."""
        return self.record.snapshot

    @property
    def budget(self) -> PublishBudget | None:
        """The author's publish budget, as a domain value."""
        budget = self.task.controls.publish_budget
        return None if budget is None else budget.as_value()

    @property
    def publication(self) -> PolicySetting:
        """The policy asked for: the task's own wish wins over the operator's."""
        wish = PolicySetting(self.task.controls.publication)
        return self.settings.publication if wish is PolicySetting.AUTO else wish


@dataclass(frozen=True, slots=True)
class Ground:
    """Where and under which rules this attempt may publish."""

    workspace: WorkspaceReference
    prefix: str
    isolation: Isolation
    level: Level
    key: LogicalExecutionKey | None


@dataclass(frozen=True, slots=True)
class Scope:
    """A dispatch on its ground: what every step after the choice of policy needs."""

    dispatch: Dispatch
    ground: Ground
    traces: "Traces"

    @property
    def staging_branch(self) -> BranchName:
        """The name of this execution's private branch."""
        return staging_branch_name(self.dispatch.attempt, self.dispatch.execution_id)

    @property
    def identity(self) -> PublicationIdentity:
        """Who publishes, as commits say it."""
        ground = self.ground
        return PublicationIdentity(
            attempt=self.dispatch.attempt,
            execution_id=self.dispatch.execution_id,
            workspace=ground.workspace,
            prefix=ground.prefix,
            staging_branch=self.staging_branch,
            policy=ground.level.policy.value,
            level=ground.level.value,
            execution_key=ground.key if ground.level is Level.SETTLED else None,
            traceparent=self.dispatch.traceparent,
        )

    @property
    def effect_seconds(self) -> float:
        """How long an effect may stay unanswered, and how long settling may take."""
        return merge_timeout_seconds(self.dispatch.budget)


@dataclass(slots=True)
class Traces:
    """What exists because of this dispatch, written down before it is made."""

    directory: Path | None = None
    materialised: Materialised | None = None
    staging: tuple[RepositoryId, BranchName] | None = None
    scratch: list[tuple[RepositoryId, BranchName]] = field(
        default_factory=list[tuple[RepositoryId, BranchName]]
    )
    staging_may_go: bool = True
    proposed: CommitId | None = None
    """The decided commit; or the one that this attempt proposed and nobody answered for."""
    decided: bool = False
    outcome_unknown: bool = False
