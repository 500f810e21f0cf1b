"""FORK_JOIN: every branch is walked; the JOIN behind it waits for them."""

from perago.adapters.memory.conductor_rows import Spec
from perago.adapters.memory.workflow_walk import Walk, specs_in
from perago.domain.attempt import AttemptStatus


def walk_fork_join(walk: Walk, spec: Spec, iteration: int) -> bool:
    """Walk all branches, also those behind one that waits; a fork itself is done at once."""
    if not walk.attempts(spec, iteration):
        walk.schedule(spec, iteration, AttemptStatus.COMPLETED)
    branches = spec.get("forkTasks")
    for branch in branches if isinstance(branches, list) else ():
        walk.sequence(specs_in(branch), iteration)
    return True
