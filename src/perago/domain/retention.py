"""What garbage collection may remove: one decision for each kind of leftover.

Judges by what Conductor and the owner's lock say, and by an age; who lists and deletes is not known
here. A time to live of zero lets everything go that nothing else holds.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import TypeAlias

from perago.domain.attempt import AttemptSnapshot, AttemptStatus, WorkflowSnapshot


@dataclass(frozen=True, slots=True)
class RetentionTimes:
    """How long each kind of leftover is kept, where no owner can be asked.

    A leftover that is kept too long costs space. One that goes too early costs a running attempt,
    or the answer to a question. So the ages are far above what they guard.
    """

    attempt_directory: timedelta = timedelta(hours=24)  # as 0.6.1
    staging_branch: timedelta = timedelta(hours=24)  # of an attempt that Conductor does not know
    decision: timedelta = timedelta(days=7)  # an operator may retry an ended workflow so long
    relocated: timedelta = timedelta(days=30)  # nothing else names a replaced publication
    canary: timedelta = timedelta(hours=1)  # a check takes seconds (CHECK_TAKES_MAX)
    run: timedelta = timedelta(days=7)  # people look at a run that was not published


class Owner(StrEnum):
    """What the lock on an attempt directory's marker says of the process that made it."""

    ALIVE = "alive"
    GONE = "gone"
    UNKNOWN = "unknown"


class AttemptStanding(StrEnum):
    """What Conductor says of one attempt."""

    LIVE = "live"
    TERMINAL = "terminal"
    REPLACED = "replaced"
    UNKNOWN = "unknown"


class WorkflowStanding(StrEnum):
    """What Conductor says of one workflow."""

    LIVE = "live"
    TERMINAL = "terminal"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Remove:
    """Nothing needs it any more; `reason` says why, for the log and `--dry-run`."""

    reason: str


@dataclass(frozen=True, slots=True)
class Keep:
    """Something may still need it."""

    reason: str


Retention: TypeAlias = Remove | Keep


def standing_of(workflow: WorkflowSnapshot | None) -> WorkflowStanding:
    """Whether a workflow lives, as Conductor answered."""
    if workflow is None:
        return WorkflowStanding.UNKNOWN
    return WorkflowStanding.TERMINAL if workflow.status.is_terminal else WorkflowStanding.LIVE


def _attempts_of_task(
    workflow: WorkflowSnapshot | None, task_id: str
) -> tuple[AttemptSnapshot | None, Sequence[AttemptSnapshot]]:
    """The row with this id, and all rows of the same task; none where it is not known."""
    rows = () if workflow is None else workflow.tasks
    mine = next((row for row in rows if row.task_id == task_id), None)
    if mine is None:
        return None, ()
    return mine, [row for row in rows if row.logical_task_key == mine.logical_task_key]


def standing_of_attempt(workflow: WorkflowSnapshot | None, task_id: str) -> AttemptStanding:
    """Whether an attempt can still do anything, by the rows of its workflow."""
    mine, same = _attempts_of_task(workflow, task_id)
    if mine is None:
        return AttemptStanding.UNKNOWN
    # Conductor may take `retried` back: when a heartbeat meets the time-out of its row, both that
    # row and its retry are in progress. The younger one is told by its `seq`.
    if mine.retried or any(row.seq > mine.seq for row in same):
        return AttemptStanding.REPLACED
    return AttemptStanding.TERMINAL if mine.status.is_terminal else AttemptStanding.LIVE


@dataclass(frozen=True, slots=True)
class StagingBranchFacts:
    """What is known of one staging branch and its attempt.

    The age is that of the branch's own commit, else of its execution; None where neither tells.
    Never that of the input it stands on, which may be years older than the branch.
    """

    age: timedelta | None
    attempt: AttemptStanding
    workflow: WorkflowStanding
    decision_points_at_it: bool = False
    outcome_unknown: bool = False
    undecided: bool = False
    """It has a staged commit of `settled`, and no decision points at it yet."""


# A row that failed or timed out is over for Conductor, and an operator may retry it: that retry is
# the same logical execution. Every other end is the end of the task.
RETRYABLE = frozenset({AttemptStatus.FAILED, AttemptStatus.TIMED_OUT})


def standing_of_task(workflow: WorkflowSnapshot | None, task_id: str) -> AttemptStanding:
    """Whether a later attempt of the same task may come, by the newest row of that task."""
    _, same = _attempts_of_task(workflow, task_id)
    if not same:
        return AttemptStanding.UNKNOWN
    newest = max(same, key=lambda row: row.seq).status
    is_over = newest.is_terminal and newest not in RETRYABLE
    return AttemptStanding.TERMINAL if is_over else AttemptStanding.LIVE


def judge_attempt_directory(
    owner: Owner, age: timedelta, times: RetentionTimes, task: AttemptStanding | None = None
) -> Retention:
    """Gone owner: remove. Unknown owner: remove after the time to live. Living owner: keep.

    A living owner keeps its directory however old it is: a body may run for days. `task` is given
    where the owner died after its task function ended: then the next attempt of the task on this
    host goes on with the directory, so it stays until the task is over, or for the time to live.
    """
    match owner:
        case Owner.ALIVE:
            return Keep("its process is running")
        case Owner.GONE if task is None:
            return Remove("its process has ended")
        case Owner.GONE if task is AttemptStanding.TERMINAL:
            return Remove("its task is over")
        case Owner.GONE:
            return _by_age(age, times.attempt_directory, "a later attempt may go on with it")
        case Owner.UNKNOWN:
            return _by_age(age, times.attempt_directory, "no process holds its lock")


def judge_staging_branch(facts: StagingBranchFacts, times: RetentionTimes) -> Retention:
    """Its attempt decides, unless a decision or an unknown outcome holds it.

    held by           workflow   attempt live   terminal, replaced   unknown
    nothing           live       keep           remove               by age
    nothing           terminal   by age         remove               by age
    nothing           unknown    by age         remove               by age
    unknown outcome   live       keep           keep                 keep
    unknown outcome   terminal   by age         remove               by age
    unknown outcome   unknown    by age         by age               by age
    a decision        whatever   keep           keep                 keep
    a staged commit   live       keep           by age               by age
    a staged commit   not live   by age         by age               by age

    A decision holds its branch whatever Conductor says: only the branch keeps the data of its
    commit, and an operator's retry of an ended workflow publishes that commit days later.
    A staged commit of `settled` without a decision holds its branch for a while, because its
    attempt may stand still between the two requests, be replaced meanwhile, and go on to decide.
    A row can stay in progress for ever inside a terminated workflow, hence "by age" there.
    """
    live = facts.workflow is WorkflowStanding.LIVE
    gone = facts.workflow is WorkflowStanding.UNKNOWN
    if live and facts.attempt is AttemptStanding.LIVE:
        return Keep("its attempt is in progress")
    if facts.decision_points_at_it:
        return Keep("a decision needs it and is removed first")
    if facts.outcome_unknown and live:
        return Keep("the outcome of its publication is unknown and its workflow is not terminal")
    over = facts.attempt in {AttemptStanding.TERMINAL, AttemptStanding.REPLACED}
    if over and facts.undecided:
        why = f"its attempt is {facts.attempt} and may still decide on its staged commit"
        return _by_age(facts.age, times.staging_branch, why)
    if over and not (facts.outcome_unknown and gone):
        return Remove(f"its attempt is {facts.attempt}")
    return _by_age(facts.age, times.staging_branch, "no attempt is known to use it")


def judge_decision(workflow: WorkflowStanding, age: timedelta, times: RetentionTimes) -> Retention:
    """A decision goes after its workflow; `age` counts from the workflow's end.

    Not from the decision: a workflow may run for weeks, and an operator who looks at a failed one
    the next morning must find what it decided.
    """
    if workflow is WorkflowStanding.LIVE:
        return Keep("its workflow is not terminal")
    return _by_age(age, times.decision, f"its workflow is {workflow}")


def judge_attempt_mark(
    workflow: WorkflowStanding, age: timedelta, times: RetentionTimes, *, decisions_left: bool
) -> Retention:
    """A mark goes like a decision, and never before one.

    A decision without its marks would be resumed by a rerun that should compute anew.
    """
    verdict = judge_decision(workflow, age, times)
    if isinstance(verdict, Remove) and decisions_left:
        return Keep("decisions of its workflow are removed first")
    return verdict


def judge_checkpoint(
    workflow: WorkflowStanding, age: timedelta | None, times: RetentionTimes, *, decided: bool
) -> Retention:
    """A checkpoint is kept while an attempt may still go on from it.

    execution     workflow live   terminal, unknown
    decided       remove          remove
    not decided   keep            by age

    Not by its attempt: the one that took it has failed or died as a rule, and the next one is
    queued. An operator may retry a workflow that has ended, hence "by age" there.
    """
    if decided:
        return Remove("its execution has decided")
    if workflow is WorkflowStanding.LIVE:
        return Keep("its workflow is not terminal")
    return _by_age(age, times.staging_branch, f"its workflow is {workflow}")


def judge_run(
    workflow: WorkflowStanding, age: timedelta | None, times: RetentionTimes, *, decided: bool
) -> Retention:
    """A run that was not published goes after its workflow; `age` counts from the workflow's end.

    A decision of its finish holds it whatever Conductor says: an operator's retry of the ended
    workflow publishes the run, and only the run branch keeps its data.
    """
    if workflow is WorkflowStanding.LIVE:
        return Keep("its workflow is not terminal")
    if decided:
        return Keep("a decision needs it and is removed first")
    return _by_age(age, times.run, f"its workflow is {workflow}")


def judge_relocated_tag(age: timedelta | None, times: RetentionTimes) -> Retention:
    """A tag on a head that a relocation left behind."""
    return _by_age(age, times.relocated, "it names what a relocation replaced")


def judge_canary_branch(age: timedelta | None, times: RetentionTimes) -> Retention:
    """A scratch branch of a fence check that did not finish."""
    return _by_age(age, times.canary, "the fence check that made it is over")


def _by_age(age: timedelta | None, limit: timedelta, why: str) -> Retention:
    """An unknown age is reached by a limit of zero alone, which only an operator gives."""
    if age is None and limit:
        return Keep(f"{why}, and its age is unknown")
    if age is None or age >= limit:
        return Remove(f"{why}, and it is older than {_words(limit)}")
    return Keep(f"{why}, but it is younger than {_words(limit)}; it goes in {_words(limit - age)}")


def _words(time: timedelta) -> str:
    """Whole days where it is two of them or more, else hours, else minutes; at least one."""
    for name, unit in (("days", timedelta(days=1)), ("h", timedelta(hours=1))):
        if time >= 2 * unit:
            return f"{time // unit} {name}"
    return f"{max(time // timedelta(minutes=1), 1)} min"
