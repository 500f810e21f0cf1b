"""Task bodies in the loop itself: nothing waits, nothing runs beside them, their output is kept.

For embedded worlds. Must not be used where two bodies run at once: output is the process's.
"""

from collections.abc import Mapping
from typing import final

from perago.app.authoring.task_definition import TaskDefinition
from perago.ports.task_body import BodyCall, BodyOutcome, TaskBody
from perago.testing.attempt_story import EventKind, StoryProgress
from perago.testing.trial.captured_body import run_captured


@final
class InlineBody(TaskBody):
    """Runs the functions of the given tasks."""

    def __init__(self, tasks: Mapping[str, TaskDefinition], progress: StoryProgress) -> None:
        self._tasks = tasks
        self._progress = progress

    async def run(self, call: BodyCall) -> BodyOutcome:
        """Run one call to its end and keep what it printed and logged."""
        outcome, lines = run_captured(self._tasks[call.task_name], call)
        for line in lines:
            self._progress.note(EventKind.OUTPUT, line)
        return outcome
