"""What an attempt tells before it acts: names that garbage collection and people look for."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.attempt_workers import AttemptWorker
from tests.unit.app.attempt.attempt_harness import TASK, AttemptHarness, Params, Result

from perago.app.authoring.task_declaration import task
from perago.app.authoring.task_definition import PublishBudget, TaskControls
from perago.app.authoring.workspace_spec import WorkspaceSpec
from perago.domain.commit_metadata import LEVEL, POLICY
from perago.domain.names import STAGING_BRANCH_PREFIX
from perago.domain.policy import PolicySetting
from perago.ports.workspace import Phase
from perago.testing.faults import Crash, Moment, Side, crash, meanwhile


def _told(worker: AttemptWorker, phase: Phase) -> list[Mapping[str, object]]:
    return [facts for told, facts in worker.progress.events if told is phase]


@pytest.mark.parametrize("side", list(Side), ids=str)
async def test_the_staging_branch_is_named_before_it_is_there(tmp_path: Path, side: Side) -> None:
    harness = await AttemptHarness(tmp_path, PolicySetting.SETTLED).started()
    worker = harness.worker([Crash(Moment("branch", side))])

    await harness.attempt(worker)

    (named,) = _told(worker, Phase.STAGING)
    assert named["repository"] == "repo"
    (marker,) = harness.root.rglob(".perago-attempt.json")
    assert str(named["branch"]) in marker.read_text(encoding="utf-8")
    left = {str(named["branch"])} if side is Side.AFTER else set[str]()
    assert harness.repository.branch_names() - {"main"} == left


async def test_a_scratch_branch_is_found_by_the_name_of_its_staging_branch(tmp_path: Path) -> None:
    harness = await AttemptHarness(tmp_path, PolicySetting.LINEAGE).started()
    await harness.attempt(harness.worker([crash(after="merge")]))
    await harness.lose_lease()
    worker = harness.worker([crash(after="branch", nth=2)])

    await harness.attempt(worker)

    (named,) = _told(worker, Phase.STAGING)
    (scratch,) = (name for name in harness.repository.branch_names() if "-onto-" in name)
    assert scratch.startswith(f"{named['branch']}-onto-")
    assert scratch.startswith(STAGING_BRANCH_PREFIX)


@pytest.mark.parametrize("fenced", [True, False], ids=["fence", "no fence"])
async def test_the_level_in_force_is_in_the_log_and_on_both_commits(
    tmp_path: Path,
    fenced: bool,  # noqa: FBT001 - a row of the table
) -> None:
    harness = await AttemptHarness(tmp_path, PolicySetting.HEAD_PARENT, fenced).started()
    levels: list[str] = []

    def look() -> None:
        (staging,) = harness.repository.branch_names() - {"main"}
        levels.append(harness.repository.head(staging).metadata[LEVEL])

    worker = harness.worker([meanwhile(look, before="merge")])

    await harness.attempt(worker)

    level = "head-parent+fence" if fenced else "head-parent"
    assert levels == [level]
    assert harness.repository.head().metadata[LEVEL] == level
    assert harness.repository.head().metadata[POLICY] == "head-parent"
    (policy,) = _told(worker, Phase.POLICY)
    assert policy["level"] == level


@pytest.mark.parametrize(("seconds", "warned"), [(14, True), (15, False)])
@pytest.mark.parametrize("isolation", ["branch", "prefix"])
async def test_a_short_budget_under_prefix_isolation_is_warned_of(
    tmp_path: Path,
    isolation: str,
    seconds: int,
    warned: bool,  # noqa: FBT001 - a row of the table
) -> None:
    spec = WorkspaceSpec.model_validate({"prefix": "data", "isolation": isolation})
    harness = AttemptHarness(tmp_path, PolicySetting.SETTLED, spec=spec)
    budget = PublishBudget(
        observed_merge_p99_seconds=1,
        safety_margin_seconds=1,
        lakefs_merge_timeout_seconds=seconds,
        conductor_completion_timeout_seconds=10,
        worker_shutdown_grace_seconds=1,
        heartbeat_interval_seconds=1,
    )

    @task(
        name=TASK,
        owner_email="data@example.com",
        workspace=spec,
        controls=TaskControls(publish_budget=budget),
    )
    def edit(workspace: Path, params: Params) -> Result:
        (workspace / "out.txt").write_text(params.text)
        return Result(run=1)

    harness.task = vars(edit)["__perago_task__"]
    await harness.start()
    worker = harness.worker()

    await harness.attempt(worker)

    assert bool(_told(worker, Phase.WARNED)) is (warned and isolation == "prefix")
