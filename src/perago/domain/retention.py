"""What garbage collection may remove: one decision for each kind of leftover.

Told what Conductor and the owner's lock say, and an age; who lists and deletes is not known here.
A time to live of zero lets everything go that nothing else holds.
"""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class RetentionTimes:
    """How long each kind of leftover is kept."""

    attempt_directory: timedelta = timedelta(hours=24)
    staging_branch: timedelta = timedelta(hours=24)
    decision: timedelta = timedelta(days=7)
    relocated: timedelta = timedelta(days=30)
    canary: timedelta = timedelta(hours=1)


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


@dataclass(frozen=True, slots=True)
class StagingBranchFacts:
    """What is known of one staging branch and its attempt."""

    age: timedelta
    attempt: AttemptStanding
    workflow: WorkflowStanding
    decision_points_at_it: bool = False
    outcome_unknown: bool = False


def judge_attempt_directory(owner: Owner, age: timedelta, times: RetentionTimes) -> Retention:
    """Gone owner: remove. Unknown owner: remove after the time to live. Living owner: keep.

    A living owner keeps its directory however old it is: a body may run for days.
    """
    match owner:
        case Owner.ALIVE:
            return Keep("its owner is alive")
        case Owner.GONE:
            return Remove("its owner is gone")
        case Owner.UNKNOWN:
            return _by_age(age, times.attempt_directory, "nobody holds its lock")


def judge_staging_branch(facts: StagingBranchFacts, times: RetentionTimes) -> Retention:
    """Its attempt decides, unless a decision or an unknown outcome holds it.

    workflow   held by           attempt live   terminal, replaced   unknown
    live       nothing           keep           remove               by age
    live       either            keep           keep                 keep
    terminal   whatever          by age         remove               by age
    unknown    nothing           by age         remove               by age
    unknown    unknown outcome   by age         by age               by age
    unknown    a decision        keep           keep                 keep

    A row can stay in progress for ever inside a terminated workflow, hence "by age" there.
    """
    live = facts.workflow is WorkflowStanding.LIVE
    gone = facts.workflow is WorkflowStanding.UNKNOWN
    if live and facts.attempt is AttemptStanding.LIVE:
        return Keep("its attempt is in progress")
    if facts.decision_points_at_it and (live or gone):
        return Keep("a decision points at it and goes first")
    if facts.outcome_unknown and live:
        return Keep("the outcome of its publication is unknown and its workflow is not terminal")
    over = facts.attempt in {AttemptStanding.TERMINAL, AttemptStanding.REPLACED}
    if over and not (facts.outcome_unknown and gone):
        return Remove(f"its attempt is {facts.attempt}")
    return _by_age(facts.age, times.staging_branch, "nobody is known to work on it")


def judge_decision(workflow: WorkflowStanding, age: timedelta, times: RetentionTimes) -> Retention:
    """A decision goes with its workflow, after the time to live."""
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
        return Keep("decisions of its workflow go first")
    return verdict


def judge_relocated_tag(age: timedelta, times: RetentionTimes) -> Retention:
    """A tag on a head that a relocation left behind."""
    return _by_age(age, times.relocated, "a relocation left it behind")


def judge_canary_branch(age: timedelta, times: RetentionTimes) -> Retention:
    """A scratch branch of a fence check that did not finish."""
    return _by_age(age, times.canary, "its check is over")


def _by_age(age: timedelta, limit: timedelta, why: str) -> Retention:
    if age >= limit:
        return Remove(f"{why}, and it is older than {limit}")
    return Keep(f"{why}, but it is younger than {limit}")
