"""`perago workflow new`, `head` and `submit`, on servers in the memory of this process."""

import asyncio
import json
import re
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from tests.unit.app.command_line.command_run import Module, Run, Servers

from perago.adapters.memory.conductor_server import MemoryConductor
from perago.adapters.memory.installations import conductor_installation
from perago.adapters.memory.system import VirtualClock, WorkerHandle
from perago.app.command_line.submit import follow, start_workflow
from perago.domain.attempt import AttemptStatus, WorkflowStatus
from perago.ports.conductor import PollRequest, TerminalUpdate, WorkflowRecord
from perago.ports.errors import OutcomeUnknownError, UnavailableError
from perago.ports.installations import ConductorInstallation
from perago.ports.system import Clock
from perago.testing.fault_injector import FaultInjector, faulty_installation
from perago.testing.faults import LoseAnswer, Moment, Side

SPEC = 'workspace=WorkspaceSpec(prefix="{}", isolation="prefix")'


def ends(status: str) -> dict[str, object]:
    """A workflow that ends at once, without any task for a worker."""
    given = {"terminationStatus": status, "terminationReason": "enough"}
    given |= {"workflowOutput": "${workflow.input}"}
    task = {"name": "end", "taskReferenceName": "end", "type": "TERMINATE"}
    tasks = [{**task, "inputParameters": given}]
    return {"name": f"ends_{status}", "version": 3, "schemaVersion": 2, "tasks": tasks}


def two_sides(module: Module, prefix: str = "b") -> list[str]:
    """Two modules of one task each, which publish below `a` and another prefix."""
    prefixes = {"left": "a", "right": prefix}
    return [module(name, keywords=SPEC.format(each)) for name, each in prefixes.items()]


def test_a_definition_is_printed_as_it_is_registered(run: Run, module: Module) -> None:
    module("clean", name="team.clean", keywords=SPEC.format("a"))
    module("report", keywords=SPEC.format("b"))
    ran = run("workflow", "new", "clean", "report")
    assert ran.code == 0
    definition = json.loads(ran.out)
    assert definition["name"] == "clean"
    assert [task["taskReferenceName"] for task in definition["tasks"]] == ["team_clean", "report"]
    assert "perago submit clean --repo" in ran.err
    # Nothing can be started that Conductor does not know.
    assert "type this command again with --register" in ran.err
    assert "`perago register clean report`" in ran.err


def test_a_fork_is_a_list_of_definitions_or_one_file_each(
    run: Run, module: Module, project: Path
) -> None:
    targets = [
        module("left", keywords=SPEC.format("a")),
        module("right", keywords=SPEC.format("b")),
    ]
    printed = json.loads(run("workflow", "new", *targets, "--fork", "--name", "sides").out)
    assert [each["name"] for each in printed] == ["sides", "sides_left", "sides_right"]
    ran = run("workflow", "new", *targets, "--fork", "--name", "sides", "--output", "flows")
    files = [project / "flows" / f"{each['name']}.json" for each in printed]
    assert ran.out.split() == [str(path.relative_to(project)) for path in files]
    assert [json.loads(path.read_text()) for path in files] == printed
    document = json.loads(run("workflow", "new", *targets, "--fork", "--json").out)
    assert document["schema"] == "perago.workflow/1"
    assert document["registered"] is False


@pytest.mark.parametrize("fork", [[], ["--fork"]], ids=["sequence", "fork"])
def test_a_transaction_rebases_if_it_is_told_to(run: Run, module: Module, fork: list[str]) -> None:
    targets = two_sides(module)
    ran = run("workflow", "new", *targets, *fork, "--transaction", "--on-moved", "rebase")
    found = json.loads(ran.out)
    definition = found[0] if fork else found
    params = definition["tasks"][-1]["inputParameters"]["params"]
    assert params["on_moved"] == "rebase"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--on-moved", "rebase"], "--on-moved needs --transaction"),
        (["--transaction", "--on-moved", "merge"], "'merge' is not one of 'refuse', 'rebase'"),
    ],
)
def test_what_no_transaction_can_do_is_refused(
    run: Run, module: Module, options: list[str], said: str
) -> None:
    ran = run("workflow", "new", *two_sides(module), *options)
    assert (ran.code, ran.out) == (2, "")
    assert said in " ".join(ran.err.split())


def test_a_fork_of_writers_that_meet_is_refused(run: Run, module: Module) -> None:
    targets = [
        module("left", keywords=SPEC.format("a")),
        module("right", keywords=SPEC.format("a/b")),
    ]
    ran = run("workflow", "new", *targets, "--fork")
    assert (ran.code, ran.out) == (1, "")
    assert "error: left and right publish below a and a/b" in ran.err
    assert "PRG-T024" in ran.err


def test_what_was_written_is_registered_and_can_be_submitted(
    run: Run, module: Module, servers: Servers
) -> None:
    commit, conductor = servers
    targets = [
        module("left", keywords=SPEC.format("a")),
        module("right", keywords=SPEC.format("b")),
    ]
    ran = run("workflow", "new", *targets, "--fork", "--name", "sides", "--register")
    assert ran.out.splitlines() == [
        f"registered: {name}" for name in ("sides", "sides_left", "sides_right")
    ]
    assert "--register" not in ran.err

    ran = run("submit", "sides", "--repo", "songs", "--branch", "main", "--params", "left.n=1")
    assert ran.code == 0
    record = asyncio.run(conductor.workflows.read(ran.out.strip()))
    assert record is not None
    workspace = {"repository": "songs", "branch": "main", "refType": "commit", "ref": commit}
    assert record.input_data == {
        "workspace": workspace,
        "params": {"left": {"n": "1"}, "right": {}},
    }
    assert commit in ran.err


def test_the_head_of_a_branch_is_one_line(run: Run, servers: Servers) -> None:
    assert run("head", "songs", "main").out == f"{servers[0]}\n"
    document = json.loads(run("head", "songs", "main", "--json").out)
    assert document == {
        "schema": "perago.head/1",
        "repository": "songs",
        "branch": "main",
        "commit": servers[0],
    }


@pytest.mark.parametrize(
    ("param", "code", "said"),
    [
        ("left.minimun_km=1", 2, "team.left has no param minimun_km"),
        ("left.minimun_km=1", 2, "did you mean minimum_km?"),
        ("left.other=1", 0, "warning: team.left has no param other, says its TaskDef"),
        ("left.minimum_km=1", 0, "started sides"),
    ],
)
def test_a_field_that_the_taskdef_does_not_have_is_not_swallowed(
    run: Run, module: Module, servers: Servers, param: str, code: int, said: str
) -> None:
    """The task would have run with the default, and said nothing."""
    _, conductor = servers
    run("workflow", "new", module("left", name="team.left"), "--name", "sides", "--register")
    params = {"properties": {"minimum_km": {"type": "integer"}}, "type": "object"}
    schema = {"name": "team.left.input", "data": {"properties": {"params": params}}}
    words = ("submit", "sides", "--repo", "songs", "--branch", "main", "--params")
    assert run(*words, param.replace("left", "team_left")).code == 0  # no TaskDef: nothing known
    asyncio.run(conductor.definitions.put({"name": "team.left", "inputSchema": schema}))
    ran = run(*words, param.replace("left", "team_left"))
    assert ran.code == code
    assert said in ran.err


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        ([], 2, "error: left needs rows, says the TaskDef on Conductor; add --params left.rows="),
        (["--params", "left.others=1"], 2, "did you mean other?"),
        (["--params", "left.rows=1"], 0, "started sides"),
    ],
    ids=["nothing given", "a slip is named first", "given"],
)
def test_a_param_that_a_task_needs_is_asked_for_before_the_workflow_starts(
    run: Run, module: Module, servers: Servers, options: list[str], code: int, said: str
) -> None:
    """The worker would refuse each attempt with PRG-I003."""
    _, conductor = servers
    run("workflow", "new", module("left"), "--name", "sides", "--register")
    fields = {"rows": {"type": "integer"}, "other": {"type": "integer", "default": 1}}
    params = {"properties": fields, "required": ["rows"], "type": "object"}
    schema = {"name": "left.input", "data": {"properties": {"params": params}}}
    asyncio.run(conductor.definitions.put({"name": "left", "inputSchema": schema}))
    ran = run("submit", "sides", "--repo", "songs", "--branch", "main", *options)
    assert ran.code == code
    assert said in ran.err
    assert ("PRG-X003" in ran.err) == (ran.out == "") == bool(code)


@pytest.mark.parametrize("words", [["head", "songs", "mian"], ["head", "other", "main"]])
def test_a_head_that_is_not_there_is_the_answer_of_the_service(
    run: Run, servers: Servers, words: list[str]
) -> None:
    del servers
    ran = run(*words)
    assert (ran.code, ran.out) == (6, "")
    assert "PRG-L002" in ran.err


@pytest.mark.parametrize(("status", "code"), [("COMPLETED", 0), ("FAILED", 1), ("TERMINATED", 1)])
def test_the_exit_code_says_how_the_workflow_ended(
    run: Run, servers: Servers, status: str, code: int
) -> None:
    commit, conductor = servers
    asyncio.run(conductor.workflows.put_definition(ends(status)))
    words = ("submit", f"ends_{status}", "--repo", "songs", "--branch", "main", "--wait")
    ran = run(*words, "--params", '{"any": {"x": 1}}', "--json")
    assert ran.code == code
    document = json.loads(ran.out)
    assert (document["status"], document["version"]) == (status, 3)
    assert document["output"]["params"] == {"any": {"x": 1}}
    assert document["input"]["workspace"]["ref"] == commit
    assert "end COMPLETED" in ran.err
    assert run(*words).out.split()[1] == status


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["unknown", "--repo", "songs", "--branch", "main"], 6, "PRG-L012"),
        (["sides", "--repo", "songs", "--branch", "mian"], 6, "PRG-L002"),
        (["a/sides", "--repo", "songs", "--branch", "main"], 2, "found 'a/sides'"),
        (["a/sides", "--repo", "songs", "--branch", "main"], 2, "a name with a slash"),
        (["sides", "--repo", "songs"], 2, "branch"),
        (["sides", "--repo", "songs", "--branch", "main", "--params", "lefd.n=1"], 2, "mean left?"),
        (["sides", "--repo", "songs", "--branch", "main", "--params", "x.n=1"], 2, "reads left"),
        (["sides", "--repo", "songs", "--branch", "main", "--params", "n"], 2, "FIELD=VALUE"),
        (["sides", "--repo", "songs", "--branch", "main", "--params", "@none"], 2, "none"),
        (["sides", "--repo", "songs", "--branch", "main", "--params", "{"], 2, "JSON"),
    ],
)
def test_what_cannot_be_submitted_starts_nothing(
    run: Run, module: Module, servers: Servers, words: list[str], code: int, said: str
) -> None:
    del servers
    run("workflow", "new", module("left"), "--name", "sides", "--register")
    ran = run("submit", *words)
    assert (ran.code, ran.out) == (code, "")
    assert said in ran.err


def test_without_servers_the_settings_are_what_is_missing(run: Run, project: Path) -> None:
    del project
    for words in (["head", "r", "b"], ["submit", "w", "--repo", "r", "--branch", "b"]):
        assert run(*words).code == 3


async def started(conductor: ConductorInstallation, delay_seconds: int = 0) -> str:
    task = {"name": "t", "taskReferenceName": "t", "type": "SIMPLE"}
    definition: dict[str, object] = {"name": "w", "version": 1, "schemaVersion": 2, "tasks": [task]}
    await conductor.definitions.put(
        {"name": "t", "retryCount": 1, "retryDelaySeconds": delay_seconds}
    )
    await conductor.workflows.put_definition(definition)
    return (await start_workflow(conductor, "w", {}, {})).workflow_id


class WorkedOn(Clock):
    """Time that passes at once; with each look somebody works on the next row."""

    def __init__(
        self,
        conductor: ConductorInstallation,
        ends: list[AttemptStatus],
        time: VirtualClock | None = None,
        reason: str = "broken",
    ) -> None:
        self._time = time or VirtualClock()
        self._reason = reason
        self._conductor = conductor
        self._ends = ends

    def now(self) -> datetime:
        """The time of day."""
        return self._time.now()

    def monotonic(self) -> float:
        """Seconds since whenever."""
        return self._time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Take the next row, then end it."""
        self._time.advance(seconds)
        for row in await self._conductor.queue.poll(PollRequest("t", "worker")):
            status = self._ends.pop(0)
            reason = None if status is AttemptStatus.COMPLETED else self._reason
            update = TerminalUpdate(row.snapshot, "worker", status, {}, reason)
            await self._conductor.queue.complete(update, timeout_seconds=1)


async def test_waiting_tells_of_every_step_once() -> None:
    conductor = conductor_installation(MemoryConductor(VirtualClock()), WorkerHandle())
    workflow_id = await started(conductor)
    clock = WorkedOn(conductor, [AttemptStatus.FAILED, AttemptStatus.COMPLETED])
    lines: list[str] = []
    record = await follow(conductor.workflows, workflow_id, clock, lines.append)
    assert record.status is WorkflowStatus.COMPLETED
    assert lines == [
        "t SCHEDULED",
        "t FAILED: broken",
        "t (attempt 2) SCHEDULED",
        "t (attempt 2) COMPLETED",
    ]


async def test_waiting_says_what_to_do_of_a_failure_and_when_its_retry_begins() -> None:
    """A minute of silence, and of the reason no code."""
    time = VirtualClock()
    conductor = conductor_installation(MemoryConductor(time), WorkerHandle())
    workflow_id = await started(conductor, delay_seconds=60)
    ends = [AttemptStatus.FAILED, AttemptStatus.COMPLETED]
    clock = WorkedOn(conductor, ends, time, "OSError: full")
    lines: list[str] = []
    await follow(conductor.workflows, workflow_id, clock, lines.append)
    retry = lines.pop(2)
    assert re.fullmatch(
        r"t \(attempt 2\) SCHEDULED; it can begin at \d\d:\d\d:\d\d UTC \(in (59|60) s\)", retry
    )
    assert lines == [
        "t SCHEDULED",
        "t FAILED: OSError: full [PRG-B004]; `perago explain PRG-B004` says what to do",
        "t (attempt 2) COMPLETED",
    ]


async def test_waiting_says_once_that_no_worker_has_polled_a_task() -> None:
    """A worker that did not start, as with a root that another one has, left only silence."""
    conductor = conductor_installation(MemoryConductor(VirtualClock()), WorkerHandle())
    workflow_id = await started(conductor)
    worked_on = WorkedOn(conductor, [AttemptStatus.COMPLETED])
    looks = 40

    class Late(WorkedOn):
        """No worker is there for the first looks."""

        async def sleep(self, seconds: float) -> None:
            """Let time pass, and after a while a worker come."""
            nonlocal looks
            looks -= 1
            if looks > 0:
                self._time.advance(seconds)
            else:
                await worked_on.sleep(seconds)

    lines: list[str] = []
    await follow(conductor.workflows, workflow_id, Late(conductor, []), lines.append)
    assert lines[0] == "t SCHEDULED"
    assert lines[1].startswith("t: no worker has polled t for 15 s; `perago start MODULE`")
    assert lines[2:] == ["t COMPLETED"]


async def test_a_conductor_that_is_away_meanwhile_is_asked_again() -> None:
    conductor = conductor_installation(MemoryConductor(VirtualClock()), WorkerHandle())
    workflow_id = await started(conductor)
    answers: list[Any] = [UnavailableError("away"), UnavailableError("away"), None]

    class Flaky:
        """Workflows whose first reads get no answer."""

        async def read(self, workflow_id: str) -> WorkflowRecord | None:
            """Fail as planned."""
            if answers and (answer := answers.pop(0)) is not None:
                raise answer
            return await conductor.workflows.read(workflow_id)

    lines: list[str] = []
    flaky: Any = Flaky()
    clock = WorkedOn(conductor, [AttemptStatus.COMPLETED])
    record = await follow(flaky, workflow_id, clock, lines.append)
    assert record.status is WorkflowStatus.COMPLETED
    assert lines[0] == "waiting for Conductor: away"
    assert sum("away" in line for line in lines) == 1


async def test_a_start_whose_answer_is_lost_is_unknown() -> None:
    conductor = conductor_installation(MemoryConductor(VirtualClock()), WorkerHandle())
    await started(conductor)
    injector = FaultInjector([LoseAnswer(Moment("workflows.start", Side.AFTER))])
    unheard = faulty_installation(conductor, injector)
    with pytest.raises(OutcomeUnknownError):
        await start_workflow(unheard, "w", {}, {})
