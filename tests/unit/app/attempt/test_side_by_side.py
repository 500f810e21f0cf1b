"""Which questions of a changed first attempt wait for each other, and which do not."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.app.attempt.attempt_harness import AttemptHarness
from tests.unit.app.attempt.attempt_scene import assert_accepted

from perago.adapters.system import AsyncioConcurrency
from perago.domain.policy import PolicySetting
from perago.testing.faults import meanwhile, zombie

TURNS_MAX = 2_000
BESIDE = [
    ("repositories.read", "branches.head"),
    ("repositories.read", "commits.read"),
    ("repositories.read", "objects.read"),
    ("branches.create", "tags.read"),
    ("tags.create", "commits.first_parents"),
]


@pytest.fixture
def concurrency() -> Iterator[AsyncioConcurrency]:
    loops_own = AsyncioConcurrency()
    yield loops_own
    loops_own.close()


@pytest.mark.parametrize(("unanswered", "asked"), BESIDE)
async def test_a_question_is_asked_while_another_is_unanswered(
    tmp_path: Path, concurrency: AsyncioConcurrency, unanswered: str, asked: str
) -> None:
    harness = await AttemptHarness(tmp_path, PolicySetting.SETTLED).started()
    seen: list[str] = []
    other = meanwhile(lambda: seen.append(asked), before=asked)
    worker = harness.worker([zombie(before=unanswered), other])
    worker = replace(worker, harness=replace(worker.harness, concurrency=concurrency))
    handle = harness.workers[0]
    running = await harness.stand_still(worker)
    for _ in range(TURNS_MAX):
        await asyncio.sleep(0)

    assert seen == [asked]

    handle.release()
    await harness.drive(running)
    await assert_accepted(harness)
