"""What one worker of a test stands on: ports of its own, and task functions in its event loop.

The kit's environment, a trial and tests of attempts all take their ports from here, so that an
attempt is the same in each. Which calls fail is planned elsewhere.
"""

import contextlib
import io
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import final

from perago.adapters.filesystem.attempt_directory import LocalAttemptDirectories
from perago.adapters.memory.lakefs_ports import MemoryTransport
from perago.adapters.workspace.pipeline import LocalWorkspacePipeline
from perago.adapters.workspace.staging import Staging
from perago.app.attempt.context import AttemptPorts, KnownRepositories, LakeFS
from perago.app.attempt.patience import StopOrder
from perago.app.authoring.task_definition import TaskDefinition
from perago.app.fence.trust import FenceTools, FenceTrust
from perago.app.telemetry.listeners import BodyObserver
from perago.app.worker.frames import sent_outcome
from perago.app.worker.run_body import BodySurroundings, run_body
from perago.ports.installations import ConductorInstallation, LakeFSInstallation
from perago.ports.objects import ObjectTransport
from perago.ports.system import Clock, Concurrency, Identities
from perago.ports.task_body import BodyCall, BodyOutcome, TaskBody
from perago.ports.workspace import Progress
from perago.testing.fault_injector import CallGate, faulty_port

OUTPUT_LINES_MAX = 1000  # what a terminal scrolls back; the first lines say how it began


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a worker has beside lakeFS, Conductor and its task functions.

    `root` is where its attempt directories are. Without a transport bytes move by the calls of
    `objects`, where a fault can happen to each.
    """

    clock: Clock
    identities: Identities
    concurrency: Concurrency
    root: Path
    transport: ObjectTransport | None = None


def fence_trust(
    lakefs: LakeFSInstallation, identities: Identities, concurrency: Concurrency, clock: Clock
) -> FenceTrust:
    """What one process knows of the fences of a lakeFS."""
    tools = FenceTools(lakefs.branches, lakefs.commits, lakefs.objects, identities)
    return FenceTrust(tools, concurrency, clock)


def lakefs_ports(
    lakefs: LakeFSInstallation,
    concurrency: Concurrency,
    trust: FenceTrust,
    transport: ObjectTransport | None = None,
) -> LakeFS:
    """What an attempt asks of a lakeFS; without a transport bytes move by the port's own calls."""
    transport = transport or MemoryTransport(lakefs.objects, concurrency)
    return LakeFS(
        branches=lakefs.branches,
        commits=lakefs.commits,
        tags=lakefs.tags,
        objects=lakefs.objects,
        repositories=lakefs.repositories,
        pipeline=LocalWorkspacePipeline(lakefs.objects, lakefs.commits, concurrency, transport),
        trust=trust,
        known=KnownRepositories(lakefs.repositories, lakefs.branches, lakefs.commits),
        uploads=Staging(lakefs.objects, lakefs.commits, transport, concurrency),
    )


def attempt_ports(
    lakefs: LakeFSInstallation,
    conductor: ConductorInstallation,
    around: Surroundings,
    body: TaskBody,
    progress: Progress,
    trust: FenceTrust | None = None,
) -> AttemptPorts:
    """The ports of one worker; without a given trust it tries the fences by itself."""
    clock, identities, concurrency = around.clock, around.identities, around.concurrency
    if trust is None:
        trust = fence_trust(lakefs, identities, concurrency, clock)
    return AttemptPorts(
        lakefs=lakefs_ports(lakefs, concurrency, trust, around.transport),
        queue=conductor.queue,
        body=body,
        directories=LocalAttemptDirectories(around.root, clock, concurrency),
        clock=clock,
        identities=identities,
        concurrency=concurrency,
        progress=progress,
    )


def with_faults_within(ports: AttemptPorts, gate: CallGate) -> AttemptPorts:
    """The same ports, the calls within the worker's machine behind a gate as well."""
    pipeline = faulty_port(ports.lakefs.pipeline, "pipeline", gate)
    return replace(
        ports,
        lakefs=replace(ports.lakefs, pipeline=pipeline),
        body=faulty_port(ports.body, "body", gate),
        directories=faulty_port(ports.directories, "directories", gate),
    )


@final
class LineObserver(BodyObserver):
    """Writes what a body says of its progress among its lines."""

    def __init__(self, lines: io.StringIO) -> None:
        self._lines = lines

    def progressed(self, call: BodyCall, message: str, facts: Mapping[str, object]) -> None:
        """Keep the message."""
        del call
        self._lines.write(f"{message} {dict(facts)}\n" if facts else f"{message}\n")


def run_captured(task: TaskDefinition, call: BodyCall) -> tuple[BodyOutcome, list[str]]:
    """Run one body; its outcome, and the first lines it printed and logged.

    A result that an executor could not send to its parent is a failure here as well.
    """
    lines = io.StringIO()
    log = logging.StreamHandler(lines)
    log.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    root = logging.getLogger()
    level = root.level
    root.addHandler(log)
    root.setLevel(min(level, logging.INFO))  # as a worker logs
    try:
        with contextlib.redirect_stdout(lines), contextlib.redirect_stderr(lines):
            outcome = run_body(task, call, BodySurroundings(observer=LineObserver(lines)))
    finally:
        root.removeHandler(log)
        root.setLevel(level)
    _, outcome = sent_outcome(call, outcome)
    return outcome, lines.getvalue().splitlines()[:OUTPUT_LINES_MAX]


@final
class InlineBody(TaskBody):
    """Runs task functions in the event loop itself, because those of tests are short.

    No other may run beside it: output is the process's.
    """

    def __init__(
        self,
        tasks: Mapping[str, TaskDefinition],
        printed: Callable[[str], None],
        stop_order: StopOrder,
    ) -> None:
        self._tasks = tasks
        self._printed = printed
        self._stop_order = stop_order

    async def run(self, call: BodyCall) -> BodyOutcome:
        """Run one call, unless the order to stop came first; tell what it printed and logged."""
        return await self._stop_order.before_end_of(self._run(call))

    async def _run(self, call: BodyCall) -> BodyOutcome:
        outcome, lines = run_captured(self._tasks[call.task_name], call)
        for line in lines:
            self._printed(line)
        return outcome
