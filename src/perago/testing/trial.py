"""`perago run` and `TaskEnvironment`: one real attempt on a lakeFS and a Conductor in memory.

`run_task_once` sets both up, drives `run_attempt` as a worker would, and reports what came of it.
No event loop is needed: the attempt is driven by hand, so that a test may use it while a loop of
its own runs.
"""

import tempfile
from collections.abc import Coroutine, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar, cast, final

from pydantic import ValidationError
from pydantic_core import to_jsonable_python

from perago.adapters.filesystem.attempt_directory import remove_tree
from perago.adapters.memory.conductor_server import MemoryConductor
from perago.adapters.memory.installations import (
    RepositoryBuilder,
    conductor_installation,
    lakefs_installation,
)
from perago.adapters.memory.lakefs import MemoryLakeFS
from perago.adapters.memory.repository_state import MAIN
from perago.adapters.memory.system import VirtualClock, WorkerHandle
from perago.app.attempt.context import Attempt, AttemptPorts, AttemptSettings
from perago.app.attempt.run_attempt import AttemptReport, run_attempt
from perago.app.attempt.spark_workspace import remove_litter
from perago.app.authoring.envelope import resolved_prefix
from perago.app.authoring.guardrails import (
    DirectoryTree,
    ListingTree,
    WorkspaceGuardrail,
    WorkspaceTree,
    check_guardrails_on_tree,
)
from perago.app.authoring.task_definition import TaskDefinition
from perago.app.authoring.workflow_definition import child_definition
from perago.domain import errors
from perago.domain.attempt import AttemptStatus
from perago.domain.fence import FENCE_FILE
from perago.domain.paths import FENCE_PATH, ROOT_PREFIX, listing_prefix, object_path
from perago.ports.conductor import PollRequest
from perago.ports.task_body import BodyCall, BodyOutcome, BodyRaised, NoLease, TaskBody
from perago.ports.workspace import AttemptDirectories, AttemptMarker, Phase, Progress
from perago.testing.embedded_workers import run_captured
from perago.testing.file_trees import DirectoryFiles, Files, TreeDiff, compare_trees, read_tree
from perago.testing.servers import Surroundings, attempt_ports

TRIAL = "trial"  # repository, workflow and worker: each attempt has servers of its own
Result = TypeVar("Result")


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
        """Whether the attempt would be completed in Conductor."""
        return self.status is AttemptStatus.COMPLETED

    @property
    def diff(self) -> TreeDiff:
        """What the task function changed."""
        return compare_trees(self.before, self.files)


@contextmanager
def run_task_once(
    task: TaskDefinition, params: Mapping[str, object], files: Files
) -> Generator[TaskRun]:
    """Run a task on these files; every failure is the status it has as an attempt.

    What the body left lies on the disk until the block ends, whatever its size: a file is
    read in when the caller asks for it.
    """
    root = Path(tempfile.mkdtemp(prefix="perago-run-"))
    clock, watched = VirtualClock(), _Watched(task)
    try:
        objects = root / "objects"  # those that are not small lie here instead of in memory
        objects.mkdir()
        lakefs, conductor = MemoryLakeFS(files=objects), MemoryConductor(clock)
        # Conductor hands JSON to a task and nothing else.
        json_params = cast("dict[str, object]", to_jsonable_python(dict(params)))
        prefix = trial_prefix(task, json_params)
        given: dict[str, object] = {"params": json_params}
        if task.workspace is not None:
            given["workspace"] = _workspace(lakefs, files, prefix)
        conductor.put_workflow_definition(child_definition(TRIAL, task, TRIAL))
        conductor.start(TRIAL, given, task_to_domain={})
        around = Surroundings(clock, root / "attempts")
        ports = attempt_ports(
            lakefs_installation(lakefs, WorkerHandle()),
            conductor_installation(conductor, WorkerHandle()),
            around,
            watched,
            watched,
        )
        directories = _KeptDirectories(ports.directories)
        ports = replace(ports, directories=cast("AttemptDirectories", directories))
        report = _driven(_attempt(ports, task), clock)
        yield _report(task, report, watched, files, directories.kept, prefix)
    finally:
        remove_tree(root)


def trial_prefix(task: TaskDefinition, params: object) -> str:
    """The folder that a task works on; with params that are refused, as it was declared.

    The attempt refuses them too, and its end says why.
    """
    if task.workspace is None:
        return ROOT_PREFIX
    try:
        return resolved_prefix(task, params)
    except (ValidationError, errors.TaskInputError, errors.PrefixValueError):
        return task.workspace.prefix


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
        outcome, lines = run_captured(self._task, call)
        self.lines = [*self.lines, *lines]  # the checks of the staged commit are a second call
        if isinstance(outcome, BodyRaised):
            self.traceback = outcome.traceback
        return outcome

    def phase(self, phase: Phase, facts: Mapping[str, object]) -> None:
        self.phases.add(phase)
        if phase is Phase.WARNED:
            self.warnings.append(str(facts["warning"]))


class _KeptDirectories:
    """Directories that stay when their attempt removes them, so that they can be looked at."""

    def __init__(self, directories: AttemptDirectories) -> None:
        self._directories = directories
        self.kept: Path | None = None

    def __getattr__(self, verb: str) -> object:
        return getattr(self._directories, verb)

    async def create(self, marker: AttemptMarker) -> Path:
        self.kept = await self._directories.create(marker)
        return self.kept

    async def remove(self, directory: Path) -> None:
        await self._directories.leave(directory)


def _workspace(lakefs: MemoryLakeFS, files: Files, prefix: str) -> dict[str, object]:
    """A commit of these files, as the input of a task.

    The repository has the fence, so that the policy is `settled`, as it is where Perago is set up
    as the documentation says; a task that names another policy gets that one.
    """
    repository = RepositoryBuilder(lakefs, TRIAL)
    repository.write(FENCE_PATH, FENCE_FILE)
    for path in files:
        # A file of a directory is not read in, because it may be large.
        content = files.local_path(path) if isinstance(files, DirectoryFiles) else files[path]
        repository.write(object_path(prefix, path), content)
    commit = repository.commit({}, message="the files of the trial")
    return {"repository": TRIAL, "branch": MAIN, "refType": "commit", "ref": commit}


async def _attempt(ports: AttemptPorts, task: TaskDefinition) -> AttemptReport:
    (record,) = await ports.queue.poll(PollRequest(task.name, TRIAL, count=1))
    attempt = Attempt(
        ports=ports,
        task=task,
        record=record,
        execution_id=ports.identities.new_execution_id(),
        settings=AttemptSettings(TRIAL, keeps_outcomes=False),
    )
    return await run_attempt(attempt, NoLease())


def _driven(work: Coroutine[object, object, Result], clock: VirtualClock) -> Result:
    """Run a coroutine that waits for nothing but virtual time, which passes at once."""
    while True:
        try:
            work.send(None)
        except StopIteration as ended:
            result: Result = ended.value
            return result
        seconds = clock.seconds_to_next()
        if seconds is not None:
            clock.advance(seconds)


def _written_tree(task: TaskDefinition, directory: Path | None, prefix: str) -> Path | None:
    """The directory that the task function wrote to, if it had one."""
    if directory is None or task.workspace is None:
        return None
    if not task.on_spark:
        return directory
    output = directory / "output" / listing_prefix(prefix)
    if not output.is_dir():
        return None
    remove_litter(output)
    return output


def _report(
    task: TaskDefinition,
    report: AttemptReport,
    watched: _Watched,
    before: Files,
    directory: Path | None,
    prefix: str,
) -> TaskRun:
    update = report.update
    assert update is not None, "nothing takes the row of a trial away"
    tree, after = _written_tree(task, directory, prefix), before
    # Before that the directory did not hold the whole input; a body on Spark gets it right before
    # it runs.
    if tree is not None and watched.phases & {Phase.MATERIALISED, Phase.FUNCTION_ENDED}:
        after = read_tree(tree, prefix=prefix, skip_links=True)
    result = cast("Mapping[str, object] | None", update.output.get("result"))
    judged = ListingTree(after) if tree is None or task.on_spark else DirectoryTree(tree)
    return TaskRun(
        status=update.status,
        result=result if report.error is None else None,
        reason=update.reason,
        traceback=watched.traceback,
        before=before,
        files=after,
        guardrails=tuple(
            _verdicts(task, report.error, watched.phases, ListingTree(before), judged)
        ),
        lines=tuple(watched.lines),
        warnings=tuple(watched.warnings),
    )


def _verdicts(
    task: TaskDefinition,
    error: Exception | None,
    phases: set[Phase],
    before: WorkspaceTree,
    after: WorkspaceTree,
) -> Iterator[GuardrailVerdict]:
    """Every guardrail that the attempt came to: it stops at the first one, here all are shown."""
    spec = task.workspace
    if spec is None:
        return
    if Phase.PRE_CHECKED in phases or isinstance(error, errors.PreGuardrailViolation):
        yield from _judged(spec.pre, "pre", before)
    if Phase.POST_CHECKED in phases or isinstance(error, errors.PostGuardrailViolation):
        yield from _judged(spec.post, "post", after)


def _judged(
    guardrails: Sequence[WorkspaceGuardrail], phase: str, tree: WorkspaceTree
) -> Iterator[GuardrailVerdict]:
    for guardrail in guardrails:
        violation = None
        try:
            check_guardrails_on_tree(tree, [guardrail], phase)
        except errors.GuardrailViolation as found:
            violation = str(found)
        yield GuardrailVerdict(phase, guardrail.kind, guardrail.path, violation)
