"""What runs in an executor: the task function, and the checks of the staged commit.

Both run there because code of a team runs neither in this process nor beside its keys. The checks
are a second call of the same attempt, between staging and deciding. Executors have no keys, so it
is this process that answers `current_attempt().changes()`: `changes_since_publication` reads
commits and one difference, and downloads nothing.

`produce_freely` is an attempt without a workspace. Built-in tasks have no task function: they need
lakeFS, so the worker's parent serves them itself.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from math import inf
from pathlib import Path

from pydantic import BaseModel

from perago.app.attempt.checkpoints import AttemptCheckpoints
from perago.app.attempt.context import Attempt, AttemptPorts, Target
from perago.app.attempt.stage import changes_below
from perago.app.authoring.checkpoint_copies import OUT
from perago.domain.commit_metadata import PublishingTask, run_inside
from perago.domain.errors import BodyFailedError, CheckFailedError
from perago.domain.hand_back import Cause, Moment
from perago.domain.lakefs import CommitId, CommitRecord, StagedReference, WorkspaceReference
from perago.domain.paths import listing_prefix
from perago.ports import task_body
from perago.ports.lakefs import Change, ChangeKind
from perago.ports.workspace import Phase, SparkRoots

# Not 0, which means no limit. A task function that used its time up leaves the checks this much.
SECONDS_LEFT_MIN = 0.001
COMMITS_PAGE = 1000  # in one answer: the most that lakeFS gives
# 10,000 commits of the branch. A task that published before them computes everything once more.
COMMIT_PAGES_MAX = 10
# Merged runs that are looked into, a request each, while the task function waits. A task that
# published in none of the newest 20 computes everything once more.
RUNS_MAX = 20
# As many paths of usual length fit into one message to an executor. Where more have changed, to
# compute everything costs little more.
PATHS_MAX = 100_000


@dataclass(frozen=True, slots=True)
class Returned:
    """What the task function returned as plain JSON, and how long it ran."""

    result: Mapping[str, object]
    seconds: float


async def produce_freely(attempt: Attempt) -> Mapping[str, object]:
    """The output of an attempt without a workspace: the result alone."""
    if attempt.task.built_in:
        return {"result": await _serve(attempt)}
    returned = await call_body(attempt, None)
    return {"result": dict(returned.result)}


async def _serve(attempt: Attempt) -> dict[str, object]:
    """Serve a built-in task until it ends, or until the order to stop it.

    The order may come between any two of its requests, as a death may. So whatever it has begun,
    the next attempt has to be able to go on with.
    """
    given = attempt.task.params_model.model_validate(attempt.params)
    served: BaseModel | task_body.BodyStopped = await attempt.ports.stop_order.before_end_of(
        attempt.task.fn(attempt, given)
    )
    if isinstance(served, task_body.BodyStopped):
        raise BodyFailedError(served.reason, cause=served.cause)
    return served.model_dump(mode="json", by_alias=True)


async def call_body(
    attempt: Attempt, given: Path | SparkRoots | None, checkpoints: AttemptCheckpoints | None = None
) -> Returned:
    """Run the team's function on what it is given: a directory, roots, or nothing."""
    ports = attempt.ports
    call = task_body.BodyCall(
        task_name=attempt.task.name,
        attempt=attempt.row,
        execution_id=attempt.execution_id,
        params=attempt.params,
        workspace=given if isinstance(given, Path) else None,
        seconds_max=attempt.body_seconds_max,
        spark=given if isinstance(given, SparkRoots) else None,
        checkpoints=None if checkpoints is None else _for_call(checkpoints),
        changes=partial(changes_since_publication, attempt) if given else None,
    )
    began = ports.clock.monotonic()
    outcome = await ports.body.run(call)
    if not (isinstance(outcome, task_body.BodyStopped) and outcome.cause is Cause.EXECUTOR_LOST):
        attempt.leftovers.moment = Moment.IN_FUNCTION
    if checkpoints is not None and _may_be_repeated(outcome):
        # The next attempt goes on from the newest copy, so it travels before the retry begins. An
        # order to stop (a drain, a lost attempt) leaves no time for it.
        await ports.stop_order.before_end_of(checkpoints.upload())
    ports.progress.phase(Phase.FUNCTION_ENDED, {"outcome": type(outcome).__name__})
    match outcome:
        case task_body.BodyReturned(result):
            attempt.leftovers.moment = Moment.AFTER_FUNCTION
            return Returned(result, ports.clock.monotonic() - began)
        case task_body.BodyRaised(reason, terminal, traceback):
            error = BodyFailedError(reason, terminal=terminal)
            error.add_note(traceback)
            raise error
        case task_body.BodyStopped(reason, cause):
            raise BodyFailedError(reason, cause=cause)


def _may_be_repeated(outcome: task_body.BodyOutcome) -> bool:
    """Whether a later attempt may run the task function again."""
    match outcome:
        case task_body.BodyReturned():
            return False
        case task_body.BodyRaised(_, terminal):
            return not terminal
        case task_body.BodyStopped():  # for example by a kernel that was out of memory
            return True


def _for_call(checkpoints: AttemptCheckpoints) -> task_body.Checkpoints:
    settings = checkpoints.attempt.settings
    terms = task_body.CheckpointTerms(
        out=str(checkpoints.directory / OUT),
        interval_seconds=settings.checkpoint_seconds,
        bytes_max=settings.checkpoint_bytes_max,
        found=checkpoints.found,
    )
    return task_body.Checkpoints(terms, checkpoints.upload)


async def call_checks(
    target: Target,
    staged: StagedReference,
    function_seconds: float,
    given: Path | SparkRoots,
    sizes: Mapping[str, int] | None = None,
) -> None:
    """Run the checks; raises CheckFailedError, after which the staged commit is kept for a look.

    They are given a directory that has every file of the staged commit, or roots and the sizes.
    """
    ports, attempt = target.ports, target.attempt
    workspace, prefix = target.workspace, target.prefix
    limit = attempt.body_seconds_max
    changes = changes_below(ports, workspace.repository, workspace.ref, staged.commit, prefix)
    call = task_body.BodyCall(
        task_name=attempt.task.name,
        attempt=attempt.row,
        execution_id=attempt.execution_id,
        params={},
        workspace=given if isinstance(given, Path) else None,
        seconds_max=limit and max(limit - function_seconds, SECONDS_LEFT_MIN),
        spark=given if isinstance(given, SparkRoots) else None,
        staged=task_body.StagedChanges(
            prefix, sizes=sizes, **await _paths_by_kind(changes, prefix)
        ),
    )
    outcome = await ports.body.run(call)
    facts = {"checks": len(attempt.spec.checks), "branch": staged.branch}
    facts |= {"commit": staged.commit, "outcome": type(outcome).__name__}
    ports.progress.phase(Phase.CHECKED, facts)
    _judge(attempt, staged, outcome)


def _judge(attempt: Attempt, staged: StagedReference, outcome: task_body.BodyOutcome) -> None:
    match outcome:
        case task_body.BodyReturned():
            return
        case task_body.BodyRaised(reason, terminal, traceback):
            # The branch stays, so that the team can look at what was refused; gc removes it later.
            attempt.leftovers.staging_may_go = False
            text = f"staged commit {staged.commit}: {reason}"
            error = CheckFailedError(text, terminal=terminal)
            error.add_note(traceback)
            raise error
        case task_body.BodyStopped(reason, cause):
            where = "the checks of the staged commit were running"
            raise BodyFailedError(f"{reason}; {where}", cause=cause)


async def changes_since_publication(attempt: Attempt) -> task_body.Changes | None:
    """The difference between the last publication and the input; None where all has to be done."""
    ports, prefix, workspace = attempt.ports, attempt.spec.prefix, attempt.workspace
    task = PublishingTask(attempt.row.task_type, attempt.row.reference_name, prefix)
    published = await _last_publication(ports, task, workspace)
    if published is None:
        return None
    changes = changes_below(ports, workspace.repository, published.commit, workspace.ref, prefix)
    found = await _paths_by_kind(changes, prefix, paths_max=PATHS_MAX)
    return task_body.Changes(published.commit, **found) if found else None


async def _paths_by_kind(
    changes: AsyncGenerator[Change], prefix: str, *, paths_max: float = inf
) -> dict[str, tuple[str, ...]]:
    """Relative paths by what happened to them; nothing at all if there are more than so many."""
    found: dict[ChangeKind, list[str]] = {kind: [] for kind in ChangeKind}
    number, outer = 0, listing_prefix(prefix)
    async with aclosing(changes):
        async for change in changes:
            number += 1
            if number > paths_max:
                return {}
            found[change.kind].append(change.path.removeprefix(outer))
    return {kind.value: tuple(paths) for kind, paths in found.items()}


async def _last_publication(
    ports: AttemptPorts, task: PublishingTask, workspace: WorkspaceReference
) -> CommitRecord | None:
    """Down the history of the input; a merged run is looked into where it stands."""
    runs = 0
    async for record in _history(ports, workspace):
        if task.made(record):
            return record
        inside = run_inside(record)
        if inside is None:
            continue
        runs += 1
        if runs > RUNS_MAX:
            return None
        walk = await ports.lakefs.commits.first_parents(
            workspace.repository, inside, record.parents[0], commits_max=COMMITS_PAGE
        )
        found = task.last_of(walk.above)
        if found is not None:
            return found
    return None


async def _history(
    ports: AttemptPorts, workspace: WorkspaceReference
) -> AsyncIterator[CommitRecord]:
    """The input and its first parents, newest first."""
    start: CommitId | None = workspace.ref
    for _ in range(COMMIT_PAGES_MAX):
        if start is None:
            return
        walk = await ports.lakefs.commits.first_parents(
            workspace.repository, start, None, commits_max=COMMITS_PAGE
        )
        for record in walk.commits:
            yield record
        parents = walk.commits[-1].parents
        start = parents[0] if walk.truncated and parents else None
