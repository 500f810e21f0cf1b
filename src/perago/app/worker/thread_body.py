"""Task bodies in threads of this process: for tests, `perago run`, and tiny deployments.

A thread cannot be killed: a body beyond its limit is abandoned, and its result is dropped.
"""

import asyncio
import traceback
from collections.abc import Mapping
from typing import final

from perago.app.authoring.failure import error_is_terminal, failure_reason
from perago.app.authoring.invocation import invoke_body
from perago.app.authoring.task_definition import TaskDefinition
from perago.ports.task_body import (
    BodyCall,
    BodyOutcome,
    BodyRaised,
    BodyReturned,
    BodyStopped,
    TaskBody,
)


@final
class ThreadBody(TaskBody):
    """Runs the functions of the given tasks, one thread a call."""

    def __init__(self, tasks: Mapping[str, TaskDefinition]) -> None:
        self._tasks = tasks

    async def run(self, call: BodyCall) -> BodyOutcome:
        """Run one call; its thread goes on when the limit ends the waiting."""
        work = asyncio.to_thread(run_body, self._tasks[call.task_name], call)
        if not call.seconds_max:
            return await work
        try:
            return await asyncio.wait_for(work, call.seconds_max)
        except TimeoutError:
            return BodyStopped(f"the body ran longer than {call.seconds_max:g} seconds")


def run_body(task: TaskDefinition, call: BodyCall) -> BodyOutcome:
    """Call the function; whatever it raises becomes a value, an exit of the interpreter too."""
    try:
        return BodyReturned(invoke_body(task, call.params, call.workspace))
    except SystemExit as error:
        return BodyRaised(f"SystemExit: the body exited with code {error.code}")
    except Exception as error:  # noqa: BLE001 - a body may raise anything
        return BodyRaised(
            reason=failure_reason(error),
            terminal=error_is_terminal(error),
            traceback="".join(traceback.format_exception(error)),
        )
