"""One attempt of one task, step by step: from what was polled to what Conductor accepted.

The order of steps is the specification's; what each step decides is the domain's. One except
turns whatever ended the attempt into a status, one pass cleans, nothing else is caught here.

A workspace is a local directory or Spark's. Once the task function has run, each step is a method
of the value that the step before has made, so none can be called too early: `compare` -> `stage`.
What was staged goes to `check_staged` of what has run, which knows where the checks can see it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from perago.app.attempt.agree import SettledDecision, agree
from perago.app.attempt.choose_target import choose_target
from perago.app.attempt.complete import (
    Recorded,
    check_attempt,
    clean_up,
    complete,
    leave_outcome,
    with_patience,
)
from perago.app.attempt.context import Attempt, Target
from perago.app.attempt.ending import HANDED_BACK, end_of_failure, failed_update
from perago.app.attempt.local_workspace import LocalRan, run_on_disk
from perago.app.attempt.publish import Finished, finish_decision, publish, read_first_walk
from perago.app.attempt.resume import find_decision_on_other_input, resume
from perago.app.attempt.spark_workspace import SparkRan, run_on_spark
from perago.app.attempt.task_function import produce_freely
from perago.app.authoring import envelope
from perago.app.authoring.failure import error_code
from perago.app.authoring.workspace_spec import WorkspaceInput
from perago.domain.attempt import AttemptStatus, Stale
from perago.domain.errors import CompletionRefusedError, MadeGoodError, StaleAttemptError
from perago.ports.conductor import AttemptEnd, HandBack, TerminalUpdate
from perago.ports.task_body import Lease
from perago.ports.workspace import Phase


@dataclass(frozen=True, slots=True)
class AttemptReport:
    """How an attempt ended, and whether Conductor counted it; no update when none was sent."""

    update: AttemptEnd | None
    recorded: Recorded
    error: Exception | None = None

    @property
    def status(self) -> str:
        """The end in one word, for logs, metrics and people."""
        match self.update:
            case None:
                return "not sent"
            case HandBack():
                return HANDED_BACK
            case TerminalUpdate(status=status):
                return str(status)


def ignore(error: Exception) -> None:
    """For callers that need not know of a failure before Conductor does."""
    del error


async def run_attempt(
    attempt: Attempt,
    lease: Lease,
    *,
    polled_at: float | None = None,
    failed: Callable[[Exception], None] = ignore,
) -> AttemptReport:
    """Run one attempt to its end; only cancellation and death pass through.

    `polled_at` is the monotonic time of its poll, now if it is not given: an old attempt reads
    its row before it ends it. `failed` is called with an error before Conductor gets it,
    which schedules the retry at once, and when the attempt begins to wait for lakeFS.
    Leftovers are removed when the end was sent: the row must not wait for it, and whether the end
    counts says what may go.
    """
    began = attempt.ports.clock.monotonic() if polled_at is None else polled_at
    attempt.ports.progress.phase(Phase.STARTED, {"task_id": attempt.row.task_id})
    error: Exception | None = None
    update: AttemptEnd | None
    try:
        _require_no_retry(attempt)
        output = await _produce_output(with_patience(attempt, lease, began, failed))
        update = TerminalUpdate(
            attempt=attempt.row,
            worker_id=attempt.settings.worker_id,
            status=AttemptStatus.COMPLETED,
            output=output,
        )
    except Exception as caught:  # noqa: BLE001 - every failure becomes the attempt's status
        failed(caught)
        update, error = end_of_failure(attempt, caught)
        await leave_outcome(attempt, caught)
    report = AttemptReport(update, Recorded.SUPERSEDED, error)
    report = await _end(attempt, report, lease, began)
    counts = report.recorded is Recorded.RECORDED and report.error is None
    # The branch alone keeps the data of a decision. Until a completion counts, a retry may need it.
    if attempt.leftovers.decided and counts:
        attempt.leftovers.staging_may_go = True
    await clean_up(attempt)
    attempt.ports.progress.phase(Phase.ENDED, _end_facts(attempt, report))
    return report


def _require_no_retry(attempt: Attempt) -> None:
    """Conductor hands out a row again that a retry has made good, if a later task is run again.

    It ignores the output of that row, but waits for its end, and no lease of it expires.
    """
    if attempt.row.retried:
        stale = Stale("retried", expected=str(False), found=str(True))
        raise MadeGoodError(attempt.row.task_id, stale=stale)


def _end_facts(attempt: Attempt, report: AttemptReport) -> dict[str, object]:
    """What the last event says, so that no reader needs the report.

    The error is for those who need its class or its traceback. The output is not there: it may be
    large, and a log must not show it.
    """
    update, error = report.update, report.error
    facts: dict[str, object] = {"status": report.status, "recorded": report.recorded}
    if error is not None:
        masked = attempt.settings.secrets.masked
        facts["reason"] = (update.reason or "") if update else masked(str(error))
        facts["code"] = error_code(error)
        facts["error"] = error
    return facts


async def _end(
    attempt: Attempt, report: AttemptReport, lease: Lease, began: float
) -> AttemptReport:
    """Send the end if there is one to send; what became of it."""
    if report.update is None:
        await lease.end()
        return report
    try:
        recorded = await complete(attempt, report.update, lease, began=began)
    except StaleAttemptError as stale:  # the failure that came first is the one to tell
        return AttemptReport(None, Recorded.SUPERSEDED, report.error or stale)
    except CompletionRefusedError as refused:  # the row waits for an end that can be taken
        failure = failed_update(attempt, refused)
        failed = AttemptReport(failure, Recorded.UNKNOWN, refused)
        return await _end(attempt, failed, lease, began)
    return AttemptReport(report.update, recorded, report.error)


async def _produce_output(attempt: Attempt) -> Mapping[str, object]:
    """The output of a completed attempt; whatever goes wrong is raised."""
    given = read_input(attempt)
    attempt = replace(attempt, task=envelope.resolved_task(attempt.task, attempt.params))
    if given is None:
        return await produce_freely(attempt)
    if attempt.spec.read_only:
        known, concurrency = attempt.ports.lakefs.known, attempt.ports.concurrency
        await known.check(attempt.workspace, concurrency, writes=False)
        ran = await _run_task_function(attempt, None)
        await ran.drop_writes()
        return envelope.workspace_task_output(given, given.ref, ran.returned.result)
    target = await choose_target(attempt)
    finished = None
    if target.others:
        # A retry may get another input than its predecessor. What that one decided and published
        # is the output, because one task must not publish twice.
        finished = await find_decision_on_other_input(target)
    if finished is None and target.decided is not None:
        # An earlier attempt decided on a commit before it died. Running the task function again
        # could produce another tree, and two trees for one execution must never be published.
        finished = await resume(target, target.decided)
    if finished is None:
        finished = await _produce_publication(target)
    # The result was checked where it came from: the body's as it returned, a stored one as it was
    # read. Of the input workspace only `ref` changes.
    return envelope.workspace_task_output(given, finished.ref, finished.result)


async def _produce_publication(target: Target) -> Finished:
    """Run the task function, compare, stage, check what was staged, decide, publish."""
    attempt, patience = target.attempt, target.ports.patience
    ran = await _run_task_function(attempt, target)
    compared = await ran.compare(target)
    if compared.changed:
        await check_attempt(attempt)  # before anything is uploaded for a lost attempt
    staged = None
    if compared.changed or target.level.shape.decides_by_tag:
        staged = await compared.stage()
    if attempt.spec.checks and compared.changed and staged is not None:
        # Before the decision, because a decided commit is published whatever is found later.
        await ran.check_staged(target, staged)
    if target.level.shape.decides_by_tag:
        assert staged is not None, "a decision is about a commit, also when nothing changed"
        mine = SettledDecision(staged, noop=not compared.changed, result=ran.returned.result)
        waits = patience.waits
        decision, walk = await target.ports.concurrency.together(
            agree(target, mine), read_first_walk(target)
        )
        if patience.waits != waits:  # the look may be as old as the wait was long
            walk = None
        return await finish_decision(target, decision, walk)
    publication = await publish(target, staged)
    return Finished(publication.ref, ran.returned.result)


async def _run_task_function(attempt: Attempt, target: Target | None) -> LocalRan | SparkRan:
    """Show the input commit, guardrails, task function, guardrails; read-only without target."""
    run = run_on_spark if attempt.task.on_spark else run_on_disk
    ran = await run(attempt, target)
    await ran.check()
    return ran


def read_input(attempt: Attempt) -> WorkspaceInput | None:
    """Validate envelope and parameters before anything is moved; no workspace for a free task."""
    data, strict = attempt.record.input_data, attempt.settings.strict_input
    has_workspace = attempt.task.has_workspace
    workspace = envelope.read_workspace_input(data, strict=strict) if has_workspace else None
    envelope.read_params(attempt.task, data, strict=strict)
    return workspace
