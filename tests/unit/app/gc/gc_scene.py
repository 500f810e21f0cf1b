"""Passes of garbage collection over a fault world, and what they leave."""

from collections.abc import Sequence
from datetime import timedelta

from tests.unit.app.attempt.fault_world import FaultWorld

from perago.app.gc.judging import GcTools, Judged
from perago.app.gc.remote_pass import RemotePass
from perago.domain.lakefs import RepositoryId
from perago.domain.retention import RetentionTimes
from perago.testing.faults import Fault, crash

NOW = timedelta(0)
AT_ONCE = RetentionTimes(NOW, NOW, NOW, NOW, NOW, NOW)
HOUR = 3600
DAY = 24 * HOUR


async def collect(
    world: FaultWorld,
    *,
    dry_run: bool = False,
    times: RetentionTimes = AT_ONCE,
    faults: Sequence[Fault] = (),
    repository: str = "repo",
) -> list[Judged]:
    """One pass over the world's repository, by a worker of its own."""
    ports = world.worker(faults).world
    tools = GcTools(
        ports.lakefs.branches, ports.lakefs.commits, ports.lakefs.tags, ports.queue, ports.clock
    )
    one_pass = RemotePass(tools, RepositoryId(repository), times, dry_run)
    return await world.drive(one_pass.run())


def litter(world: FaultWorld) -> list[str]:
    """Every branch and tag of ours."""
    names = [*world.repository.branch_names(), *world.repository.tags()]
    return [name for name in names if name.startswith("perago-")]


def staging_branches(world: FaultWorld) -> list[str]:
    """Staging branches, scratch branches included."""
    return sorted(name for name in litter(world) if name.startswith("perago-staging-"))


def decisions(world: FaultWorld) -> list[str]:
    """Decision tags."""
    return sorted(name for name in litter(world) if name.startswith("perago-settled-"))


async def decide_and_die(world: FaultWorld) -> None:
    """The first attempt dies right after its decision."""
    await world.start()
    await world.attempt(world.worker([crash(after="tags.create")]))
    assert len(decisions(world)) == len(staging_branches(world)) == 1
