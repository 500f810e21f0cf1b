"""The key K of a logical execution: all retries of one scheduled task on one input share it.

A rerun or restart by a user starts a new execution. Knows rows and marks, not where they
were read.
"""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import NewType

from perago.domain.attempt import AttemptSnapshot
from perago.domain.references import TagName, WorkspaceReference

LogicalExecutionKey = NewType("LogicalExecutionKey", str)

DECISION_TAG_PREFIX = "perago-settled-"
ATTEMPT_MARK_PREFIX = "perago-attempt-"
CHAIN_ROWS_MAX = 1000
# Ids that may stand in a tag as they are; Conductor's own are UUIDs. Any other id is hashed.
_PLAIN_WORKFLOW_ID = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)


@dataclass(frozen=True, slots=True)
class AttemptMark:
    """A tag that says: an attempt with this scheduled time was seen working."""

    task_hash: str
    scheduled_time: int


@dataclass(frozen=True, slots=True)
class Epoch:
    """The attempt a chain of retries counts from."""

    task_id: str
    scheduled_time: int


def find_epoch(
    mine: AttemptSnapshot, rows: Iterable[AttemptSnapshot], marks: Collection[AttemptMark]
) -> Epoch:
    """Find the attempt my chain counts from.

    It is the first attempt of the chain, unless a user reran a later one. A rerun keeps task
    id, retry count and `retriedTaskId` of a row and moves only its scheduled time, so the
    newest row with a mark older than itself was rerun and starts a new execution.
    """
    chain = retry_chain(mine, rows)
    for row in chain:
        marked = (mark for mark in marks if mark.task_hash == short_hash(row.task_id))
        if any(mark.scheduled_time < row.scheduled_time for mark in marked):
            return Epoch(row.task_id, row.scheduled_time)
    return Epoch(chain[-1].task_id, chain[-1].scheduled_time)


def retry_chain(
    mine: AttemptSnapshot, rows: Iterable[AttemptSnapshot]
) -> tuple[AttemptSnapshot, ...]:
    """My row and the rows it retries, newest first; a row that is gone ends the chain.

    Mine is the row as it was polled: a zombie must not take its key from the rerun of its row.
    """
    by_id: dict[str | None, AttemptSnapshot] = {row.task_id: row for row in rows}
    chain = [mine]
    for _ in range(CHAIN_ROWS_MAX):
        before = by_id.get(chain[-1].retried_task_id)
        if before is None:
            break
        chain.append(before)
    return tuple(chain)


def chain_hash(attempt: AttemptSnapshot, epoch: Epoch) -> str:
    """Hash of (workflow, reference name, iteration, epoch task id, epoch scheduled time)."""
    return short_hash(
        attempt.workflow_id,
        attempt.reference_name,
        str(attempt.iteration),
        epoch.task_id,
        str(epoch.scheduled_time),
    )


def execution_key(
    attempt: AttemptSnapshot, epoch: Epoch, workspace: WorkspaceReference, prefix: str
) -> LogicalExecutionKey:
    """The key: the workflow, the chain and the input it runs on.

    The workflow stands in the clear because garbage collection has nothing else that tells it:
    a listing of tags then says which workflows to ask for, without reading a commit for each tag.
    """
    place = short_hash(workspace.repository, workspace.branch, prefix, workspace.ref)
    workflow = workflow_segment(attempt.workflow_id)
    return LogicalExecutionKey(f"{workflow}-{chain_hash(attempt, epoch)}-{place}")


def decision_tag(key: LogicalExecutionKey) -> TagName:
    """The tag whose commit is the decision of this execution."""
    return TagName(f"{DECISION_TAG_PREFIX}{key}")


def decision_tags_of_chain(key: LogicalExecutionKey) -> str:
    """Prefix of the decisions of the same chain on whatever input."""
    return f"{DECISION_TAG_PREFIX}{key.rpartition('-')[0]}-"


def attempt_marks_of_task(attempt: AttemptSnapshot) -> str:
    """Prefix of the marks of all attempts of an attempt's task."""
    return attempt_marks_of(attempt.workflow_id, attempt.reference_name, attempt.iteration)


def attempt_marks_of(workflow_id: str, reference_name: str, iteration: int) -> str:
    """Prefix of the marks of all attempts of one task."""
    task = short_hash(workflow_id, reference_name, str(iteration))
    return f"{ATTEMPT_MARK_PREFIX}{workflow_segment(workflow_id)}-{task}-"


def attempt_mark_tag(attempt: AttemptSnapshot) -> TagName:
    """The mark that an attempt with a retry count leaves before anything else."""
    mine = f"{short_hash(attempt.task_id)}-{attempt.scheduled_time}"
    return TagName(f"{attempt_marks_of_task(attempt)}{mine}")


def parse_attempt_mark(tag: TagName) -> AttemptMark | None:
    """Read a mark back from its tag; None for a name that is not one."""
    parts = tag.removeprefix(ATTEMPT_MARK_PREFIX).rsplit("-", 3)
    if not tag.startswith(ATTEMPT_MARK_PREFIX) or len(parts) != 4 or not parts[3].isdecimal():  # noqa: PLR2004 - workflow, task, attempt, time
        return None
    return AttemptMark(parts[2], int(parts[3]))


def workflow_segment(workflow_id: str) -> str:
    """How a workflow stands in the names of its decisions and marks."""
    return workflow_id if _PLAIN_WORKFLOW_ID.fullmatch(workflow_id) else short_hash(workflow_id)


def workflow_of_tag(tag: TagName) -> str | None:
    """The workflow segment of a decision or a mark; None for a name that is neither.

    Read from the right: the hashes and the time hold no hyphen, a workflow id may.
    """
    for prefix, others in ((DECISION_TAG_PREFIX, 2), (ATTEMPT_MARK_PREFIX, 3)):
        parts = tag.removeprefix(prefix).rsplit("-", others)
        if tag.startswith(prefix) and len(parts) == others + 1 and parts[0]:
            return parts[0]
    return None


def short_hash(*parts: str) -> str:
    """32 hexadecimal digits; the parts are length-prefixed, so that they cannot run together."""
    text = "".join(f"{len(part)}:{part}" for part in parts)
    return sha256(text.encode()).hexdigest()[:32]
