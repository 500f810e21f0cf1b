"""The workflow file as it is registered, with a worker of one side dying."""

import json
from pathlib import Path

import pytest
from examples.fork_join.regions import add_regions, sum_region

from perago.testing import Fault, PeragoEnvironment, TaskEnvironment, crash, expire_lease

WORKFLOW = json.loads((Path(__file__).parent / "workflow.json").read_text(encoding="utf-8"))


def test_one_region_alone() -> None:
    run = TaskEnvironment().run(sum_region, {"numbers.txt": "1\n2\n"})
    assert run.result == {"total": 3}
    assert run.files["total.txt"] == b"3\n"


@pytest.mark.parametrize(
    "faults",
    [[], [crash(before="merge", task="north")], [expire_lease(task="south")]],
    ids=["all is well", "north dies", "south loses its lease"],
)
async def test_both_regions_are_published_and_added(
    perago_env: PeragoEnvironment, faults: list[Fault]
) -> None:
    repository = await perago_env.repository("sales")
    given: dict[str, object] = {}
    for region, numbers in (("north", "1 2"), ("south", "30")):
        await repository.create_branch(region)
        await repository.commit({"sales/numbers.txt": numbers}, region)
        given[region] = await repository.workspace(region)
    await perago_env.register(sum_region, add_regions)
    perago_env.plan(*faults)
    run = await perago_env.start(WORKFLOW, given)
    await perago_env.until_idle()
    await perago_env.assert_completed(run)
    assert await run.result("add") == {"total": 33}
    assert await repository.text("sales/total.txt", "north") == "3\n"
    assert await repository.text("sales/total.txt", "south") == "30\n"
    await perago_env.assert_sound()
