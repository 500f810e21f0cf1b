"""What a worker is put together from; made by `perago start`, or by a test."""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from perago.app.attempt.world import AttemptSettings, World
from perago.app.authoring.task_definition import TaskDefinition
from perago.app.telemetry.listeners import AttemptListener
from perago.app.worker.bodies import Bodies
from perago.app.worker.gates import ServiceGate
from perago.app.worker.polling import PolledType
from perago.domain.publish_budget import (
    PublishBudget,
    completion_timeout_seconds,
    merge_timeout_seconds,
    shutdown_grace_seconds,
)

KILL_SECONDS = 5.0
Job: TypeAlias = Callable[[], Coroutine[object, object, None]]


def nothing() -> None:
    """For those whom nobody tells anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerParts:
    """Everything outside, and how long to be patient."""

    world: World
    bodies: Bodies
    tasks: Mapping[str, TaskDefinition]
    types: Sequence[PolledType]
    settings: AttemptSettings
    listener: AttemptListener
    conductor_gate: ServiceGate
    lakefs_gate: ServiceGate | None = None
    before_polling: Sequence[Job] = ()
    periodic: Sequence[Job] = ()
    force_kill_seconds: float | None = None
    started: Callable[[], None] = nothing
    beat: Callable[[], None] = nothing

    @property
    def grace_seconds(self) -> float:
        """How long bodies may go on once the worker drains."""
        if self.force_kill_seconds is not None:
            return self.force_kill_seconds
        return max(shutdown_grace_seconds(budget) for budget in self._budgets)

    @property
    def settle_seconds(self) -> float:
        """How long an attempt may take to its end once its body is gone."""
        return KILL_SECONDS + max(
            merge_timeout_seconds(budget) + completion_timeout_seconds(budget)
            for budget in self._budgets
        )

    @property
    def termination_seconds(self) -> int:
        """What `terminationGracePeriodSeconds` has to be at least."""
        return int(self.grace_seconds + self.settle_seconds) + 1

    @property
    def _budgets(self) -> list[PublishBudget | None]:
        found = [task.controls.publish_budget for task in self.tasks.values()]
        return [None if each is None else each.as_value() for each in found] or [None]
