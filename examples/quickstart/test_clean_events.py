"""The task alone, the task as an attempt, and the task when its worker dies."""

import pytest
from examples.quickstart.clean_events import clean

from perago.testing import (
    Fault,
    PeragoEnvironment,
    TaskEnvironment,
    crash,
    lose_answer,
    zombie,
)

RAW = {"raw/events.csv": "day,amount\n1,10\n2,none\n3,5\n"}
STORED = {f"sales/{path}": text for path, text in RAW.items()}
CLEAN = "day,amount\r\n1,10\r\n3,5\r\n"


def test_rows_without_a_number_are_dropped() -> None:
    run = TaskEnvironment().run(clean, RAW)
    TaskEnvironment().assert_completed(run)
    assert run.result == {"kept": 2, "dropped": 1}
    assert run.files["clean/events.csv"].decode() == CLEAN
    assert run.diff.added == ("clean/events.csv",)
    assert run.lines == ("kept 2 of 3 rows",)


def test_too_many_dropped_rows_are_a_failure() -> None:
    run = TaskEnvironment().run(clean, RAW, {"dropped_max": 0})
    assert run.status == "FAILED"
    assert run.diff.is_empty


def test_without_events_the_body_does_not_run() -> None:
    assert TaskEnvironment().run(clean, {}).status == "FAILED_WITH_TERMINAL_ERROR"


@pytest.mark.parametrize(
    "fault",
    [crash(before="merge"), crash(after="merge"), lose_answer("merge"), zombie()],
    ids=["dies before", "dies after", "lost answer", "zombie"],
)
async def test_whatever_happens_the_rows_are_published_once(
    perago_env: PeragoEnvironment, fault: Fault
) -> None:
    repository = await perago_env.repository("events", STORED)
    perago_env.plan(fault)
    run = await perago_env.run(clean, repository)
    await perago_env.assert_completed(run)
    await perago_env.assert_files(repository, {**STORED, "sales/clean/events.csv": CLEAN})
    await perago_env.assert_sound()
