"""How many questions a join asks, and what ends it early."""

import asyncio
import random
from dataclasses import dataclass, field

import pytest

from perago.adapters.memory.installations import RepositoryBuilder, lakefs_installation
from perago.adapters.memory.lakefs import MemoryLakeFS
from perago.adapters.memory.worker_handle import WorkerHandle
from perago.app.worker.attempts import StopOrders
from perago.app.worker.join_task import JOIN, WORKSPACES_MAX, JoiningBody, JoinResult
from perago.app.worker.thread_body import ThreadBody
from perago.domain.attempt import AttemptSnapshot, AttemptStatus, ExecutionId
from perago.ports.errors import ReferenceMissingError, ServiceError, UnavailableError
from perago.ports.task_body import BodyCall, BodyOutcome, BodyRaised, BodyReturned, BodyStopped
from perago.testing.fault_injector import FaultInjector, faulty_installation
from perago.testing.faults import refuse, zombie

WALK = "commits.first_parents"


@dataclass
class Scene:
    """A branch of commits, and a body that joins them."""

    lakefs: MemoryLakeFS = field(default_factory=MemoryLakeFS)
    injector: FaultInjector = field(default_factory=FaultInjector)
    orders: StopOrders = field(default_factory=StopOrders)

    def __post_init__(self) -> None:
        self.repository = RepositoryBuilder(self.lakefs, "songs")

    @property
    def walks(self) -> int:
        """Histories that were asked for."""
        return self.injector.calls[WALK]

    def commits(self, count: int, branch: str = "main") -> list[str]:
        """As many commits on top of each other."""
        refs: list[str] = []
        for _ in range(count):
            name = f"{branch}/{len(self.repository.history(branch))}"
            refs.append(self.repository.commit({name: b"x"}, branch=branch))
        return refs

    async def join(self, refs: list[str], *, seconds_max: float = 0.0) -> BodyOutcome:
        """Join workspaces at these commits."""
        places = [
            {"repository": "songs", "branch": "main", "refType": "commit", "ref": ref}
            for ref in refs
        ]
        row = AttemptSnapshot("w", "t", "joined", JOIN, AttemptStatus.IN_PROGRESS)
        call = BodyCall(
            JOIN, row, ExecutionId("e"), {"workspaces": places}, None, seconds_max=seconds_max
        )
        lakefs = lakefs_installation(self.lakefs, WorkerHandle())
        commits = faulty_installation(lakefs, self.injector).commits
        return await JoiningBody(ThreadBody({}), self.orders, commits).run(call)


def chosen(outcome: BodyOutcome) -> str:
    """The ref that stands for all."""
    assert isinstance(outcome, BodyReturned), outcome
    return JoinResult.model_validate(outcome.result).workspace.ref


@pytest.mark.parametrize(("count", "walks"), [(1, 0), (2, 1), (WORKSPACES_MAX, 1)])
async def test_the_newest_first_is_found_by_one_walk(count: int, walks: int) -> None:
    scene = Scene()
    refs = scene.commits(count)[::-1]
    assert (chosen(await scene.join(refs)), scene.walks) == (refs[0], walks)


async def test_the_newest_last_is_found_by_two_walks() -> None:
    scene = Scene()
    refs = scene.commits(WORKSPACES_MAX)
    assert (chosen(await scene.join(refs)), scene.walks) == (refs[-1], 2)


@pytest.mark.parametrize("seed", range(5))
async def test_in_any_order_fewer_walks_than_workspaces_find_the_newest(seed: int) -> None:
    scene = Scene()
    refs = scene.commits(WORKSPACES_MAX)
    newest = refs[-1]
    random.Random(seed).shuffle(refs)  # noqa: S311 - the same order for the same seed
    assert chosen(await scene.join(refs)) == newest
    assert scene.walks <= WORKSPACES_MAX / 4


@pytest.mark.parametrize("seed", range(5))
async def test_histories_that_parted_are_found_by_at_most_as_many_walks(seed: int) -> None:
    scene = Scene()
    scene.commits(1)
    scene.repository.branch("side")
    refs = scene.commits(8) + scene.commits(8, "side")
    random.Random(seed).shuffle(refs)  # noqa: S311 - the same order for the same seed
    outcome = await scene.join(refs)
    assert isinstance(outcome, BodyRaised)
    assert outcome.reason.startswith("no workspace of songs/main contains all others: ")
    assert scene.walks <= len(refs)


async def test_an_order_to_stop_ends_a_walk_that_hangs() -> None:
    scene = Scene()
    refs = scene.commits(3)
    scene.injector.plan(zombie(before=WALK))
    joining = asyncio.create_task(scene.join(refs))
    while not scene.injector.waits_for:  # noqa: ASYNC110 - nobody tells
        await asyncio.sleep(0.01)
    scene.orders.stop(ExecutionId("e"), "the attempt is lost")
    assert await asyncio.wait_for(joining, 5) == BodyStopped("the attempt is lost")


async def test_a_limit_ends_a_walk_that_hangs() -> None:
    scene = Scene()
    refs = scene.commits(3)
    scene.injector.plan(zombie(before=WALK))
    stopped = await asyncio.wait_for(scene.join(refs, seconds_max=0.1), 5)
    assert stopped == BodyStopped("the join took longer than 0.1 seconds")


@pytest.mark.parametrize("error", [UnavailableError("refused"), ReferenceMissingError("gone")])
async def test_an_error_of_lakefs_is_an_error_of_lakefs(error: ServiceError) -> None:
    """Not the body's: a circuit breaker hears of lakeFS, and of no body."""
    scene = Scene()
    refs = scene.commits(2)
    scene.injector.plan(refuse(WALK, error))
    with pytest.raises(type(error)):
        await scene.join(refs)
