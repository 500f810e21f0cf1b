"""A person between the tasks of a run and its end, on servers in memory."""

import pytest
from tests.approved_runs import approve_a_run, refuse_a_run, until_approval

from perago.testing import Fault, PeragoEnvironment, crash, lose_answer


@pytest.mark.parametrize(
    "faults",
    [
        [],
        [crash(before="merge", task="sides_left"), crash(after="merge", task="sides_right")],
        [crash(before="merge", task="perago_finish")],
        [lose_answer("merge", task="perago_finish")],
    ],
    ids=["all is well", "both sides die", "finish dies", "finish gets no answer"],
)
async def test_what_is_approved_is_published_at_once(
    perago_env: PeragoEnvironment, faults: list[Fault]
) -> None:
    perago_env.plan(*faults)
    await approve_a_run(perago_env)
    assert perago_env.pending_faults == ()


async def test_what_is_refused_never_is_on_the_target(perago_env: PeragoEnvironment) -> None:
    await refuse_a_run(perago_env)


async def test_a_step_that_waits_for_no_person_cannot_be_completed(
    perago_env: PeragoEnvironment,
) -> None:
    _, run = await until_approval(perago_env)
    with pytest.raises(AssertionError, match="does not wait for a person"):
        await perago_env.complete_step(run, "join")
