"""Which workflow definitions are taken: names that exist, kinds that run, expressions that resolve.

The server refuses the same mistakes; kinds it knows and this one does not are refused by name.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping

from perago.adapters.memory.conductor_rows import Spec
from perago.adapters.memory.task_scheduling import TASK_ID_NAME
from perago.adapters.memory.workflow_expressions import expressions_in
from perago.adapters.memory.workflow_walk import kind_of, specs_in
from perago.ports.errors import RequestRefusedError

# No expression: the server wants to know it when the workflow is defined.
TERMINATION_STATUSES = frozenset({"COMPLETED", "FAILED", "TERMINATED"})


def check_definition(definition: Spec, kinds: Collection[str]) -> dict[str, object]:
    """Refuse a definition that could not run; else the definition with its version."""
    name = definition.get("name")
    specs = list(specs_of(definition))
    if not isinstance(name, str) or not name or not specs:
        raise RequestRefusedError("a workflow definition needs a name and at least one task")
    for spec in specs:
        _check_spec(spec, kinds)
    counted = Counter(str(spec["taskReferenceName"]) for spec in specs)
    if twice := [reference for reference, count in counted.items() if count > 1]:
        raise RequestRefusedError(f"{name}: taskReferenceName should be unique: {twice}")
    for spec in specs:
        for path in expressions_in(spec.get("inputParameters")):
            if path[0] not in {"workflow", TASK_ID_NAME, *counted}:
                raise RequestRefusedError(
                    f"{name}: task {spec['taskReferenceName']} refers to {path[0]!r}, "
                    "which is not defined in the workflow definition"
                )
    return {"version": 1, **definition}


def specs_of(definition: Spec) -> Iterator[Spec]:
    """Every task of a definition, the ones inside others included."""
    yield from _flatten(definition.get("tasks"))


def _flatten(tasks: object) -> Iterator[Spec]:
    for spec in specs_in(tasks):
        yield spec
        yield from _flatten(spec.get("loopOver"))
        yield from _flatten(spec.get("defaultCase"))
        for branch in specs_in(spec.get("forkTasks")):
            yield from _flatten(branch)
        cases = spec.get("decisionCases")
        for case in cases.values() if isinstance(cases, Mapping) else ():
            yield from _flatten(case)


def _check_spec(spec: Spec, kinds: Collection[str]) -> None:
    for field in ("name", "taskReferenceName"):
        if not isinstance(spec.get(field), str) or not spec[field]:
            raise RequestRefusedError(f"a task of a workflow needs {field}, found {spec}")
    if kind_of(spec) not in kinds:
        raise RequestRefusedError(
            f"task {spec['taskReferenceName']}: the in-memory Conductor runs "
            f"{', '.join(sorted(kinds))}, found {kind_of(spec)}; run it on a real server"
        )
    if kind_of(spec) == "TERMINATE" and _termination_status(spec) not in TERMINATION_STATUSES:
        raise RequestRefusedError(
            f"terminate task must have a terminationStatus parameter and must be set to COMPLETED "
            f"or FAILED, taskName: {spec['name']}"
        )
    if kind_of(spec) == "SWITCH" and spec.get("evaluatorType") != "value-param":
        raise RequestRefusedError(
            f"task {spec['taskReferenceName']}: expected evaluatorType value-param, "
            f"found {spec.get('evaluatorType')}; the in-memory Conductor runs no scripts"
        )


def _termination_status(spec: Spec) -> object:
    parameters = spec.get("inputParameters")
    return parameters.get("terminationStatus") if isinstance(parameters, Mapping) else None
