"""Laws of `TaskQueue`: what an operator asks of a queue, who polls it and how many rows wait."""

from perago.ports.conductor import PollRequest
from perago.testing.contract.conductor_under_test import PAUSE_SECONDS, ConductorScene, simple
from perago.testing.contract.conductor_under_test import scene as scene


async def test_Q34_last_polls_are_known(scene: ConductorScene) -> None:
    queue = scene.queue
    _, task_type = await scene.start_one_task()
    domain = scene.unique("domain")
    assert await queue.last_polls(task_type) == ()
    await scene.poll_now(task_type, "worker-1")
    (first,) = await queue.last_polls(task_type)
    assert (first.worker_id, first.domain) == ("worker-1", None)
    # Conductor states the time of a poll in milliseconds, so the next one must not follow at once.
    await scene.let_pass(PAUSE_SECONDS)
    # The only row is taken: a poll that gets nothing counts, too.
    await scene.poll_now(task_type, "worker-2")
    await scene.poll_now(task_type, "worker-3", domain=domain)
    found = {poll.domain: poll for poll in await queue.last_polls(task_type)}
    assert {each: poll.worker_id for each, poll in found.items()} == {
        None: "worker-2",
        domain: "worker-3",
    }
    assert found[None].at > first.at
    assert await queue.last_polls(scene.unique("unknown")) == ()


async def test_Q35_waiting_rows_are_counted(scene: ConductorScene) -> None:
    queue = scene.queue
    task_type = await scene.define_task()
    name = await scene.define_workflow(simple(task_type, "only"))
    later = await scene.define_workflow(simple(task_type, "only", startDelay=3600))
    domain = scene.unique("domain")
    assert await queue.waiting(task_type) == {}
    for _ in range(2):
        await scene.workflows.start(name, {})
    kept_back = await scene.workflows.start(later, {})
    (row,) = (await scene.workflow_of(kept_back)).attempts
    assert row.delay_seconds == 3600
    await scene.workflows.start(name, {}, task_to_domain={task_type: domain})
    assert await queue.waiting(task_type) == {None: 3, domain: 1}
    (taken,) = await queue.poll(PollRequest(task_type, "worker"))
    assert await queue.waiting(task_type) == {None: 2, domain: 1}
    await scene.finish(taken)
    assert len(await scene.poll_now(task_type, domain=domain)) == 1
    assert await queue.waiting(task_type) == {None: 2}
