"""Runs a workflow file once on an environment of its own, as `perago dev` shows it.

A plain JSON document comes out; the page and the terminal show it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from perago.app.authoring.task_definition import TaskDefinition
from perago.testing.environment import PeragoEnvironment
from perago.testing.faults import Fault
from perago.testing.story_document import story_document
from perago.testing.story_text import story_lines


@dataclass(frozen=True, slots=True)
class DevRequest:
    """What is to be run."""

    definition: Mapping[str, object]
    tasks: Sequence[TaskDefinition]
    files: Mapping[str, bytes | str]
    workflow_input: Mapping[str, object]
    faults: Sequence[Fault] = field(default_factory=tuple)


async def run_world(request: DevRequest, policy: str) -> dict[str, object]:
    """One run to its end: its title, policy, broken invariants, story, and the same as lines."""
    with PeragoEnvironment(policy=policy) as env:
        repository = await env.repository("dev", dict(request.files))
        await env.register(*request.tasks)
        env.plan(*request.faults)
        given = {"workspace": await repository.workspace(), **request.workflow_input}
        run = await env.start(request.definition, given)
        await env.until_idle()
        story = await env.story()
        pending = [f"planned, but its moment never came: {fault}" for fault in env.pending_faults]
        return {
            "title": run.name,
            "policy": policy,
            "status": str(await run.status()),
            "broken": [*await env.check_invariants(), *pending],
            "story": story_document(story),
            "lines": list(story_lines(story)),
        }
