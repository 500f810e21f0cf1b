"""DO_WHILE: its tasks run once for each iteration, with the iteration in their names."""

from perago.adapters.memory.conductor_rows import Spec, TaskRow
from perago.adapters.memory.loop_condition import holds
from perago.adapters.memory.task_scheduling import find_document
from perago.adapters.memory.workflow_walk import Walk, specs_in
from perago.domain.attempt import AttemptStatus

ITERATIONS_MAX = 10_000


def walk_do_while(walk: Walk, spec: Spec, iteration: int) -> bool:
    """Walk the body of the present iteration; at its end ask the condition for another."""
    attempts = walk.attempts(spec, iteration)
    row = attempts[-1] if attempts else _begin(walk, spec, iteration)
    body = specs_in(spec.get("loopOver"))
    for _ in range(ITERATIONS_MAX):
        if row.lets_pass:
            return True
        if row.status.is_terminal or not walk.sequence(body, row.iteration):
            return False
        _finish_iteration(walk, spec, row, body)
    raise AssertionError(f"{row.reference_name}: more than {ITERATIONS_MAX} iterations at once")


def _begin(walk: Walk, spec: Spec, iteration: int) -> TaskRow:
    row = walk.schedule(spec, iteration, AttemptStatus.IN_PROGRESS)
    row.iteration = 1
    row.output_data = {"iteration": 1}
    return row


def _finish_iteration(walk: Walk, spec: Spec, row: TaskRow, body: object) -> None:
    outputs: dict[str, object] = {}
    for task in specs_in(body):
        passed = [attempt for attempt in walk.attempts(task, row.iteration) if attempt.lets_pass]
        if passed:
            outputs[str(task["taskReferenceName"])] = dict(passed[-1].output_data)
    row.output_data = {**row.output_data, str(row.iteration): outputs}

    def lookup(name: str) -> object:
        if name in row.input_data:
            return row.input_data[name]
        document = find_document(walk.run, name)
        return None if document is None else document["output"]

    if holds(str(spec.get("loopCondition", "false")), lookup):
        row.iteration += 1
        row.output_data = {**row.output_data, "iteration": row.iteration}
    else:
        row.status = AttemptStatus.COMPLETED
