"""The same on Spark: the check reads the staged commit through the session of its executor."""

import pytest
from examples.checked_orders.daily import daily

from perago.testing import PeragoEnvironment

RAW = {"orders/raw/a.csv": "day,amount\n1,10\n1,-3\n2,5\n"}
NEGATIVE = {**RAW, "orders/raw/b.csv": "day,amount\n2,-6\n"}

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("perago_spark")]


async def test_sound_days_are_published(perago_env: PeragoEnvironment) -> None:
    repository = await perago_env.repository("orders", RAW)
    run = await perago_env.run(daily, repository)
    await perago_env.assert_completed(run)
    # On real servers the kit shortens leases to 4 s, and the first start of Spark may outlast one.
    *_, attempt = await run.attempts()
    assert attempt.output_data["result"] == {"days": 2}


async def test_a_negative_day_is_not_published(perago_env: PeragoEnvironment) -> None:
    repository = await perago_env.repository("orders", NEGATIVE)
    run = await perago_env.run(daily, repository)
    assert await run.status() == "FAILED"
    *_, last = await run.attempts()
    said = "check no_day_is_negative failed: ValueError: 1 days are wrong, for example"
    assert said in str(last.reason)
    await perago_env.assert_files(repository, NEGATIVE)
