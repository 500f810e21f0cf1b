"""One walk over a workflow's definition, and the end of a workflow with all that is open below it.

`Walk` finds what is done, what waits and what is scheduled now; each kind of task is a function in
`workflow_step_kinds`. `end_workflow` cancels open rows and child workflows.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, cast

from perago.adapters.memory.conductor_rows import Spec, TaskRow, WorkflowRun, task_settings
from perago.adapters.memory.conductor_state import (
    ConductorState,
    find_document,
    reference_name,
    schedule_first,
)
from perago.adapters.memory.workflow_expressions import resolve
from perago.domain.attempt import AttemptStatus, WorkflowStatus

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


CHILD_ID = "subWorkflowId"


class WorkflowEnds(Exception):  # noqa: N818 - a signal inside the server, no error
    """Deciding found that the workflow is over."""

    def __init__(
        self, status: WorkflowStatus, reason: str, output: Mapping[str, object] | None = None
    ) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.output = output


def end_workflow(
    state: ConductorState, run: WorkflowRun, status: WorkflowStatus, reason: str | None
) -> None:
    """End a workflow with all that is open below it."""
    run.status = status
    run.ended_at = state.now_ms
    run.reason = reason
    for row in run.open_rows():
        row.status = AttemptStatus.CANCELED
        row.ended_at = state.now_ms
        row.requeueable = False
        state.dequeue(row)
        child = state.runs.get(str(row.output_data.get(CHILD_ID)))
        if child is not None and not child.status.is_terminal:
            why = f"Parent workflow has been terminated with reason: {reason}"
            end_workflow(state, child, WorkflowStatus.TERMINATED, why)
    run.output_data = _output(run)


def _output(run: WorkflowRun) -> Mapping[str, object]:
    """What the definition names, else the output of the last row."""
    parameters = run.definition.get("outputParameters")
    if isinstance(parameters, Mapping) and parameters:
        return {
            key: resolve(value, lambda name: find_document(run, name))
            for key, value in parameters.items()
        }
    rows = list(run.rows.values())
    return dict(rows[-1].output_data) if rows else {}
