"""A fork in a run that a person approves or refuses, for both backends of the kit."""

from pathlib import Path
from typing import cast

from pydantic import BaseModel

from perago import RetryPolicy, TaskControls, TaskDefinition, WorkspaceSpec, task
from perago.app.authoring.task_declaration import task_of
from perago.domain.attempt import as_mapping
from perago.testing import PeragoEnvironment, Repository, WorkflowRun, fork


class Nothing(BaseModel):
    """Neither params nor a result."""


def _side(name: str) -> TaskDefinition:
    @task(
        name=f"sides.{name}",
        owner_email="data@example.com",
        workspace=WorkspaceSpec(prefix=name, isolation="prefix"),
        controls=TaskControls(retry=RetryPolicy(count=3, delay_seconds=0)),
    )
    def write(workspace: Path, params: Nothing) -> Nothing:
        (workspace / "out.txt").write_text(name)
        return params

    return task_of(write)


def approved_fork() -> tuple[list[TaskDefinition], list[dict[str, object]]]:
    """Two sides, their join, a person, and the end of the run."""
    sides = [_side("left"), _side("right")]
    flow, *children = fork("approved", *sides, transaction=True)
    *before, finish = cast("list[dict[str, object]]", flow["tasks"])
    given = {"branch": "${perago_begin.output.result.run.run_branch}"}
    approve: dict[str, object] = {"name": "approve", "taskReferenceName": "approve"}
    approve |= {"type": "HUMAN", "inputParameters": given}
    return sides, [{**flow, "tasks": [*before, approve, finish]}, *children]


async def until_approval(env: PeragoEnvironment) -> tuple[Repository, WorkflowRun]:
    """Both sides have worked on the branch of the run; nothing of it is on the target."""
    sides, definitions = approved_fork()
    repository = await env.repository("sides", {"kept.txt": "kept"})
    await env.register(*sides)
    params: dict[str, object] = {"sides_left": {}, "sides_right": {}}
    given = {"workspace": await repository.workspace(), "params": params}
    run = await env.start(definitions, given)
    await env.until_idle()
    (row,) = await run.attempts("approve")
    branch = str(as_mapping(row.input_data)["branch"])
    made = {"kept.txt": "kept", "left/out.txt": "left", "right/out.txt": "right"}
    await env.assert_files(repository, made, branch)
    await env.assert_files(repository, {"kept.txt": "kept"})
    return repository, run


async def approve_a_run(env: PeragoEnvironment) -> None:
    """What a person approves is on the target at once, as one commit of its first parents."""
    repository, run = await until_approval(env)
    before = await repository.head()
    await env.complete_step(run, "approve", {"by": "an editor"})
    await env.until_idle()
    await env.assert_completed(run)
    assert set(await repository.files()) == {"kept.txt", "left/out.txt", "right/out.txt"}
    assert (await repository.history())[1].commit == before.commit
    head = await repository.head()
    assert as_mapping((await run.output())["workspace"])["ref"] == head.commit
    await env.assert_sound()


async def refuse_a_run(env: PeragoEnvironment) -> None:
    """What a person refuses never is."""
    repository, run = await until_approval(env)
    await env.complete_step(run, "approve", refused="the numbers are wrong")
    await env.until_idle()
    assert await run.status() == "FAILED"
    await env.assert_files(repository, {"kept.txt": "kept"})
    await env.assert_sound()
