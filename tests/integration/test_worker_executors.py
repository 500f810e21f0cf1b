"""Executors as processes: crashes, orders to stop, limits, output, environment, dead parents."""

import asyncio
import logging
import os
import re
import signal
import socket
import sys
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from tests.contract.task_bodies import body_environment, call_of, process_body

from perago.adapters.system import SystemClock
from perago.app.telemetry.listeners import BodyObserver
from perago.app.worker.executor import (
    ExecutorProgram,
    ExecutorStartError,
    executor_environment,
    start_executor,
)
from perago.app.worker.process_body import ProcessBody
from perago.app.worker.processes import (
    EXECUTOR_VARIABLE,
    all_processes,
    end_left_programs,
    environment_of,
)
from perago.domain.hand_back import Cause
from perago.ports.task_body import BodyCall, BodyReturned, BodyStopped


@dataclass
class Recorder(BodyObserver):
    """Keeps what bodies said."""

    said: list[tuple[str | None, object]] = field(default_factory=list[tuple[str | None, object]])

    def output(self, call: BodyCall | None, stream: str, line: str) -> None:
        """Keep it."""
        self.said.append((call.execution_id if call else None, (stream, line)))

    def logged(self, call: BodyCall | None, level: int, logger: str, text: str) -> None:
        """Keep it."""
        self.said.append((call.execution_id if call else None, (level, logger, text)))

    def sampled(
        self, call: BodyCall, metric: str, name: str, value: float, labels: Mapping[str, str]
    ) -> None:
        """Keep it."""
        self.said.append((call.execution_id, (metric, name, value, dict(labels))))

    def progressed(self, call: BodyCall, message: str, facts: Mapping[str, object]) -> None:
        """Keep it."""
        self.said.append((call.execution_id, (message, dict(facts))))


def is_alive(pid: int) -> bool:
    """A process that nobody has waited for yet is dead all the same."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def test_an_executor_runs_every_task_of_a_module() -> None:
    program = ExecutorProgram(["examples.fork_join.regions"], body_environment())
    body = ProcessBody(program, SystemClock())
    try:
        await body.start()
        call = replace(call_of("nothing"), task_name="regions.add", params={"north": 1, "south": 2})
        assert await body.run(call) == BodyReturned({"total": 3})
    finally:
        await body.close()


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        (
            "crash",
            (
                "executor process was killed by SIGKILL; last lines: the disk is on fire; "
                "it ran body.suite"
            ),
        ),
        ("leave", "executor process exited with code 7; it ran body.suite"),
    ],
)
async def test_a_crashed_executor_is_a_stopped_body_and_the_next_body_runs(
    what: str, reason: str
) -> None:
    async with process_body() as body:
        assert await body.run(call_of(what)) == BodyStopped(reason)
        assert await body.run(call_of("count", 2)) == BodyReturned({"number": 2})


async def test_an_executor_that_dies_before_it_begins_is_no_failure_of_the_task() -> None:
    async with process_body() as body:
        (slot,) = body.facts()
        assert slot.pid is not None
        os.kill(slot.pid, signal.SIGSTOP)  # the call is sent, and nobody reads it
        running = asyncio.create_task(body.run(call_of("count", 1)))
        await asyncio.sleep(0.1)
        os.kill(slot.pid, signal.SIGKILL)
        text = "executor process was killed by SIGKILL; it had not begun body.suite"
        assert await asyncio.wait_for(running, 20) == BodyStopped(text, Cause.EXECUTOR_LOST)
        assert await body.run(call_of("count", 2)) == BodyReturned({"number": 2})


async def until_ready(body: ProcessBody, executors: int) -> None:
    """Until so many of them live."""
    async with asyncio.timeout(40):
        while body.ready != executors:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)


async def test_a_machine_that_starts_no_executor_is_no_failure_of_the_task(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with process_body() as body:
        (slot,) = body.facts()
        assert slot.pid is not None
        monkeypatch.setattr(sys, "executable", "/no/such/interpreter")
        os.kill(slot.pid, signal.SIGKILL)
        await until_ready(body, 0)
        stopped = await asyncio.wait_for(body.run(call_of("count", 1)), 30)
        assert isinstance(stopped, BodyStopped)
        assert stopped.cause is Cause.EXECUTOR_LOST
        assert "no executor starts: " in stopped.reason
        assert "/no/such/interpreter" in stopped.reason
        monkeypatch.undo()
        await until_ready(body, 1)
        assert await body.run(call_of("count", 2)) == BodyReturned({"number": 2})


async def test_what_a_crashed_body_had_started_ends_with_it() -> None:
    async with process_body() as body:
        ended = await body.run(call_of("crash with a program running"))
        assert isinstance(ended, BodyStopped)
        started = re.search(r"it left process (\d+)", ended.reason)
        assert started is not None, ended.reason
        for _ in range(100):
            if not is_alive(int(started[1])):
                return
            await asyncio.sleep(0.05)
        os.kill(int(started[1]), signal.SIGKILL)
        pytest.fail("a program outlived the executor that started it")


async def test_an_order_to_stop_ends_the_body_at_once_and_its_process_is_not_used_again() -> None:
    async with process_body() as body:
        (before,) = body.facts()
        running = asyncio.create_task(body.run(call_of("sleep", 50)))
        await asyncio.sleep(0.3)
        body.orders.stop(call_of("sleep").execution_id, "the attempt is lost")
        assert await asyncio.wait_for(running, 3) == BodyStopped("the attempt is lost")
        assert before.pid is not None
        assert not is_alive(before.pid)
        assert await body.run(call_of("count", 2)) == BodyReturned({"number": 2})


async def test_an_order_after_the_end_of_a_body_does_not_end_the_next_one_in_its_slot() -> None:
    async with process_body() as body:
        first = call_of("count", 1, execution_id="e1")
        with body.orders.for_execution(first.execution_id):  # as long as its attempt
            assert await body.run(first) == BodyReturned({"number": 1})
            running = asyncio.create_task(body.run(call_of("sleep", 1, execution_id="e2")))
            await asyncio.sleep(0.3)
            body.orders.stop(first.execution_id, "the attempt is lost")
            assert isinstance(await asyncio.wait_for(running, 20), BodyReturned)


async def replaced(body: ProcessBody, victims: set[int | None]) -> None:
    """Kill these executors, and wait until every slot has a new one."""
    for pid in victims:
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
    slots = len(body.facts())
    async with asyncio.timeout(20):
        while body.ready < slots or victims & {slot.pid for slot in body.facts()}:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def test_executors_that_died_while_idle_leave_one_place_for_one_body_each() -> None:
    """The place of a dead executor was once offered twice: two bodies shared one executor."""
    async with process_body(slots=3) as body:
        await replaced(body, {slot.pid for slot in body.facts()})
        long = asyncio.create_task(body.run(call_of("sleep", 2, execution_id="long")))
        await asyncio.sleep(0)
        async with asyncio.timeout(20):
            for number in range(6):
                short = call_of("count", number, execution_id=f"e{number}")
                assert await body.run(short) == BodyReturned({"number": number})
            assert not long.done(), "the short bodies ran beside the long one"
            assert await long == BodyReturned({"number": 2})


async def test_an_answer_for_another_execution_is_dropped() -> None:
    """A late answer must not be taken for the one that is waited for, nor the next one's."""
    async with process_body() as body:
        for number, execution in enumerate(("e1", "e2", "e3")):
            answer = await body.run(call_of("forge", number, execution_id=execution))
            assert answer == BodyReturned({"number": number})
        assert await body.run(call_of("count", 4, execution_id="e4")) == BodyReturned({"number": 4})


async def test_a_function_that_asks_past_the_asker_costs_one_question_at_a_time() -> None:
    questions: list[None] = []

    async def changes() -> None:
        questions.append(None)
        await asyncio.sleep(0.3)

    async with process_body() as body:
        call = replace(call_of("ask past the asker", 1), changes=changes)
        assert await body.run(call) == BodyReturned({"number": 1})
        assert await body.run(call_of("count", 2)) == BodyReturned({"number": 2})
    assert len(questions) == 1


async def test_the_executor_of_a_body_that_a_signal_from_outside_ended_is_not_used_again() -> None:
    async with process_body() as body:
        running = asyncio.create_task(body.run(call_of("sleep", 50)))
        await asyncio.sleep(0.3)
        (slot,) = body.facts()
        assert slot.pid is not None
        os.kill(slot.pid, signal.SIGTERM)
        stopped = await asyncio.wait_for(running, 5)
        assert stopped == BodyStopped("the task function was ended by a signal")
        assert await body.run(call_of("count", 2)) == BodyReturned({"number": 2})


async def test_a_slot_whose_body_was_cancelled_is_used_again_with_another_executor() -> None:
    async with process_body() as body:
        (before,) = body.facts()
        running = asyncio.create_task(body.run(call_of("sleep", 50)))
        await asyncio.sleep(0.3)
        running.cancel()
        await asyncio.wait([running])
        answer = await asyncio.wait_for(body.run(call_of("count", 2, execution_id="e2")), 10)
        assert answer == BodyReturned({"number": 2})
        assert body.facts()[0].pid != before.pid


async def test_after_an_order_for_all_nothing_begins() -> None:
    async with process_body() as body:
        running = asyncio.create_task(body.run(call_of("sleep", 50)))
        await asyncio.sleep(0.3)
        body.orders.stop_all("worker draining")
        assert await asyncio.wait_for(running, 3) == BodyStopped("worker draining")
        assert await body.run(call_of("count", execution_id="e2")) == BodyStopped("worker draining")


async def test_what_a_body_says_carries_its_execution_and_is_known_before_its_end() -> None:
    recorder = Recorder()
    async with process_body(recorder) as body:
        await body.run(call_of("talk", 3, execution_id="e7"))
        assert ("e7", ("stdout", "printed")) in recorder.said
        assert ("e7", (logging.WARNING, "team", "logged 3")) in recorder.said
        assert ("e7", ("half way", {"rows": 3})) in recorder.said
        labels = {"task_name": "body.suite"}
        assert ("e7", ("histogram", "app.rows", 3.0, labels)) in recorder.said


async def test_a_module_that_cannot_be_imported_stops_the_start() -> None:
    program = ExecutorProgram(("no_such_module_of_tasks",), body_environment())
    body = ProcessBody(program, SystemClock(), slots=2)
    with pytest.raises(ExecutorStartError, match="No module named 'no_such_module_of_tasks'"):
        await body.start()
    await body.close()


def open_files() -> int:
    """How many files this process has open."""
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_a_start_that_the_machine_refuses_leaves_no_file_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "executable", "/no/such/interpreter")
    before = open_files()
    for _ in range(3):
        with pytest.raises(OSError, match="no/such/interpreter"):
            await start_executor(ExecutorProgram((), {}), take=print, line=print)
    assert open_files() == before


async def test_an_executor_has_no_key() -> None:
    given = {
        **body_environment(),
        "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": "hunter2secret",
        "CONDUCTOR_AUTH_SECRET": "hunter2secret",
        "A_COPY": "key=hunter2secret",
    }
    environment = executor_environment(given, {"hunter2secret"})
    program = ExecutorProgram(("tests.contract.body_tasks",), environment)
    body = ProcessBody(program, SystemClock())
    await body.start()
    try:
        assert await body.run(call_of("environment")) == BodyReturned({"number": 0})
    finally:
        await body.close()


async def killed_parent(folder: Path, what: str) -> list[int]:
    """Executors of a parent that was killed while a body ran; all are dead."""
    pids = folder / "pids"
    program = textwrap.dedent(f"""
        import asyncio, pathlib
        from tests.contract.task_bodies import call_of, process_body
        async def main():
            async with process_body(slots=2) as body:
                running = asyncio.create_task(body.run(call_of({what!r}, 50)))
                await asyncio.sleep(0.3)
                text = " ".join(str(slot.pid) for slot in body.facts())
                pathlib.Path({str(pids)!r}).write_text(text)
                await running
        asyncio.run(main())
    """)
    parent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, env=body_environment()
    )
    while not pids.exists() or not pids.read_text():
        assert parent.returncode is None
        await asyncio.sleep(0.05)
    executors = [int(pid) for pid in pids.read_text().split()]
    assert all(map(is_alive, executors))
    parent.send_signal(signal.SIGKILL)
    await parent.wait()
    for _ in range(50):
        if not any(map(is_alive, executors)):
            break
        await asyncio.sleep(0.05)
    assert not any(map(is_alive, executors))
    return executors


async def test_an_executor_dies_with_its_parent_even_while_a_body_runs(tmp_path: Path) -> None:
    assert len(await killed_parent(tmp_path, "sleep")) == 2


async def test_an_executor_whose_parent_died_before_it_began_imports_nothing() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        executor = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "perago.app.worker.executor_process",
            str(theirs.fileno()),
            "0",  # the parent that it was started for; that of a running process has another id
            "a_module_that_does_not_exist",
            pass_fds=[theirs.fileno()],
            stderr=asyncio.subprocess.PIPE,
        )
        theirs.close()
        _, said = await executor.communicate()
        assert (executor.returncode, said) == (1, b"")
        assert ours.recv(1) == b"", "nothing is sent of an import"


async def test_programs_of_a_killed_worker_are_ended_later_unless_they_left_the_group(
    tmp_path: Path,
) -> None:
    executors = await killed_parent(tmp_path, "sleep with programs running")
    marks = {f"{EXECUTOR_VARIABLE}={pid}" for pid in executors}
    left = [pid for pid in all_processes() if not marks.isdisjoint(environment_of(pid))]
    (own,) = [pid for pid in left if os.getpgid(pid) in executors]
    (apart,) = [pid for pid in left if os.getpgid(pid) not in executors]
    try:
        assert os.getpgid(own) in end_left_programs()
        for _ in range(50):
            if not is_alive(own):
                break
            await asyncio.sleep(0.05)
        assert (is_alive(own), is_alive(apart)) == (False, True)
    finally:
        os.kill(apart, signal.SIGKILL)


async def test_programs_of_a_worker_that_lives_are_left_alone() -> None:
    async with process_body() as body:
        running = asyncio.create_task(body.run(call_of("sleep with programs running", 50)))
        await asyncio.sleep(0.3)
        (slot,) = body.facts()
        left = [
            pid
            for pid in all_processes()
            if f"{EXECUTOR_VARIABLE}={slot.pid}" in environment_of(pid)
        ]
        assert slot.pid not in end_left_programs()
        await asyncio.sleep(0.1)
        try:
            assert [is_alive(pid) for pid in left] == [True, True]
        finally:
            for pid in left:
                os.kill(pid, signal.SIGKILL)
            running.cancel()
