"""What dead workers left: directories on this disk, and rows that Conductor counts as theirs.

`sweep_directories` removes attempt directories whose owners are gone, but keeps those that a later
attempt may go on with. One that cannot be removed is reported and the others go on.

`LostRows` hands back the rows that a dead worker of this root held, which would each wait for their
response time-out: the markers of its directories name them, and their locks say that it is dead.
No marker names the row of a worker that died before the attempt had a directory, in a task without
a workspace, or while Conductor had a poll of it open. Nor that of a poll whose answer was lost.
Conductor names them: they are in progress, with the name of their worker. `LostRows` asks for the
rows in progress of each task type and hands back those that have the name of a dead worker of this
root, or the name of this worker and never reached it. Conductor answers from its index. Where it
has none, these rows wait for their response time-out.
"""

import logging
from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Protocol

from perago.app.attempt.context import Attempt, AttemptPorts, AttemptSettings
from perago.app.attempt.ending import end_of_lost
from perago.app.attempt.patience import CONDUCTOR, Patience
from perago.app.authoring.task_definition import TaskDefinition
from perago.app.gc.judging import UNANSWERED_IN_A_ROW_MAX
from perago.app.telemetry.listeners import facts_of, write
from perago.domain import retention
from perago.domain.attempt import (
    AttemptRecord,
    AttemptSnapshot,
    Current,
    ExecutionId,
    compare_row,
    compare_wide,
)
from perago.domain.hand_back import Moment
from perago.ports.conductor import HandBack, TaskQueue
from perago.ports.errors import ServiceError, is_away
from perago.ports.workspace import AttemptDirectories, AttemptMarker, Leftover

LOGGER = logging.getLogger("perago.worker")
HANDED_BACK = "handed back rows of a dead worker"
FAILED = "failed a row of a dead worker"
LEFT = "rows of a dead worker are left to their response time-out"
AGAIN = "rows of a dead worker are looked for again when Conductor answers"
UNHEARD = "handed back rows whose poll was not answered"
DEAD, NOT_HEARD = "worker {} died", "the answer to a poll of worker {} was lost"
# One request, for which the start of the worker waits. Without it the row times out as before.
HAND_BACK_SECONDS_MAX = 10.0
# Conductor goes on with an open poll when its worker has died, for the second that the poll may
# wait, and gives it what comes. More, because a busy server answers late.
LAST_POLL_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class LocalPass:
    """What went, and what could not."""

    removed: Sequence[Path]
    failed: Sequence[tuple[Path, str]]


async def sweep_directories(
    directories: AttemptDirectories,
    times: retention.RetentionTimes,
    queue: TaskQueue | None = None,
    *,
    dry_run: bool = False,
) -> LocalPass:
    """Remove every directory whose owner is gone; where the lock cannot tell, by age.

    Conductor is asked for directories with a kept outcome only: a later attempt may want them.
    """
    removed: list[Path] = []
    failed: list[tuple[Path, str]] = []
    for leftover in await directories.leftovers(older_than_seconds=0):
        if leftover.error is not None:
            failed.append((leftover.path, leftover.error))
            continue
        age = timedelta(seconds=leftover.age_seconds)
        task = await _standing_of_task(queue, leftover) if leftover.has_outcome else None
        verdict = retention.judge_attempt_directory(leftover.owner, age, times, task)
        if isinstance(verdict, retention.Keep):
            continue
        try:
            if not dry_run:
                await directories.remove(leftover.path)
        except Exception as error:  # noqa: BLE001 - bodies leave anything; the others go on
            failed.append((leftover.path, str(error) or type(error).__name__))
        else:
            removed.append(leftover.path)
    return LocalPass(removed, failed)


async def _standing_of_task(
    queue: TaskQueue | None, leftover: Leftover
) -> retention.AttemptStanding:
    """What Conductor says of the task; unknown where it does not answer."""
    if queue is None or leftover.marker is None:
        return retention.AttemptStanding.UNKNOWN
    row = leftover.marker.attempt
    try:
        return retention.standing_of_task(await queue.read_workflow(row.workflow_id), row.task_id)
    except ServiceError:
        return retention.AttemptStanding.UNKNOWN


class WorkerNames(Protocol):
    """The workers of one root, each under its own name."""

    @property
    def former(self) -> Sequence[str]:
        """Those that polled before this one; the lock of the root says that they are dead."""
        ...

    def add(self, worker_id: str) -> None:
        """Remember this one for those that follow."""
        ...


@dataclass(frozen=True, slots=True)
class LostRows:
    """Finds and hands back rows on which no worker works."""

    ports: AttemptPorts
    tasks: Mapping[str, TaskDefinition]
    settings: AttemptSettings
    names: WorkerNames
    patience: Patience = field(default_factory=Patience)

    async def of_directories(self) -> None:
        """Hand back what the directories of dead workers name, each row on its own.

        Before the directories are swept, because a marker goes with its directory.
        """
        done: list[str] = []
        unanswered = 0
        for marker in await self._of_dead_owners():
            task_id = marker.attempt.task_id
            try:
                # Each try begins with reads, which find what an earlier one did.
                given = await self.patience.until_done(
                    CONDUCTOR, "rows of a dead worker", partial(self._give_back_marked, marker)
                )
                done += [task_id] if given else []
                unanswered = 0
            except Exception as error:  # noqa: BLE001 - it times out: no reason to end a worker
                write(LOGGER, logging.WARNING, LEFT, {"error": str(error), "task_id": task_id})
                unanswered += 1
            if unanswered >= UNANSWERED_IN_A_ROW_MAX:
                break
        if done:
            write(LOGGER, logging.INFO, HANDED_BACK, {"task_ids": done})

    async def at_start(self) -> None:
        """Look before this worker polls, then let its own name be known."""
        await self.of_dead_workers()
        self.names.add(self.settings.worker_id)

    async def after_the_last_poll(self) -> None:
        """Look again when no poll of a dead worker is open, until Conductor has answered."""
        pause = self.ports.clock.sleep
        await pause(LAST_POLL_SECONDS)
        while not await self.of_dead_workers():
            await pause(LAST_POLL_SECONDS)

    async def of_dead_workers(self) -> bool:
        """Hand back what has the name of a former worker; False when Conductor was away."""
        former = self.names.former
        if not former:
            return True
        return all(
            [
                await self._hand_back(name, lambda row: row.worker_id in former, DEAD)
                for name in self.tasks
            ]
        )

    async def unheard(self, task_type: str, taken: Container[tuple[str, int]]) -> bool:
        """Hand back what has the name of this worker and is not among what it has taken.

        To be asked while no poll for this type is under way: its rows would look the same.
        """
        own = self.settings.worker_id

        def is_lost(row: AttemptSnapshot) -> bool:
            return row.worker_id == own and (row.task_id, row.poll_count) not in taken

        return await self._hand_back(task_type, is_lost, NOT_HEARD)

    async def _of_dead_owners(self) -> Sequence[AttemptMarker]:
        """The markers of dead workers; without a lock it is not known that an owner is dead."""
        try:
            found = await self.ports.directories.leftovers(older_than_seconds=0)
        except Exception as error:  # noqa: BLE001 - the rows time out: no reason to end a worker
            write(LOGGER, logging.WARNING, LEFT, {"error": str(error)})
            return ()
        gone = [each.marker for each in found if each.owner is retention.Owner.GONE]
        return [marker for marker in gone if marker is not None]

    async def _give_back_marked(self, marker: AttemptMarker) -> bool:
        # The name of the staging branch is in the marker before the branch is created. Without it
        # no request of the dead worker can still publish.
        may_publish = marker.staging_branch is not None
        why = DEAD.format(marker.owner_worker_id)
        # The marker does not say how far the function came, and this is the stricter answer.
        moment, execution_id = Moment.IN_FUNCTION, marker.execution_id
        return await self._give_back(
            marker.attempt, why, execution_id, moment, may_publish=may_publish
        )

    async def _hand_back(
        self, task_type: str, is_lost: Callable[[AttemptSnapshot], bool], why: str
    ) -> bool:
        """Hand back rows of one type; whether all that was asked was answered."""
        done: list[str] = []
        answered, died, new_id = True, why == DEAD, self.ports.identities.new_execution_id
        # How far a dead worker came is not known, and this is the stricter answer. A row whose poll
        # was not heard was never begun.
        moment = Moment.IN_FUNCTION if died else Moment.BEFORE_FUNCTION
        may_publish = died and self.tasks[task_type].has_workspace
        try:
            found = await self.ports.queue.in_progress(task_type)
            for row in filter(is_lost, (record.snapshot for record in found)):
                said = why.format(row.worker_id)
                if await self._give_back(row, said, new_id(), moment, may_publish=may_publish):
                    done += [row.task_id]
        except ServiceError as error:
            # A refusal is final: this Conductor cannot be asked, as it has no index. One that is
            # away is asked again for the rows of dead workers, so that is no warning.
            answered = not is_away(error)
            again = died and not answered
            level = logging.INFO if answered or again else logging.WARNING
            text = AGAIN if again else LEFT
            write(LOGGER, level, text, {"task_name": task_type, "error": str(error)})
        if done:
            text = HANDED_BACK if died else UNHEARD
            write(LOGGER, logging.INFO, text, {"task_name": task_type, "task_ids": done})
        return answered

    async def _give_back(
        self,
        row: AttemptSnapshot,
        why: str,
        execution_id: ExecutionId,
        moment: Moment,
        *,
        may_publish: bool,
    ) -> bool:
        """Hand one row back if it is still as it was polled, and say so in the log of its task.

        One that came back too often is failed instead, with all reasons: its time-out would have
        none. True if it was handed back.
        """
        queue, task = self.ports.queue, self.tasks.get(row.task_type)
        record = None if task is None else await as_it_was_polled(queue, row)
        if task is None or record is None:  # a task of another worker is not asked for here
            return False
        lost = Attempt(self.ports, task, record, execution_id, self.settings)
        lost.leftovers.moment = moment
        end = end_of_lost(lost, why, may_publish=may_publish)
        if end is None:
            return False
        if isinstance(end, HandBack):
            await queue.hand_back(end, timeout_seconds=HAND_BACK_SECONDS_MAX)
        else:
            await queue.complete(end, timeout_seconds=HAND_BACK_SECONDS_MAX)
            facts = {**facts_of(lost), "reason": end.reason}
            write(LOGGER, logging.WARNING, FAILED, facts)
        with suppress(ServiceError):  # the row has the reason, too
            await queue.log(row.task_id, end.reason or "")
        return isinstance(end, HandBack)


async def as_it_was_polled(queue: TaskQueue, row: AttemptSnapshot) -> AttemptRecord | None:
    """The row, unless it ended, timed out, or was handed to another worker.

    The row itself is read last: Conductor compares nothing, so what is not seen there can only
    happen between that answer and the hand back.
    """
    workflow = await queue.read_workflow(row.workflow_id)
    if not isinstance(compare_wide(row, workflow), Current):
        return None
    record = await queue.read_attempt(row.workflow_id, row.task_id)
    fresh = None if record is None else record.snapshot
    return record if isinstance(compare_row(row, fresh), Current) else None
