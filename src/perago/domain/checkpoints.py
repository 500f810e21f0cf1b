"""What a later attempt goes on from: checkpoints of a task function, and what one has come to.

Each execution writes to a checkpoint branch of its own, because two attempts that overlap would
mix their files on a shared one. The names of one logical execution share a prefix, so one listing
finds them all. They sort by the time at which their executions began: the id ends the name.

No such branch is ever published: a merge names the decided commit of a staging branch, and nothing
else. The prefix `perago-scratch-` is one that no release deletes unless it knows what stands there.

`KeptOutcome` is a record that outlives its worker: for which logical execution a function ran, what
it returned, and, in the words of the pipeline, what it left in its directory.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, cast

from perago.domain import commit_metadata
from perago.domain.attempt import AttemptSnapshot, ExecutionId
from perago.domain.lakefs import BranchName, CommitRecord, WorkspaceReference
from perago.domain.logical_execution import LogicalExecutionKey
from perago.domain.names import SCRATCH_BRANCH_PREFIX, short_hash

# Garbage collection finds checkpoints of older releases by it: it may never change.
CHECKPOINT_BRANCH_PREFIX = f"{SCRATCH_BRANCH_PREFIX}checkpoint-"
# Beside the data of the input commit, on which the branch stands. It is no path of a workspace.
CHECKPOINT_FOLDER = ".perago-checkpoint"

CHECKPOINT = "checkpoint"  # the phase in the metadata of its commits
NUMBER = "perago.checkpoint_number"
NOTE = "perago.checkpoint_note"
TAKEN_AT = "perago.checkpoint_taken_at"
# Written for a person only: a row that is handed out again keeps its ids, and its poll count says
# which of its executions took the checkpoint.
POLL_COUNT = "perago.poll_count"

# A checkpoint costs a copy, and an upload beside the task function. Once a minute neither is felt,
# and a worker that dies loses a minute of hours.
INTERVAL_SECONDS = 60.0
# The disk of the worker holds up to three copies: one being made, one waiting, one being uploaded.
# A function that copies a whole workspace by mistake must not fill the disk of all attempts. One
# that needs more gets PRG-B006, which names the setting.
BYTES_MAX = 10 * 1024**3
# More files cost a request each, so a checkpoint of them would take longer than the interval. One
# archive of them is one file.
FILES_MAX = 10_000
# A note is metadata of a commit, which lakeFS returns with every read of that commit. Anything
# larger belongs into a file of the checkpoint. This many hold a position and what was done so far.
NOTE_CHARACTERS_MAX = 4_000


@dataclass(frozen=True, slots=True)
class CheckpointRecord:
    """One committed checkpoint as its commit tells it; the note is plain JSON."""

    number: int
    note: object
    taken_at: datetime


def checkpoint_branch(key: LogicalExecutionKey, execution_id: ExecutionId) -> BranchName:
    """The branch on which one execution keeps its checkpoints."""
    return BranchName(f"{checkpoint_branches_of(key)}{execution_id}")


def checkpoint_branches_of(key: LogicalExecutionKey) -> str:
    """Prefix of the checkpoint branches of all executions of one logical execution."""
    return f"{CHECKPOINT_BRANCH_PREFIX}{key}-"


def checkpoint_branches_of_chain(key: LogicalExecutionKey) -> str:
    """Prefix of the checkpoint branches of the same chain of attempts, on whatever input."""
    return f"{CHECKPOINT_BRANCH_PREFIX}{key.rpartition('-')[0]}-"


def key_of_checkpoint(branch: BranchName) -> LogicalExecutionKey | None:
    """The logical execution of a checkpoint branch; None for a name that is not one."""
    key, _, execution_id = branch.removeprefix(CHECKPOINT_BRANCH_PREFIX).rpartition("-")
    parts = key.rsplit("-", 2)  # a workflow id may hold hyphens, the two hashes hold none
    if not branch.startswith(CHECKPOINT_BRANCH_PREFIX) or not execution_id:
        return None
    return LogicalExecutionKey(key) if len(parts) == 3 and all(parts) else None  # noqa: PLR2004 - workflow, chain, input


def workflow_of_key(key: LogicalExecutionKey) -> str:
    """The workflow segment of a key."""
    return key.rsplit("-", 2)[0]


def checkpoint_metadata(
    attempt: AttemptSnapshot, execution_id: ExecutionId, checkpoint: CheckpointRecord
) -> dict[str, str]:
    """What the commit of a checkpoint says: whose it is, and its note."""
    return {
        commit_metadata.PHASE: CHECKPOINT,
        commit_metadata.LOGICAL_TASK_KEY: attempt.logical_task_key,
        commit_metadata.TASK_ID: attempt.task_id,
        commit_metadata.RETRY_COUNT: str(attempt.retry_count),
        POLL_COUNT: str(attempt.poll_count),
        commit_metadata.EXECUTION_ID: execution_id,
        NUMBER: str(checkpoint.number),
        NOTE: json.dumps(checkpoint.note),
        TAKEN_AT: checkpoint.taken_at.isoformat(),
    }


def read_checkpoint(record: CommitRecord) -> CheckpointRecord | None:
    """The checkpoint that a commit holds; None for any other commit."""
    said = record.metadata
    if said.get(commit_metadata.PHASE) != CHECKPOINT:
        return None
    try:
        moment = datetime.fromisoformat(said[TAKEN_AT])
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return CheckpointRecord(int(said[NUMBER]), json.loads(said[NOTE]), moment)
    except (KeyError, ValueError):
        return None


# A worker of another version that finds a record of this one on the disk must not guess what its
# fields mean. With another number it runs the function again.
FORMAT = 1


@dataclass(frozen=True, slots=True)
class RanFor:
    """For what a task function ran: what it did is of use for nothing else.

    The key already has all of it but the task name. It is a hash of hashes, so it cannot say what
    differs; the parts are compared as well, and a reader of the file sees them. The code of the
    task is not among them, because the key does not know it either: a decision of the old code
    counts after a deploy, and so does its outcome.
    """

    key: LogicalExecutionKey
    task_name: str
    repository: str
    branch: str
    input_commit: str
    prefix: str
    params_digest: str

    @classmethod
    def of(
        cls,
        key: LogicalExecutionKey,
        task_name: str,
        workspace: WorkspaceReference,
        prefix: str,
        params: object,
    ) -> "RanFor":
        """The parts as an attempt has them."""
        text = json.dumps(params, sort_keys=True, separators=(",", ":"))
        return cls(
            key,
            task_name,
            workspace.repository,
            workspace.branch,
            workspace.ref,
            prefix,
            short_hash(text),
        )


@dataclass(frozen=True, slots=True)
class KeptOutcome:
    """A finished task function: its result, its seconds, and its directory as it left it."""

    ran_for: RanFor
    result: Mapping[str, object]
    seconds: float
    directory: str

    def as_text(self) -> str:
        """The record as it stands on the disk, with a digest that a torn one does not have."""
        outcome = {
            "ran_for": asdict(self.ran_for),
            "result": dict(self.result),
            "seconds": self.seconds,
            "directory": self.directory,
        }
        written = json.dumps(outcome, separators=(",", ":"))
        return json.dumps({"format": FORMAT, "digest": _digest(written), "outcome": written})


def read_kept_outcome(text: str) -> KeptOutcome | None:
    """Read a record; None for one that is torn, damaged, or of another format."""
    try:
        record = cast("Mapping[str, object]", json.loads(text))
        written = record["outcome"]
        if record["format"] != FORMAT or not isinstance(written, str):
            return None
        if record["digest"] != _digest(written):
            return None
        fields = cast("Mapping[str, object]", json.loads(written))
        return KeptOutcome(
            ran_for=RanFor(**cast("dict[str, Any]", fields["ran_for"])),
            result=cast("Mapping[str, object]", fields["result"]),
            seconds=cast("float", fields["seconds"]),
            directory=cast("str", fields["directory"]),
        )
    except (ValueError, KeyError, TypeError):
        return None


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()
