"""What an attempt tells before it acts: names that garbage collection and people look for."""

from pathlib import Path

import pytest
from tests.unit.app.attempt.attempt_scene import TASK, AttemptScene, Params, Result, told

from perago.app.authoring.task_declaration import task
from perago.app.authoring.task_definition import PublishBudget, TaskControls
from perago.app.authoring.workspace_spec import WorkspaceSpec
from perago.domain.commit_metadata import LEVEL, POLICY
from perago.domain.names import STAGING_BRANCH_PREFIX
from perago.domain.policy import PolicySetting
from perago.ports.workspace import Phase
from perago.testing.faults import Crash, Moment, Side, crash, meanwhile


@pytest.mark.parametrize("side", list(Side), ids=str)
async def test_the_staging_branch_is_named_before_it_is_there(tmp_path: Path, side: Side) -> None:
    scene = await AttemptScene(tmp_path, PolicySetting.SETTLED).started()

    story = await scene.next_attempt(Crash(Moment("branch", side)))

    (named,) = told(story, Phase.STAGING)
    assert named["repository"] == "repo"
    (marker,) = scene.directories()
    assert str(named["branch"]) in marker.read_text(encoding="utf-8")
    left = {str(named["branch"])} if side is Side.AFTER else set[str]()
    assert scene.repository.branch_names() - {"main"} == left


async def test_a_scratch_branch_is_found_by_the_name_of_its_staging_branch(tmp_path: Path) -> None:
    scene = await AttemptScene(tmp_path, PolicySetting.LINEAGE).started()
    await scene.next_attempt(crash(after="merge"))

    story = await scene.next_attempt(crash(after="branch", nth=2))

    (named,) = told(story, Phase.STAGING)
    (scratch,) = (name for name in scene.repository.branch_names() if "-onto-" in name)
    assert scratch.startswith(f"{named['branch']}-onto-")
    assert scratch.startswith(STAGING_BRANCH_PREFIX)


@pytest.mark.parametrize("fenced", [True, False], ids=["fence", "no fence"])
async def test_the_level_in_force_is_in_the_log_and_on_both_commits(
    tmp_path: Path,
    fenced: bool,  # noqa: FBT001 - a row of the table
) -> None:
    scene = await AttemptScene(tmp_path, PolicySetting.HEAD_PARENT, fenced).started()
    levels: list[str] = []

    def look() -> None:
        (staging,) = scene.repository.branch_names() - {"main"}
        levels.append(scene.repository.head(staging).metadata[LEVEL])

    story = await scene.next_attempt(meanwhile(look, before="merge"))

    level = "head-parent+fence" if fenced else "head-parent"
    assert levels == [level]
    assert scene.repository.head().metadata[LEVEL] == level
    assert scene.repository.head().metadata[POLICY] == "head-parent"
    (policy,) = told(story, Phase.POLICY)
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
    scene = AttemptScene(tmp_path, PolicySetting.SETTLED, spec=spec)
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

    scene.task = vars(edit)["__perago_task__"]
    await scene.start()

    story = await scene.next_attempt()

    assert bool(told(story, Phase.WARNED)) is (warned and isolation == "prefix")
