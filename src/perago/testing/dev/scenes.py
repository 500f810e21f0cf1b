"""Runs a workflow file once on an environment of its own, as `perago dev` shows it.

A plain JSON document comes out; the page and the terminal show it.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from perago.app.authoring.task_definition import TaskDefinition
from perago.app.authoring.workflow_definition import reference_of
from perago.domain.attempt import AttemptStatus
from perago.testing.environment import PeragoEnvironment
from perago.testing.faults import Fault
from perago.testing.story import Story, attempt_document, story_document, story_lines

SEEN_AGAIN_SECONDS = 0.05  # 20 pictures a second: more are not seen, and each is a line of JSON
Seen = Callable[[dict[str, object]], None]


@dataclass(frozen=True, slots=True)
class DevRequest:
    """What is to be run."""

    definitions: Sequence[Mapping[str, object]]
    tasks: Sequence[TaskDefinition]
    files: Mapping[str, bytes | str]
    workflow_input: Mapping[str, object]
    faults: Sequence[Fault] = field(default_factory=tuple)
    branches: Sequence[str] = field(default_factory=tuple)


async def run_scenes(
    request: DevRequest, policy: str, seen: Seen | None = None
) -> dict[str, object]:
    """One run to its end: its title, policy, broken invariants, story, and the same as lines.

    While it goes on, `seen` gets the attempts so far in the same form.
    """
    title = str(request.definitions[0].get("name", ""))
    with PeragoEnvironment(policy=policy) as env:
        if seen is not None:
            env.watch(_glances(lambda: seen(_so_far(title, policy, env))))
        repository = await env.repository("dev", dict(request.files))
        await env.register(*request.tasks)
        env.plan(*request.faults)
        for branch in request.branches:
            await repository.create_branch(branch)
        given: dict[str, object] = {
            # A fork needs a branch for each side, and their commits are known only here.
            **{branch: await repository.workspace(branch) for branch in request.branches},
            "workspace": await repository.workspace(),
            # Where `sequence` looks for them; a task without required parameters needs no more.
            "params": {reference_of(task.name): dict[str, object]() for task in request.tasks},
            **request.workflow_input,
        }
        run = await env.start(request.definitions, given)
        await env.until_idle()
        story = await env.story()
        pending = [
            f"planned, but its moment never came: {type(fault).__name__} {fault.moment}"
            for fault in env.pending_faults
        ]
        return {
            "title": run.name,
            "policy": policy,
            "status": str(await run.status()),
            "broken": [*await env.check_invariants(), *pending, *_undeclared(story, request.tasks)],
            "story": story_document(story),
            "lines": list(story_lines(story)),
        }


def _undeclared(story: Story, tasks: Sequence[TaskDefinition]) -> list[str]:
    """Tasks that stay scheduled for ever because no module that was given declares them."""
    known = {task.name for task in tasks}
    waiting = {
        row.snapshot.task_type
        for row in story.rows
        if row.snapshot.status is AttemptStatus.SCHEDULED and row.snapshot.task_type not in known
    }
    declared = ", ".join(sorted(known))
    return [
        f"the workflow waits for the task {name}, and the modules declare {declared}"
        for name in sorted(waiting)
    ]


def _glances(look: Callable[[], None]) -> Callable[[], None]:
    """Look, but at most 20 times a second."""
    looked_at = 0.0

    def glance() -> None:
        nonlocal looked_at
        now = time.monotonic()
        if now - looked_at >= SEEN_AGAIN_SECONDS:
            looked_at = now
            look()

    return glance


def _so_far(title: str, policy: str, env: PeragoEnvironment) -> dict[str, object]:
    attempts = [attempt_document(attempt) for attempt in env.attempts]
    story: dict[str, object] = {"attempts": attempts}
    return {"title": title, "policy": policy, "status": "RUNNING", "broken": [], "story": story}
