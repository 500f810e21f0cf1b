"""How many questions a join asks, and what ends it early."""

import asyncio
import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

import pytest
from pydantic import ValidationError
from tests.unit.app.attempt.attempt_harness import AttemptHarness

from perago.app.attempt.context import Attempt
from perago.app.attempt.task_function import produce_freely
from perago.app.runs.join import JOIN_TASK, WORKSPACES_MAX, JoinParams, JoinResult
from perago.app.worker.bodies import StopOrders, WaitingOrder
from perago.domain.attempt import AttemptRecord, AttemptSnapshot, AttemptStatus, ExecutionId
from perago.domain.errors import BodyFailedError
from perago.domain.hand_back import Cause
from perago.domain.policy import PolicySetting
from perago.ports.errors import ReferenceMissingError, ServiceError, UnavailableError
from perago.testing.faults import Fault, refuse, zombie

WALK = "commits.first_parents"
ME = ExecutionId("e")


@dataclass
class Scene:
    """A branch of commits, and a worker that joins them."""

    root: Path
    orders: StopOrders = field(default_factory=StopOrders)

    def __post_init__(self) -> None:
        self.harness = AttemptHarness(self.root, PolicySetting.SETTLED)
        self.harness.task = JOIN_TASK
        self.repository = self.harness.repository

    @property
    def walks(self) -> int:
        """Histories that the last worker asked for."""
        return self.harness.workers[-1].calls[WALK]

    def commits(self, count: int, branch: str = "main") -> list[str]:
        """As many commits on top of each other."""
        refs: list[str] = []
        for _ in range(count):
            name = f"{branch}/{len(self.repository.history(branch))}"
            refs.append(self.repository.commit({name: b"x"}, branch=branch))
        return refs

    async def join(self, refs: list[str], *faults: Fault) -> str:
        """Join workspaces at these commits; the ref that stands for all."""
        params = {"workspaces": [self.harness.workspace(ref=ref) for ref in refs]}
        row = AttemptSnapshot("w", "t", "joined", JOIN_TASK.name, AttemptStatus.IN_PROGRESS)
        worker = self.harness.worker(faults)
        record = AttemptRecord(row, {"params": params})
        with self.orders.for_execution(ME) as order:
            ports = replace(worker.harness, stop_order=WaitingOrder(order))
            attempt = Attempt(ports, JOIN_TASK, record, ME, worker.settings)
            output = await produce_freely(attempt)
        result = cast("Mapping[str, object]", output["result"])
        return JoinResult.model_validate(result).workspace.ref


@pytest.mark.parametrize(("count", "walks"), [(1, 0), (2, 1), (WORKSPACES_MAX, 1)])
async def test_the_newest_first_is_found_by_one_walk(
    tmp_path: Path, count: int, walks: int
) -> None:
    scene = Scene(tmp_path)
    refs = scene.commits(count)[::-1]
    assert (await scene.join(refs), scene.walks) == (refs[0], walks)


async def test_the_newest_last_is_found_by_two_walks(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    refs = scene.commits(WORKSPACES_MAX)
    assert (await scene.join(refs), scene.walks) == (refs[-1], 2)


@pytest.mark.parametrize("seed", range(5))
async def test_in_any_order_fewer_walks_than_workspaces_find_the_newest(
    tmp_path: Path, seed: int
) -> None:
    scene = Scene(tmp_path)
    refs = scene.commits(WORKSPACES_MAX)
    newest = refs[-1]
    random.Random(seed).shuffle(refs)  # noqa: S311 - the same order for the same seed
    assert await scene.join(refs) == newest
    assert scene.walks <= WORKSPACES_MAX / 4


@pytest.mark.parametrize("seed", range(5))
async def test_histories_that_parted_are_found_by_at_most_as_many_walks(
    tmp_path: Path, seed: int
) -> None:
    scene = Scene(tmp_path)
    scene.commits(1)
    scene.repository.branch("side")
    refs = scene.commits(8) + scene.commits(8, "side")
    random.Random(seed).shuffle(refs)  # noqa: S311 - the same order for the same seed
    with pytest.raises(BodyFailedError, match=r"^no workspace of repo/main contains all others: "):
        await scene.join(refs)
    assert scene.walks <= len(refs)


async def test_an_order_to_stop_ends_a_walk_that_hangs(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    refs = scene.commits(3)
    joining = asyncio.create_task(scene.join(refs, zombie(before=WALK)))
    while not (scene.harness.workers and scene.harness.workers[-1].waits_for):  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    scene.orders.stop(ME, "worker draining: a deploy", cause=Cause.DRAIN)
    with pytest.raises(BodyFailedError, match="worker draining") as stopped:
        await asyncio.wait_for(joining, 5)
    assert stopped.value.cause is Cause.DRAIN


@pytest.mark.parametrize("error", [UnavailableError("refused"), ReferenceMissingError("gone")])
async def test_an_error_of_lakefs_is_an_error_of_lakefs(
    tmp_path: Path, error: ServiceError
) -> None:
    """Not the task's: a circuit breaker hears of lakeFS, and of no task function."""
    scene = Scene(tmp_path)
    refs = scene.commits(2)
    with pytest.raises(type(error)):
        await scene.join(refs, refuse(WALK, error))


WORKSPACE = {"repository": "repo", "branch": "main", "refType": "commit", "ref": "c1"}


@pytest.mark.parametrize(
    "output",
    [
        {"left": {"subWorkflowId": "w", "workspace": WORKSPACE}, "mail": {"result": {}}},
        {"left": {"workspace": WORKSPACE, "result": {"n": 1}}, "odd": "text", "none": None},
    ],
)
def test_the_output_of_a_join_of_branches_has_their_workspaces(output: object) -> None:
    (found,) = JoinParams.model_validate({"workspaces": output}).workspaces
    assert found.ref == "c1"


@pytest.mark.parametrize(
    "given", [{}, {"mail": {"result": {}}}, [], None, {"left": {"workspace": None}}]
)
def test_branches_without_a_workspace_cannot_be_joined(given: object) -> None:
    with pytest.raises(ValidationError):
        JoinParams.model_validate({"workspaces": given})
