"""A task whose prefix takes a value of params, for the in-memory servers and the real ones."""

from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel

from perago import (
    RetryPolicy,
    StagedView,
    TaskControls,
    TaskDefinition,
    WorkspaceInput,
    WorkspaceSpec,
    task,
)
from perago.app.authoring.task_declaration import task_of
from perago.app.authoring.workflow_definition import reference_of
from perago.domain.commit_metadata import PREFIX
from perago.testing import PeragoEnvironment, Repository, WorkflowRun, fork_branch


class Song(BaseModel):
    """Which one."""

    song: str


class Words(BaseModel):
    """How many there are."""

    words: int


@dataclass
class SongTask:
    """The task, and what its checks saw."""

    seen: list[tuple[str, ...]] = field(default_factory=list[tuple[str, ...]])

    def __post_init__(self) -> None:
        def check(view: StagedView) -> None:
            self.seen.append(tuple(view.paths))

        @task(
            name="songs.count",
            owner_email="data@example.com",
            workspace=WorkspaceSpec(
                prefix="songs/{params.song}", isolation="prefix", checks=[check]
            ),
            controls=TaskControls(retry=RetryPolicy(count=2, delay_seconds=0)),
        )
        def count(workspace: Path, params: Song) -> Words:
            words = len((workspace / "words.txt").read_text().split())
            (workspace / "count.txt").write_text(f"{params.song}: {words}")
            return Words(words=words)

        self.definition: TaskDefinition = task_of(count)


async def two_songs_on_one_commit(
    env: PeragoEnvironment, songs: SongTask
) -> tuple[Repository, list[WorkflowRun]]:
    """Two workflows that start from the same commit of one branch, each with its own song."""
    repository = await env.repository(
        "songs", {"songs/a/words.txt": "la la", "songs/b/words.txt": "o", "songs/a2/x": "x"}
    )
    given = await repository.workspace()
    reference = reference_of(songs.definition.name)
    runs = [
        await env.start(
            songs.definition, {"workspace": given, "params": {reference: {"song": song}}}
        )
        for song in ("a", "b")
    ]
    await env.until_idle()
    return repository, runs


async def assert_each_song_has_its_folder(
    env: PeragoEnvironment, repository: Repository, runs: list[WorkflowRun], songs: SongTask
) -> None:
    """Both are published on one branch, each below its own prefix, which its commit names."""
    for run in runs:
        await env.assert_completed(run)
    expected = {
        "songs/a/words.txt": "la la",
        "songs/a/count.txt": "a: 2",
        "songs/a2/x": "x",
        "songs/b/words.txt": "o",
        "songs/b/count.txt": "b: 1",
    }
    await env.assert_files(repository, expected)
    history = await repository.history()
    assert [commit.metadata.get(PREFIX) for commit in history if commit.metadata] in (
        ["songs/a", "songs/b"],
        ["songs/b", "songs/a"],
    )
    assert set(songs.seen) == {("count.txt", "words.txt")}
    await env.assert_sound()


class Plan(BaseModel):
    """The songs, and the workspace that every branch starts from."""

    workspace: WorkspaceInput
    songs: list[str]


class Items(BaseModel):
    """The input of each branch."""

    items: list[dict[str, object]]


@task(name="songs.plan", owner_email="data@example.com")
def plan(params: Plan) -> Items:
    """One item for each song."""
    workspace = params.workspace.model_dump(mode="json")
    items: list[dict[str, object]] = [
        {"workspace": workspace, "params": {"song": song}} for song in params.songs
    ]
    return Items(items=items)


SONGS_FLOW: dict[str, object] = {
    "name": "songs",
    "version": 1,
    "schemaVersion": 2,
    "tasks": [
        {
            "name": "songs.plan",
            "taskReferenceName": "plan",
            "type": "SIMPLE",
            "inputParameters": {
                "params": {
                    "workspace": "${workflow.input.workspace}",
                    "songs": "${workflow.input.params.songs}",
                }
            },
        },
        {
            "name": "fork",
            "taskReferenceName": "fork",
            "type": "FORK_JOIN_DYNAMIC",
            "inputParameters": {
                "forkTaskWorkflow": "one_song",
                "forkTaskWorkflowVersion": "1",
                "forkTaskInputs": "${plan.output.result.items}",
            },
        },
        {"name": "join", "taskReferenceName": "join", "type": "JOIN"},
        {
            "name": "perago.join",
            "taskReferenceName": "joined",
            "type": "SIMPLE",
            "inputParameters": {"params": {"workspaces": "${join.output}"}},
        },
    ],
}


async def count_songs_in_a_dynamic_fork(env: PeragoEnvironment, number: int) -> None:
    """One branch for each song, all on one commit of one branch; every song is counted."""
    names = [f"song {each}" for each in range(number)]
    files = {f"songs/{name}/words.txt": "la " * each for each, name in enumerate(names)}
    repository, songs = await env.repository("songs", files), SongTask().definition
    await env.register(plan, songs)
    given = {"workspace": await repository.workspace(), "params": {"songs": names}}
    run = await env.start([SONGS_FLOW, fork_branch("one_song", songs)], given)
    await env.until_idle()
    await env.assert_completed(run)
    for each, name in enumerate(names):
        assert await repository.text(f"songs/{name}/count.txt") == f"{name}: {each}"
    assert (await run.result("joined"))["workspace"] == await repository.workspace()
    await env.assert_sound()
