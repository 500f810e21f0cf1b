"""Passes of garbage collection over a harness with faults, and what they leave."""

from collections.abc import Sequence
from datetime import timedelta

from tests.unit.app.attempt.attempt_harness import AttemptHarness
from tests.unit.app.attempt.attempt_scene import AttemptScene

from perago.app.gc.judging import Judged
from perago.app.gc.remote_pass import RemotePass
from perago.domain.lakefs import RepositoryId
from perago.domain.retention import RetentionTimes
from perago.testing.faults import Fault, crash

NOW = timedelta(0)
AT_ONCE = RetentionTimes(NOW, NOW, NOW, NOW, NOW, NOW)
HOUR = 3600
DAY = 24 * HOUR


async def collect(
    harness: AttemptHarness,
    *,
    dry_run: bool = False,
    times: RetentionTimes = AT_ONCE,
    faults: Sequence[Fault] = (),
    repository: str = "repo",
) -> list[Judged]:
    """One pass over the harness's repository, by a worker of its own."""
    ports, name = harness.worker(faults).harness, RepositoryId(repository)
    one_pass = RemotePass(ports.lakefs, ports.queue, ports.clock, name, times, dry_run)
    return await harness.drive(one_pass.run())


def litter(scene: AttemptScene) -> list[str]:
    """Every branch and tag of ours."""
    names = [*scene.repository.branch_names(), *scene.repository.tags()]
    return [name for name in names if name.startswith("perago-")]


def staging_branches(scene: AttemptScene) -> list[str]:
    """Staging branches, scratch branches included."""
    return sorted(name for name in litter(scene) if name.startswith("perago-staging-"))


def decisions(scene: AttemptScene) -> list[str]:
    """Decision tags."""
    return sorted(name for name in litter(scene) if name.startswith("perago-settled-"))


async def decide_and_die(harness: AttemptHarness) -> None:
    """The first attempt dies right after its decision."""
    await harness.start()
    await harness.attempt(harness.worker([crash(after="tags.create")]))
    assert len(decisions(harness)) == len(staging_branches(harness)) == 1
