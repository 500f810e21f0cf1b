"""Laws of `TaskQueue`: what an operator asks of a queue, who polls it and how many rows wait."""

from perago.ports.conductor import PollRequest
from perago.testing.contract.conductor_under_test import (
    PAUSE_SECONDS,
    ConductorUnderTest,
    define_task,
    define_workflow,
    finish,
    poll_now,
    simple,
    start_one_task,
    workflow_of,
)


async def test_Q34_last_polls_are_known(conductor_under_test: ConductorUnderTest) -> None:
    queue = conductor_under_test.queue
    _, task_type = await start_one_task(conductor_under_test)
    domain = conductor_under_test.unique("domain")
    assert await queue.last_polls(task_type) == ()
    await poll_now(conductor_under_test, task_type, "worker-1")
    (first,) = await queue.last_polls(task_type)
    assert (first.worker_id, first.domain) == ("worker-1", None)
    await conductor_under_test.let_pass(PAUSE_SECONDS)
    # Nothing waits in either queue any more.
    await poll_now(conductor_under_test, task_type, "worker-2")
    await poll_now(conductor_under_test, task_type, "worker-3", domain=domain)
    found = {poll.domain: poll for poll in await queue.last_polls(task_type)}
    assert {each: poll.worker_id for each, poll in found.items()} == {
        None: "worker-2",
        domain: "worker-3",
    }
    assert found[None].at > first.at
    assert await queue.last_polls(conductor_under_test.unique("unknown")) == ()


async def test_Q35_waiting_rows_are_counted(conductor_under_test: ConductorUnderTest) -> None:
    queue = conductor_under_test.queue
    task_type = await define_task(conductor_under_test)
    name = await define_workflow(conductor_under_test, simple(task_type, "only"))
    later = await define_workflow(conductor_under_test, simple(task_type, "only", startDelay=3600))
    domain = conductor_under_test.unique("domain")
    assert await queue.waiting(task_type) == {}
    for _ in range(2):
        await conductor_under_test.workflows.start(name, {})
    kept_back = await conductor_under_test.workflows.start(later, {})
    (row,) = (await workflow_of(conductor_under_test, kept_back)).attempts
    assert row.delay_seconds == 3600
    await conductor_under_test.workflows.start(name, {}, task_to_domain={task_type: domain})
    assert await queue.waiting(task_type) == {None: 3, domain: 1}
    (taken,) = await queue.poll(PollRequest(task_type, "worker"))
    assert await queue.waiting(task_type) == {None: 2, domain: 1}
    await finish(conductor_under_test, taken)
    assert len(await poll_now(conductor_under_test, task_type, domain=domain)) == 1
    assert await queue.waiting(task_type) == {None: 2}
