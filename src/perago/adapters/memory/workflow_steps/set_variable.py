"""SET_VARIABLE: its input becomes variables of the workflow; done at once."""

from perago.adapters.memory.conductor_rows import Spec
from perago.adapters.memory.workflow_walk import Walk
from perago.domain.attempt import AttemptStatus


def walk_set_variable(walk: Walk, spec: Spec, iteration: int) -> bool:
    """Set them at the first walk; later ones change nothing."""
    attempts = walk.attempts(spec, iteration)
    row = attempts[-1] if attempts else walk.schedule(spec, iteration, AttemptStatus.COMPLETED)
    if not attempts:
        walk.run.variables.update(row.input_data)
    return row.lets_pass
