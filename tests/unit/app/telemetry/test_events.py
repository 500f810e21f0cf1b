"""An attempt has one stream of events: every reader gets all of them, and none disturbs another."""

import logging
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

import pytest
from tests.kit_cases import Params, Runs, counting_task

from perago import RetryPolicy, TaskControls, TaskDefinition, WorkspaceSpec, task
from perago.adapters.memory.system import VirtualClock
from perago.app.attempt.context import Attempt
from perago.app.telemetry.listeners import AttemptEvents, AttemptLog
from perago.domain.errors import PeragoError, PublishFenceError
from perago.ports.errors import UnavailableError
from perago.ports.workspace import Phase
from perago.testing import PeragoEnvironment, crash
from perago.testing.story_views import attempt_lines

PAGE = Path(__file__).parents[4] / "docs/how-to/send-events.md"


class Heard:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.events: list[tuple[Attempt, Phase, float]] = []

    def phase(
        self, attempt: Attempt, phase: Phase, facts: Mapping[str, object], seconds: float
    ) -> None:
        """Keep it."""
        del facts
        self.events.append((attempt, phase, seconds))


class Broken:
    """Fails at every event."""

    def phase(
        self, attempt: Attempt, phase: Phase, facts: Mapping[str, object], seconds: float
    ) -> NoReturn:
        """Fail."""
        text = f"no room for {attempt} {phase} {facts} {seconds}"
        raise RuntimeError(text)


def test_the_page_describes_every_event_once() -> None:
    table = PAGE.read_text(encoding="utf-8").split("\n## The events\n")[1]
    cells = re.findall(r"^\| (`.*?`) \|", table, re.MULTILINE)
    names = [name for cell in cells for name in re.findall(r"`([\w-]+)`", cell)]
    assert sorted(names) == sorted(Phase)


async def test_the_story_and_any_other_reader_get_the_same_events() -> None:
    heard = Heard()
    with PeragoEnvironment() as env:
        env.listen(Broken())
        env.listen(heard)
        env.plan(crash(after="merge"))
        await env.run(counting_task()[0], await env.repository())
        for story in env.attempts:
            mine = [
                str(phase)
                for attempt, phase, _ in heard.events
                if attempt.row.task_id == story.task_id
            ]
            assert story.phases() == tuple(mine)
        died, resumed = env.attempts
    assert (died.status, died.phases()[-1]) == ("DIED", "fenced")
    assert (resumed.status, resumed.phases()[-1]) == ("COMPLETED", "ended")


def _failing_once() -> TaskDefinition:
    runs: list[int] = []

    @task(
        name="clean",
        owner_email="data@example.com",
        workspace=WorkspaceSpec(prefix="data"),
        controls=TaskControls(retry=RetryPolicy(count=1, delay_seconds=0)),
    )
    def clean(workspace: Path, params: Params) -> Runs:
        del workspace, params
        runs.append(len(runs) + 1)
        if len(runs) == 1:
            raise ValueError("no luck")
        return Runs(run=runs[-1])

    definition: TaskDefinition = vars(clean)["__perago_task__"]
    return definition


async def test_the_end_says_why_and_the_story_and_the_log_show_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "perago.attempt")
    with PeragoEnvironment() as env:
        env.listen(AttemptLog())
        await env.run(_failing_once(), await env.repository())
        failed = env.attempts[0]
    assert failed.reason is not None
    assert "no luck" in failed.reason
    assert list(attempt_lines(failed))[-1].endswith(f"reason: {failed.reason}")
    lines = [record for record in caplog.records if record.message == "attempt ended"]
    assert [record.levelname for record in lines] == ["WARNING", "INFO"]
    facts = vars(lines[0])["perago"]
    assert (facts["status"], facts["reason"]) == ("FAILED", failed.reason)
    assert "ValueError: no luck" in facts["traceback"]
    assert "error" not in facts


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (PublishFenceError("main has moved"), False),
        (UnavailableError("lakeFS is away"), False),
        (PeragoError("an unknown state"), True),
        (KeyError("a mistake of Perago"), True),
    ],
)
async def test_perago_shows_its_own_lines_of_errors_without_a_code_alone(
    caplog: pytest.LogCaptureFixture,
    error: Exception,
    shown: bool,  # noqa: FBT001  # a row
) -> None:
    heard = Heard()
    with PeragoEnvironment() as env:
        env.listen(heard)
        await env.run(counting_task()[0], await env.repository())
    AttemptLog().phase(heard.events[0][0], Phase.ENDED, {"error": error}, 0)
    facts = vars(caplog.records[-1])["perago"]
    assert ("traceback" in facts) is shown
    assert "error" not in facts


async def test_what_may_need_an_operator_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "perago.attempt")
    heard = Heard()
    with PeragoEnvironment() as env:
        env.listen(heard)
        await env.run(counting_task()[0], await env.repository())
    steps = [each for each in Phase if each not in {Phase.ENDED, Phase.COMPLETED}]
    for phase in steps:
        AttemptLog().phase(heard.events[0][0], phase, {}, 0)
    warned = {
        vars(record)["perago"]["phase"]
        for record in caplog.records
        if record.levelno == logging.WARNING
    }
    assert warned == {"warned", "lost", "handed-back", "waiting"}


async def test_a_lost_lease_takes_no_time_from_the_step_around_it() -> None:
    clock, earlier, heard = VirtualClock(), Heard(), Heard()
    with PeragoEnvironment() as env:
        env.listen(earlier)
        await env.run(counting_task()[0], await env.repository())
    (some_attempt, _, _) = earlier.events[0]
    events = AttemptEvents(some_attempt, [heard], clock)
    clock.advance(2)
    events.phase(Phase.STARTED, {})
    clock.advance(3)
    events.phase(Phase.LOST, {"field": "status"})
    clock.advance(4)
    events.phase(Phase.FUNCTION_ENDED, {})
    events.phase(Phase.ENDED, {"status": "not sent", "recorded": "superseded"})
    assert [(phase, seconds) for _, phase, seconds in heard.events] == [
        (Phase.STARTED, 2),
        (Phase.LOST, 3),
        (Phase.FUNCTION_ENDED, 7),
        (Phase.ENDED, 9),
    ]
