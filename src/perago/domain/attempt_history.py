"""What the servers still know of attempts: how far each one came, and what is left of it.

`how_far` is the table that judges an attempt by what Conductor and lakeFS show, `decision_state`
says what became of a task's decision, and `commit_role` what a commit on a target is to these
tasks. Nothing here asks a server: `perago.app.inspection.attempts` brings the facts together.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from perago.domain import commit_metadata
from perago.domain.attempt import NO_DATA, AttemptRecord, AttemptStatus, WorkflowStatus, as_mapping
from perago.domain.errors import OUTCOME_UNKNOWN, PeragoError
from perago.domain.lakefs import BranchName, CommitId, CommitRecord, RepositoryId, TagName
from perago.domain.names import execution_time

_CODE = re.compile(r"PRG-[A-Z]\d{3}")
# Reasons that an attempt can give only after its task function was called: what it raised, what it
# returned, and what it left in its directory.
_OF_THE_FUNCTION = re.compile(r"PRG-(?:[BR]\d{3}|G00[23]|W00[15])")
# A raised exception as Python prints it. 0.6.1 promised that text, so the code is not in it.
_RAISED = re.compile(r"[A-Z]\w*(?:: .*)?", re.DOTALL)
RAISED_CODE = "PRG-B004"


class NowhereToLookError(PeragoError, ValueError):
    """Conductor does not tell where a workflow publishes, and the question does not either."""

    code = "PRG-X006"


class Reached(StrEnum):
    """How far an attempt came, in the order of an attempt's steps."""

    QUEUED = "queued"
    HANDED_BACK = "handed back"
    POLLED = "polled"
    RAN = "ran"
    STAGING = "staging"
    STAGED = "staged"
    DECIDED = "decided"
    UNKNOWN = "outcome unknown"
    REPLACED = "replaced"
    PUBLISHED = "published"
    ADOPTED = "adopted"
    KEPT = "kept"
    COMPLETED = "completed"


class DecisionState(StrEnum):
    """What became of the decision of a task."""

    THERE = "there"
    REMOVED = "removed"
    RESET = "reset"
    NONE = "none"


class CommitRole(StrEnum):
    """What a commit on a target is to the tasks that are shown."""

    PUBLICATION = "publication"
    INPUT = "input"
    OTHER = "other workflow"
    FENCE = "fence"
    FOREIGN = "foreign"


@dataclass(frozen=True, slots=True)
class LeftTag:
    """A tag of ours and the commit that it stands on: a decision, a mark, a replaced head."""

    repository: RepositoryId
    tag: TagName
    commit: CommitId


@dataclass(frozen=True, slots=True)
class LeftBranch:
    """A private branch that is still there: of one staging, scratch or checkpoint."""

    repository: RepositoryId
    branch: BranchName
    head: CommitId


@dataclass(slots=True)
class AttemptEvidence:
    """What is known of one attempt; filled while the answers of the servers are read."""

    task_id: str
    task_key: str
    retry_count: int
    row: AttemptRecord | None = None
    executions: list[str] = field(default_factory=list[str])
    branches: list[LeftBranch] = field(default_factory=list[LeftBranch])
    checkpoints: list[LeftBranch] = field(default_factory=list[LeftBranch])
    staged: CommitId | None = None
    decided: bool = False
    publications: list[CommitRecord] = field(default_factory=list[CommitRecord])
    replaced: LeftTag | None = None
    """The tag on a publication of its own that a retry has replaced by a relocation."""
    output_by: str | None = None
    """Task id of the attempt that published the commit which the row reports."""

    @property
    def number(self) -> int:
        """Which attempt it is, for people: the first one is 1."""
        return self.retry_count + 1

    @property
    def status(self) -> AttemptStatus | None:
        """What Conductor says; None where it says nothing."""
        return None if self.row is None else self.row.snapshot.status

    @property
    def reason(self) -> str:
        """Why it ended, as Conductor was told.

        Conductor copies the reason of an attempt to its retry, where it stays until a poll.
        """
        if self.row is None or self.is_queued_anew:
            return ""
        return self.row.reason or ""

    @property
    def is_queued_anew(self) -> bool:
        """Whether no worker has had the row yet."""
        is_queued = self.status is AttemptStatus.SCHEDULED
        return is_queued and self.row is not None and self.row.snapshot.poll_count == 0

    @property
    def due(self) -> datetime | None:
        """From when on a worker may have it; None where Conductor does not keep it back."""
        if self.row is None or not self.row.delay_seconds:
            return None
        scheduled = moment_of(self.row.snapshot.scheduled_time)
        return scheduled + timedelta(seconds=self.row.delay_seconds)

    @property
    def was_polled(self) -> bool:
        """Whether Conductor has handed its row to a worker."""
        return self.row is not None and self.row.snapshot.poll_count > 0

    @property
    def ended_at(self) -> int | None:
        """When Conductor ended its row, in its milliseconds; None where it does not say.

        Conductor keeps the time of an earlier end in a row that was brought back. A time of 0 is
        none, also where the row never began.
        """
        row = self.row
        if row is None or not row.snapshot.status.is_terminal:
            return None
        return row.ended_at if row.ended_at >= max(row.snapshot.start_time, 1) else None

    @property
    def code(self) -> str | None:
        """The error code in the reason, or the one of a raised exception."""
        found = _CODE.search(self.reason)
        if found is not None:
            return found.group()
        is_raised = self.status is AttemptStatus.FAILED and _RAISED.fullmatch(self.reason)
        return RAISED_CODE if is_raised else None

    @property
    def reason_with_code(self) -> str:
        """The reason, and its code beside it where the text does not have it."""
        code = self.code
        return f"{self.reason} [{code}]" if code and code not in self.reason else self.reason

    @property
    def began(self) -> datetime | None:
        """When a worker took it; the id of its execution tells it where Conductor does not."""
        if self.row is not None and self.row.snapshot.start_time:
            return moment_of(self.row.snapshot.start_time)
        times = [execution_time(each) for each in self.executions]
        return min((each for each in times if each is not None), default=None)

    @property
    def function_failed(self) -> bool:
        """Whether its reason is one that only the end of its task function gives.

        A reason that an author chose has no code, and every refusal of ours has one.
        """
        failed = {AttemptStatus.FAILED, AttemptStatus.FAILED_WITH_TERMINAL_ERROR}
        if self.status not in failed or not self.reason:
            return False
        return self.code is None or _OF_THE_FUNCTION.fullmatch(self.code) is not None

    @property
    def input_ref(self) -> str | None:
        """The commit that Conductor handed to it."""
        return None if self.row is None else _ref(self.row.input_data)

    @property
    def output_ref(self) -> str | None:
        """The commit that it reported; only a completed row has one."""
        return _ref(self._output)

    @property
    def reported_refs(self) -> frozenset[str]:
        """The commits that it reported; a task of a run has its workspace in its result."""
        refs = self.output_ref, _ref(as_mapping(self._output.get("result")))
        return frozenset(ref for ref in refs if ref is not None)

    @property
    def _output(self) -> Mapping[str, object]:
        is_done = self.status in {AttemptStatus.COMPLETED, AttemptStatus.COMPLETED_WITH_ERRORS}
        return self.row.output_data if self.row is not None and is_done else NO_DATA

    @property
    def leftovers(self) -> Iterator["LeftTag | LeftBranch"]:
        """Every branch that is still there, and what keeps a replaced publication."""
        yield from self.branches
        yield from self.checkpoints
        if self.replaced is not None:
            yield self.replaced

    def saw(self, execution_id: str) -> None:
        """Note an execution of this attempt, once."""
        if execution_id and execution_id not in self.executions:
            self.executions.append(execution_id)

    def published(self, record: CommitRecord) -> None:
        """Note a commit on a target that this attempt made."""
        self.publications.append(record)
        self.saw(record.metadata.get(commit_metadata.EXECUTION_ID, ""))


def moment_of(milliseconds: int) -> datetime:
    """A time of Conductor."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def _ref(data: Mapping[str, object]) -> str | None:
    ref = workspace_in(data).get("ref")
    return ref if isinstance(ref, str) else None


def workspace_in(data: Mapping[str, object]) -> Mapping[str, object]:
    """The workspace in the input or output of a row; empty where there is none."""
    return as_mapping(data.get("workspace"))


def addresses_in(row: AttemptRecord) -> Iterator[Mapping[str, object]]:
    """Everything in a row that names a repository and a branch: workspaces, and a run's target."""
    result = as_mapping(row.output_data.get("result"))
    found = workspace_in(row.input_data), workspace_in(result), as_mapping(result.get("run"))
    yield from filter(None, found)


def how_far(attempt: AttemptEvidence) -> Reached:
    """Judge by the furthest step that is proven; the first that holds counts.

    seen                                                        came to
    the row completed and reports its input                     kept
    the row reports the publication of another attempt          adopted
    a publication of its own on the target                      published
    a tag on a publication of its own that is not there now     replaced
    the row completed                                           completed
    its reason says that the outcome is unknown                 outcome unknown
    the attempts of its task agreed on its staged commit        decided
    a staged commit                                             staged
    a staging branch without a commit                           staging
    a checkpoint, or a reason that the task function gave       ran
    the row is in its queue after a hand back                   handed back
    the row is in its queue                                     queued
    anything else                                               polled

    What an attempt removed when it ended is no proof any more. So `polled` of an attempt that
    failed means: it left nothing, and its reason says how it ended.
    """
    # Another task published the input, as a rule: who reports its input adopted nothing.
    if attempt.output_ref is not None and attempt.output_ref == attempt.input_ref:
        return Reached.KEPT
    if attempt.output_by is not None and attempt.output_by != attempt.task_id:
        return Reached.ADOPTED
    proofs = (
        (bool(attempt.publications), Reached.PUBLISHED),
        (attempt.replaced is not None, Reached.REPLACED),
        (attempt.status is AttemptStatus.COMPLETED, Reached.COMPLETED),
        (attempt.reason.startswith(OUTCOME_UNKNOWN) or attempt.code == "PRG-U001", Reached.UNKNOWN),
        (attempt.decided, Reached.DECIDED),
        (attempt.staged is not None, Reached.STAGED),
        (bool(attempt.branches), Reached.STAGING),
        (bool(attempt.checkpoints) or attempt.function_failed, Reached.RAN),
    )
    proven = next((reached for holds, reached in proofs if holds), None)
    if proven is not None:
        return proven
    if attempt.is_queued_anew:
        return Reached.QUEUED
    return Reached.HANDED_BACK if attempt.status is AttemptStatus.SCHEDULED else Reached.POLLED


@dataclass(slots=True)
class TaskHistory:
    """One task of one workflow with its attempts, in their order."""

    key: str
    attempts: list[AttemptEvidence] = field(default_factory=list[AttemptEvidence])
    decisions: list[LeftTag] = field(default_factory=list[LeftTag])
    was_reset: bool = False

    @property
    def workflow_id(self) -> str:
        """The workflow in the key."""
        return self.key.partition("/")[0]

    @property
    def name(self) -> str:
        """The reference name, with the iteration where there is one."""
        reference, _, iteration = self.key.partition("/")[2].rpartition("/")
        return reference if iteration in {"", "0"} else f"{reference}#{iteration}"

    @property
    def reference(self) -> str:
        """The reference name alone."""
        return self.key.partition("/")[2].rpartition("/")[0]

    @property
    def publications(self) -> list[CommitRecord]:
        """Every publication of the task, of whichever attempt."""
        return [record for attempt in self.attempts for record in attempt.publications]

    @property
    def recorded(self) -> CommitRecord | None:
        """The publication that Conductor counts, if its row and the target agree."""
        reported = {ref for attempt in self.attempts for ref in attempt.reported_refs}
        return next((each for each in self.publications if each.commit in reported), None)


def decision_state(task: TaskHistory) -> DecisionState:
    """What became of the decision.

    decision tag   reset mark   a publication names its decision   state
    there          whatever     whatever                           there
    gone           there        whatever                           reset
    gone           none         yes                                removed (by garbage collection)
    gone           none         no                                 none

    Without a publication, a decision that is gone looks like one that never was.
    """
    if task.decisions:
        return DecisionState.THERE
    if task.was_reset:
        return DecisionState.RESET
    if any(
        commit_metadata.LOGICAL_EXECUTION_KEY in record.metadata for record in task.publications
    ):
        return DecisionState.REMOVED
    return DecisionState.NONE


@dataclass(frozen=True, slots=True)
class BranchHistory:
    """A target branch from its head down to where the question ends, newest first."""

    repository: RepositoryId
    branch: BranchName
    commits: tuple[CommitRecord, ...]


@dataclass(frozen=True, slots=True)
class WorkflowFacts:
    """What Conductor says of a workflow; no status and no name of its definition where nothing."""

    workflow_id: str
    status: WorkflowStatus | None = None
    reason: str | None = None
    children: tuple[str, ...] = ()
    """Ids of sub-workflows, whose attempts are theirs."""
    name: str = ""


@dataclass(frozen=True, slots=True)
class AttemptHistory:
    """Everything that was asked for; `missing` says in sentences what could not be read."""

    workflows: tuple[WorkflowFacts, ...]
    tasks: tuple[TaskHistory, ...]
    branches: tuple[BranchHistory, ...]
    missing: tuple[str, ...]
    left_over: tuple[LeftTag | LeftBranch, ...] = ()
    """Decisions and branches of these workflows that no attempt could be found for."""
    unanswered: tuple[str, ...] = ()
    """Those of `missing` that another look may find, because a service did not answer."""

    @property
    def input_refs(self) -> frozenset[str]:
        """The inputs of all rows."""
        refs = {attempt.input_ref for task in self.tasks for attempt in task.attempts}
        return frozenset(ref for ref in refs if ref is not None)

    def roles(self, branch: BranchHistory) -> Iterator[tuple[CommitRecord, CommitRole]]:
        """Every commit with what it is to these tasks."""
        keys, inputs = frozenset(task.key for task in self.tasks), self.input_refs
        for record in branch.commits:
            yield record, commit_role(record, keys, inputs)


def commit_role(record: CommitRecord, keys: frozenset[str], inputs: frozenset[str]) -> CommitRole:
    """What a commit on a target is to the tasks with these keys.

    metadata of                  it is          what else
    one of the tasks             publication
    another workflow, or a run   other workflow
    `perago fence`               fence
    none of these                foreign        input, if a row began on it

    Its phase says nothing: a relocation makes the staged commit itself the head.
    """
    key = record.metadata.get(commit_metadata.LOGICAL_TASK_KEY, "")
    if key == commit_metadata.FENCE_OWNER:
        return CommitRole.FENCE
    if key in keys:
        return CommitRole.PUBLICATION
    if any(name.startswith("perago.") for name in record.metadata):
        return CommitRole.OTHER
    return CommitRole.INPUT if record.commit in inputs else CommitRole.FOREIGN


def newest(attempts: Sequence[AttemptEvidence]) -> AttemptEvidence:
    """The attempt whose end is that of its task."""
    return max(
        attempts,
        key=lambda each: (each.row.snapshot.seq if each.row else 0, each.retry_count),
    )
