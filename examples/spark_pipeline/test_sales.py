"""Each task alone, and the workflow with workers dying: Spark in this process, lakeFS in memory."""

import json
from pathlib import Path

import pytest
from examples.spark_pipeline.sales import clean, report, total

from perago.testing import Fault, PeragoEnvironment, TaskEnvironment, crash, zombie

WORKFLOW = json.loads((Path(__file__).parent / "workflow.json").read_text(encoding="utf-8"))
RAW = {
    "raw/monday.csv": "day,shop,amount\n1,north,10\n1,south,7\n1,north,not a number\n",
    "raw/tuesday.csv": "day,shop,amount\n2,north,12\n2,south,\n2,south,5\n",
}
STORED = {f"sales/{path}": text for path, text in RAW.items()}
REPORT = '{"north": 22, "south": 12}'

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("perago_spark")]


def test_rows_without_a_number_are_dropped() -> None:
    run = TaskEnvironment().run(clean, RAW)
    TaskEnvironment().assert_completed(run)
    assert run.result == {"rows": 4, "dropped": 2}
    assert run.diff.removed == run.diff.changed == ()
    assert {path.rpartition("/")[0] for path in run.diff.added} == {"clean/day=1", "clean/day=2"}


def test_an_input_without_events_is_refused_before_spark_is_asked() -> None:
    run = TaskEnvironment().run(clean, {"raw/readme.txt": "nothing yet"})
    assert not run.completed
    assert "raw/*.csv" in str(run.reason)


@pytest.mark.perago(policy="settled")
@pytest.mark.parametrize(
    "faults",
    [
        [],
        [crash(after="merge", task="clean")],
        [crash(before="stage", task="total")],
        [zombie(task="total", until="accepted")],
    ],
    ids=["all is well", "clean dies after its merge", "total dies", "total is a zombie"],
)
async def test_the_report_is_right_whatever_happens(
    perago_env: PeragoEnvironment, faults: list[Fault]
) -> None:
    repository = await perago_env.repository("sales", STORED)
    await perago_env.register(clean, total, report)
    perago_env.plan(*faults)
    run = await perago_env.start(WORKFLOW, {"workspace": await repository.workspace()})
    await perago_env.until_idle()
    await perago_env.assert_completed(run)
    assert await repository.text("sales/report.json") == REPORT
    assert await run.result("clean") == {"rows": 4, "dropped": 2}
    await perago_env.assert_sound()
