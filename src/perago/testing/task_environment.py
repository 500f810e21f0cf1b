"""Runs one task on a dictionary of files or a directory: the quickest test there is."""

from collections.abc import Mapping
from pathlib import Path
from typing import final

from pydantic import BaseModel

from perago.app.authoring.task_definition import TaskDefinition
from perago.app.trial.file_tree import diff_lines, read_tree
from perago.app.trial.trial_run import TaskRun, run_task_once
from perago.testing.definitions import TaskFunction, definition_of


@final
class TaskEnvironment:
    """Runs a task's function between its guardrails, as an attempt does, on a copy of its input."""

    def run(
        self,
        task: TaskDefinition | TaskFunction,
        files: Mapping[str, bytes | str] | Path | None = None,
        params: Mapping[str, object] | BaseModel | None = None,
    ) -> TaskRun:
        """Run once; a failure is a status and a reason, as Conductor would be told."""
        tree = read_tree(files) if isinstance(files, Path) else (files or {})
        given = params.model_dump(mode="json") if isinstance(params, BaseModel) else (params or {})
        return run_task_once(definition_of(task), given, tree)

    def assert_completed(self, run: TaskRun) -> None:
        """Fail with everything that is known unless a run completed."""
        if not run.completed:
            raise AssertionError("\n".join(describe(run)))


def describe(run: TaskRun) -> list[str]:
    """A run for people: status, reason, verdicts, output, difference."""
    lines = [f"{run.status}: {run.reason}" if run.reason else str(run.status)]
    if run.result is not None:
        lines.append(f"result: {dict(run.result)}")
    for verdict in run.guardrails:
        found = "holds" if verdict.holds else f"BROKEN: {verdict.violation}"
        lines.append(f"{verdict.phase} {verdict.kind}({verdict.path!r}) {found}")
    lines += [f"warning: {warning}" for warning in run.warnings]
    lines += [f"| {line}" for line in run.lines]
    lines += diff_lines(run.before, run.files)
    if run.traceback:
        lines += run.traceback.rstrip().splitlines()
    return lines
