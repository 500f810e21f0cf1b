"""Logical executions: all retries of one scheduled task on one input, their key and their tags.

`find_epoch` finds the attempt that an execution counts from, `execution_key` names it,
`decision_tag` and `attempt_mark_tag` are its tags. Nothing here asks a server.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NewType

from perago.domain import names
from perago.domain.attempt import AttemptSnapshot
from perago.domain.lakefs import CommitId, CommitRecord, TagName, WorkspaceReference

LogicalExecutionKey = NewType("LogicalExecutionKey", str)


@dataclass(frozen=True, slots=True)
class AttemptMark:
    """What a mark's name says: a row by the hash of its id, and the row's scheduled time.

    In the mark that `perago reset-task` leaves, the hash of a chain stands in place of the row's,
    and the time serves garbage collection only.
    """

    task_hash: str
    scheduled_time: int


@dataclass(frozen=True, slots=True)
class ExecutionInput:
    """What a task works on, as far as it tells one execution from another.

    The params are those that Conductor delivered, before the model fills in its defaults: a
    deploy that adds a field must not change the key of a workflow that runs.
    """

    workspace: WorkspaceReference
    prefix: str
    params: object

    @property
    def hash(self) -> str:
        """Of repository, branch, prefix, input commit and params.

        Equal JSON gives equal text, in whatever order Conductor's store hands out its fields.
        """
        workspace = self.workspace
        params = json.dumps(self.params, sort_keys=True, separators=(",", ":"))
        return names.short_hash(
            workspace.repository, workspace.branch, self.prefix, workspace.ref, params
        )


@dataclass(frozen=True, slots=True)
class Unsealed:
    """A row whose mark is missing, and the commit to put it on; nothing goes on without it."""

    row: AttemptSnapshot
    commit: CommitId


def find_epoch(
    chain: Sequence[AttemptSnapshot], marks: Mapping[AttemptMark, CommitId], mine: CommitRecord
) -> AttemptSnapshot | Unsealed:
    """Find the attempt a chain counts from, or the row that has to be sealed before.

    It is the first attempt of the chain, unless a user reran a later one: then the newest row
    that was rerun. `mine` is the input commit of the attempt that asks. A mark of the first row
    stands on the input of whichever attempt came first to put it, so it says nothing about that
    row: it only shows on which commit the marks of rows stand that continue its chain.
    """
    *retries, first = chain
    for row in retries:
        continues = marks.get(mark_of(first))
        if continues is None:
            return Unsealed(first, mine.commit)
        sealed = marks.get(mark_of(row))
        if sealed is None:
            return Unsealed(row, _another(continues, mine) if _rerun(row, marks) else continues)
        if sealed != continues:
            return row
    return first


def _rerun(row: AttemptSnapshot, marks: Iterable[AttemptMark]) -> bool:
    """Whether a row was seen working under an older scheduled time."""
    mine = mark_of(row)
    return any(
        mark.task_hash == mine.task_hash and mark.scheduled_time < mine.scheduled_time
        for mark in marks
    )


def _another(commit: CommitId, mine: CommitRecord) -> CommitId:
    """A commit other than this one, of those that an attempt knows without another request.

    The input has a parent, because the commit that a repository begins with is empty and has no
    fence. In a repository restored without one, a rerun of a retry counts as one more retry.
    """
    return next((each for each in (mine.commit, *mine.parents) if each != commit), commit)


def retry_chain(
    mine: AttemptSnapshot, rows: Iterable[AttemptSnapshot]
) -> tuple[AttemptSnapshot, ...]:
    """My row and the rows it retries, newest first; a row that is gone ends the chain.

    Mine is the row as it was polled: a zombie must not take its key from the rerun of its row.
    Each row stands in it once, so a chain has an end however Conductor's rows refer to each other.
    """
    by_id: dict[str | None, AttemptSnapshot] = {row.task_id: row for row in rows}
    by_id.pop(mine.task_id, None)
    chain = [mine]
    while (before := by_id.pop(chain[-1].retried_task_id, None)) is not None:
        chain.append(before)
    return tuple(chain)


def chain_hash(
    attempt: AttemptSnapshot, epoch: AttemptSnapshot, marks: Iterable[AttemptMark] = frozenset()
) -> str:
    """Hash of (workflow, reference name, iteration, epoch task id, epoch scheduled time).

    The epoch is the row that the chain counts from.
    Each reset of a chain, told by a mark with its hash, leads on to the hash of another one.
    """
    chain = names.short_hash(
        attempt.workflow_id,
        attempt.reference_name,
        str(attempt.iteration),
        epoch.task_id,
        str(epoch.scheduled_time),
    )
    marked = {mark.task_hash for mark in marks}
    while chain in marked:
        chain = names.short_hash("reset", chain)
    return chain


def execution_key(
    attempt: AttemptSnapshot, chain: str, given: ExecutionInput
) -> LogicalExecutionKey:
    """The key: the workflow, the hash of the chain, and that of the input.

    The workflow stands in the clear because garbage collection has nothing else that tells it:
    a listing of tags then says which workflows to ask for, without reading a commit for each tag.
    """
    workflow = names.workflow_segment(attempt.workflow_id)
    return LogicalExecutionKey(f"{workflow}-{chain}-{given.hash}")


def key_on_input(key: LogicalExecutionKey, given: ExecutionInput) -> LogicalExecutionKey:
    """The key that the same chain has on another input."""
    return LogicalExecutionKey(f"{key.rpartition('-')[0]}-{given.hash}")


def decision_tag(key: LogicalExecutionKey) -> TagName:
    """The tag whose commit is the decision of this execution."""
    return TagName(f"{names.DECISION_TAG_PREFIX}{key}")


def decision_tags_of_chain(key: LogicalExecutionKey) -> str:
    """Prefix of the decisions of the same chain on whatever input."""
    return f"{names.DECISION_TAG_PREFIX}{key.rpartition('-')[0]}-"


def decision_key(tag: TagName) -> LogicalExecutionKey:
    """The key in the name of a decision."""
    return LogicalExecutionKey(tag.removeprefix(names.DECISION_TAG_PREFIX))


def decision_tags_of_workflow(workflow_id: str) -> str:
    """Prefix of the decisions of a workflow, and of others whose ids begin with its id."""
    return f"{names.DECISION_TAG_PREFIX}{names.workflow_segment(workflow_id)}-"


def chain_of_key(key: LogicalExecutionKey) -> str:
    """The hash of the chain in a key."""
    return key.rsplit("-", 2)[1]


def attempt_marks_of_task(attempt: AttemptSnapshot) -> str:
    """Prefix of the marks of all attempts of an attempt's task."""
    task = names.short_hash(attempt.workflow_id, attempt.reference_name, str(attempt.iteration))
    return f"{names.ATTEMPT_MARK_PREFIX}{names.workflow_segment(attempt.workflow_id)}-{task}-"


def mark_of(attempt: AttemptSnapshot) -> AttemptMark:
    """The mark of a row at its scheduled time."""
    return AttemptMark(names.short_hash(attempt.task_id), attempt.scheduled_time)


def attempt_mark_tag(attempt: AttemptSnapshot, mark: AttemptMark | None = None) -> TagName:
    """The tag that seals a row at its scheduled time, or the one of another mark of its task."""
    mark = mark_of(attempt) if mark is None else mark
    return TagName(f"{attempt_marks_of_task(attempt)}{mark.task_hash}-{mark.scheduled_time}")


def parse_attempt_mark(tag: TagName) -> AttemptMark | None:
    """Read a mark back from its tag; None for a name that is not one."""
    parts = tag.removeprefix(names.ATTEMPT_MARK_PREFIX).rsplit("-", 3)
    if not tag.startswith(names.ATTEMPT_MARK_PREFIX) or len(parts) != 4 or not parts[3].isdecimal():  # noqa: PLR2004 - workflow, task, attempt, time
        return None
    return AttemptMark(parts[2], int(parts[3]))


def workflow_of_tag(tag: TagName) -> str | None:
    """The workflow segment of a decision or a mark; None for a name that is neither.

    Read from the right: the hashes and the time hold no hyphen, a workflow id may.
    """
    for prefix, others in ((names.DECISION_TAG_PREFIX, 2), (names.ATTEMPT_MARK_PREFIX, 3)):
        parts = tag.removeprefix(prefix).rsplit("-", others)
        if tag.startswith(prefix) and len(parts) == others + 1 and parts[0]:
            return parts[0]
    return None
