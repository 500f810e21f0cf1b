"""What `perago doctor` finds of a Conductor in memory."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.app.inspection.doctor_scene import TASK, DoctorScene, problems

from perago.adapters.memory import conductor as memory_conductor
from perago.adapters.memory.installations import RepositoryBuilder
from perago.app.authoring.task_definition import (
    PublishBudget,
    RetryPolicy,
    TaskControls,
    TimeoutPolicy,
)
from perago.app.authoring.workspace_spec import WorkspaceSpec
from perago.app.inspection import doctor_conductor
from perago.app.inspection.doctor import NotCheckedError, Status
from perago.domain.lakefs import RepositoryId
from perago.ports.errors import AccessDeniedError, UnavailableError

BUDGET = PublishBudget(
    observed_merge_p99_seconds=1,
    safety_margin_seconds=1,
    lakefs_merge_timeout_seconds=60,
    conductor_completion_timeout_seconds=60,
    worker_shutdown_grace_seconds=30,
    heartbeat_interval_seconds=10,
)
AWAY = UnavailableError("no Conductor there")


@asynccontextmanager
async def polling(
    scene: DoctorScene, *workers: str, domain: str | None = None
) -> AsyncGenerator[None]:
    """Workers that poll for the time of the block."""
    # One after the other, because Conductor keeps the last poll only.
    tasks = [
        asyncio.ensure_future(scene.poll_for_ever(each, domain, first=number * 0.3))
        for number, each in enumerate(workers)
    ]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def test_an_address_with_an_api_is_in_order(tmp_path: Path) -> None:
    (found,) = await DoctorScene(tmp_path).found(doctor_conductor.address)
    assert (found.status, found.evidence) == (
        Status.OK,
        "memory:servers, without a key, not over HTTP",
    )


@pytest.mark.parametrize(
    ("url", "right"),
    [
        ("http://c:8080", "http://c:8080/api"),
        ("http://c:8080/conductor/", "http://c:8080/conductor/api"),
        ("http://c:8080/v1", "http://c:8080/api"),
    ],
)
async def test_the_address_where_the_api_answers_is_named(
    tmp_path: Path, url: str, right: str
) -> None:
    tried = {url, f"{url.rstrip('/')}/api", "http://c:8080/api"}
    scene = DoctorScene(
        tmp_path,
        variables={"PERAGO_CONDUCTOR": url},
        refusals=dict.fromkeys(tried - {right}, AWAY),
    )
    (found,) = await scene.found(doctor_conductor.address)
    assert (found.status, found.code) == (Status.FAILURE, "PRG-L008")
    assert found.commands == (f"export PERAGO_CONDUCTOR={right}",)


async def test_a_conductor_that_answers_nowhere_has_the_remedy_of_its_code(tmp_path: Path) -> None:
    url = "http://c:8080/api"
    refusals = {url: AWAY, f"{url}/api": AWAY}
    scene = DoctorScene(tmp_path, variables={"PERAGO_CONDUCTOR": url}, refusals=refusals)
    (found,) = await scene.found(doctor_conductor.address)
    assert (found.evidence, found.code) == ("no Conductor there", "PRG-L008")
    assert f"curl -sS {url}" in found.commands


async def test_a_key_that_is_refused_ends_the_check_with_its_error(tmp_path: Path) -> None:
    scene = DoctorScene(tmp_path, refusals={"memory:servers": AccessDeniedError("401")})
    with pytest.raises(AccessDeniedError):
        await scene.found(doctor_conductor.address)


async def test_no_conductor_is_a_warning(tmp_path: Path) -> None:
    scene = DoctorScene(tmp_path)
    connections = replace(scene.subject().connections, conductor=None)
    subject = replace(scene.subject(), connections=connections)
    found = await scene.found(doctor_conductor.address, subject)
    assert problems(found) == [("warning", "PRG-C011")]


@pytest.mark.parametrize(
    ("version", "status", "commands"),
    [
        ("3.32.3", Status.OK, ()),
        ("3.32.9-SNAPSHOT", Status.OK, ()),
        ("3.33.0", Status.WARNING, ("pip install --upgrade perago",)),
        ("4.0", Status.WARNING, ("pip install --upgrade perago",)),
        ("3.21.1", Status.WARNING, ()),
    ],
)
async def test_the_version_is_compared_with_the_tested_one(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    version: str,
    status: Status,
    commands: tuple[str, ...],
) -> None:
    monkeypatch.setattr(memory_conductor, "VERSION", version)
    (found,) = await DoctorScene(tmp_path).found(doctor_conductor.version)
    assert (found.status, found.commands) == (status, commands), found
    assert version in found.evidence


async def test_a_taskdef_that_is_missing_is_registered(tmp_path: Path) -> None:
    (found,) = await DoctorScene(tmp_path).found(doctor_conductor.taskdefs)
    assert (found.status, found.evidence) == (Status.FAILURE, "not registered: words")
    assert found.commands == ("perago register team.words",)


async def test_built_in_tasks_that_are_missing_are_a_warning(tmp_path: Path) -> None:
    task = replace(TASK, workspace=WorkspaceSpec(prefix="data"))
    scene = DoctorScene(tmp_path, task=task)
    await scene.register()
    found = await scene.found(doctor_conductor.taskdefs)
    assert problems(found) == [("warning", "PRG-T019")]
    assert found[0].evidence == "not registered: perago.join, perago.begin, perago.finish"
    assert found[1].evidence == "as in the code: words"


async def test_each_field_that_differs_is_named(tmp_path: Path) -> None:
    scene = DoctorScene(tmp_path)
    await scene.register(retryCount=1, retryDelaySeconds=7)
    (found,) = await scene.found(doctor_conductor.taskdefs)
    assert found.status is Status.WARNING
    assert found.evidence == (
        "words differs: retryCount: registered 1, code 3; retryDelaySeconds: registered 7, code 60"
    )


async def test_without_a_module_there_is_nothing_to_compare(tmp_path: Path) -> None:
    scene = DoctorScene(tmp_path)
    subject = replace(scene.subject(), tasks=())
    with pytest.raises(NotCheckedError) as said:
        await scene.found(doctor_conductor.taskdefs, subject)
    assert said.value.remedy.startswith("`perago doctor MODULE`")
    for ask in (doctor_conductor.leases, doctor_conductor.polls):
        assert await scene.found(ask, subject) == []


@pytest.mark.parametrize(
    ("budget", "registered", "needed"),
    [(None, 45, None), (None, 44, 45), (BUDGET, 160, None), (BUDGET, 159, 160)],
)
async def test_a_response_time_out_is_compared_with_what_publishing_takes(
    tmp_path: Path, budget: PublishBudget | None, registered: int, needed: int | None
) -> None:
    scene = DoctorScene(tmp_path, task=replace(TASK, controls=TaskControls(publish_budget=budget)))
    await scene.register(responseTimeoutSeconds=registered)
    (found,) = await scene.found(doctor_conductor.leases)
    if needed is None:
        assert (found.status, found.evidence) == (Status.OK, f"long enough: words {registered} s")
        return
    assert (found.status, found.code) == (Status.WARNING, "PRG-H003")
    assert f"has {registered} s and needs {needed} s" in found.evidence
    assert found.commands == ("perago register team.words",)


async def test_a_response_time_out_of_the_code_that_is_short_is_raised_first(
    tmp_path: Path,
) -> None:
    controls = TaskControls(timeout=TimeoutPolicy(response_seconds=20))
    scene = DoctorScene(tmp_path, task=replace(TASK, controls=controls))
    await scene.register()
    (found,) = await scene.found(doctor_conductor.leases)
    assert found.remedy.startswith("TimeoutPolicy(response_seconds=...) of words says 20: raise it")


async def test_a_task_that_is_polled_is_in_order(tmp_path: Path) -> None:
    scene = DoctorScene(tmp_path)
    await scene.register()
    async with polling(scene, "a-host-1", "b-host-2"):
        (found,) = await scene.found(doctor_conductor.polls)
    assert found.status is Status.OK
    assert "a-host-1 0 s ago" in found.evidence
    assert "b-host-2 0 s ago" in found.evidence


async def test_rows_that_wait_for_no_worker_are_a_failure(tmp_path: Path) -> None:
    scene = DoctorScene(tmp_path)
    await scene.register()
    await scene.submit()
    (found,) = await scene.found(doctor_conductor.polls)
    assert (found.status, found.code) == (Status.FAILURE, "PRG-H001")
    assert found.evidence == ("words: no worker polls it (last: never); 1 waiting, 0 in progress")
    assert found.commands == ("perago start team.words",)


async def test_a_task_without_rows_and_without_a_worker_is_a_warning(tmp_path: Path) -> None:
    scene = DoctorScene(tmp_path)
    await scene.register()
    await scene.poll("a-host-1")
    await scene.clock.let_pass(3600)
    found = await scene.found(doctor_conductor.polls)
    assert problems(found) == [("warning", "PRG-H001")]
    assert "last: a-host-1 360" in found[0].evidence


async def test_a_worker_whose_slots_are_busy_is_a_warning(tmp_path: Path) -> None:
    scene = DoctorScene(tmp_path)
    await scene.register()
    await scene.submit()
    await scene.poll("a-host-1")
    await scene.submit()
    await scene.clock.let_pass(100)
    found = await scene.found(doctor_conductor.polls)
    assert problems(found) == [("warning", "PRG-H001")]
    assert "1 waiting, 1 in progress (a-host-1)" in found[0].evidence


async def test_rows_of_a_domain_need_a_worker_of_that_domain(tmp_path: Path) -> None:
    scene = DoctorScene(tmp_path)
    await scene.register()
    await scene.submit("night")
    async with polling(scene, "a-host-1"):
        found = await scene.found(doctor_conductor.polls)
    assert problems(found) == [("failure", "PRG-H001")]
    (stuck,) = [each for each in found if each.code]
    assert stuck.evidence.startswith("words in the domain night: no worker polls it")
    assert stuck.evidence.endswith("; workers poll without a domain")
    assert stuck.commands == ("perago start team.words --domain night",)


async def test_workers_of_another_domain_are_named(tmp_path: Path) -> None:
    scene = DoctorScene(tmp_path)
    await scene.register()
    await scene.submit()
    async with polling(scene, "a-host-1", domain="night"):
        found = await scene.found(doctor_conductor.polls)
    (stuck,) = [each for each in found if each.code]
    assert stuck.evidence.endswith("workers poll with domain night")


async def test_a_worker_of_the_old_release_is_seen_beside_ours(tmp_path: Path) -> None:
    scene = DoctorScene(tmp_path)
    await scene.register()
    async with polling(scene, "teamwords-host-1-ab12cd34", "teamwordsBroker"):
        found = await scene.found(doctor_conductor.polls)
    assert problems(found) == [("failure", "PRG-H002")]
    assert found[1].evidence.startswith("teamwordsBroker of 0.6.1 polls the same tasks")


async def test_a_worker_of_the_old_release_that_stopped_is_not_reported(tmp_path: Path) -> None:
    scene = DoctorScene(tmp_path)
    await scene.register()
    await scene.poll("teamwordsBroker")
    await scene.clock.let_pass(5)
    assert problems(await scene.found(doctor_conductor.polls)) == []


async def test_publications_of_the_old_release_are_reported_for_a_day(tmp_path: Path) -> None:
    scene = DoctorScene(tmp_path)
    repository = RepositoryBuilder(scene.lakefs, "songs")
    repository.commit({"data/a": b"1"})
    subject = replace(scene.subject(), repository=RepositoryId("songs"))
    repository.commit({"data/b": b"2"}, message="Merge 'by-a-person' into 'main'")
    assert await scene.found(doctor_conductor.old_publications, subject) == []
    message = "Merge 'perago-staging-wf-only-seq-1' into 'main'"  # what lakeFS writes without one
    published = repository.commit({"data/a": b"3"}, message=message)
    found = await scene.found(doctor_conductor.old_publications, subject)
    assert problems(found) == [("warning", "PRG-H002")]
    assert found[0].evidence.endswith(f"the newest {published}")
    await scene.clock.let_pass(24 * 3600)
    assert await scene.found(doctor_conductor.old_publications, subject) == []


async def test_publications_of_the_old_release_are_looked_for_in_a_repository_only(
    tmp_path: Path,
) -> None:
    assert await DoctorScene(tmp_path).found(doctor_conductor.old_publications) == []


def fork_of(*branches: dict[str, object]) -> list[dict[str, object]]:
    """A fork and its join, inside a loop."""
    names = [each["taskReferenceName"] for each in branches]
    fork = {"name": "f", "taskReferenceName": "f", "type": "FORK_JOIN"}
    join = {"name": "j", "taskReferenceName": "j", "type": "JOIN", "joinOn": names}
    inside = [{**fork, "forkTasks": [[each] for each in branches]}, join]
    loop = {"name": "l", "taskReferenceName": "l", "type": "DO_WHILE", "loopOver": inside}
    return [{**loop, "loopCondition": "if ($.l['iteration'] < 2) { true; } else { false; }"}]


@pytest.mark.parametrize(
    ("retries", "kind", "expected"),
    [
        (3, "SIMPLE", [("warning", "PRG-H006")]),
        (0, "SIMPLE", []),
        (3, "SUB_WORKFLOW", []),
    ],
)
async def test_a_retry_as_a_branch_of_a_fork_is_a_warning(
    tmp_path: Path, retries: int, kind: str, expected: list[tuple[str, str]]
) -> None:
    controls = TaskControls(retry=RetryPolicy(count=retries))
    scene = DoctorScene(tmp_path, task=replace(TASK, controls=controls))
    await scene.register()
    step: dict[str, object] = {"name": "words", "taskReferenceName": "only", "type": kind}
    if kind == "SUB_WORKFLOW":
        step["subWorkflowParam"] = {"name": "songs", "version": 1}
    definition = {"name": "forked", "version": 1, "schemaVersion": 2, "ownerEmail": "o@example.org"}
    await scene.ports.workflows.put_definition({**definition, "tasks": fork_of(step)})
    found = await scene.found(doctor_conductor.forks)
    assert problems(found) == expected
    if found:
        assert found[0].evidence == "workflow forked retries words as SIMPLE branches of a fork"
        assert found[0].commands == ("perago workflow new team.words --fork --name forked",)
