"""Runs one task on a dictionary of files or a directory: the quickest test there is."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import final

from pydantic import BaseModel

from perago.app.authoring.task_definition import TaskDefinition
from perago.domain.prefix_projection import ROOT_PREFIX
from perago.testing.definitions import TaskFunction, definition_of
from perago.testing.trial.file_tree import Files, diff_lines, read_tree
from perago.testing.trial.trial_run import TaskRun, run_task_once


@final
class TaskEnvironment:
    """Runs one attempt of a task on a copy of its input, on servers in memory."""

    def run(
        self,
        task: TaskDefinition | TaskFunction,
        files: Mapping[str, bytes | str] | Path | None = None,
        params: Mapping[str, object] | BaseModel | None = None,
    ) -> TaskRun:
        """Run once; a failure is a status and a reason, as Conductor would be told."""
        definition = definition_of(task)
        prefix = definition.workspace.prefix if definition.workspace else ROOT_PREFIX
        if isinstance(files, Path):
            tree: Files = read_tree(files, prefix=prefix)
        else:
            tree = {path: _content(content) for path, content in (files or {}).items()}
        given = params.model_dump(mode="json") if isinstance(params, BaseModel) else (params or {})
        with run_task_once(definition, given, tree) as done:
            # The directory goes with the block.
            return replace(done, before=dict(done.before), files=dict(done.files))

    def assert_completed(self, run: TaskRun) -> None:
        """Fail with everything that is known unless a run completed."""
        if not run.completed:
            raise AssertionError("\n".join(describe(run)))


def _content(content: bytes | str) -> bytes:
    return content.encode() if isinstance(content, str) else content


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
