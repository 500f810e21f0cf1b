"""Deciding a workflow: what is due is applied, what failed is settled, what can start is scheduled.

The one place that knows the order of these. Deciding twice is deciding once.
"""

from collections.abc import Mapping

from perago.adapters.memory.conductor_rows import Spec, TaskRow, WorkflowRun
from perago.adapters.memory.conductor_state import ConductorState
from perago.adapters.memory.task_retries import settle_failures
from perago.adapters.memory.task_settings import TaskSettings, task_settings
from perago.adapters.memory.time_outs import check_rows, check_workflow
from perago.adapters.memory.workflow_definitions import specs_of
from perago.adapters.memory.workflow_end import WorkflowEnds, end_workflow
from perago.adapters.memory.workflow_steps.registry import STEPS
from perago.adapters.memory.workflow_walk import Walk, specs_in
from perago.domain.attempt import WorkflowStatus
from perago.ports.errors import MissingError


def decide(state: ConductorState, run: WorkflowRun) -> None:
    """Decide a workflow and, when it ended, the ones it is a part of."""
    deciding: WorkflowRun | None = run
    while deciding is not None:
        _decide(state, deciding)
        ended = deciding.status.is_terminal and deciding.parent is not None
        deciding = state.runs.get(deciding.parent[0]) if ended and deciding.parent else None


def create_run(
    state: ConductorState,
    name: str,
    version: int,
    workflow_input: Mapping[str, object],
    task_to_domain: Mapping[str, str],
) -> WorkflowRun:
    """Add a workflow with the definitions as they are now: later changes do not reach it."""
    definition = state.workflow_definitions.get((name, version))
    if definition is None:
        raise MissingError(f"no such workflow defined: name={name}, version={version}")
    run = WorkflowRun(
        workflow_id=state.new_id(),
        definition=definition,
        settings=_settings(state, definition),
        input_data=workflow_input,
        start_time=state.now_ms,
        task_to_domain=task_to_domain,
    )
    state.runs[run.workflow_id] = run
    return run


def _decide(state: ConductorState, run: WorkflowRun) -> None:
    if run.status.is_terminal:
        return
    try:
        check_workflow(state, run)
        if run.status is WorkflowStatus.PAUSED:
            return
        check_rows(state, run)
        forgiven = settle_failures(state, run)
        walk = Walk(state, run, STEPS, lambda parent, row: _start_child(state, parent, row))
        done = walk.sequence(specs_in(run.definition["tasks"]))
        # A part that fails or ends within the walk, such as a child workflow.
        forgiven += settle_failures(state, run)
    except WorkflowEnds as end:
        end_workflow(state, run, end.status, end.reason)
        if end.output is not None:
            run.output_data = end.output
        return
    if done and _newest_passed(run):
        for row, status in forgiven:
            row.status = status  # the server ends the workflow before it writes such a row
        end_workflow(state, run, WorkflowStatus.COMPLETED, None)


def _newest_passed(run: WorkflowRun) -> bool:
    """A retry that still runs keeps the workflow open, though a zombie let the walk pass."""
    newest = {row.reference_name: row for row in run.rows.values()}
    return all(row.lets_pass for row in newest.values())


def _start_child(state: ConductorState, parent: WorkflowRun, row: TaskRow) -> WorkflowRun:
    given = row.spec.get("subWorkflowParam")
    parameters: Mapping[str, object] = given if isinstance(given, Mapping) else {}
    domains = parameters.get("taskToDomain")
    version = parameters.get("version")
    child = create_run(
        state,
        str(parameters.get("name")),
        version if isinstance(version, int) else 1,
        dict(row.input_data),
        domains if isinstance(domains, Mapping) else parent.task_to_domain,
    )
    child.parent = (parent.workflow_id, row.task_id)
    _decide(state, child)  # its parent is being decided already
    return child


def _settings(state: ConductorState, definition: Spec) -> Mapping[str, TaskSettings]:
    names = {str(spec["name"]) for spec in specs_of(definition)}
    return {name: task_settings(name, state.definitions.get(name)) for name in names}
