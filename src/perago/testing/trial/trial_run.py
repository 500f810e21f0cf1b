"""Runs one task once on some files: a real attempt on servers in memory, and what came of it.

The steps, their order and their failures are the attempt's own; here they are only looked at.
"""

import tempfile
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast, final

from pydantic_core import to_jsonable_python

from perago.adapters.filesystem.tree_removal import remove_tree
from perago.app.attempt.run_attempt import AttemptReport
from perago.app.attempt.spark_files import remove_litter
from perago.app.authoring.guardrail_declaration import WorkspaceGuardrail
from perago.app.authoring.guardrails import check_guardrails, check_guardrails_on_listing
from perago.app.authoring.task_definition import TaskDefinition
from perago.domain.attempt import AttemptStatus
from perago.domain.authoring_errors import (
    GuardrailViolation,
    PostGuardrailViolation,
    PreGuardrailViolation,
)
from perago.domain.prefix_projection import ROOT_PREFIX, listing_prefix
from perago.ports.progress import Phase, Progress
from perago.ports.task_body import BodyCall, BodyOutcome, BodyRaised, TaskBody
from perago.testing.trial.captured_body import run_captured
from perago.testing.trial.file_tree import (
    DirectoryFiles,
    Files,
    TreeDiff,
    compare_trees,
    read_tree,
)
from perago.testing.trial.trial_world import (
    KeptDirectories,
    attempt_once,
    driven,
    trial_servers,
    trial_world,
)


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
        """Whether Conductor would have been told that the attempt completed."""
        return self.status is AttemptStatus.COMPLETED

    @property
    def diff(self) -> TreeDiff:
        """What the body changed."""
        return compare_trees(self.before, self.files)


@final
class _Watched(TaskBody, Progress):
    """Runs the body in this thread, and keeps what it said and what the attempt said."""

    def __init__(self, task: TaskDefinition) -> None:
        self._task = task
        self.lines: Sequence[str] = ()
        self.traceback = ""
        self.phases: set[Phase] = set()
        self.warnings: list[str] = []

    async def run(self, call: BodyCall) -> BodyOutcome:
        outcome, self.lines = run_captured(self._task, call)
        if isinstance(outcome, BodyRaised):
            self.traceback = outcome.traceback
        return outcome

    def phase(self, phase: Phase, facts: Mapping[str, object]) -> None:
        self.phases.add(phase)
        if phase is Phase.WARNED:
            self.warnings.append(str(facts["warning"]))


@contextmanager
def run_task_once(
    task: TaskDefinition, params: Mapping[str, object], files: Files
) -> Generator[TaskRun]:
    """Run a task on these files; every failure is the status it has as an attempt.

    What the body left lies on the disk until the block ends, whatever its size: only files that
    somebody reads are read in.
    """
    root = Path(tempfile.mkdtemp(prefix="perago-run-"))
    servers, watched = trial_servers(root), _Watched(task)
    directories = KeptDirectories(root / "attempts", servers.clock)
    try:
        world = trial_world(servers, directories, watched, watched)
        # Conductor hands JSON to a task and nothing else.
        given = cast("dict[str, object]", to_jsonable_python(dict(params)))
        report = attempt_once(servers, world, task, given, files)
        yield _told(task, report, watched, files, directories.kept)
    finally:
        # The tree first, because a body may have put anything in the place of its directory.
        remove_tree(root)
        driven(directories.forget(), servers.clock)


def _told(
    task: TaskDefinition,
    report: AttemptReport,
    watched: _Watched,
    before: Files,
    directory: Path | None,
) -> TaskRun:
    update = report.update
    assert update is not None, "nothing takes the row of a trial away"
    tree = _tree(task, directory)
    result = cast("Mapping[str, object] | None", update.output.get("result"))
    return TaskRun(
        status=update.status,
        result=result if report.error is None else None,
        reason=update.reason,
        traceback=watched.traceback,
        before=before,
        files=before if tree is None or not _was_opened(watched) else _left(task, tree),
        guardrails=tuple(_verdicts(task, report.error, watched.phases, before, tree)),
        lines=tuple(watched.lines),
        warnings=tuple(watched.warnings),
    )


def _was_opened(watched: _Watched) -> bool:
    """Whether the directory held the whole input: a body on Spark gets it right before it runs."""
    return not watched.phases.isdisjoint({Phase.MATERIALISED, Phase.BODY_ENDED})


def _tree(task: TaskDefinition, directory: Path | None) -> Path | None:
    """The directory that the body wrote to, if it had one."""
    if directory is None or task.workspace is None:
        return None
    if not task.on_spark:
        return directory
    output = directory / "output" / listing_prefix(task.workspace.prefix)
    return output if output.is_dir() else None


def _left(task: TaskDefinition, tree: Path) -> DirectoryFiles:
    """The files that the body left there, without what a Spark job leaves beside them."""
    if task.on_spark:
        remove_litter(tree)
    prefix = task.workspace.prefix if task.workspace else ROOT_PREFIX
    return read_tree(tree, prefix=prefix, skip_links=True)


def _verdicts(
    task: TaskDefinition,
    error: Exception | None,
    phases: set[Phase],
    before: Files,
    tree: Path | None,
) -> Iterator[GuardrailVerdict]:
    """Every guardrail that the attempt came to: it stops at the first one, here all are shown."""
    spec = task.workspace
    if spec is None:
        return
    if Phase.PRE_CHECKED in phases or isinstance(error, PreGuardrailViolation):
        yield from _judged(spec.pre, "pre", lambda one: _check_listing(before, one, "pre"))
    if Phase.POST_CHECKED in phases or isinstance(error, PostGuardrailViolation):
        if tree is None:  # a body on Spark that may not write
            yield from _judged(spec.post, "post", lambda one: _check_listing(before, one, "post"))
        elif task.on_spark:
            left = _left(task, tree)
            yield from _judged(spec.post, "post", lambda one: _check_listing(left, one, "post"))
        else:
            yield from _judged(spec.post, "post", lambda one: check_guardrails(tree, [one], "post"))


def _judged(
    guardrails: Iterable[WorkspaceGuardrail],
    phase: str,
    check: Callable[[WorkspaceGuardrail], None],
) -> Iterator[GuardrailVerdict]:
    for guardrail in guardrails:
        violation = None
        try:
            check(guardrail)
        except GuardrailViolation as found:
            violation = str(found)
        yield GuardrailVerdict(phase, guardrail.kind, guardrail.path, violation)


def _check_listing(files: Files, guardrail: WorkspaceGuardrail, phase: str) -> None:
    check_guardrails_on_listing(files, [guardrail], phase)
