"""`current_attempt().changes()`: what others changed since the task published last."""

from pathlib import Path

import pytest
from pydantic import BaseModel
from tests.unit.app.attempt.attempt_harness import AttemptHarness
from tests.unit.app.runs.run_harness import RunHarness, write_step

from perago import Changes, WorkspaceSpec, current_attempt, task
from perago.app.attempt import task_function
from perago.domain.errors import ChangesRefusedError
from perago.domain.policy import PolicySetting
from perago.domain.run import History
from perago.testing import PeragoEnvironment, Repository, TaskEnvironment

FILES: dict[str, bytes | str] = {"data/a": "1", "data/b": "1", "data/c": "1", "elsewhere/x": "1"}
ACTION = """
name: theirs
on:
  post-merge:
    branches: [another]
hooks:
  - id: say
    type: lua
    properties:
      script: print("merged")
"""
SEEN: list[Changes | None] = []


class Params(BaseModel):
    """Nothing to say."""


class Counted(BaseModel):
    """Whether everything was done."""

    everything: bool


@task(name="index", owner_email="data@example.com", workspace=WorkspaceSpec(prefix="data"))
def index(workspace: Path, params: Params) -> Counted:
    """Write an index, and ask twice."""
    del params
    SEEN.append(current_attempt().changes())
    assert current_attempt().changes() is SEEN[-1]
    (workspace / "index").write_text(f"index {len(SEEN)}")
    return Counted(everything=SEEN[-1] is None)


@task(name="read", owner_email="data@example.com", workspace=WorkspaceSpec(read_only=True))
def read(workspace: Path, params: Params) -> Counted:
    """Ask in a task that never publishes."""
    del workspace, params
    return Counted(everything=current_attempt().changes() is None)


@pytest.fixture(autouse=True)
def _nothing_seen() -> None:
    SEEN.clear()


async def _run(env: PeragoEnvironment, repository: Repository) -> Changes | None:
    run = await env.run(index, repository)
    await env.assert_completed(run)
    return SEEN[-1]


@pytest.mark.parametrize("policy", ["settled", "head-parent", "lineage"])
async def test_only_what_others_changed_since_the_last_publication_is_new(policy: str) -> None:
    with PeragoEnvironment(policy=policy) as env:
        repository = await env.repository(files=FILES)
        assert await _run(env, repository) is None, "it has published nothing before"
        published = (await repository.head()).commit
        await repository.commit(
            {"data/a": "2", "data/b": None, "data/new": "1", "elsewhere/x": "2"}
        )
        assert await _run(env, repository) == Changes(published, ("new",), ("a",), ("b",))
        second = (await repository.head()).commit
        assert await _run(env, repository) == Changes(second, (), (), ())


async def test_what_is_reserved_is_no_change_of_the_workspace() -> None:
    """A directory never shows it, so a task function could not find what it was told of."""

    @task(name="whole", owner_email="data@example.com", workspace=WorkspaceSpec())
    def whole(workspace: Path, params: Params) -> Counted:
        return index(workspace, params)

    with PeragoEnvironment() as env:
        repository = await env.repository(files=FILES)
        await env.run(whole, repository)
        await repository.commit({"_lakefs_actions/theirs.yaml": ACTION, "data/a": "2"})
        await env.run(whole, repository)
        assert SEEN[0] is None
        assert SEEN[1] is not None
        assert (SEEN[1].added, SEEN[1].changed) == ((), ("data/a",))


def test_outside_of_a_worker_and_in_a_single_run_everything_is_to_do(tmp_path: Path) -> None:
    assert index(tmp_path, Params()).everything
    done = TaskEnvironment().run(index, {"data/a": "1"})
    assert done.result == {"everything": True}
    read_only = TaskEnvironment().run(read, {"a": "1"})
    assert read_only.result == {"everything": True}


@pytest.mark.parametrize("history", History)
async def test_what_a_task_published_in_a_run_is_found_behind_the_commit_of_the_run(
    tmp_path: Path, history: History
) -> None:
    seen: list[tuple[str, Changes | None]] = []

    def ask(workspace: Path, run: int) -> None:
        seen.append((current_attempt().reference_name, current_attempt().changes()))
        write_step(workspace, run)

    harness = await RunHarness(tmp_path, body=ask, history=history).started()
    await harness.until(None)
    harness.repository.commit({"data/human": b"1"})
    await harness.start()
    await harness.until(None)
    assert [name for name, _ in seen] == ["one", "two", "one", "two"]
    (_, first), (_, second) = seen[2:]
    if history is History.SQUASH:
        assert (first, second) == (None, None)
        return
    assert first is not None
    assert (first.added, first.changed, first.removed) == (("human", "step-2"), ("kept.txt",), ())
    assert second is not None
    assert (second.added, second.changed) == (("human", "step-3"), ("kept.txt",))


async def test_two_requests_answer_and_a_function_that_does_not_ask_costs_none(
    tmp_path: Path,
) -> None:
    def ask(workspace: Path, run: int) -> None:
        if run > 1:
            current_attempt().changes()
        (workspace / "out").write_text(str(run))

    harness = await AttemptHarness(tmp_path, PolicySetting.SETTLED, body=ask).started()
    await harness.report()
    harness.input = harness.repository.head().commit
    await harness.start()
    await harness.report()
    more = harness.requests(1) - harness.requests(0)
    asked = {name: count for name, count in more.items() if not name.startswith("objects.")}
    assert asked == {"commits.first_parents": 1, "commits.diff_page": 1}


async def test_a_difference_that_is_too_large_for_a_message_means_everything(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(task_function, "PATHS_MAX", 2)
    with PeragoEnvironment() as env:
        repository = await env.repository(files=FILES)
        await _run(env, repository)
        await repository.commit({f"data/{number}": "1" for number in range(3)})
        assert await _run(env, repository) is None


async def test_a_check_is_refused_because_its_view_shows_the_changes() -> None:
    def ask(view: object) -> None:
        del view
        current_attempt().changes()

    spec = WorkspaceSpec(prefix="data", checks=[ask])

    @task(name="checked", owner_email="data@example.com", workspace=spec)
    def checked(workspace: Path, params: Params) -> Counted:
        (workspace / "out").write_text(str(params))
        return Counted(everything=True)

    with PeragoEnvironment() as env:
        await env.run(checked, await env.repository(files=FILES))
        assert "a check is shown what changed by its view [ChangesRefusedError PRG-B007]" in (
            env.attempts[0].reason or ""
        )


async def test_a_task_without_a_workspace_is_refused() -> None:
    @task(name="free", owner_email="data@example.com")
    def free(params: Params) -> Counted:
        del params
        return Counted(everything=current_attempt().changes() is None)

    with PeragoEnvironment() as env:
        await env.run(free)
        refused = ChangesRefusedError.because("the task has no workspace")
        assert f"{refused} [ChangesRefusedError PRG-B007]" in (env.attempts[0].reason or "")


def test_a_refusal_says_why() -> None:
    error = ChangesRefusedError.because("the task has no workspace")
    assert str(error) == "what changed cannot be said: the task has no workspace"
