"""What a body gets as its workspace: the directory it was given, or a Spark workspace.

Spark is touched only for a call that has a place for it.
"""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from perago.app.authoring.current_attempt import CurrentAttempt
from perago.ports.spark_workspace import SparkWorkspace
from perago.ports.task_body import BodyCall


@contextmanager
def body_workspace(
    call: BodyCall, attempt: CurrentAttempt
) -> Generator[Path | SparkWorkspace | None]:
    """Open the workspace of a call for the time of its body."""
    if call.spark is None:
        yield call.workspace
        return
    from perago.app.spark_parts import open_spark_workspace  # noqa: PLC0415 - rarely needed

    with open_spark_workspace(call.spark, attempt) as workspace:
        yield workspace
