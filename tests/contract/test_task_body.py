"""Laws of perago.ports.task_body."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.contract.task_bodies import BODIES, TELEMETRY, call_of, checks_of

from perago.app.authoring.checkpoint_copies import claim
from perago.domain.attempt import ExecutionId
from perago.ports.task_body import (
    BodyRaised,
    BodyReturned,
    BodyStopped,
    Changes,
    Checkpoints,
    CheckpointTerms,
    TaskBody,
)


@pytest.fixture(params=list(BODIES))
async def body(request: pytest.FixtureRequest) -> AsyncIterator[TaskBody]:
    async with BODIES[request.param]() as opened:
        yield opened


async def test_Y1_returns_the_result(body: TaskBody) -> None:
    assert await body.run(call_of("count", 7)) == BodyReturned({"number": 7})


async def test_Y2_exceptions_are_values(body: TaskBody) -> None:
    raised = await body.run(call_of("raise"))
    assert isinstance(raised, BodyRaised)
    assert (raised.reason, raised.terminal) == ("KeyError: 'shelf'", False)
    assert 'raise KeyError("shelf")' in raised.traceback
    terminal = await body.run(call_of("raise terminal", execution_id="e2"))
    assert isinstance(terminal, BodyRaised)
    assert (terminal.reason, terminal.terminal) == ("wrong customer", True)


async def test_Y3_system_exit_is_contained(body: TaskBody) -> None:
    exited = await body.run(call_of("exit"))
    assert exited == BodyRaised("SystemExit: the task function exited with code 3")
    assert await body.run(call_of("count", 1, execution_id="e2")) == BodyReturned({"number": 1})


async def test_Y4_limit_ends_the_body(body: TaskBody) -> None:
    stopped = await body.run(call_of("sleep", 2, seconds_max=0.2))
    assert stopped == BodyStopped("the task function ran longer than 0.2 seconds")
    assert await body.run(call_of("count", 1, execution_id="e2")) == BodyReturned({"number": 1})


@pytest.mark.parametrize(
    ("what", "reason", "code"),
    [
        ("nan", "Out of range float values are not JSON compliant", "PRG-I011"),
        ("half a character", "surrogates not allowed", "PRG-R002"),
        ("huge", "at most 10485760", "PRG-R002"),
    ],
)
async def test_Y5_unsendable_result_is_a_failure(
    body: TaskBody, what: str, reason: str, code: str
) -> None:
    raised = await body.run(call_of(what))
    assert isinstance(raised, BodyRaised)
    assert reason in raised.reason
    assert raised.reason.endswith(f"{code}]")
    assert not raised.terminal
    assert await body.run(call_of("count", 1, execution_id="e2")) == BodyReturned({"number": 1})


@pytest.mark.parametrize("what", TELEMETRY)
async def test_Y6_telemetry_never_ends_a_body(body: TaskBody, what: str) -> None:
    assert await body.run(call_of(f"tell {what}", 7)) == BodyReturned({"number": 7})
    assert await body.run(call_of("count", 1, execution_id="e2")) == BodyReturned({"number": 1})


async def test_Y7_checks_run_as_bodies_do(body: TaskBody, tmp_path: Path) -> None:
    assert await body.run(checks_of(tmp_path, "pass")) == BodyReturned({})
    raised = await body.run(checks_of(tmp_path, "raise"))
    assert isinstance(raised, BodyRaised)
    assert (raised.reason, raised.terminal) == ("check judge failed: KeyError: 'shelf'", False)
    assert 'raise KeyError("shelf")' in raised.traceback
    exited = await body.run(checks_of(tmp_path, "exit"))
    assert isinstance(exited, BodyRaised)
    assert exited.reason == "check judge failed: SystemExit: it exited with code 3"
    stopped = await body.run(checks_of(tmp_path, "sleep", seconds_max=0.2))
    assert stopped == BodyStopped("the task function ran longer than 0.2 seconds")
    assert await body.run(call_of("count", 1, execution_id="e2")) == BodyReturned({"number": 1})


async def test_Y8_copies_are_reported(body: TaskBody, tmp_path: Path) -> None:
    (tmp_path / "state").write_text("state")
    told: list[None] = []

    async def upload() -> None:
        """Do nothing: who runs the function uploads nothing."""

    beside = tmp_path / "beside"
    terms = CheckpointTerms(out=str(beside / "out"), bytes_max=100)
    checkpoints = Checkpoints(terms, upload, taken=lambda: told.append(None))
    keep = replace(call_of(f"keep {tmp_path / 'state'}", 7), checkpoints=checkpoints)
    assert await body.run(keep) == BodyReturned({"number": 7})
    assert len(told) == 1
    copy = claim(beside)
    assert copy is not None
    assert copy.note == {"number": 7}
    assert (copy.directory / "state").read_text() == "state"
    small = replace(checkpoints, terms=replace(terms, bytes_max=1))
    refused = await body.run(replace(keep, checkpoints=small, execution_id=ExecutionId("e2")))
    assert isinstance(refused, BodyRaised)
    assert "has 5 bytes, expected at most 1 in a checkpoint" in refused.reason
    assert len(told) == 1


async def test_Y9_changes_are_answered(body: TaskBody) -> None:
    found: list[Changes | None] = []

    async def changes() -> Changes | None:
        if not found:
            raise LookupError("lakeFS is away")
        return found.pop()

    call = replace(call_of("changes", 3), changes=changes)
    failed = await body.run(call)
    assert isinstance(failed, BodyRaised)
    assert "lakeFS is away" in failed.reason
    assert failed.reason.endswith("PRG-B007]")
    found.append(None)
    again = replace(call, execution_id=ExecutionId("e2"))
    assert await body.run(again) == BodyReturned({"number": "everything"})
    found.append(Changes("c1", ("a", "b"), removed=("x",)))
    last = replace(call, execution_id=ExecutionId("e3"))
    assert await body.run(last) == BodyReturned({"number": "c1: ('a', 'b')"})
    assert found == []
    refused = await body.run(call_of("changes", execution_id="e4"))
    assert isinstance(refused, BodyRaised)
    assert "the task has no workspace" in refused.reason
