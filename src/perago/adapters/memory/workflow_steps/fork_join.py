"""FORK_JOIN: every branch is walked; the JOIN behind it waits for them."""

from perago.adapters.memory.conductor_rows import Spec
from perago.adapters.memory.workflow_walk import Walk, specs_in
from perago.domain.attempt import AttemptStatus


def walk_fork_join(walk: Walk, spec: Spec, iteration: int) -> bool:
    """Walk all branches, also those behind one that waits; a fork itself is done at once."""
    forks_now = not walk.attempts(spec, iteration)
    if forks_now:
        walk.schedule(spec, iteration, AttemptStatus.COMPLETED)
    for branch in specs_in(spec.get("forkTasks")):
        tasks = specs_in(branch)
        # A branch whose first task a rerun of its sibling forgot is not begun again, and its JOIN
        # waits for ever: the server does the same.
        if forks_now or (tasks and walk.attempts(tasks[0], iteration)):
            walk.sequence(tasks, iteration)
    return True
