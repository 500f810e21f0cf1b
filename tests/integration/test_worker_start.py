"""`perago start` on a real Conductor and lakeFS: one workflow, drains, signals, failures."""

import asyncio
import signal
import time

import pytest
from tests.integration.worker_chaos import is_alive
from tests.integration.worker_scene import (
    BEATING_EACH_SECOND,
    RunningWorker,
    WorkerScene,
    process_file,
)

from perago.domain.attempt import AttemptStatus, WorkflowStatus
from perago.domain.lakefs import BranchName
from perago.testing.contract.lakefs_under_test import MAIN

pytestmark = [pytest.mark.lakefs, pytest.mark.conductor]
TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
BUSY_SECONDS = 10.0  # what may be added to a promise when two cores are shared with everybody


async def test_one_workflow_is_published_and_one_id_is_found_everywhere(scene: WorkerScene) -> None:
    module = await scene.declare(
        """
        print("wrote the report")
        (workspace / "b.txt").write_text("b")
        """,
        workspace=True,
    )
    async with scene.polling_worker([module], "-j", "2") as worker:
        workflow = await scene.start(module, number=3, traceparent=TRACEPARENT)
        ended = await scene.ended(workflow)
        assert ended.status is WorkflowStatus.COMPLETED, worker.screen
        worker.signal(signal.SIGTERM)
        assert await worker.exit_code() == 0
    (row,) = ended.attempts
    head = await scene.lakefs.branches.head(scene.repository, MAIN)
    execution = head.metadata["perago.execution_id"]
    assert head.metadata["perago.traceparent"] == TRACEPARENT
    (log_line,) = await scene.conductor.queue.read_log(row.snapshot.task_id)
    assert f"execution={execution} " in log_line
    assert "level=head-parent " in log_line
    assert f"traceparent={TRACEPARENT}" in log_line
    (end,) = worker.events("attempt ended")
    assert (end["execution_id"], end["status"]) == (execution, "COMPLETED")
    assert end["recorded"] == "recorded"
    (printed,) = worker.events("wrote the report")
    assert (printed["execution_id"], printed["stream"]) == (execution, "stdout")
    phases = [line["phase"] for line in worker.lines() if "phase" in line]
    assert phases[0] == "started"
    assert {"materialised", "function-ended", "staged", "published"} <= set(phases)
    _check_lines(worker)


def _check_lines(worker: RunningWorker) -> None:
    """Each phase says how long it took and what it sent and moved."""
    lines = {line["phase"]: line for line in worker.lines() if "phase" in line}
    assert lines["materialised"]["bytes"] == 1
    assert lines["materialised"]["transfer_requests"] >= 1
    # A branch, a commit; the object goes its own way.
    assert lines["staging"]["requests"] + lines["staged"]["requests"] >= 2
    assert lines["staged"]["transfer_requests"] == 1
    assert lines["published"]["requests"] >= 1
    assert lines["pre-checked"]["requests"] == 0
    assert all(line["seconds"] >= 0 for line in lines.values())


async def test_sigterm_with_four_bodies_publishes_all_four(scene: WorkerScene) -> None:
    module = await scene.declare(
        """
        (workspace / f"{params.number}.txt").write_text("x")
        time.sleep(params.seconds)
        """,
        workspace=True,
        response=2,  # heartbeats go on while the worker drains
    )
    branches = [BranchName(f"team-{number}") for number in range(4)]
    for branch in branches:
        await scene.lakefs.branches.create(scene.repository, branch, scene.start_commit)
    async with scene.polling_worker([module], "-j", "4") as worker:
        workflows = [
            await scene.start(module, branch=branch, number=number, seconds=5)
            for number, branch in enumerate(branches)
        ]
        await asyncio.gather(*map(scene.started, workflows))
        worker.signal(signal.SIGTERM)
        began = time.monotonic()
        assert await worker.exit_code() == 0
        assert time.monotonic() - began < 20 + BUSY_SECONDS
    for workflow in workflows:
        ended = await scene.ended(workflow)
        assert ended.status is WorkflowStatus.COMPLETED
        assert len(ended.attempts) == 1
    for branch in branches:
        head = await scene.lakefs.branches.head(scene.repository, branch)
        assert head.parents == (scene.start_commit,)
    left = await scene.lakefs.branches.list_page(scene.repository, "perago-", show_hidden=True)
    assert left.items == ()


async def test_a_body_that_never_ends_is_abandoned_and_another_worker_has_its_row(
    scene: WorkerScene,
) -> None:
    module = await scene.declare("time.sleep(params.seconds)", workspace=True)
    async with scene.polling_worker([module], PERAGO_SHUTDOWN_FORCE_KILL_AFTER="2s") as first:
        workflow = await scene.start(module, seconds=600)
        first_id = await scene.started(workflow)
        async with scene.polling_worker([module]) as second:
            first.signal(signal.SIGTERM)
            began = time.monotonic()
            assert await first.exit_code() == 0
            assert time.monotonic() - began < 2 + BUSY_SECONDS
            second_id = await scene.started(workflow, seconds_max=2 + BUSY_SECONDS)
            assert second_id != first_id
            record = await scene.conductor.workflows.read(workflow)
            assert record is not None
            (row,) = record.attempts
            assert (row.snapshot.retry_count, row.snapshot.poll_count) == (0, 2)
            assert "worker draining" in str(row.reason)
            assert "as a deploy does, and the grace of 2 s is over" in str(row.reason)
            assert "raise PERAGO_SHUTDOWN_FORCE_KILL_AFTER" in str(row.reason)
            (line,) = await scene.conductor.queue.read_log(row.snapshot.task_id)
            assert "status=HANDED_BACK" in line
            assert "worker draining" in line
            await scene.conductor.workflows.terminate(workflow, "over")
            del second


async def test_a_second_signal_aborts(scene: WorkerScene) -> None:
    module = await scene.declare("time.sleep(params.seconds)")
    async with scene.polling_worker([module]) as worker:
        workflow = await scene.start(module, seconds=600)
        await scene.started(workflow)
        worker.signal(signal.SIGINT)
        await worker.has("worker draining")
        worker.signal(signal.SIGINT)
        began = time.monotonic()
        assert await worker.exit_code() == 128 + signal.SIGINT
        assert time.monotonic() - began < BUSY_SECONDS
    await scene.conductor.workflows.terminate(workflow, "over")


@pytest.mark.parametrize(
    ("response", "budget"),
    [(3, "None"), (600, BEATING_EACH_SECOND)],
    ids=["a third of the response time-out", "the budget's interval"],
)
async def test_a_terminated_workflow_stops_its_body_within_one_heartbeat(
    scene: WorkerScene, response: int, budget: str
) -> None:
    module = await scene.declare(
        "time.sleep(params.seconds)", workspace=True, response=response, budget=budget
    )
    async with scene.polling_worker([module]) as worker:
        workflow = await scene.start(module, seconds=600)
        await scene.started(workflow)
        (before,) = worker.executors()
        await scene.conductor.workflows.terminate(workflow, "not wanted any more")
        began = time.monotonic()
        await worker.has("attempt lost", seconds_max=30)
        assert time.monotonic() - began < 1 + BUSY_SECONDS
        await worker.has("attempt ended", seconds_max=BUSY_SECONDS)
        assert before not in worker.executors()


async def test_a_module_that_only_an_executor_cannot_import_stops_start(
    scene: WorkerScene,
) -> None:
    module = await scene.declare(
        before="import sys\nif 'executor_process' in sys.argv[0]:\n"
        '    raise RuntimeError("no licence server")\n'
    )
    workflow = await scene.start(module)
    async with scene.worker([module]) as worker:
        assert await worker.exit_code() == 1
        assert "no licence server" in worker.screen
    record = await scene.conductor.workflows.read(workflow)
    assert record is not None
    assert [row.snapshot.status for row in record.attempts] == [AttemptStatus.SCHEDULED]
    await scene.conductor.workflows.terminate(workflow, "over")


async def test_an_unregistered_task_stops_start_before_anything_is_polled(
    scene: WorkerScene,
) -> None:
    module = await scene.declare()
    text = module.path.read_text(encoding="utf-8")
    other = f"{module.name}_unknown"
    (scene.folder / f"{other}.py").write_text(text.replace(module.name, other), encoding="utf-8")
    async with scene.worker([type(module)(other, module.path, has_workspace=False)]) as worker:
        assert await worker.exit_code() == 1
        expected = (
            f"error: Conductor TaskDef '{other}' is not registered;"
            " run perago extract and register it before start"
        )
        assert expected in worker.screen


async def test_two_workers_on_one_root_refuse_each_other_and_a_killed_one_blocks_none(
    scene: WorkerScene,
) -> None:
    module = await scene.declare()
    root = scene.folder / "root"
    async with scene.polling_worker([module], root=root) as first:
        async with scene.worker([module], root=root) as second:
            assert await second.exit_code() == 1
        expected = (
            f"workspace root {root / 'workspaces'} is already locked by supervisor pid {first.pid};"
            " use a different PERAGO_WORKSPACE_ROOT for each supervisor"
        )
        assert expected in second.screen
        assert "PRG-C016: `export PERAGO_WORKSPACE_ROOT=$HOME/perago-2`" in second.screen
        # As that says: beside the first one, on a root that is not there yet.
        async with scene.polling_worker([module], root=scene.folder / "root-2"):
            pass
        first.signal(signal.SIGKILL)
        await first.exit_code()
        async with scene.worker([module], root=root) as third:
            await _two_starts(third)


async def test_programs_of_a_killed_worker_are_ended_when_the_next_one_starts(
    scene: WorkerScene,
) -> None:
    module = await scene.declare(
        """
        import subprocess
        program = subprocess.Popen(["sleep", "600"])
        Path("program").write_text(str(program.pid))
        time.sleep(600)
        """
    )
    root, told = scene.folder / "root", scene.folder / "program"
    async with scene.polling_worker([module], root=root) as first:
        workflow = await scene.start(module)
        while not told.exists() or not told.read_text():
            assert first.process.returncode is None, first.screen
            await asyncio.sleep(0.05)
        program = int(told.read_text())
        first.signal(signal.SIGKILL)
        await first.exit_code()
        assert is_alive(program), "nobody was left to end it"
        await scene.conductor.workflows.terminate(workflow, "over")
        async with scene.worker([module], root=root) as second:
            await _two_starts(second)
            await second.has("ended programs whose executors are gone at startup")
            assert not is_alive(program)


async def _two_starts(worker: RunningWorker) -> None:
    for _ in range(400):
        if len(worker.events("worker started")) == 2:
            return
        assert worker.process.returncode is None, worker.screen
        await asyncio.sleep(0.05)
    raise AssertionError(worker.screen)


async def test_sigusr1_shows_slots_and_stacks_and_changes_nothing(scene: WorkerScene) -> None:
    begun = scene.folder / "begun"
    body = f"Path({str(begun)!r}).touch()\ntime.sleep(params.seconds)"
    module = await scene.declare(body)
    async with scene.polling_worker([module]) as worker:
        workflow = await scene.start(module, seconds=3)
        async with asyncio.timeout(60):  # polled is not begun: the executor may still start
            while not begun.exists():  # noqa: ASYNC110 - another process begins
                await asyncio.sleep(0.05)
        worker.signal(signal.SIGUSR1)
        state = await worker.has("worker state")
        assert state["slots"][0]["execution_id"] == state["running"][0]["execution_id"]
        ended = await scene.ended(workflow)
        assert ended.status is WorkflowStatus.COMPLETED
        assert "most recent call first" in worker.screen
        (place,) = [each for each in worker.lines() if f'{module.name}.py", line' in each["event"]]
        assert place["execution_id"] == state["running"][0]["execution_id"]


async def test_a_task_of_a_domain_goes_to_the_worker_of_the_domain(scene: WorkerScene) -> None:
    module = await scene.declare()
    workflow = await scene.start(module, domain="blue")
    async with scene.polling_worker([module]) as plain:
        await asyncio.sleep(1.5)
        assert plain.events("attempt ended") == []
        async with scene.polling_worker([module], "--domain", "blue"):
            ended = await scene.ended(workflow)
            assert ended.status is WorkflowStatus.COMPLETED
    another = await scene.start(module, domain="green")
    async with scene.polling_worker([module], CONDUCTOR_WORKER_ALL_DOMAIN="green"):
        assert (await scene.ended(another)).status is WorkflowStatus.COMPLETED


async def test_a_failure_leaves_its_traceback_in_the_log_and_its_reason_in_conductor(
    scene: WorkerScene,
) -> None:
    module = await scene.declare(
        """
        if params.seconds:
            raise LookupError("no such shelf")
        """
    )
    async with scene.polling_worker([module]) as worker:
        workflow = await scene.start(module, seconds=1)
        end = await worker.has("attempt ended")
        await scene.conductor.workflows.terminate(workflow, "over")
    assert end["status"] == "FAILED"
    assert end["reason"] == "LookupError: no such shelf"
    assert 'raise LookupError("no such shelf")' in end["traceback"]
    assert f"{module.name}.py" in end["traceback"]


async def test_secrets_are_in_no_log_no_reason_no_environment_and_no_command_line(
    scene: WorkerScene,
) -> None:
    secret = scene.servers[0].secret_access_key
    module = await scene.declare(
        """
        if params.seconds:
            raise RuntimeError(" ".join(os.environ.values()))
        """,
        workspace=True,
    )
    async with scene.polling_worker([module], A_COPY=f"postgres://{secret}@host") as worker:
        workflow = await scene.start(module, seconds=1)
        await worker.has("attempt ended")
        assert worker.executors()
        for pid in worker.executors():
            assert secret not in process_file(pid, "environ")
        for pid in (worker.pid, *worker.executors()):
            assert secret not in process_file(pid, "cmdline")
        record = await scene.conductor.workflows.read(workflow)
        assert secret not in str(record)
        for path in (worker.folder / "logs").rglob("*"):
            assert path.stat().st_mode & 0o077 == 0
            assert path.is_dir() or secret not in path.read_text(encoding="utf-8")
        assert secret not in worker.screen
        assert (worker.folder / "workspaces").stat().st_mode & 0o077 == 0
        await scene.conductor.workflows.terminate(workflow, "over")
