"""SWITCH: the value of one input parameter chooses which tasks are walked, once."""

from collections.abc import Mapping

from perago.adapters.memory.conductor_rows import Spec
from perago.adapters.memory.workflow_expressions import as_text
from perago.adapters.memory.workflow_walk import Walk, specs_in
from perago.domain.attempt import AttemptStatus


def walk_switch(walk: Walk, spec: Spec, iteration: int) -> bool:
    """Choose at the first walk; afterwards follow that choice."""
    attempts = walk.attempts(spec, iteration)
    row = attempts[-1] if attempts else walk.schedule(spec, iteration, AttemptStatus.COMPLETED)
    if not attempts:
        chosen = as_text(row.input_data.get(str(spec.get("expression"))))
        row.output_data = {"evaluationResult": [chosen], "selectedCase": chosen}
    cases = spec.get("decisionCases")
    known = cases if isinstance(cases, Mapping) else {}
    case = known.get(str(row.output_data["selectedCase"]), spec.get("defaultCase"))
    return walk.sequence(specs_in(case), iteration)
