"""A protected target branch: merges pass, relocations do not, and each policy ends accordingly."""

from pathlib import Path

import pytest
from tests.contract.real_lakefs import RealLakeFS
from tests.integration.attempt_scene import AttemptScene

from perago.domain.commit_metadata import SUPERSEDES
from perago.domain.policy import PolicySetting
from perago.ports.installations import ConductorInstallation
from perago.testing.contract.lakefs_under_test import MAIN
from perago.testing.faults import crash

pytestmark = [pytest.mark.lakefs, pytest.mark.conductor]

SETTLED, LINEAGE, PLAIN = (
    PolicySetting.SETTLED,
    PolicySetting.LINEAGE,
    PolicySetting.HEAD_PARENT,
)


async def _protected(scene: AttemptScene) -> AttemptScene:
    await scene.create()
    await scene.lakefs.protect(scene.repository, MAIN)
    await scene.start()
    return scene


@pytest.mark.parametrize("policy", [SETTLED, LINEAGE, PLAIN], ids=str)
async def test_a_first_publication_passes(
    lakefs: RealLakeFS, conductor: ConductorInstallation, tmp_path: Path, policy: PolicySetting
) -> None:
    scene = await _protected(AttemptScene(lakefs, conductor, tmp_path, policy))

    assert await scene.completed() == await scene.head() != scene.input
    assert (await scene.files())["data/out.txt"] == b"run 1"


async def test_a_retry_under_settled_adopts_what_its_predecessor_published(
    lakefs: RealLakeFS, conductor: ConductorInstallation, tmp_path: Path
) -> None:
    scene = await _protected(AttemptScene(lakefs, conductor, tmp_path, SETTLED))
    assert await scene.attempt(crash(after="merge")) is None
    published = await scene.head()

    assert await scene.completed() == published == await scene.head()
    assert scene.runs == 1


async def test_a_retry_under_lineage_publishes_on_top_of_its_predecessor(
    lakefs: RealLakeFS, conductor: ConductorInstallation, tmp_path: Path
) -> None:
    scene = await _protected(AttemptScene(lakefs, conductor, tmp_path, LINEAGE))
    assert await scene.attempt(crash(after="merge")) is None
    abandoned = await scene.head()

    published = await scene.completed()

    record = await lakefs.commits.read(scene.repository, published)
    assert record.parents == (abandoned,)
    assert record.metadata[SUPERSEDES] == abandoned
    assert (await scene.files())["data/out.txt"] == b"run 2"


async def test_a_replacement_under_head_parent_names_the_protection_and_the_remedy(
    lakefs: RealLakeFS, conductor: ConductorInstallation, tmp_path: Path
) -> None:
    scene = await _protected(AttemptScene(lakefs, conductor, tmp_path, PLAIN))
    assert await scene.attempt(crash(after="merge")) is None
    abandoned = await scene.head()

    reason = await scene.failed()

    assert "PRG-F014" in reason
    assert "main is protected" in reason
    assert "perago fence install" in reason
    assert await scene.head() == abandoned
    assert scene.runs == 2
