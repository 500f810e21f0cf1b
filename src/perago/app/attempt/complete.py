"""Whether an attempt still counts, its end in Conductor, and the removal of what it left.

Staging is removed first, local directories second; removing never changes a result.
"""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from enum import StrEnum

from perago.app.attempt.context import Attempt, AttemptPorts, Leftovers
from perago.app.attempt.ending import leaves_outcome
from perago.app.attempt.patience import CONDUCTOR, Patience, PatienceTerms, Wait
from perago.domain.attempt import (
    AttemptRecord,
    AttemptStatus,
    FenceVerdict,
    FenceWidth,
    Stale,
    compare_narrow,
    compare_row,
    compare_wide,
)
from perago.domain.errors import CompletionRefusedError, StaleAttemptError
from perago.domain.lakefs import BranchName, CommitId, RepositoryId
from perago.domain.names import is_private_branch
from perago.ports.asking import until_answered
from perago.ports.conductor import AttemptEnd, HandBack, TerminalUpdate
from perago.ports.errors import BranchExistsError, MissingError, RequestRefusedError, ServiceError
from perago.ports.task_body import Lease
from perago.ports.workspace import Phase

STAGING_FAILED = "failed to clean staging workspace"
STAGING_LOST = "the branch of a decision is gone and could not be put back"
LOCAL_FAILED = "failed to clean attempt-local workspace"
CHECKPOINTS_STAY = "earlier checkpoints are left to garbage collection"
# One lost connection is made good at once. The longest pause is short beside the 60 s that a
# completion has, so that a Conductor that comes back is found in time.
FIRST_PAUSE_SECONDS = 0.1
PAUSE_SECONDS_MAX = 5.0
# One try is over after this, however much time is left: a server that took the request and fell
# silent, or a network that drops packets, would take all of it, and the end would never be sent
# again although the server came back. Half of the 60 s leaves room for a second try. A shorter
# limit gives up answers that are only slow.
TRY_SECONDS_MAX = 30.0
# A younger attempt does not read its row before it ends: that saves short tasks a request. Hardly
# any attempt is revoked so soon, and no heartbeat is due yet that would say so (`_unread_seconds`).
UNREAD_SECONDS_MAX = 1.0


class Recorded(StrEnum):
    """What a read after the update said: Conductor answers 200 to everything stale.

    `acknowledged` is such a 200 to a short attempt without a workspace, which is not read back.
    """

    RECORDED = "recorded"
    ACKNOWLEDGED = "acknowledged"
    SUPERSEDED = "superseded"
    UNKNOWN = "unknown"

    @property
    def speaks_against_it(self) -> bool:
        """Whether the end of the attempt did not count, or may not have."""
        return self not in {Recorded.RECORDED, Recorded.ACKNOWLEDGED}


def with_patience(
    attempt: Attempt, lease: Lease, began: float, failed: Callable[[Exception], None]
) -> Attempt:
    """The attempt with ports that wait for services that are away, as its steps need them.

    Its end and its cleaning have limits of their own.
    """
    ports = attempt.ports
    terms = PatienceTerms(
        clock=ports.clock,
        fraction=ports.identities.fraction,
        seconds_max=attempt.settings.patience_seconds,
        lease=lease,
        lease_seconds=attempt.record.response_timeout_seconds,
        began=began,
        stop_order=ports.stop_order,
        progress=ports.progress,
        lakefs_is_away=failed,
    )
    patience = Patience(terms)
    patient = (
        patience.between(ports) if attempt.task.asks_lakefs else replace(ports, patience=patience)
    )
    return replace(attempt, ports=patient)


async def check_attempt(attempt: Attempt) -> None:
    """Raise StaleAttemptError unless Conductor still counts this attempt."""
    verdict = await read_verdict(attempt)
    if isinstance(verdict, Stale):
        raise StaleAttemptError(attempt.row.task_id, stale=verdict)
    attempt.ports.progress.phase(Phase.FENCED, {"width": attempt.settings.fence_width})


async def read_verdict(attempt: Attempt, *, before_end: bool = False) -> FenceVerdict:
    """One request: the workflow with its rows, or the one row.

    A terminal update names nothing but the task id. The narrow fence of the documents would let a
    rerun of the row pass, so before the end every fact of the row is compared. A row that a retry
    has made good is never the newest of its task.
    """
    polled, queue = attempt.row, attempt.ports.queue
    if attempt.settings.fence_width is FenceWidth.WIDE and not (before_end and polled.retried):
        return compare_wide(polled, await queue.read_workflow(polled.workflow_id))
    fresh = await queue.read_attempt(polled.workflow_id, polled.task_id)
    compare = compare_row if before_end else compare_narrow
    return compare(polled, None if fresh is None else fresh.snapshot)


async def complete(attempt: Attempt, update: AttemptEnd, lease: Lease, *, began: float) -> Recorded:
    """Join the heartbeats, send until answered or the deadline, read back.

    A heartbeat beside a terminal update can undo it, hence the join. Sending a terminal update
    again is harmless: the first accepted one wins and later ones are ignored. A hand back that is
    sent again would take the row from another worker that has it now, so each is sent after a read.

    Raises StaleAttemptError, and has sent nothing then, when the row is not this attempt's; and
    CompletionRefusedError when the server has understood a success and does not take it, which
    sending it again would not change.
    """
    ports = attempt.ports
    await lease.end()
    deadline = completion_deadline(attempt, now=ports.clock.monotonic(), beat=lease.last_beat)
    pause, sent, recorded = FIRST_PAUSE_SECONDS, False, Recorded.UNKNOWN
    wait: Wait | None = None
    while True:
        # One try is made past the deadline, too: an update to a row that is over changes nothing.
        left = min(max(deadline - ports.clock.monotonic(), 1.0), TRY_SECONDS_MAX)
        age = ports.clock.monotonic() - began
        is_short = age < _unread_seconds(attempt) and isinstance(update, TerminalUpdate)
        if is_short or await _may_end(attempt, sent=sent):
            try:
                recorded, sent = await _send(ports, update, left), True
            except CompletionRefusedError:
                if update.status is AttemptStatus.COMPLETED:
                    raise
                break  # there is nothing smaller to send than a reason: the row will time out
            may_publish = attempt.task.has_workspace or attempt.leftovers.decided
            if recorded is Recorded.ACKNOWLEDGED and (may_publish or not is_short):
                recorded = await _look(ports, update)
        else:  # an earlier try may have ended the row, with an answer that was lost
            recorded = await _look(ports, update) if sent else Recorded.UNKNOWN
        left = deadline - ports.clock.monotonic()
        if recorded is not Recorded.UNKNOWN or left <= 0:
            break
        wait = _waits_on(ports, wait)
        await ports.clock.sleep(min(pause, left))
        pause = min(pause * 2, PAUSE_SECONDS_MAX)
    _report_end(ports, update, recorded, wait)
    return recorded


def _waits_on(ports: AttemptPorts, wait: Wait | None) -> Wait:
    """Count a try of the end that Conductor did not acknowledge; a wait that lasts is an event."""
    now = ports.clock.monotonic()
    wait = wait or Wait(CONDUCTOR, "the end of the attempt", now)
    wait.failures += 1
    wait.report(ports.progress, now, "Conductor has not acknowledged the end of the attempt")
    return wait


def _report_end(
    ports: AttemptPorts, update: AttemptEnd, recorded: Recorded, wait: Wait | None
) -> None:
    """Tell the listeners how long that took, what was sent and whether it counts."""
    if wait is not None:
        wait.end(ports.progress, ports.clock.monotonic())
    facts = {"recorded": recorded, "status": update.status, "reason": update.reason}
    if isinstance(update, HandBack):
        waits = {"after_seconds": update.after_seconds}
        ports.progress.phase(Phase.HANDED_BACK, {**facts, **waits})
    else:
        ports.progress.phase(Phase.COMPLETED, facts)


def _unread_seconds(attempt: Attempt) -> float:
    """Up to which age an attempt is not read: no heartbeat can have told it that it is lost."""
    beat = attempt.task.times.heartbeat_seconds(attempt.record.response_timeout_seconds)
    return min(UNREAD_SECONDS_MAX, beat or UNREAD_SECONDS_MAX)


async def _may_end(attempt: Attempt, *, sent: bool) -> bool:
    """Whether the row is still this attempt's; False also when Conductor cannot tell now.

    The server compares nothing: an update with the id of a row that was rerun, redelivered or
    brought back by a late heartbeat ends the work of another execution.
    """
    if not attempt.settings.reads_before_end:
        return True
    try:
        verdict = await read_verdict(attempt, before_end=True)
    except ServiceError as error:
        warning = "the completion waits until Conductor says whose the row is"
        attempt.ports.warn(warning, error=str(error))
        return False
    if isinstance(verdict, Stale) and not sent:
        raise StaleAttemptError(attempt.row.task_id, stale=verdict)
    return not isinstance(verdict, Stale)


def completion_deadline(attempt: Attempt, *, now: float, beat: float | None) -> float:
    """The last beat plus the response time-out, or the budget's limit if that is earlier.

    After it the row times out, whatever arrives. Where nothing beats, the budget's limit or the
    documented one counts.
    """
    limit = now + attempt.task.times.completion_timeout_seconds
    lease = attempt.record.response_timeout_seconds
    if lease <= 0 or beat is None:
        return limit
    has_budget = attempt.task.controls.publish_budget is not None
    return min(limit, beat + lease) if has_budget else beat + lease


async def _send(ports: AttemptPorts, update: AttemptEnd, seconds: float) -> Recorded:
    """One update; without an answer it may have landed all the same, and only a read can tell."""
    try:
        if isinstance(update, HandBack):
            await ports.queue.hand_back(update, timeout_seconds=seconds)
        else:
            await ports.queue.complete(update, timeout_seconds=seconds)
    except MissingError:
        # Conductor does not know the row any more, for example because the workflow was removed or
        # restarted. So the end of the workflow or another row counts, and this attempt never will.
        return Recorded.SUPERSEDED
    except ServiceError as error:
        ports.warn("completion failed", error=str(error))
        recorded = await _look(ports, update)  # an earlier try may have landed
        if recorded is Recorded.UNKNOWN and isinstance(error, RequestRefusedError):
            raise CompletionRefusedError(str(error)) from error
        return recorded
    return Recorded.ACKNOWLEDGED


async def _look(ports: AttemptPorts, update: AttemptEnd) -> Recorded:
    """Read the row back; a read that fails has seen nothing."""
    try:
        fresh = await ports.queue.read_attempt(update.attempt.workflow_id, update.attempt.task_id)
    except ServiceError:
        return Recorded.UNKNOWN
    if fresh is None:  # the row is gone, as in `_send`
        return Recorded.SUPERSEDED
    if isinstance(update, HandBack):
        return judge_hand_back(update, fresh)
    return judge_read_back(update, fresh)


def judge_hand_back(given: HandBack, fresh: AttemptRecord) -> Recorded:
    """Whether this hand back is what put the row in the queue, as far as the row tells.

    row now       as it was polled   polled again since
    scheduled     recorded           recorded if the output is mine
    in progress   unknown            recorded if the output is mine
    ended         superseded         superseded
    """
    polled, row = given.attempt, fresh.snapshot
    again = (row.poll_count, row.scheduled_time) != (polled.poll_count, polled.scheduled_time)
    if row.status is AttemptStatus.IN_PROGRESS and not again:
        return Recorded.UNKNOWN
    if row.status.is_terminal or fresh.output_data != given.output:
        return Recorded.SUPERSEDED
    return Recorded.RECORDED


def judge_read_back(update: TerminalUpdate, fresh: AttemptRecord) -> Recorded:
    """Whether this update is what ended the row, as far as the row tells.

    row now                            as it was polled   polled again since
    in progress, my worker id          unknown            superseded
    my status, my worker id            recorded           recorded if the output is mine
    anything else                      superseded         superseded

    The server writes the worker id of whoever ended a row; one worker may hold a redelivered row
    twice, so the id alone does not tell.
    """
    polled, row = update.attempt, fresh.snapshot
    again = (row.poll_count, row.scheduled_time) != (polled.poll_count, polled.scheduled_time)
    if row.worker_id != update.worker_id:
        return Recorded.SUPERSEDED
    if row.status is AttemptStatus.IN_PROGRESS and not again:
        return Recorded.UNKNOWN
    if row.status is update.status and (not again or fresh.output_data == update.output):
        return Recorded.RECORDED
    return Recorded.SUPERSEDED


async def leave_outcome(attempt: Attempt, error: Exception) -> None:
    """Let go of the directory where a later attempt may go on with it.

    Before the end is sent: this very worker may be handed the retry as soon as it is.
    """
    ports, leftovers = attempt.ports, attempt.leftovers
    if leftovers.directory is None or not leaves_outcome(attempt, error):
        return
    directory, leftovers.directory = leftovers.directory, None
    leftovers.left = directory
    facts = {"workspace_dir": str(directory)}
    await _only_tell(ports, ports.directories.leave(directory), LOCAL_FAILED, facts)


async def clean_up(attempt: Attempt) -> None:
    """Remove branches, then the directory; each on its own, a failure is only told."""
    ports, leftovers = attempt.ports, attempt.leftovers
    of_disk = (leftovers.directory, leftovers.materialised)
    remote = leftovers.staging or leftovers.scratch or leftovers.decided
    if not remote and of_disk == (None, None):
        return
    if leftovers.staging is not None and leftovers.staging_may_go:
        await delete_staging(ports, *leftovers.staging)
    elif leftovers.staging is not None and leftovers.proposed is not None:
        await _keep_staging(ports, *leftovers.staging, leftovers.proposed)
    for repository, branch in () if leftovers.outcome_unknown else leftovers.scratch:
        await delete_staging(ports, repository, branch)
    if leftovers.decided:
        await _delete_checkpoints(ports, leftovers)
    if leftovers.materialised is not None:
        forgotten = ports.lakefs.pipeline.forget(leftovers.materialised)
        await _only_tell(ports, forgotten, LOCAL_FAILED, {})
    if leftovers.directory is not None:
        facts = {"workspace_dir": str(leftovers.directory)}
        await _only_tell(ports, ports.directories.remove(leftovers.directory), LOCAL_FAILED, facts)
    left = {} if leftovers.left is None else {"outcome_left": str(leftovers.left)}
    ports.progress.phase(Phase.CLEANED, {"staging_kept": not leftovers.staging_may_go, **left})


async def delete_staging(ports: AttemptPorts, repository: RepositoryId, branch: BranchName) -> None:
    """Delete one private branch; whatever stays is found by garbage collection."""
    facts = {"staging_branch": branch, "repository": repository}
    if not is_private_branch(branch):
        ports.warn(STAGING_FAILED, error=f"{branch} is no private branch of Perago", **facts)
        return
    await _only_tell(ports, ports.lakefs.branches.delete(repository, branch), STAGING_FAILED, facts)


async def _delete_checkpoints(ports: AttemptPorts, leftovers: Leftovers) -> None:
    """Delete those of this attempt, and of earlier ones.

    An attempt that ran no function has not listed them yet.
    """
    for repository, branch in leftovers.checkpoints:
        await delete_staging(ports, repository, branch)
    if leftovers.unlisted is None:
        return
    repository, names = leftovers.unlisted

    async def delete_all() -> None:
        page = await ports.lakefs.branches.list_page(repository, names, show_hidden=True)
        for branch, _ in page.items:
            await delete_staging(ports, repository, branch)

    await _only_tell(ports, delete_all(), CHECKPOINTS_STAY, {"branches": names})


async def _keep_staging(
    ports: AttemptPorts, repository: RepositoryId, branch: BranchName, decision: CommitId
) -> None:
    """Leave the branch of a decision behind, and put it back if garbage collection took it.

    An attempt that stood still between its commit and its decision may have been replaced and
    collected meanwhile: nothing said then that the branch was needed. It goes on, decides, and
    learns here that its decision points at a commit that no branch keeps.
    """

    async def put_back() -> None:
        with suppress(BranchExistsError):  # as a rule it is there
            await ports.lakefs.branches.create(repository, branch, decision, hidden=True)

    facts = {"staging_branch": branch, "repository": repository}
    # Not given up at the first lost request: if the attempt ends here, no pass looks for a branch
    # that is missing.
    await _only_tell(ports, until_answered(ports.clock, put_back), STAGING_LOST, facts)


async def _only_tell(
    ports: AttemptPorts, work: Awaitable[None], text: str, facts: Mapping[str, object]
) -> None:
    try:
        await work
    except Exception as error:  # noqa: BLE001 - cleaning never changes a result
        ports.warn(text, error=str(error), **facts)
