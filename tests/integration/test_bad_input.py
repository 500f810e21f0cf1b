"""Bad input on the real servers: a clear reason, and nothing on the target or in its tags moves."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.contract.real_lakefs import RealLakeFS
from tests.integration.attempt_scene import AttemptScene

from perago.domain.attempt import AttemptStatus
from perago.domain.lakefs import BranchName
from perago.domain.policy import PolicySetting
from perago.ports.installations import ConductorInstallation
from perago.testing.contract.lakefs_under_test import MAIN
from perago.testing.faults import crash

pytestmark = [pytest.mark.lakefs, pytest.mark.conductor]

SIDE = BranchName("side")
ROWS: list[tuple[str, Callable[[AttemptScene], object], str]] = [
    ("null workspace", lambda _: None, "the upstream output was null"),
    ("unknown repository", lambda s: s.workspace(repository="nowhere"), "nowhere"),
    ("unknown branch", lambda s: s.workspace(branch="nobranch"), "nobranch"),
    ("unknown ref", lambda s: s.workspace(ref="f" * 64), "f" * 64),
    ("a branch instead of a commit", lambda s: s.workspace(ref=MAIN), "is not a commit id"),
    ("half a commit id", lambda s: s.workspace(ref=s.input[:16]), "is not a commit id"),
    ("both spellings differ", lambda s: s.workspace(ref_type="branch"), "ref"),
]


@pytest.mark.parametrize(
    ("given", "reason"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
async def test_bad_input_fails_before_the_body_and_changes_nothing(
    lakefs: RealLakeFS,
    conductor: ConductorInstallation,
    tmp_path: Path,
    given: Callable[[AttemptScene], object],
    reason: str,
) -> None:
    scene = AttemptScene(lakefs, conductor, tmp_path, PolicySetting.SETTLED)
    await scene.create()
    await scene.start(given(scene))

    assert reason in await scene.failed()

    assert scene.runs == 0
    assert await scene.head() == scene.input
    assert await scene.branches() == {MAIN}
    assert (await lakefs.tags.list_page(scene.repository, "perago-")).items == ()


@pytest.mark.parametrize("policy", [PolicySetting.HEAD_PARENT, PolicySetting.LINEAGE], ids=str)
async def test_a_head_without_parents_is_no_abandoned_publication(
    lakefs: RealLakeFS, conductor: ConductorInstallation, tmp_path: Path, policy: PolicySetting
) -> None:
    scene = AttemptScene(lakefs, conductor, tmp_path, policy)
    scene.repository = await lakefs.create_repository()
    root = await scene.head()
    assert (await lakefs.commits.read(scene.repository, root)).parents == ()
    await lakefs.branches.create(scene.repository, SIDE, root)
    files: dict[str, bytes | None] = {"data/old.txt": b"old"}
    scene.input = await lakefs.commit_files(scene.repository, SIDE, files)
    await scene.start()

    assert f"input ref {scene.input}" in await scene.failed()

    assert await scene.head() == root
    assert await scene.branches() == {MAIN, SIDE}


async def test_a_decision_tag_of_another_input_is_refused_and_kept(
    lakefs: RealLakeFS, conductor: ConductorInstallation, tmp_path: Path
) -> None:
    scene = AttemptScene(lakefs, conductor, tmp_path, PolicySetting.SETTLED)
    await scene.create()
    await scene.start()
    assert await scene.attempt(crash(after="decide")) is None
    (tag,) = (await lakefs.tags.list_page(scene.repository, "perago-settled-")).items
    await lakefs.tags.delete(scene.repository, tag.name)
    await lakefs.tags.create(scene.repository, tag.name, scene.input)

    reason = await scene.failed(AttemptStatus.FAILED_WITH_TERMINAL_ERROR)

    assert "PRG-F006" in reason
    assert "perago reset-task" in reason
    assert await scene.head() == scene.input
    assert await lakefs.tags.read(scene.repository, tag.name) == scene.input
    assert scene.runs == 1
