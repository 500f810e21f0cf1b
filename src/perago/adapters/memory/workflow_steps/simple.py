"""SIMPLE: a task for workers is done when one of its attempts is, and was not followed up.

A zombie that completes beside a live retry lets the workflow pass too: the server does the same.
"""

from perago.adapters.memory.conductor_rows import Spec
from perago.adapters.memory.workflow_walk import Walk


def walk_simple(walk: Walk, spec: Spec, iteration: int) -> bool:
    """Schedule the first attempt once; afterwards wait for one that passes."""
    attempts = walk.attempts(spec, iteration)
    if not attempts:
        walk.schedule(spec, iteration)
        return False
    return any(row.lets_pass for row in attempts)
