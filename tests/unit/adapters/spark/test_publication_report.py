"""Which commits of a branch are publications, and of which kind: taken from real attempts."""

from pathlib import Path

import pytest
from tests.unit.app.attempt.attempt_harness import AttemptHarness
from tests.unit.app.attempt.attempt_scene import assert_accepted

from perago.adapters.memory.installations import RepositoryBuilder, lakefs_installation
from perago.adapters.memory.lakefs import MemoryLakeFS
from perago.adapters.memory.system import WorkerHandle
from perago.adapters.spark.publication_report import history_of, publication_row, was_adopted
from perago.domain.lakefs import CommitId
from perago.domain.policy import PolicySetting
from perago.ports.workspace import WorkspaceSource
from perago.testing.faults import Fault, crash

HEAD_PARENT, LINEAGE, SETTLED = (
    PolicySetting.HEAD_PARENT,
    PolicySetting.LINEAGE,
    PolicySetting.SETTLED,
)


async def kinds(harness: AttemptHarness, *faults: Fault) -> list[tuple[object, bool, bool]]:
    """Policy, retried and replaced of each publication, oldest first."""
    await harness.start()
    if faults:
        await harness.attempt(harness.worker(faults))
        await harness.lose_lease()
    await harness.finish()
    await assert_accepted(harness, publications_max=2)
    harness.human()  # a commit of somebody else is no publication
    rows = [publication_row(record) for record in reversed(harness.repository.history())]
    found = [row for row in rows if row is not None]
    assert {(row[2], row[3]) for row in found} == {("edit", harness.workflow)}
    return [(row[4], bool(row[5]), bool(row[6])) for row in found]


@pytest.mark.parametrize("policy", [HEAD_PARENT, LINEAGE, SETTLED], ids=str)
async def test_a_first_attempt_is_neither_a_retry_nor_a_replacement(
    tmp_path: Path, policy: PolicySetting
) -> None:
    assert await kinds(AttemptHarness(tmp_path, policy)) == [(policy.value, False, False)]


@pytest.mark.parametrize(
    ("policy", "found"),
    [
        (HEAD_PARENT, [("head-parent", True, True)]),
        (LINEAGE, [("lineage", False, False), ("lineage", True, True)]),
        (SETTLED, [("settled", False, False)]),
    ],
    ids=str,
)
async def test_a_retry_after_a_lost_publication_shows_as_what_its_policy_made_of_it(
    tmp_path: Path, policy: PolicySetting, found: list[tuple[object, bool, bool]]
) -> None:
    """Relocated, superseded, or finished without a second commit."""
    assert await kinds(AttemptHarness(tmp_path, policy), crash(after="merge")) == found


async def test_a_decision_that_a_retry_published_is_an_adoption(tmp_path: Path) -> None:
    healthy = AttemptHarness(tmp_path / "healthy", SETTLED)
    await kinds(healthy)
    harness = AttemptHarness(tmp_path / "struck", SETTLED)
    assert await kinds(harness, crash(after="tags.create")) == [("settled", True, False)]
    for played, adopted in ((healthy, False), (harness, True)):
        rows = [publication_row(record) for record in played.repository.history()]
        (row,) = [row for row in rows if row is not None]
        installation = lakefs_installation(played.lakefs, WorkerHandle())
        target = WorkspaceSource(played.repository.id, CommitId("main"), "/")
        assert await was_adopted(installation, target, row) is adopted


@pytest.mark.parametrize("commits", [0, 3])
async def test_a_history_goes_down_to_the_first_commit(commits: int) -> None:
    repository = RepositoryBuilder(MemoryLakeFS(), "songs")
    for number in range(commits):
        repository.commit({"a": str(number).encode()})
    source = WorkspaceSource(repository.id, repository.head().commit, "/")
    found = await history_of(lambda: lakefs_installation(repository.lakefs, WorkerHandle()), source)
    assert [*found] == repository.history()
    assert len(found) == commits + 1
