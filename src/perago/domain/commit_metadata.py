"""The `perago.*` metadata of try and confirm commits, and the messages people read in the log.

Knows the names and who carries which; policies decide by some of them, most are evidence.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from perago.domain.attempt import AttemptSnapshot, ExecutionId
from perago.domain.references import CommitId, StagedReference, WorkspaceReference

PHASE = "perago.phase"
LOGICAL_TASK_KEY = "perago.logical_task_key"
TASK_ID = "perago.task_id"
RETRY_COUNT = "perago.retry_count"
INPUT_REF = "perago.input_ref"
TARGET_BRANCH = "perago.target_branch"
PREFIX = "perago.prefix"
STAGING_BRANCH = "perago.staging_branch"
EXECUTION_ID = "perago.execution_id"
POLICY = "perago.policy"
LEVEL = "perago.level"
STAGING_COMMIT = "perago.staging_commit"
EXPECTED_HEAD = "perago.expected_head"
SUPERSEDES = "perago.supersedes"
LOGICAL_EXECUTION_KEY = "perago.logical_execution_key"
RESULT = "perago.result"
RESULT_PARTS = "perago.result_parts"
RESULT_PART = "perago.result_part"
NOOP = "perago.noop"
TRACEPARENT = "perago.traceparent"

FENCE_OWNER = "perago/fence/0"
"""Logical task key of the commits that install or remove a fence, in the form of a task's.

Their one parent may be the input of an attempt that runs: without an owner `head-parent` would take
them for its abandoned publication and relocate over them.
"""

TRY = "try"
CONFIRM = "confirm"


@dataclass(frozen=True, slots=True)
class PublicationIdentity:
    """Who publishes what: everything that both the try and the confirm commit say."""

    attempt: AttemptSnapshot
    execution_id: ExecutionId
    workspace: WorkspaceReference
    prefix: str
    staging_branch: str
    policy: str
    level: str
    execution_key: str | None = None
    traceparent: str | None = None

    def shared_metadata(self) -> dict[str, str]:
        """The keys that stand on both commits."""
        metadata = {
            LOGICAL_TASK_KEY: self.attempt.logical_task_key,
            TASK_ID: self.attempt.task_id,
            RETRY_COUNT: str(self.attempt.retry_count),
            INPUT_REF: self.workspace.ref,
            TARGET_BRANCH: self.workspace.branch,
            PREFIX: self.prefix,
            STAGING_BRANCH: self.staging_branch,
            EXECUTION_ID: self.execution_id,
            POLICY: self.policy,
            LEVEL: self.level,
        }
        if self.execution_key is not None:
            metadata[LOGICAL_EXECUTION_KEY] = self.execution_key
        if self.traceparent:
            metadata[TRACEPARENT] = self.traceparent
        return metadata


def try_metadata(identity: PublicationIdentity, extra: Mapping[str, str]) -> dict[str, str]:
    """Metadata of the staged commit; `extra` is the result or the no-op mark of `settled`."""
    return {PHASE: TRY, **identity.shared_metadata(), **extra}


def confirm_metadata(
    identity: PublicationIdentity,
    *,
    staged: StagedReference,
    expected_head: CommitId,
    supersedes: str | None = None,
) -> dict[str, str]:
    """Metadata of the merge into the target; the result never stands here."""
    metadata = {
        PHASE: CONFIRM,
        **identity.shared_metadata(),
        STAGING_BRANCH: staged.branch,
        STAGING_COMMIT: staged.commit,
        EXPECTED_HEAD: expected_head,
    }
    if supersedes is not None:
        metadata[SUPERSEDES] = supersedes
    return metadata


def commit_message(attempt: AttemptSnapshot, phase: str) -> str:
    """One line for people: which task of which workflow, and which attempt."""
    return (
        f"perago {phase}: {attempt.task_type} ({attempt.reference_name}) "
        f"of workflow {attempt.workflow_id}, attempt {attempt.retry_count}"
    )
