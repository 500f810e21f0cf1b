"""Many publishers, one branch, a real lakeFS: how many win, and what the history says."""

from pathlib import Path

import pytest
from tests.contract.real_lakefs import RealLakeFS
from tests.integration.racing_attempts import Race

from perago.app.authoring.workspace_spec import WorkspaceSpec
from perago.domain.commit_metadata import LOGICAL_TASK_KEY
from perago.domain.errors import PublishFenceError, StaleAttemptError
from perago.domain.fence import FENCE_FILE
from perago.domain.lakefs import CommitId, CommitRecord, RepositoryId
from perago.domain.paths import FENCE_PATH
from perago.domain.policy import PolicySetting
from perago.testing.contract.lakefs_under_test import MAIN

pytestmark = [pytest.mark.lakefs, pytest.mark.timeout(900)]

PUBLISHERS = 8


@pytest.fixture(
    params=[pytest.param(10, id="short"), pytest.param(50, id="full", marks=pytest.mark.soak)]
)
def rounds(request: pytest.FixtureRequest) -> int:
    """How many races; `make soak` runs the full form."""
    return int(request.param)


def _race(lakefs: RealLakeFS, root: Path, policy: PolicySetting) -> Race:
    return Race(lakefs.installation(), root, policy)


async def _above(
    lakefs: RealLakeFS, repository: RepositoryId, ref: CommitId
) -> tuple[CommitRecord, ...]:
    walk = await lakefs.commits.first_parents(repository, MAIN, ref, commits_max=100)
    assert walk.reached
    return walk.above


@pytest.mark.parametrize("workflows", [1, PUBLISHERS], ids=["one execution", "eight executions"])
async def test_settled_publishes_once_a_round(
    lakefs: RealLakeFS, tmp_path: Path, workflows: int, rounds: int
) -> None:
    """Half the rounds race within one execution, half between executions of eight workflows."""
    race = _race(lakefs, tmp_path, PolicySetting.SETTLED)
    repository = await lakefs.create_repository()
    head = await lakefs.commit_files(repository, MAIN, {FENCE_PATH: FENCE_FILE, "data/a": b"a"})
    for _ in range(rounds // 2):
        records = await race.attempts(repository, head, workflows=workflows, racers=PUBLISHERS)
        reports = await race.run(records)

        above = await _above(lakefs, repository, head)
        assert len(above) == 1
        published = above[0]
        assert published.parents == (head,)
        for report in reports:
            if report.error is None:
                assert report.update is not None
                place = report.update.output["workspace"]
                assert isinstance(place, dict)
                assert place["ref"] == published.commit
            else:
                # Refused by the target, or the attempt it shares was completed by a faster one.
                refused = PublishFenceError if workflows > 1 else StaleAttemptError
                assert isinstance(report.error, refused), report.error
        answered = sum(report.error is None for report in reports)
        assert answered == 1 or (workflows == 1 and answered > 1)
        head = published.commit


async def test_head_parent_without_the_fence_has_several_winners(
    lakefs: RealLakeFS, tmp_path: Path, rounds: int
) -> None:
    """Not a law: the figure that the fence is worth, printed for the documents."""
    race = _race(lakefs, tmp_path, PolicySetting.HEAD_PARENT)
    repository = await lakefs.create_repository()
    head = await lakefs.commit_files(repository, MAIN, {"data/a": b"a"})
    several = winners = 0
    for _ in range(rounds):
        records = await race.attempts(repository, head, workflows=PUBLISHERS, racers=PUBLISHERS)
        files = [f"out-{number}.txt" for number in range(PUBLISHERS)]
        await race.run(records, files=files)
        above = await _above(lakefs, repository, head)
        owners = [record for record in above if LOGICAL_TASK_KEY in record.metadata]
        winners += len(owners)
        several += len(owners) > 1
        head = above[0].commit
    print(f"\nhead-parent without fence: {several} of {rounds} rounds had several winners")  # noqa: T201
    print(f"publications in all: {winners}")  # noqa: T201
    assert winners >= rounds


async def test_prefixes_of_one_branch_are_published_side_by_side(
    lakefs: RealLakeFS, tmp_path: Path, rounds: int
) -> None:
    race = _race(lakefs, tmp_path, PolicySetting.SETTLED)
    repository = await lakefs.create_repository()
    files = {f"part{number}/a": b"a" for number in range(PUBLISHERS)}
    head = await lakefs.commit_files(repository, MAIN, {FENCE_PATH: FENCE_FILE, **files})
    for _ in range(rounds * 2 // 5):
        records = await race.attempts(repository, head, workflows=PUBLISHERS, racers=PUBLISHERS)
        specs = [
            WorkspaceSpec(prefix=f"part{number}", isolation="prefix")
            for number in range(PUBLISHERS)
        ]
        reports = await race.run_each(records, specs)

        assert [report.error for report in reports] == [None] * PUBLISHERS
        above = await _above(lakefs, repository, head)
        assert len(above) == PUBLISHERS
        for number in range(PUBLISHERS):
            content = await lakefs.objects.read(repository, MAIN, f"part{number}/out.txt")
            assert content.startswith(f"racer {number} ".encode())
        await _assert_an_overlap_is_refused(race, repository, head)
        assert await _above(lakefs, repository, head) == above
        head = above[0].commit


async def _assert_an_overlap_is_refused(
    race: Race, repository: RepositoryId, head: CommitId
) -> None:
    """A ninth task on a prefix that was published since its input fails closed."""
    records = await race.attempts(repository, head, workflows=1, racers=1)
    spec = WorkspaceSpec(prefix="part3", isolation="prefix")
    (ninth,) = await race.run_each(records, [spec])
    assert isinstance(ninth.error, PublishFenceError), ninth.error
