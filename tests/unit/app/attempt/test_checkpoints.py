"""Checkpoints on servers in memory: kept, found by the next attempt, removed, never published."""

from collections.abc import Callable
from datetime import UTC
from pathlib import Path

import pytest
from pydantic import BaseModel

import perago
from perago import (
    RetryPolicy,
    TaskControls,
    TaskDefinition,
    TaskFailed,
    TaskTerminalError,
    WorkspaceSpec,
    task,
)
from perago.domain.checkpoints import CHECKPOINT_BRANCH_PREFIX
from perago.ports.workspace import Phase, beside
from perago.testing import (
    Fault,
    PeragoEnvironment,
    Repository,
    TaskEnvironment,
    crash,
    lose_answer,
)
from perago.testing.definitions import definition_of

PARTS = 10
PART_BYTES = 1000


class Params(BaseModel):
    """Nothing to say."""


class Done(BaseModel):
    """Which parts this run of the function computed."""

    computed: list[int]


Step = Callable[[Path, int], None]


def part_by_part(
    step: Step, *, retries: int = 3, workspace: WorkspaceSpec | None = None
) -> TaskDefinition:
    """A task that computes ten parts, keeps each, and goes on from what it finds."""
    controls = TaskControls(retry=RetryPolicy(count=retries, delay_seconds=1))
    spec = WorkspaceSpec(prefix="data") if workspace is None else workspace

    @task(name="parts", owner_email="data@example.com", workspace=spec, controls=controls)
    def compute(workspace: Path, params: Params) -> Done:
        del params
        attempt = perago.current_attempt()
        state = workspace / "parts"
        state.mkdir()
        first = 0
        if attempt.resumed_from is not None:
            for kept in attempt.resumed_from.path.iterdir():
                if kept.name.startswith("part-"):
                    (state / kept.name).write_bytes(kept.read_bytes())
            first = attempt.resumed_from.note["next"]
        for number in range(first, PARTS):
            step(workspace, number)
            (state / f"part-{number}").write_bytes(bytes([number]) * PART_BYTES)
            attempt.checkpoint(state, note={"next": number + 1})
        return Done(computed=list(range(first, PARTS)))

    return definition_of(compute)


def fail_once_at(part: int, error: Exception) -> Step:
    """Fail before a part, the first time that it is reached."""
    return fail_once_at_each({part: error})


def fail_once_at_each(errors: dict[int, Exception]) -> Step:
    """Fail before each of these parts, the first time that it is reached."""

    def step(workspace: Path, number: int) -> None:
        del workspace
        if number in errors:
            raise errors.pop(number)

    return step


async def checkpoint_branches(repository: Repository) -> list[str]:
    """The branches that keep checkpoints now."""
    names = await repository.branches()
    return [name for name in names if name.startswith(CHECKPOINT_BRANCH_PREFIX)]


async def test_a_retry_goes_on_where_the_first_attempt_failed(
    perago_env: PeragoEnvironment,
) -> None:
    repository = await perago_env.repository()
    definition = part_by_part(fail_once_at(6, TaskFailed("no more memory")))
    run = await perago_env.run(definition, repository)
    await perago_env.assert_completed(run)
    failed, retried = perago_env.attempts
    assert failed.facts_of(Phase.CHECKPOINTED)["checkpoint"] == 1
    assert retried.output["result"] == {"computed": [6, 7, 8, 9]}
    files = await repository.files()
    mine = [path for path in files if not path.startswith("_lakefs_actions/")]
    assert mine == [f"data/parts/part-{number}" for number in range(PARTS)]
    await perago_env.assert_sound()


async def test_the_decision_removes_every_checkpoint(perago_env: PeragoEnvironment) -> None:
    repository = await perago_env.repository()
    definition = part_by_part(fail_once_at(6, TaskFailed("no more memory")))
    await perago_env.run(definition, repository)
    assert await checkpoint_branches(repository) == []


async def test_a_failed_attempt_leaves_one_branch_that_is_not_the_target(
    perago_env: PeragoEnvironment,
) -> None:
    repository = await perago_env.repository()
    before = await repository.head()
    definition = part_by_part(fail_once_at(6, TaskFailed("no more memory")), retries=0)
    await perago_env.run(definition, repository)
    (branch,) = await checkpoint_branches(repository)
    kept = [path for path in await repository.files(branch) if path.startswith(".perago")]
    assert kept == [f".perago-checkpoint/part-{number}" for number in range(6)]
    assert await repository.head() == before


async def test_the_upload_is_what_changed_since_the_checkpoint_before(
    perago_env: PeragoEnvironment,
) -> None:
    repository = await perago_env.repository()
    step = fail_once_at_each({4: TaskFailed("first"), 7: TaskFailed("second")})
    await perago_env.run(part_by_part(step), repository)
    told = [story.facts_of(Phase.CHECKPOINTED) for story in perago_env.attempts]
    assert [facts.get("bytes") for facts in told] == [4 * PART_BYTES, 3 * PART_BYTES, None]
    assert [facts.get("reused") for facts in told] == [0, 4, None]
    assert [facts.get("checkpoint") for facts in told] == [1, 2, None]


async def test_the_older_branch_goes_with_the_first_checkpoint_of_the_next_attempt(
    perago_env: PeragoEnvironment,
) -> None:
    repository = await perago_env.repository()
    step = fail_once_at_each({4: TaskFailed("first"), 7: TaskFailed("second")})
    await perago_env.run(part_by_part(step, retries=1), repository)
    assert len(await checkpoint_branches(repository)) == 1


async def test_what_is_found_is_outside_of_the_workspace(perago_env: PeragoEnvironment) -> None:
    repository = await perago_env.repository()
    found: list[bool] = []

    def step(workspace: Path, number: int) -> None:
        resumed = perago.current_attempt().resumed_from
        if resumed is None and number == 2:
            raise TaskFailed("first")
        if resumed is not None:
            found.append(resumed.path.is_relative_to(workspace))
            assert resumed.taken_at.tzinfo is UTC

    await perago_env.run(part_by_part(step), repository)
    assert found
    assert not any(found)


async def test_a_first_attempt_finds_nothing_and_asks_nothing(
    perago_env: PeragoEnvironment,
) -> None:
    repository = await perago_env.repository()
    seen: list[object] = []

    def step(workspace: Path, number: int) -> None:
        del workspace, number
        seen.append(perago.current_attempt().resumed_from)

    await perago_env.run(part_by_part(step), repository)
    (story,) = perago_env.attempts
    assert seen == [None] * PARTS
    assert Phase.WENT_ON not in story.phases()


async def test_calls_within_the_interval_keep_nothing() -> None:
    kept: list[bool] = []

    @task(name="often", owner_email="data@example.com", workspace=WorkspaceSpec(prefix="data"))
    def often(workspace: Path, params: Params) -> Params:
        (workspace / "a").write_text("a")
        kept.extend(perago.current_attempt().checkpoint(workspace) for _ in range(3))
        return params

    with PeragoEnvironment(checkpoint_seconds=60) as env:
        await env.run(often, await env.repository())
    assert kept == [True, False, False]


async def test_a_checkpoint_that_cannot_be_uploaded_fails_nothing(
    perago_env: PeragoEnvironment,
) -> None:
    repository = await perago_env.repository()
    fail = fail_once_at(6, TaskFailed("no more memory"))

    def step(workspace: Path, number: int) -> None:
        if number == 6:  # what a file system that loses a file would do to the newest copy
            (beside(workspace) / "out" / "waiting" / "about.json").unlink(missing_ok=True)
        fail(workspace, number)

    run = await perago_env.run(part_by_part(step), repository)
    failed, retried = perago_env.attempts
    await perago_env.assert_completed(run)
    assert "a checkpoint was not uploaded" in str(failed.facts_of(Phase.WARNED)["warning"])
    assert failed.reason is not None
    assert "no more memory" in failed.reason
    assert retried.output["result"] == {"computed": list(range(PARTS))}


@pytest.mark.parametrize("refused", [True, False], ids=["terminal", "may be repeated"])
async def test_a_terminal_failure_uploads_nothing(
    perago_env: PeragoEnvironment,
    refused: bool,  # noqa: FBT001
) -> None:
    repository = await perago_env.repository()
    error = TaskTerminalError("wrong data") if refused else TaskFailed("no more memory")
    await perago_env.run(part_by_part(fail_once_at(6, error), retries=0), repository)
    assert len(await checkpoint_branches(repository)) == (0 if refused else 1)


def one_call(keep: Callable[[Path], object], **given: object) -> TaskDefinition:
    """A task that only asks for a checkpoint."""
    spec = WorkspaceSpec.model_validate({"prefix": "data", **given})

    @task(name="one", owner_email="data@example.com", workspace=spec)
    def one(workspace: Path, params: Params) -> Params:
        keep(workspace)
        return params

    return definition_of(one)


def checkpoint(path: Path, note: object = None) -> None:
    """Ask for one."""
    perago.current_attempt().checkpoint(path, note=note)


def linked(workspace: Path) -> None:
    """Ask for a directory with a symlink."""
    (workspace / "link").symlink_to("/etc/hostname")
    checkpoint(workspace)


REFUSALS: dict[str, tuple[Callable[[Path], object], dict[str, object], str]] = {
    "read-only": (checkpoint, {"read_only": True}, "no checkpoints here: the task is read-only"),
    "symlink": (linked, {}, "has the symlink link; a checkpoint holds files only"),
    "note": (
        lambda workspace: checkpoint(workspace, note="x" * 5000),
        {},
        "the note of a checkpoint has 5002 characters as JSON, expected at most 4000",
    ),
    "note of no JSON": (
        lambda workspace: checkpoint(workspace, note=object()),
        {},
        "the note of a checkpoint must be JSON",
    ),
    "nothing there": (
        lambda workspace: checkpoint(workspace / "absent"),
        {},
        "FileNotFoundError",
    ),
}


@pytest.mark.parametrize("case", REFUSALS.values(), ids=REFUSALS)
def test_what_cannot_be_kept_is_refused_by_the_call(
    case: tuple[Callable[[Path], object], dict[str, object], str],
) -> None:
    keep, given, text = case
    run = TaskEnvironment().run(one_call(keep, **given), {"a": "a"})
    assert run.reason is not None
    assert text in run.reason


async def test_without_the_fence_the_call_names_the_command() -> None:
    with PeragoEnvironment(policy="head-parent", fence=False) as env:
        await env.run(one_call(checkpoint), await env.repository())
    reasons = {str(story.reason) for story in env.attempts}
    (reason,) = reasons
    assert "run `perago fence install REPOSITORY BRANCH` [" in reason
    assert "PRG-B005" in reason


def test_a_task_without_a_workspace_is_refused() -> None:
    @task(name="free", owner_email="data@example.com")
    def free(params: Params) -> Params:
        checkpoint(Path(__file__))
        return params

    run = TaskEnvironment().run(free)
    assert "the task has no workspace" in str(run.reason)


def test_perago_run_takes_a_copy_and_completes() -> None:
    run = TaskEnvironment().run(one_call(checkpoint), {"a": "abc"})
    assert run.completed
    assert "checkpoint taken {'files': 1, 'bytes': 3}" in run.lines


def test_outside_of_a_worker_nothing_is_kept(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    attempt = perago.current_attempt()
    assert not attempt.checkpoint(tmp_path / "a", note=1)
    assert attempt.resumed_from is None


@pytest.mark.parametrize(
    "fault",
    [
        lose_answer("branches.create"),
        lose_answer("objects.upload"),
        lose_answer("commits.commit"),
        lose_answer("objects.list_page"),
        crash(after="objects.upload"),
        crash(after="commits.commit"),
        crash(after="complete"),
    ],
    ids=lambda fault: f"{type(fault).__name__} {fault.moment}",
)
async def test_faults_around_a_checkpoint_lose_no_more_than_it(
    perago_env: PeragoEnvironment, fault: Fault
) -> None:
    repository = await perago_env.repository()
    perago_env.plan(fault)
    run = await perago_env.run(part_by_part(fail_once_at(6, TaskFailed("no"))), repository)
    await perago_env.assert_completed(run)
    assert perago_env.pending_faults == ()
    assert await checkpoint_branches(repository) == []
    files = await repository.files()
    assert sum(path.startswith("data/parts/") for path in files) == PARTS
