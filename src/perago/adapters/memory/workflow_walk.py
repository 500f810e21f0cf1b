"""One walk over a workflow's definition: what is done, what waits, what is scheduled now.

Walking again changes nothing until a row has changed. Each kind of task is one file in
`workflow_steps/`; this file knows only sequences of them.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, cast

from perago.adapters.memory.conductor_rows import Spec, TaskRow, WorkflowRun
from perago.adapters.memory.conductor_state import ConductorState
from perago.adapters.memory.task_scheduling import reference_name, schedule_first
from perago.adapters.memory.task_settings import task_settings
from perago.domain.attempt import AttemptStatus

# Whether the tasks behind this one may be scheduled; called with the walk, task and iteration.
Step: TypeAlias = "Callable[[Walk, Spec, int], bool]"
StartChild: TypeAlias = Callable[[WorkflowRun, TaskRow], WorkflowRun]


class Walk:
    """The hands of the steps: find the rows of a task, add its first one, walk its parts.

    `forked` names the branches of the dynamic fork that was walked last, for the JOIN behind it.
    """

    def __init__(
        self,
        state: ConductorState,
        run: WorkflowRun,
        steps: Mapping[str, Step],
        start_child: StartChild,
    ) -> None:
        self.state = state
        self.run = run
        self._steps = steps
        self._start_child = start_child
        self.forked: list[str] = []

    def sequence(self, specs: Sequence[Spec], iteration: int = 0) -> bool:
        """Walk tasks in their order up to the first that is not done."""
        return all(self._steps[kind_of(spec)](self, spec, iteration) for spec in specs)

    def attempts(self, spec: Spec, iteration: int) -> list[TaskRow]:
        """The attempts of a task in one iteration, oldest first."""
        return self.run.attempts_of(reference_name(spec, iteration))

    def schedule(
        self, spec: Spec, iteration: int, status: AttemptStatus = AttemptStatus.SCHEDULED
    ) -> TaskRow:
        """Add the first attempt of a task."""
        return schedule_first(self.state, self.run, spec, iteration, status=status)

    def know(self, spec: Spec) -> None:
        """Take the definition of a task that the workflow's own did not name."""
        name = str(spec["name"])
        if name not in self.run.settings:
            settings = task_settings(name, self.state.definitions.get(name))
            self.run.settings = {**self.run.settings, name: settings}

    def start_child(self, row: TaskRow) -> WorkflowRun:
        """Start the workflow that a row stands for."""
        return self._start_child(self.run, row)


def kind_of(spec: Spec) -> str:
    """The kind of a task; without one it is for workers."""
    return str(spec.get("type", "SIMPLE"))


def specs_in(value: object) -> Sequence[Spec]:
    """The list of tasks in a field of a definition; empty when the field is absent."""
    return cast("Sequence[Spec]", value) if isinstance(value, list | tuple) else ()
