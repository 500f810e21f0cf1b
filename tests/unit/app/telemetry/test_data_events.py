"""What a catalogue is told of an attempt, whatever its end was."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from pydantic import BaseModel
from tests.recordings import RememberedDataEvents
from tests.run_cases import load, mix

from perago import RetryPolicy, TaskControls, TaskFailed, WorkspaceSpec, task
from perago.adapters.system import SystemClock
from perago.app.telemetry.exports import AttemptDataEvents, wants_data_events
from perago.domain.text import Secrets
from perago.ports.telemetry import DataEvent, DataEventKind, DataVersion
from perago.testing import PeragoEnvironment, crash, lose_answer, sequence, zombie

OWNER = "team@example.org"
ONCE_MORE = TaskControls(retry=RetryPolicy(count=1))
START, COMPLETE = DataEventKind.START, DataEventKind.COMPLETE
FAIL, ABORT = DataEventKind.FAIL, DataEventKind.ABORT


class Params(BaseModel):
    """Which song."""

    song: str = "a"


class Result(BaseModel):
    """Whether it was done."""

    done: bool = True


@task(
    name="write",
    owner_email=OWNER,
    workspace=WorkspaceSpec(prefix="songs/{params.song}"),
    controls=ONCE_MORE,
)
def write(workspace: Path, params: Params) -> Result:
    (workspace / "out.txt").write_text(params.song)
    return Result()


@task(name="keep", owner_email=OWNER, workspace=WorkspaceSpec(prefix="songs"))
def keep(workspace: Path, params: Params) -> Result:
    del workspace, params
    return Result()


@task(name="refuse", owner_email=OWNER, workspace=WorkspaceSpec(prefix="songs"))
def refuse(workspace: Path, params: Params) -> Result:
    del workspace
    raise TaskFailed(f"the key of {params.song} is s3cret")


@task(name="look", owner_email=OWNER, workspace=WorkspaceSpec(prefix="songs", read_only=True))
def look(workspace: Path, params: Params) -> Result:
    return Result(done=(workspace / params.song).exists())


@task(name="count", owner_email=OWNER)
def count(params: Params) -> Result:
    return Result(done=bool(params.song))


@pytest.fixture(name="env")
def environment() -> Iterator[PeragoEnvironment]:
    with PeragoEnvironment() as opened:
        yield opened


@pytest.fixture
def told(env: PeragoEnvironment) -> list[DataEvent]:
    """What a catalogue has."""
    events = RememberedDataEvents()
    env.listen(AttemptDataEvents(events, SystemClock(), Secrets.of(["s3cret"])))
    return events.events


def kinds(told: list[DataEvent]) -> list[DataEventKind]:
    return [each.kind for each in told]


async def test_a_publication_names_the_commits_before_and_after(
    env: PeragoEnvironment, told: list[DataEvent]
) -> None:
    repository = await env.repository(files={"songs/a/x": "x"})
    before = (await repository.head()).commit
    await env.assert_completed(await env.run(write, repository, params={"song": "a"}))
    start, end = told
    source = DataVersion("repo", "main", before, "songs/a")
    after = DataVersion("repo", "main", (await repository.head()).commit, "songs/a")
    assert (start.kind, start.inputs, start.outputs) == (START, (source,), ())
    assert (end.kind, end.inputs, end.outputs) == (COMPLETE, (source,), (after,))
    assert start.execution_id == end.execution_id
    assert source != after


async def test_a_retry_is_a_run_of_its_own_and_reports_the_publication(
    env: PeragoEnvironment, told: list[DataEvent]
) -> None:
    repository = await env.repository()
    env.plan(crash(after="merge"))
    await env.assert_completed(await env.run(write, repository, params={}))
    assert kinds(told) == [START, START, COMPLETE]  # a dead worker tells no end
    assert told[0].execution_id != told[1].execution_id
    assert [each.commit for each in told[2].outputs] == [(await repository.head()).commit]


async def test_a_lost_answer_changes_nothing_that_is_sent(
    env: PeragoEnvironment, told: list[DataEvent]
) -> None:
    repository = await env.repository()
    env.plan(lose_answer("merge"))
    await env.assert_completed(await env.run(write, repository, params={}))
    assert kinds(told) == [START, COMPLETE]
    assert [each.commit for each in told[1].outputs] == [(await repository.head()).commit]


async def test_an_attempt_that_does_not_count_any_more_is_aborted(
    env: PeragoEnvironment, told: list[DataEvent]
) -> None:
    repository = await env.repository()
    env.plan(zombie(before="stage"))
    await env.assert_completed(await env.run(write, repository, params={}))
    assert sorted(kinds(told)) == sorted([START, START, COMPLETE, ABORT])
    (aborted,) = [each for each in told if each.kind is ABORT]
    assert aborted.outputs == ()


async def test_a_failure_has_its_reason_without_a_key(
    env: PeragoEnvironment, told: list[DataEvent]
) -> None:
    await env.run(refuse, await env.repository(), params={})
    assert kinds(told)[:2] == [START, FAIL]
    assert told[1].error is not None
    assert "the key of a is" in told[1].error
    assert "s3cret" not in told[1].error


async def test_what_changes_nothing_publishes_nothing(
    env: PeragoEnvironment, told: list[DataEvent]
) -> None:
    repository = await env.repository(files={"songs/x": "x"})
    for each in (keep, look):
        await env.assert_completed(await env.run(each, repository, params={}))
    assert kinds(told) == [START, COMPLETE] * 2
    assert [each.outputs for each in told] == [()] * 4
    assert {source.path for each in told for source in each.inputs} == {"main/songs"}


async def test_a_task_without_a_workspace_reads_no_data(
    env: PeragoEnvironment, told: list[DataEvent]
) -> None:
    await env.assert_completed(await env.run(count, await env.repository(), params={}))
    assert [(each.kind, each.inputs, each.outputs) for each in told] == [
        (START, (), ()),
        (COMPLETE, (), ()),
    ]


async def test_an_input_that_cannot_be_read_names_no_data_and_fails(
    env: PeragoEnvironment, told: list[DataEvent]
) -> None:
    await env.run(write, await env.repository(), params={"song": "../x"})
    assert kinds(told)[:2] == [START, FAIL]
    assert told[0].inputs == ()


async def test_a_finished_run_is_published_data_of_the_target(
    env: PeragoEnvironment, told: list[DataEvent]
) -> None:
    await env.register(load, mix)
    repository = await env.repository("repo", {"songs/a.txt": "a"})
    flow = sequence("songs", load, mix, transaction=True)
    given: dict[str, object] = {"params": {"songs_load": {}, "songs_mix": {}}}
    await env.start(flow, {**given, "workspace": await repository.workspace()})
    await env.until_idle()
    (*_, end) = told
    assert (end.task_name, end.kind) == ("perago.finish", COMPLETE)
    (source,), (target,) = end.inputs, end.outputs
    assert source.branch.startswith("perago-run-")
    assert (target.branch, target.commit) == ("main", (await repository.head()).commit)


@pytest.mark.parametrize(
    ("variable", "wanted"),
    [
        ({}, False),
        ({"OPENLINEAGE_URL": "http://127.0.0.1:5000"}, True),
        ({"OPENLINEAGE_URL": " "}, False),
        ({"OPENLINEAGE_CONFIG": "lineage.yml"}, True),
        ({"OPENLINEAGE__TRANSPORT__TYPE": "console"}, True),
        ({"OPENLINEAGE_NAMESPACE": "team"}, False),
        ({"OPENLINEAGE_URL": "http://127.0.0.1:5000", "OPENLINEAGE_DISABLED": "True"}, False),
    ],
    ids=["nothing", "address", "blank", "file", "transport", "namespace alone", "disabled"],
)
def test_events_are_sent_where_the_variables_of_the_library_say(
    variable: Mapping[str, str], *, wanted: bool
) -> None:
    assert wants_data_events(variable) is wanted
