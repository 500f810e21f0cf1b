"""The built-in task types: a worker with a workspace task polls them, and serves them itself."""

from collections.abc import Sequence

from perago.app.authoring.task_definition import TaskDefinition
from perago.app.runs.begin import BEGIN_TASK
from perago.app.runs.finish import FINISH_TASK
from perago.app.runs.join import JOIN_TASK

BUILT_IN = (JOIN_TASK, BEGIN_TASK, FINISH_TASK)


def served_tasks(tasks: Sequence[TaskDefinition]) -> list[TaskDefinition]:
    """The tasks of a worker, and the built-in ones if it has lakeFS, which they need.

    A task of the author with such a name counts for more: releases before had fewer of them.
    """
    names = {task.name for task in tasks}
    has_lakefs = any(task.has_workspace for task in tasks)
    more = [task for task in BUILT_IN if task.name not in names] if has_lakefs else []
    return [*tasks, *more]
