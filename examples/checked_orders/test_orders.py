"""What the checks let pass is published; what they refuse is not, and says why."""

import pytest
from examples.checked_orders.orders import clean

from perago.testing import PeragoEnvironment, TaskEnvironment

SOUND = {"raw/a.csv": "order,amount\na1,10\na2,0\n", "raw/b.csv": "order,amount\nb1,7\n"}
NEGATIVE = {**SOUND, "raw/c.csv": "order,amount\nc1,-3\n"}
TWICE = {**SOUND, "raw/c.csv": "order,amount\na1,12\n"}


def test_sound_orders_pass() -> None:
    run = TaskEnvironment().run(clean, SOUND)
    TaskEnvironment().assert_completed(run)
    assert run.result == {"rows": 3}


@pytest.mark.parametrize(
    ("raw", "why"),
    [(NEGATIVE, "amount"), (TWICE, "order")],
    ids=["a negative amount", "an order twice"],
)
def test_the_check_names_the_column(raw: dict[str, str], why: str) -> None:
    run = TaskEnvironment().run(clean, raw)
    assert run.status == "FAILED"
    assert "check orders_are_sound failed: SchemaError: " in str(run.reason)
    assert f"'{why}'" in str(run.reason)


@pytest.mark.perago(policy="settled")
async def test_refused_orders_are_not_published(perago_env: PeragoEnvironment) -> None:
    stored = {f"orders/{path}": text for path, text in NEGATIVE.items()}
    repository = await perago_env.repository("orders", stored)
    run = await perago_env.run(clean, repository)
    assert await run.status() == "FAILED"
    assert len(await run.attempts()) == 2
    await perago_env.assert_files(repository, stored)
