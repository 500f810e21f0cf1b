"""`perago run` and `TaskEnvironment`: one real attempt on a lakeFS and a Conductor in memory.

`run_task_once` sets both up, drives `run_attempt` as a worker would, and reports what came of it.
No event loop is needed: the attempt is driven by hand, so that a test may use it while a loop of
its own runs.
"""

import tempfile
from collections.abc import Callable, Coroutine, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar, cast, final

from pydantic import ValidationError
from pydantic_core import to_jsonable_python

from perago.adapters.filesystem.attempt_directory import LocalAttemptDirectories
from perago.adapters.filesystem.tree_removal import remove_tree
from perago.adapters.memory.conductor_server import MemoryConductor
from perago.adapters.memory.installations import (
    MAIN,
    RepositoryBuilder,
    conductor_installation,
    lakefs_installation,
)
from perago.adapters.memory.lakefs import FILE_BYTES_MIN, MemoryLakeFS
from perago.adapters.memory.system import SeededIdentities, SequentialConcurrency, VirtualClock
from perago.adapters.memory.transport import MemoryTransport
from perago.adapters.memory.worker_handle import WorkerHandle
from perago.adapters.workspace.pipeline import LocalWorkspacePipeline
from perago.adapters.workspace.staging import LocalDirectoryUploads
from perago.app.attempt.context import (
    Attempt,
    AttemptPorts,
    AttemptSettings,
    KnownRepositories,
    LakeFS,
)
from perago.app.attempt.run_attempt import AttemptReport, run_attempt
from perago.app.attempt.spark_workspace import remove_litter
from perago.app.authoring.guardrails import (
    WorkspaceGuardrail,
    check_guardrails,
    check_guardrails_on_listing,
)
from perago.app.authoring.prefix_template import resolved_prefix
from perago.app.authoring.task_definition import TaskDefinition
from perago.domain.attempt import AttemptStatus, ExecutionId
from perago.domain.errors import (
    GuardrailViolation,
    PostGuardrailViolation,
    PrefixValueError,
    PreGuardrailViolation,
    TaskInputError,
)
from perago.domain.fence import FENCE_FILE
from perago.domain.paths import FENCE_PATH, ROOT_PREFIX, listing_prefix, object_path
from perago.ports.conductor import PollRequest
from perago.ports.task_body import BodyCall, BodyOutcome, BodyRaised, TaskBody
from perago.ports.workspace import AttemptDirectories, AttemptMarker, Leftover, Phase, Progress
from perago.testing.embedded_workers import NoLease, fence_trust
from perago.testing.trial.captured_body import (
    DirectoryFiles,
    Files,
    TreeDiff,
    compare_trees,
    read_tree,
    run_captured,
)

TRIAL = "trial"  # repository, workflow and worker: each attempt has servers of its own
Result = TypeVar("Result")


@final
class KeptDirectories(AttemptDirectories):
    """Directories that stay when their attempt removes them, so that they can be looked at."""

    def __init__(self, root: Path, clock: VirtualClock) -> None:
        self._directories = LocalAttemptDirectories(root, clock, SequentialConcurrency())
        self.kept: Path | None = None

    async def create(self, marker: AttemptMarker) -> Path:
        """Create it and remember where it is."""
        self.kept = await self._directories.create(marker)
        return self.kept

    async def record_staging(self, directory: Path, repository: str, branch: str) -> None:
        """Write the branch down."""
        await self._directories.record_staging(directory, repository, branch)

    async def check(self, directory: Path, execution_id: ExecutionId) -> None:
        """Refuse a directory that is not that execution's any more."""
        await self._directories.check(directory, execution_id)

    async def remove(self, directory: Path) -> None:
        """Leave it where it is."""

    async def forget(self) -> None:
        """Let the lock of a directory go that is no longer there."""
        if self.kept is not None:
            await self._directories.remove(self.kept)

    async def leftovers(self, *, older_than_seconds: float) -> Sequence[Leftover]:
        """What others left."""
        return await self._directories.leftovers(older_than_seconds=older_than_seconds)

    async def keep_outcome(self, directory: Path, key: str, text: str) -> None:
        """Keep nothing, because a trial has no later attempt that could go on."""

    async def kept_outcomes(self, key: str) -> Sequence[tuple[Path, str]]:
        """None."""
        del key
        return ()

    async def leave(self, directory: Path) -> None:
        """It stays in any case."""

    async def take_over(self, directory: Path, marker: AttemptMarker) -> None:
        """Never called, because a trial has one attempt only."""


@dataclass(frozen=True, slots=True)
class TrialServers:
    """Both servers and the time that they share."""

    clock: VirtualClock
    lakefs: MemoryLakeFS
    conductor: MemoryConductor


def trial_servers(root: Path) -> TrialServers:
    """New servers; objects that are not small lie below `root` instead of in memory."""
    clock = VirtualClock()
    objects = root / "objects"
    objects.mkdir()
    return TrialServers(clock, MemoryLakeFS(files=objects), MemoryConductor(clock))


def trial_ports(
    servers: TrialServers, directories: AttemptDirectories, body: TaskBody, progress: Progress
) -> AttemptPorts:
    """Everything that one attempt asks."""
    lakefs = lakefs_installation(servers.lakefs, WorkerHandle())
    identities, concurrency = SeededIdentities(), SequentialConcurrency()
    transport = MemoryTransport(lakefs.objects, concurrency)
    return AttemptPorts(
        lakefs=LakeFS(
            branches=lakefs.branches,
            commits=lakefs.commits,
            tags=lakefs.tags,
            objects=lakefs.objects,
            repositories=lakefs.repositories,
            pipeline=LocalWorkspacePipeline(lakefs.objects, lakefs.commits, concurrency, transport),
            trust=fence_trust(lakefs, identities, concurrency, servers.clock),
            known=KnownRepositories(lakefs.repositories, lakefs.branches, lakefs.commits),
            uploads=LocalDirectoryUploads(lakefs.objects, lakefs.commits, transport, concurrency),
        ),
        queue=conductor_installation(servers.conductor, WorkerHandle()).queue,
        body=body,
        directories=directories,
        clock=servers.clock,
        identities=identities,
        concurrency=concurrency,
        progress=progress,
    )


def attempt_once(
    servers: TrialServers,
    ports: AttemptPorts,
    task: TaskDefinition,
    params: Mapping[str, object],
    files: Files,
) -> AttemptReport:
    """Start a workflow of this task on a commit of these files, and run its one attempt.

    The repository has the fence, so that the policy is `settled`, as it is where Perago is set up
    as the documentation says; a task that names another policy gets that one.
    """
    given: dict[str, object] = {"params": params}
    if task.workspace is not None:
        repository = RepositoryBuilder(servers.lakefs, TRIAL)
        repository.write(FENCE_PATH, FENCE_FILE)
        for path in files:
            at = object_path(trial_prefix(task, params), path)
            repository.write(at, _content(files, path))
        commit = repository.commit({}, message="the files of the trial")
        local_path = {"repository": TRIAL, "branch": MAIN, "refType": "commit", "ref": commit}
        given["workspace"] = local_path
    return driven(_attempt_once(servers, ports, task, given), servers.clock)


async def _attempt_once(
    servers: TrialServers, ports: AttemptPorts, task: TaskDefinition, given: Mapping[str, object]
) -> AttemptReport:
    step = {
        "name": task.name,
        "taskReferenceName": TRIAL,
        "type": "SIMPLE",
        "inputParameters": {name: f"${{workflow.input.{name}}}" for name in given},
    }
    workflow = {"name": TRIAL, "version": 1, "schemaVersion": 2, "tasks": [step]}
    servers.conductor.put_workflow_definition(workflow)
    servers.conductor.start(TRIAL, given, task_to_domain={})
    (record,) = await ports.queue.poll(PollRequest(task.name, TRIAL, count=1))
    attempt = Attempt(
        task=task,
        record=record,
        execution_id=ports.identities.new_execution_id(),
        settings=AttemptSettings(TRIAL, keeps_outcomes=False),
    )
    return await run_attempt(ports, attempt, NoLease())


def driven(work: Coroutine[object, object, Result], clock: VirtualClock) -> Result:
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


def _content(files: Files, path: str) -> bytes | Path:
    """A large file of a directory is not read in."""
    if isinstance(files, DirectoryFiles):
        local_path = files.local_path(path)
        return (
            local_path if local_path.stat().st_size >= FILE_BYTES_MIN else local_path.read_bytes()
        )
    return files[path]


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


@contextmanager
def run_task_once(
    task: TaskDefinition, params: Mapping[str, object], files: Files
) -> Generator[TaskRun]:
    """Run a task on these files; every failure is the status it has as an attempt.

    What the body left lies on the disk until the block ends, whatever its size: a file is
    read in when the caller asks for it.
    """
    root = Path(tempfile.mkdtemp(prefix="perago-run-"))
    servers, watched = trial_servers(root), _Watched(task)
    directories = KeptDirectories(root / "attempts", servers.clock)
    try:
        ports = trial_ports(servers, directories, watched, watched)
        # Conductor hands JSON to a task and nothing else.
        given = cast("dict[str, object]", to_jsonable_python(dict(params)))
        report = attempt_once(servers, ports, task, given, files)
        prefix = trial_prefix(task, given)
        yield _report(task, report, watched, files, _Left(directories.kept, prefix))
    finally:
        # The tree first, because a body may have put anything in the place of its directory.
        remove_tree(root)
        driven(directories.forget(), servers.clock)


def trial_prefix(task: TaskDefinition, params: object) -> str:
    """The folder that a task works on; with params that are refused, as it was declared.

    The attempt refuses them too, and its end says why.
    """
    if task.workspace is None:
        return ROOT_PREFIX
    try:
        return resolved_prefix(task, params)
    except (ValidationError, TaskInputError, PrefixValueError):
        return task.workspace.prefix


@dataclass(frozen=True, slots=True)
class _Left:
    """The directory of the attempt after it, and the folder that it stands for."""

    directory: Path | None
    prefix: str

    def tree(self, task: TaskDefinition) -> Path | None:
        """The directory that the task function wrote to, if it had one."""
        if self.directory is None or task.workspace is None:
            return None
        if not task.on_spark:
            return self.directory
        output = self.directory / "output" / listing_prefix(self.prefix)
        return output if output.is_dir() else None

    def files(self, task: TaskDefinition, tree: Path) -> DirectoryFiles:
        """The files that it left there, without what a Spark job leaves beside them."""
        if task.on_spark:
            remove_litter(tree)
        return read_tree(tree, prefix=self.prefix, skip_links=True)


def _report(
    task: TaskDefinition,
    report: AttemptReport,
    watched: _Watched,
    before: Files,
    left: _Left,
) -> TaskRun:
    update = report.update
    assert update is not None, "nothing takes the row of a trial away"
    tree = left.tree(task)
    result = cast("Mapping[str, object] | None", update.output.get("result"))
    return TaskRun(
        status=update.status,
        result=result if report.error is None else None,
        reason=update.reason,
        traceback=watched.traceback,
        before=before,
        files=before if tree is None or not _was_opened(watched) else left.files(task, tree),
        guardrails=tuple(_verdicts(task, report.error, watched.phases, before, left)),
        lines=tuple(watched.lines),
        warnings=tuple(watched.warnings),
    )


def _was_opened(watched: _Watched) -> bool:
    """Whether the directory held the whole input: a body on Spark gets it right before it runs."""
    return not watched.phases.isdisjoint({Phase.MATERIALISED, Phase.FUNCTION_ENDED})


def _verdicts(
    task: TaskDefinition,
    error: Exception | None,
    phases: set[Phase],
    before: Files,
    left: _Left,
) -> Iterator[GuardrailVerdict]:
    """Every guardrail that the attempt came to: it stops at the first one, here all are shown."""
    spec = task.workspace
    if spec is None:
        return
    if Phase.PRE_CHECKED in phases or isinstance(error, PreGuardrailViolation):
        yield from _judged(spec.pre, "pre", lambda one: _check_listing(before, one, "pre"))
    if Phase.POST_CHECKED in phases or isinstance(error, PostGuardrailViolation):
        tree = left.tree(task)
        if tree is None:  # a body on Spark that may not write
            yield from _judged(spec.post, "post", lambda one: _check_listing(before, one, "post"))
        elif task.on_spark:
            files = left.files(task, tree)
            yield from _judged(spec.post, "post", lambda one: _check_listing(files, one, "post"))
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
