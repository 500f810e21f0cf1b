"""The step between staging and deciding: the team's own checks of the staged commit.

Checks run where the task function runs, as a second call of the same attempt, because code of a
team runs neither in this process nor beside its keys.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from perago.app.attempt.context import Attempt, AttemptPorts, Target
from perago.app.attempt.stage import staged_changes
from perago.domain.errors import BodyFailedError, CheckFailedError
from perago.domain.logical_execution import StagedReference
from perago.domain.paths import listing_prefix
from perago.ports.lakefs import ChangeKind
from perago.ports.task_body import (
    BodyCall,
    BodyOutcome,
    BodyRaised,
    BodyReturned,
    BodyStopped,
    StagedChanges,
)
from perago.ports.workspace import Phase, SparkRoots

# Not 0, which means no limit. A task function that used its time up leaves the checks this much.
SECONDS_LEFT_MIN = 0.001


@dataclass(frozen=True, slots=True)
class Returned:
    """What the task function returned as plain JSON, and how long it ran."""

    result: Mapping[str, object]
    seconds: float


@dataclass(frozen=True, slots=True)
class Shown:
    """Where checks find the staged commit: a directory, or roots that Spark opens.

    `sizes` has every file of the commit; the directory has them itself.
    """

    staged: StagedReference
    function_seconds: float
    directory: Path | None = None
    spark: SparkRoots | None = None
    sizes: Mapping[str, int] | None = None


async def call_checks(ports: AttemptPorts, attempt: Attempt, target: Target, shown: Shown) -> None:
    """Run the checks; raises CheckFailedError, after which the staged commit is kept for a look."""
    limit = attempt.body_seconds_max
    call = BodyCall(
        task_name=attempt.task.name,
        attempt=attempt.row,
        execution_id=attempt.execution_id,
        params={},
        workspace=shown.directory,
        seconds_max=limit and max(limit - shown.function_seconds, SECONDS_LEFT_MIN),
        spark=shown.spark,
        staged=await _changes(ports, target, shown),
    )
    outcome = await ports.body.run(call)
    facts = {"checks": len(attempt.checks), "branch": shown.staged.branch}
    facts |= {"commit": shown.staged.commit, "outcome": type(outcome).__name__}
    ports.progress.phase(Phase.CHECKED, facts)
    _judge(attempt, shown.staged, outcome)


def _judge(attempt: Attempt, staged: StagedReference, outcome: BodyOutcome) -> None:
    match outcome:
        case BodyReturned():
            return
        case BodyRaised(reason, terminal, traceback):
            # The branch stays, so that the team can look at what was refused; gc removes it later.
            attempt.leftovers.staging_may_go = False
            text = f"staged commit {staged.commit}: {reason}"
            error = CheckFailedError(text, terminal=terminal)
            error.add_note(traceback)
            raise error
        case BodyStopped(reason, cause):
            where = "the checks of the staged commit were running"
            raise BodyFailedError(f"{reason}; {where}", cause=cause)


async def _changes(ports: AttemptPorts, target: Target, shown: Shown) -> StagedChanges:
    """What the checks are told of the difference between the input and the staged commit."""
    outer = listing_prefix(target.prefix)
    found: dict[ChangeKind, list[str]] = {kind: [] for kind in ChangeKind}
    async for change in staged_changes(ports, target, shown.staged.commit):
        found[change.kind].append(change.path.removeprefix(outer))
    return StagedChanges(
        prefix=target.prefix,
        added=tuple(found[ChangeKind.ADDED]),
        changed=tuple(found[ChangeKind.CHANGED]),
        removed=tuple(found[ChangeKind.REMOVED]),
        sizes=shown.sizes,
    )
