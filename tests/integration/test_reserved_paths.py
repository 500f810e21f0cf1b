"""Prefix `/` on a real lakeFS: the fence is not the workspace's, whatever a body does."""

import shutil
from pathlib import Path

import pytest
from tests.contract.real_lakefs import RealLakeFS
from tests.integration.attempt_scene import AttemptScene

from perago.app.authoring.workspace_spec import WorkspaceSpec
from perago.app.fence.trust import refuses_wrong_head
from perago.domain.fence import FENCE_FILE
from perago.domain.paths import FENCE_PATH
from perago.domain.policy import PolicySetting
from perago.ports.installations import ConductorInstallation
from perago.testing.contract.lakefs_under_test import MAIN

pytestmark = [pytest.mark.lakefs, pytest.mark.conductor]

POLICIES = [PolicySetting.SETTLED, PolicySetting.HEAD_PARENT, PolicySetting.LINEAGE]
WHOLE = WorkspaceSpec(prefix="/")


def _delete_everything(workspace: Path, _run: int) -> None:
    found = {path.name for path in workspace.iterdir() if not path.name.startswith(".perago-")}
    assert found == {"data", "elsewhere"}, "the reserved folder is not materialised"
    for name in found:
        shutil.rmtree(workspace / name)


def _write_an_action(workspace: Path, _run: int) -> None:
    (workspace / "_lakefs_actions").mkdir()
    (workspace / "_lakefs_actions/mine.yaml").write_text("name: mine")


@pytest.mark.parametrize("policy", POLICIES, ids=str)
async def test_a_body_that_deletes_everything_leaves_the_fence_working(
    lakefs: RealLakeFS, conductor: ConductorInstallation, tmp_path: Path, policy: PolicySetting
) -> None:
    scene = AttemptScene(lakefs, conductor, tmp_path, policy, WHOLE, _delete_everything)
    await scene.create()
    await scene.start()

    published = await scene.completed()

    assert await scene.files() == {FENCE_PATH: FENCE_FILE}
    assert await refuses_wrong_head(lakefs.fence_tools, scene.repository, published)


@pytest.mark.parametrize("policy", POLICIES, ids=str)
async def test_a_body_that_writes_there_fails_with_the_object_named(
    lakefs: RealLakeFS, conductor: ConductorInstallation, tmp_path: Path, policy: PolicySetting
) -> None:
    scene = AttemptScene(lakefs, conductor, tmp_path, policy, WHOLE, _write_an_action)
    await scene.create()
    await scene.start()

    assert "_lakefs_actions/mine.yaml" in await scene.failed()

    assert await scene.head() == scene.input
    assert await scene.branches() == {MAIN}
