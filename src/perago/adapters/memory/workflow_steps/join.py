"""JOIN: done when every task it names is; its output holds theirs by name."""

from perago.adapters.memory.conductor_rows import ITERATION_MARK, Spec
from perago.adapters.memory.workflow_walk import Walk
from perago.domain.attempt import AttemptStatus


def walk_join(walk: Walk, spec: Spec, iteration: int) -> bool:
    """Wait for the named tasks of the same iteration."""
    named = spec.get("joinOn")
    names = [str(name) for name in named] if isinstance(named, list) and named else walk.forked
    attempts = walk.attempts(spec, iteration)
    if not attempts:
        row = walk.schedule(spec, iteration, AttemptStatus.IN_PROGRESS)
        row.input_data = {**row.input_data, "joinOn": list(names)}
        attempts = [row]
    row = attempts[-1]
    if row.lets_pass:
        return True
    suffix = f"{ITERATION_MARK}{iteration}" if iteration else ""
    outputs: dict[str, object] = {}
    for name in names:
        passed = [row for row in walk.run.attempts_of(name + suffix) if row.lets_pass]
        if not passed:
            return False
        outputs[name + suffix] = dict(passed[-1].output_data)
    row.output_data = outputs
    row.status = AttemptStatus.COMPLETED
    return True
