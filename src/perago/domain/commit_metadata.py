"""The `perago.*` metadata of commits, what it says of who made them, and W3C trace contexts.

`try_metadata` is for staged commits, `confirm_metadata` for publications. Policies decide by some
of these names, the others are evidence. `traceparent_of` accepts the trace context of a task's
input, which is text from outside, before it goes into a commit.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from perago.domain.attempt import AttemptSnapshot, ExecutionId
from perago.domain.lakefs import CommitId, CommitRecord, StagedReference, WorkspaceReference

# Commits keep these for ever, and retries, garbage collection and reports read them in commits of
# older releases: a name that was shipped never changes.
PHASE = "perago.phase"
LOGICAL_TASK_KEY = "perago.logical_task_key"
TASK_TYPE = "perago.task_type"
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
CODE_VERSION = "perago.code_version"
RUN = "perago.run"
RUN_TASKS = "perago.run_tasks"
WORKFLOW_ID = "perago.workflow_id"

FENCE_OWNER = "perago/fence/0"
"""Logical task key of the commits that install or remove a fence, in the form of a task's.

Their one parent may be the input of an attempt that runs: without an owner `head-parent` would take
them for its abandoned publication and relocate over them.
"""

TRY = "try"  # a staged commit
CONFIRM = "confirm"  # a commit on the target


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
    code_version: str = ""

    def shared_metadata(self) -> dict[str, str]:
        """The keys that stand on both commits."""
        metadata = {
            LOGICAL_TASK_KEY: self.attempt.logical_task_key,
            TASK_TYPE: self.attempt.task_type,
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
        if self.code_version:
            metadata[CODE_VERSION] = self.code_version
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


def attempt_number(metadata: Mapping[str, str]) -> int:
    """Which attempt made a commit, for people: the first one is 1."""
    text = metadata.get(RETRY_COUNT, "")
    return int(text) + 1 if text.isdecimal() else 1


def commit_message(attempt: AttemptSnapshot, phase: str) -> str:
    """One line for people: which task of which workflow, and which attempt."""
    return (
        f"perago {phase}: {attempt.task_type} ({attempt.reference_name}) "
        f"of workflow {attempt.workflow_id}, attempt {attempt.retry_count + 1}"
    )


def written_by(record: CommitRecord, logical_task_key: str) -> str:
    """Who wrote a commit, for a reason that the owner of `logical_task_key` reads."""
    owner = record.metadata.get(LOGICAL_TASK_KEY)
    if not owner:
        return "a writer other than Perago"
    if owner == logical_task_key:
        return "another attempt of this task"
    if owner == FENCE_OWNER:
        return "`perago fence`"
    workflow, _, rest = owner.partition("/")
    return f"task {rest.rpartition('/')[0]} of workflow {workflow}"


def other_writer(above: Sequence[CommitRecord], logical_task_key: str) -> str:
    """Say whose the newest commit is that is not of the task `logical_task_key`; newest first."""
    others = (each for each in above if each.metadata.get(LOGICAL_TASK_KEY) != logical_task_key)
    who = written_by(next(others, above[0]), logical_task_key)
    advice = 'if that changed other folders only, declare isolation="prefix"'
    return f"another writer published: {who}; {advice}"


MERGE_PARENTS = 2  # the head before, and the head of the run; a squash has the first one only


@dataclass(frozen=True, slots=True)
class PublishingTask:
    """What is the same in every workflow: the task, its step in the definition, and its prefix.

    The reference name counts, because one workflow may use a task twice on one prefix, and what the
    first use published is a change for the second one.
    """

    task_type: str
    reference_name: str
    prefix: str

    def made(self, record: CommitRecord) -> bool:
        """Whether an attempt of this task made a commit; no other commit is taken for one.

        Commits of releases before 0.7.0 name no task type, so they count as commits of others.
        """
        said = record.metadata
        reference = said.get(LOGICAL_TASK_KEY, "").partition("/")[2].rpartition("/")[0]
        found = PublishingTask(said.get(TASK_TYPE, ""), reference, said.get(PREFIX, ""))
        return found == self

    def last_of(self, records: Iterable[CommitRecord]) -> CommitRecord | None:
        """The newest publication of this task, of commits that are listed newest first."""
        return next((record for record in records if self.made(record)), None)


def run_inside(record: CommitRecord) -> CommitId | None:
    """The head of the run that a commit brought to its branch; its own commits are below that.

    First parents lead past them. A run that was squashed has none.
    """
    if RUN in record.metadata and len(record.parents) == MERGE_PARENTS:
        return record.parents[1]
    return None


INPUT_KEY = "traceparent"
# Version 00 has 55 characters and later ones may add fields. 512 are far above that. The text comes
# from outside and is matched before anything else is known of it, so it is not taken at any length.
# A longer one is ignored: the attempt then begins a trace of its own.
CHARACTERS_MAX = 512

_FIELDS = re.compile(
    r"(?P<version>[0-9a-f]{2})-(?P<trace>[0-9a-f]{32})-(?P<parent>[0-9a-f]{16})-(?P<flags>[0-9a-f]{2})"
    r"(?P<more>-.*)?"
)
_SAMPLED = 0x01  # the only flag of version 00; bits of later versions must be sent as 0


def traceparent_of(input_data: Mapping[str, object]) -> str | None:
    """The trace context of a task's input, or None."""
    return accept_traceparent(input_data.get(INPUT_KEY))


def accept_traceparent(value: object) -> str | None:
    """Return the context as version 00 writes it, or None for what is not one.

    A later version is read as far as version 00 knows it, as its standard asks for.
    """
    if not isinstance(value, str) or len(value) > CHARACTERS_MAX:
        return None
    match = _FIELDS.fullmatch(value)
    if match is None:
        return None
    version, trace, parent = match["version"], match["trace"], match["parent"]
    # The standard forbids version ff and ids of zeros.
    if version == "ff" or not trace.strip("0") or not parent.strip("0"):
        return None
    if version == "00":
        return None if match["more"] else value
    return f"00-{trace}-{parent}-{int(match['flags'], 16) & _SAMPLED:02x}"
