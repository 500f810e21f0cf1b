"""Rows that Conductor counts as held by a worker that does not work on them.

A worker dies before an attempt has a directory, in a task without a workspace, or while Conductor
has a poll of it open and gives it a row a moment later. Or a poll was carried out and its answer
was lost. No marker on the disk names such a row. Conductor does: it is in progress, with the name
of its worker. `LostRows` asks for the rows in progress of each task type and hands back those that
have the name of a dead worker of this root, or the name of this worker and never reached it.
Conductor answers from its index. Where it has none, these rows wait for their response time-out.
"""

import logging
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from perago.app.attempt.context import Attempt, AttemptPorts, AttemptSettings
from perago.app.authoring.task_definition import TaskDefinition
from perago.app.gc.local_pass import HANDED_BACK, LEFT, as_it_was_polled, give_back
from perago.app.telemetry.listeners import write
from perago.domain.attempt import AttemptRecord, AttemptSnapshot
from perago.domain.hand_back import Moment
from perago.ports.errors import ServiceError, is_away

LOGGER = logging.getLogger("perago.worker")
UNHEARD = "handed back rows whose poll was not answered"
# Conductor goes on with an open poll when its worker has died, for the second that the poll may
# wait, and gives it what comes. More, because a busy server answers late.
LAST_POLL_SECONDS = 5.0
DEAD, NOT_HEARD = "worker {} died", "worker {} did not hear the answer to its poll"


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
    names: WorkerNames | None = None

    async def at_start(self) -> None:
        """Look before this worker polls, then let its own name be known."""
        await self.of_dead_workers()
        if self.names is not None:
            self.names.add(self.settings.worker_id)

    async def after_the_last_poll(self) -> None:
        """Look again when no poll of a dead worker is open, until Conductor has answered."""
        pause = self.ports.clock.sleep
        await pause(LAST_POLL_SECONDS)
        while not await self.of_dead_workers():
            await pause(LAST_POLL_SECONDS)

    async def of_dead_workers(self) -> bool:
        """Hand back what has the name of a former worker; False when Conductor was away."""
        former = () if self.names is None else self.names.former
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

    async def _hand_back(
        self, task_type: str, is_lost: Callable[[AttemptSnapshot], bool], why: str
    ) -> bool:
        """Hand back rows of one type; whether all that was asked was answered."""
        done: list[str] = []
        answered = True
        try:
            found = await self.ports.queue.in_progress(task_type)
            for record in filter(lambda each: is_lost(each.snapshot), found):
                if await self._give_back(record, why):
                    done += [record.snapshot.task_id]
        except ServiceError as error:
            # A refusal is final: this Conductor cannot be asked, as it has no index.
            answered = not is_away(error)
            level = logging.INFO if answered else logging.WARNING
            write(LOGGER, level, LEFT, {"task_name": task_type, "error": str(error)})
        if done:
            text = HANDED_BACK if why == DEAD else UNHEARD
            write(LOGGER, logging.INFO, text, {"task_name": task_type, "task_ids": done})
        return answered

    async def _give_back(self, found: AttemptRecord, why: str) -> bool:
        """Hand one row back, unless it ended or another worker has it now."""
        queue, task = self.ports.queue, self.tasks[found.snapshot.task_type]
        record = await as_it_was_polled(queue, found.snapshot)
        if record is None:
            return False
        execution_id = self.ports.identities.new_execution_id()
        lost = Attempt(task, record, execution_id, self.settings)
        # How far a dead worker came is not known, and this is the stricter answer. A row whose poll
        # was not heard was never begun.
        died = why == DEAD
        lost.leftovers.moment = Moment.IN_FUNCTION if died else Moment.BEFORE_FUNCTION
        may_publish = died and task.has_workspace
        text = why.format(found.snapshot.worker_id)
        return await give_back(queue, lost, text, may_publish=may_publish)
