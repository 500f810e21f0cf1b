"""`perago runs`, `perago diff` of a run and `perago abandon`, on servers in memory."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.unit.app.command_line.command_run import Run

from perago.adapters.memory.installations import RepositoryBuilder, shared_conductor, shared_memory
from perago.app.runs.begin import BEGIN_TASK
from perago.app.runs.finish import FINISH_TASK
from perago.domain.attempt import AttemptStatus
from perago.domain.run import RunKey, base_tag, run_branch
from perago.ports.conductor import PollRequest, TerminalUpdate

FLOW = {
    "name": "flow",
    "version": 1,
    "schemaVersion": 2,
    "tasks": [
        {"name": BEGIN_TASK.name, "taskReferenceName": "begin", "type": "SIMPLE"},
        {"name": "audit", "taskReferenceName": "audit", "type": "SIMPLE"},
        {
            "name": FINISH_TASK.name,
            "taskReferenceName": "finish",
            "type": "SIMPLE",
            "inputParameters": {"params": {"run": "${begin.output.result.run}"}},
        },
    ],
}


@dataclass
class Held:
    """A run with two publications, whose workflow waits for a task that nobody polls."""

    songs: RepositoryBuilder
    url: str
    workflow: str
    key: RunKey

    def terminate(self) -> None:
        """What the person does who does not want it."""
        workflows = shared_conductor(self.url).workflows
        asyncio.run(workflows.terminate(self.workflow, "not wanted"))


@pytest.fixture
def held(project: Path, monkeypatch: pytest.MonkeyPatch) -> Held:
    url = f"memory:{project}"
    for name in ("PERAGO_LAKEFS", "PERAGO_CONDUCTOR"):
        monkeypatch.setenv(name, url)
    songs = RepositoryBuilder(shared_memory(url), "songs")
    base = songs.commit({"raw/a": b"1"})
    workflow = asyncio.run(_start(url))
    key = RunKey(f"{workflow}-{'0' * 32}")
    asyncio.run(_begin(url, key, base))
    songs.tag(base_tag(key), base)
    branch = songs.branch(run_branch(key), base)
    songs.commit({"raw/a": b"12"}, branch)
    songs.commit({"out/b": b"123"}, branch)
    songs.commit({"foreign": b""})
    return Held(songs, url, workflow, key)


async def _start(url: str) -> str:
    conductor = shared_conductor(url)
    definition = {"name": BEGIN_TASK.name, "ownerEmail": "data@example.com", "retryCount": 0}
    await conductor.definitions.put(definition)
    await conductor.workflows.put_definition(FLOW)
    return await conductor.workflows.start("flow", {})


def test_a_task_whose_workspace_names_no_repository_needs_one(run: Run, held: Held) -> None:
    row = {"name": "t", "taskReferenceName": "t", "type": "SIMPLE"}
    given = {"workspace": {"branch": "main"}, "params": {}}
    flow = {"name": "half", "version": 1, "tasks": [{**row, "inputParameters": given}]}

    async def start() -> str:
        workflows = shared_conductor(held.url).workflows
        await workflows.put_definition(flow)
        return await workflows.start("half", {})

    ran = run("reset-task", asyncio.run(start()), "t")
    assert (ran.code, ran.out) == (2, "")
    assert "has no workspace of t" in ran.err
    assert "add --repo REPO" in ran.err


async def _begin(url: str, key: RunKey, base: str) -> None:
    """Answer for the task that begins."""
    queue = shared_conductor(url).queue
    [polled] = await queue.poll(PollRequest(BEGIN_TASK.name, "w"))
    run = {"repository": "songs", "branch": "main", "run_branch": run_branch(key)}
    output = {"result": {"run": {**run, "key": key, "base": base}}}
    update = TerminalUpdate(polled.snapshot, "w", AttemptStatus.COMPLETED, output=output)
    await queue.complete(update, timeout_seconds=1)


async def _finish(held: Held, published: str) -> None:
    """A worker's answer for finish, whose publication is on the target."""
    conductor = shared_conductor(held.url)
    workspace = {"repository": "songs", "branch": "main", "refType": "commit"}
    for task_type, output in (
        ("audit", {}),
        (FINISH_TASK.name, {"result": {"workspace": {**workspace, "ref": published}}}),
    ):
        [polled] = await conductor.queue.poll(PollRequest(task_type, "w"))
        update = TerminalUpdate(polled.snapshot, "w", AttemptStatus.COMPLETED, output=output)
        await conductor.queue.complete(update, timeout_seconds=1)


def test_a_held_run_is_listed_with_its_target_and_workflow(run: Run, held: Held) -> None:
    ran = run("runs", "songs")
    assert (ran.code, ran.out) == (0, f"{held.key}  2 publications for main, RUNNING\n")
    [row] = run("runs", "songs", "--json").document["runs"]
    assert row == {
        "key": held.key,
        "branch": run_branch(held.key),
        "base": held.songs.tags()[base_tag(held.key)],
        "head": held.songs.head(run_branch(held.key)).commit,
        "workflow": held.workflow,
        "publications": 2,
        "target": "main",
        "status": "RUNNING",
    }


def test_runs_of_one_target_are_asked_for(run: Run, held: Held) -> None:
    assert held.key in run("runs", "songs", "--branch", "main").out
    ran = run("runs", "songs", "--branch", "other")
    assert (ran.out, ran.err) == ("", "no run of songs is held for other\n")


def test_without_conductor_lakefs_tells_what_it_knows(
    run: Run, held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PERAGO_CONDUCTOR")
    ran = run("runs", "songs")
    told = f"{held.key}  2 publications for unknown target, unknown workflow\n"
    assert (ran.code, ran.out) == (0, told)
    assert "warning: targets and workflows are unknown without Conductor" in ran.err
    assert run("runs", "songs", "--branch", "main").code == 3


@pytest.mark.usefixtures("held", "silent_conductor")
def test_a_conductor_that_does_not_answer_shows_in_the_exit_code(run: Run) -> None:
    ran = run("runs", "songs")
    assert (ran.code, len(ran.out.splitlines())) == (6, 1)
    assert "warning: targets and workflows are unknown without Conductor" in ran.err
    assert len(run("runs", "songs", "--json").document["runs"]) == 1


@pytest.mark.parametrize("part", ["key", "branch", "workflow"])
def test_a_run_is_compared_with_its_base(run: Run, held: Held, part: str) -> None:
    names = {"key": held.key, "branch": run_branch(held.key), "workflow": held.workflow}
    ran = run("diff", names[part])
    assert (ran.code, ran.out.splitlines()) == (0, ["+ out/b  3 B", "~ raw/a  2 B"])


@pytest.mark.parametrize("part", ["key", "branch", "workflow"])
def test_a_run_that_is_published_is_compared_with_the_head_before_it(
    run: Run, held: Held, part: str
) -> None:
    """A new user was told that it was no run."""
    before, published = held.songs.head().commit, held.songs.commit({"out/b": b"123"})
    held.songs.delete_branch(run_branch(held.key))
    asyncio.run(_finish(held, published))
    names = {"key": held.key, "branch": run_branch(held.key), "workflow": held.workflow}
    ran = run("diff", names[part])
    assert (ran.code, ran.out) == (0, "+ out/b  3 B\n"), ran.err
    assert f"songs: {before} to {published} (main)" in ran.err
    assert f"the run is published as {published} on main; `lakectl log " in ran.err
    assert run("diff", names[part], "--json").document["published"] is True


def test_a_run_that_had_nothing_to_publish_shows_nothing_of_others(run: Run, held: Held) -> None:
    """Finish put out its base, and what that commit changed was another one's."""
    base = held.songs.tags()[base_tag(held.key)]
    held.songs.delete_branch(run_branch(held.key))
    asyncio.run(_finish(held, base))
    ran = run("diff", held.key)
    assert (ran.code, ran.out) == (0, ""), ran.err
    assert f"songs: {base} to {base} (main)" in ran.err
    assert "is published" not in ran.err


def test_a_run_is_not_taken_for_another_one_that_its_workflow_has_published(
    run: Run, held: Held
) -> None:
    """A workflow that was run again from its begin has a run that nobody finished."""
    asyncio.run(_finish(held, held.songs.commit({"out/b": b"123"})))
    ran = run("diff", f"{held.workflow}-{'1' * 32}")
    assert (ran.code, ran.out) == (2, "")


def test_a_run_whose_workflow_may_go_on_is_not_abandoned(run: Run, held: Held) -> None:
    ran = run("abandon", held.key)
    assert ran.code == 1
    assert f"which is RUNNING; terminate it, then run `perago abandon {held.key}` again" in ran.err
    assert run_branch(held.key) in held.songs.branch_names()


def test_an_abandoned_run_leaves_the_target_as_it_was(run: Run, held: Held) -> None:
    before = held.songs.head()
    held.terminate()
    ran = run("abandon", held.key)
    assert (ran.code, ran.out.splitlines()) == (
        0,
        [f"removed: {run_branch(held.key)}", f"removed: {base_tag(held.key)}"],
    )
    assert held.songs.head() == before
    assert run_branch(held.key) not in held.songs.branch_names()
    assert base_tag(held.key) not in held.songs.tags()
    again = run("abandon", held.key)
    assert again.code == 2
    assert f"expected a run, found {held.key!r}, which is not in 1 repositories" in again.err


def test_a_run_of_an_unknown_workflow_is_abandoned_by_force_alone(
    run: Run, held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERAGO_CONDUCTOR", f"{held.url}-another")
    ran = run("abandon", held.key)
    assert ran.code == 1
    assert f"run `perago abandon {held.key} --force`" in ran.err
    assert run_branch(held.key) in held.songs.branch_names()
    assert run("abandon", held.key, "--force", "--json").document["run"] == held.key
    assert run_branch(held.key) not in held.songs.branch_names()


@pytest.mark.parametrize("command", ["diff", "abandon"])
def test_a_workflow_with_several_runs_is_not_guessed_about(
    run: Run, held: Held, command: str
) -> None:
    """It was run again from its begin, or it begins runs in two repositories."""
    other = RunKey(f"{held.workflow}-{'1' * 32}")
    art = RepositoryBuilder(shared_memory(held.url), "art")
    for songs, key in ((held.songs, other), (art, held.key)):
        songs.tag(base_tag(key), songs.head().commit)
        songs.branch(run_branch(key))
    held.terminate()
    ran = run(command, held.workflow)
    assert (ran.code, ran.out) == (2, "")
    for named in (f"{held.key} in art", f"{held.key} in songs", f"{other} in songs"):
        assert named in ran.err
    assert run(command, held.workflow, "--repo", "art").code == 0
    assert run_branch(held.key) in held.songs.branch_names()


@pytest.mark.parametrize("command", ["diff", "abandon"])
def test_a_repository_that_is_not_there_is_named(run: Run, held: Held, command: str) -> None:
    ran = run(command, held.key, "--repo", "nope")
    assert ran.code == 6
    assert "there is no repository nope" in ran.err
