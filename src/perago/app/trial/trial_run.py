"""Runs one task once on a copy of a directory: guardrails, body, result, difference.

The order and the failures are those of an attempt; nothing is fenced, staged or sent.
"""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from perago.app.attempt.spark_files import remove_litter
from perago.app.authoring.envelope import params_model_value
from perago.app.authoring.failure import result_for_exception
from perago.app.authoring.guardrail_declaration import WorkspaceGuardrail
from perago.app.authoring.guardrails import check_guardrails
from perago.app.authoring.task_definition import TaskDefinition
from perago.app.trial.captured_body import run_captured
from perago.app.trial.file_tree import Files, TreeDiff, compare_trees, read_tree
from perago.app.trial.trial_place import TRIAL, TrialPlace, make_place
from perago.domain.attempt import AttemptSnapshot, AttemptStatus, ExecutionId
from perago.domain.authoring_errors import GuardrailViolation
from perago.domain.errors import BodyFailedError, ReservedPathError
from perago.domain.reserved_paths import is_refused_object
from perago.ports.task_body import BodyCall, BodyRaised, BodyReturned, BodyStopped

REASON_LENGTH_MAX = 500


@dataclass(frozen=True, slots=True)
class GuardrailVerdict:
    """One guardrail in one phase; `violation` is None when it held."""

    phase: str
    kind: str
    path: str
    violation: str | None

    @property
    def holds(self) -> bool:
        """Whether the workspace passed it."""
        return self.violation is None


@dataclass(frozen=True, slots=True)
class TaskRun:
    """What one run of a task did."""

    status: AttemptStatus
    result: Mapping[str, object] | None = None
    reason: str | None = None
    traceback: str = ""
    before: Files = field(default_factory=dict[str, bytes])
    files: Files = field(default_factory=dict[str, bytes])
    guardrails: tuple[GuardrailVerdict, ...] = ()
    lines: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def completed(self) -> bool:
        """Whether an attempt would have gone on to publish."""
        return self.status is AttemptStatus.COMPLETED

    @property
    def diff(self) -> TreeDiff:
        """What the body changed."""
        return compare_trees(self.before, self.files)


def run_task_once(
    task: TaskDefinition, params: Mapping[str, object], files: Mapping[str, bytes | str]
) -> TaskRun:
    """Run a task on these files; every failure becomes the status it would have as an attempt."""
    with tempfile.TemporaryDirectory(prefix="perago-run-") as directory:
        place = make_place(task, Path(directory), files)
        return _Trial(task, dict(params), place).run()


class _Trial:
    """One run in the making."""

    def __init__(
        self, task: TaskDefinition, params: Mapping[str, object], place: TrialPlace
    ) -> None:
        self._task = task
        self._params = params
        self._spark = place.spark
        self._root = place.root
        self._before = read_tree(place.root)
        self._verdicts: list[GuardrailVerdict] = []
        self._lines: list[str] = []
        self._warnings: list[str] = []
        self._traceback = ""

    def run(self) -> TaskRun:
        result: Mapping[str, object] | None = None
        status, reason = AttemptStatus.COMPLETED, None
        try:
            params_model_value(self._task, self._params)
            self._check("pre")
            result = self._call()
            self._check("post")
            self._check_writes()
        except Exception as error:  # noqa: BLE001 - every failure is the run's status
            ended = result_for_exception(error, max_length=REASON_LENGTH_MAX)
            status, reason = AttemptStatus(ended.status), ended.reason_for_incompletion
        return TaskRun(
            status=status,
            result=result if status is AttemptStatus.COMPLETED else None,
            reason=reason,
            traceback=self._traceback,
            before=self._before,
            files=read_tree(self._root, skip_links=True),
            guardrails=tuple(self._verdicts),
            lines=tuple(self._lines),
            warnings=tuple(self._warnings),
        )

    def _check(self, phase: str) -> None:
        """Judge every guardrail, so that all can be shown; then fail as an attempt does."""
        if self._task.workspace is None:
            return
        spec = self._task.workspace
        guardrails = spec.pre if phase == "pre" else spec.post
        self._verdicts += [self._judge(phase, guardrail) for guardrail in guardrails]
        check_guardrails(self._root, guardrails, phase)

    def _judge(self, phase: str, guardrail: WorkspaceGuardrail) -> GuardrailVerdict:
        violation = None
        try:
            check_guardrails(self._root, [guardrail], phase)
        except GuardrailViolation as found:
            violation = str(found)
        return GuardrailVerdict(phase, guardrail.kind, guardrail.path, violation)

    def _call(self) -> Mapping[str, object]:
        snapshot = AttemptSnapshot(TRIAL, TRIAL, TRIAL, self._task.name, _RUNNING)
        on_files = self._task.has_workspace and self._spark is None
        call = BodyCall(
            task_name=self._task.name,
            attempt=snapshot,
            execution_id=ExecutionId(TRIAL),
            params=self._params,
            workspace=self._root if on_files else None,
            spark=self._spark,
        )
        outcome, self._lines = run_captured(self._task, call)
        if self._spark is not None:
            remove_litter(self._root)
        match outcome:
            case BodyReturned(result):
                return result
            case BodyRaised(reason, terminal, traceback):
                self._traceback = traceback
                raise BodyFailedError(reason, terminal=terminal)
            case BodyStopped(reason):
                raise BodyFailedError(reason)

    def _check_writes(self) -> None:
        """What publication would refuse or drop."""
        files = read_tree(self._root)
        spec = self._task.workspace
        if spec is None:
            return
        if spec.read_only and not compare_trees(self._before, files).is_empty:
            self._warnings.append("local writes of a read-only task are dropped")
        if spec.prefix == "/":
            refused = [
                path.relative_to(self._root).as_posix()
                for path in self._root.rglob("*")
                if path.is_file() and is_refused_object(path.relative_to(self._root).as_posix())
            ]
            if refused:
                raise ReservedPathError(refused[0])


_RUNNING = AttemptStatus.IN_PROGRESS
