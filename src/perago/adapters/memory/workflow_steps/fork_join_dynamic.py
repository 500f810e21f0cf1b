"""FORK_JOIN_DYNAMIC: its branches are tasks that its input names; the JOIN behind waits for all."""

from collections.abc import Mapping

from perago.adapters.memory.conductor_rows import Spec, TaskRow
from perago.adapters.memory.workflow_walk import Walk, specs_in
from perago.domain.attempt import AttemptStatus
from perago.ports.errors import RequestRefusedError


def walk_fork_join_dynamic(walk: Walk, spec: Spec, iteration: int) -> bool:
    """Walk every branch that the input named when the fork was reached."""
    attempts = walk.attempts(spec, iteration)
    row = attempts[-1] if attempts else walk.schedule(spec, iteration, AttemptStatus.COMPLETED)
    branches = _branches(row)
    for branch in branches:
        walk.know(branch)
        walk.sequence([branch], iteration)
    walk.forked = [str(branch["taskReferenceName"]) for branch in branches]
    return True


def _branches(row: TaskRow) -> list[Spec]:
    """The tasks of the input, each with the input that stands under its name."""
    spec = row.spec
    named = row.input_data.get(str(spec.get("dynamicForkTasksParam")))
    inputs = row.input_data.get(str(spec.get("dynamicForkTasksInputParamName")))
    if not isinstance(named, list) or not isinstance(inputs, Mapping):
        raise RequestRefusedError(
            f"{row.reference_name}: expected a list of tasks and an object of their inputs, "
            f"found {type(named).__name__} and {type(inputs).__name__}"
        )
    found: list[Spec] = []
    for task in specs_in(named):
        own = task.get("inputParameters")
        given = inputs.get(task["taskReferenceName"])
        parameters = dict(own) if isinstance(own, Mapping) else {}
        parameters |= dict(given) if isinstance(given, Mapping) else {}
        found.append({**task, "inputParameters": parameters})
    return found
