"""What `perago start` asks for before it polls, and how it waits for a Conductor that is away.

Texts, their order, and the registered TaskDef; who hears of a wait, and what ends it.
"""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast, final

import pytest
from pydantic import BaseModel
from tests.unit.app.attempt.attempt_harness import AttemptHarness
from tests.unit.app.attempt.attempt_scene import TASK

from perago.adapters.memory.installations import conductor_installation
from perago.adapters.memory.system import WorkerHandle
from perago.adapters.system import SystemClock
from perago.app.attempt.patience import Patience
from perago.app.authoring.task_definition import MetricSpec, TaskDefinition, build_taskdef
from perago.app.authoring.workspace_spec import WorkspaceSpec
from perago.app.settings.settings import Settings, load_settings
from perago.app.start_worker import check_conductor, check_services, known_secrets
from perago.app.telemetry.metrics import Metrics
from perago.app.worker.executor import ExecutorStartError
from perago.app.worker.polling import PolledType, ServiceGate
from perago.app.worker.thread_body import ThreadBody
from perago.app.worker.worker import (
    BEAT_SECONDS,
    BEATS_MISSED_MAX,
    GIVEN_UP_SECONDS,
    Job,
    Worker,
    WorkerEnd,
    WorkerParts,
)
from perago.app.worker_assembly import (
    StartWait,
    check_registered,
    check_service,
    patience_of_start,
)
from perago.domain.errors import RuntimeConfigError
from perago.domain.policy import PolicySetting
from perago.domain.text import MASK, Secrets
from perago.ports.conductor import TaskDefinitions
from perago.ports.errors import AccessDeniedError, UnavailableError, WrongServerError
from perago.ports.system import Clock
from perago.testing.fault_injector import FaultInjector, faulty_installation
from perago.testing.faults import Fault, always, refuse

EXPORTED = {"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://127.0.0.1:1/v1/metrics"}
LAKEFS = {"PERAGO_LAKEFS": "memory:"}
AWAY = UnavailableError("ask for the version at http://conductor/api: not sent: refused")
PATIENCE_SECONDS = 60.0
SAID = "failed to validate Conductor TaskDef: "


class Model(BaseModel):
    """Params and result."""

    a: int = 1


def task(
    *, workspace: WorkspaceSpec | None = None, metrics: MetricSpec | None = None
) -> TaskDefinition:
    return TaskDefinition("t", "o", print, Model, Model, workspace=workspace, metrics=metrics)


PLAIN, IN_WORKSPACE = task(), task(workspace=WorkspaceSpec())
MEASURED, UNCOUNTED = task(metrics=MetricSpec()), task(metrics=MetricSpec(worker_capacity=False))


def settings(tmp_path: Path, env: Mapping[str, str]) -> Settings:
    return load_settings(cwd=tmp_path, process_env=env)


@pytest.mark.parametrize("name", ["CONDUCTOR_SERVER_URL", "PERAGO_CONDUCTOR"])
def test_a_conductor_is_required(tmp_path: Path, name: str) -> None:
    check_conductor(settings(tmp_path, {name: "http://127.0.0.1:1/api"}))
    with pytest.raises(RuntimeConfigError) as caught:
        check_conductor(settings(tmp_path, {}))
    said = str(caught.value)
    assert said.startswith("CONDUCTOR_SERVER_URL is required for perago start;")
    assert said.endswith("set PERAGO_CONDUCTOR, its name in Perago")


@pytest.mark.parametrize(
    ("tasks", "env"),
    [
        ([PLAIN], {}),
        ([IN_WORKSPACE], LAKEFS),
        ([MEASURED], EXPORTED | {"PERAGO_INSTANCE_ID": "x"}),
        ([UNCOUNTED], EXPORTED),
        ([PLAIN], EXPORTED),
    ],
    ids=["plain", "workspace", "measured", "measured without capacity", "unused endpoint"],
)
def test_what_a_task_uses_suffices(
    tmp_path: Path, tasks: list[TaskDefinition], env: dict[str, str]
) -> None:
    check_services(settings(tmp_path, env), tasks)


@pytest.mark.parametrize(
    ("tasks", "env", "text"),
    [
        ([PLAIN, IN_WORKSPACE], {}, "LakeFS config is required for workspace tasks"),
        (
            [MEASURED],
            {},
            "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT is required for metrics-enabled tasks",
        ),
        (
            [MEASURED],
            EXPORTED,
            "PERAGO_INSTANCE_ID is required when worker_capacity metrics are enabled",
        ),
        (
            [task(workspace=WorkspaceSpec(), metrics=MetricSpec())],
            {},
            "LakeFS config is required for workspace tasks",
        ),
    ],
    ids=["lakefs", "endpoint", "instance", "lakefs before metrics"],
)
def test_what_a_task_uses_is_required(
    tmp_path: Path, tasks: list[TaskDefinition], env: dict[str, str], text: str
) -> None:
    with pytest.raises(RuntimeConfigError) as caught:
        check_services(settings(tmp_path, env), tasks)
    assert str(caught.value) == text


@pytest.mark.parametrize("name", ["LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY", "CONDUCTOR_AUTH_SECRET"])
def test_a_secret_from_a_file_is_masked_as_one_from_the_environment_is(
    tmp_path: Path, name: str
) -> None:
    """The environment names the file alone, so only the settings know what is in it."""
    file = tmp_path / "secret"
    file.write_text("hunter2secret\n")
    env = LAKEFS | {f"{name}_FILE": str(file)}
    secrets = Secrets.of(known_secrets(settings(tmp_path, env), env))
    assert secrets.masked("401 for hunter2secret") == f"401 for {MASK}"


@final
class Registered(TaskDefinitions):
    """A registry of documents that nobody changes."""

    def __init__(self, documents: Mapping[str, Mapping[str, object]]) -> None:
        self._documents = documents

    async def read(self, name: str) -> Mapping[str, object] | None:
        """Return a document."""
        return self._documents.get(name)

    async def put(self, definition: Mapping[str, object]) -> None:
        """Refuse."""
        raise AssertionError(definition)


async def test_a_missing_taskdef_is_refused() -> None:
    with pytest.raises(RuntimeConfigError) as caught:
        await check_registered(Registered({}), [PLAIN], strict=False)
    assert str(caught.value) == (
        "Conductor TaskDef 't' is not registered; run perago extract and register it before start"
    )
    assert caught.value.code == "PRG-T019"


async def test_a_different_taskdef_is_returned_or_refused() -> None:
    same = Registered({"t": build_taskdef(PLAIN)})
    assert await check_registered(same, [PLAIN], strict=True) == {}
    different = Registered({"t": build_taskdef(PLAIN) | {"retryCount": 9}})
    (found,) = (await check_registered(different, [PLAIN], strict=False))["t"]
    assert str(found) == "retryCount: registered 9, code 3"
    with pytest.raises(RuntimeConfigError, match="'t' differs from the code: retryCount"):
        await check_registered(different, [PLAIN], strict=True)


class Gone:
    """A queue whose server does not answer."""

    async def check(self) -> str:
        """Fail as an adapter does."""
        raise UnavailableError("ask for the version: nothing was sent")


async def test_a_conductor_that_is_not_there_is_said_in_the_words_of_0_6_1() -> None:
    gone: Any = SimpleNamespace(queue=Gone())
    with pytest.raises(RuntimeConfigError) as caught:
        await check_service(gone, [PLAIN], strict=False, patience=Patience())
    assert str(caught.value) == (
        "failed to validate Conductor TaskDef: ask for the version: nothing was sent"
    )
    assert caught.value.code == "PRG-L008"


@final
class Start:
    """One start in a harness whose Conductor has these faults."""

    def __init__(self, tmp_path: Path, *faults: Fault, patience: float = PATIENCE_SECONDS) -> None:
        self.harness = AttemptHarness(tmp_path, PolicySetting.SETTLED)
        self.metrics = Metrics()
        self.heard = StartWait(self.metrics)
        self.calls = FaultInjector([*faults])
        ports = self.harness.worker().harness
        self.patience = patience_of_start(ports, patience, self.heard)

    async def run(self, *, registered: bool = True) -> None:
        """Ask as `perago start` does; time passes while all sleep."""
        if registered:
            await self.harness.start()
        await self.harness.drive(self.ask())

    async def ask(self) -> None:
        """Ask."""
        conductor = conductor_installation(self.harness.conductor, WorkerHandle())
        await check_service(
            faulty_installation(conductor, self.calls),
            [self.harness.task],
            strict=False,
            patience=self.patience,
        )

    async def refused(self, *, registered: bool = True) -> RuntimeConfigError:
        """Ask, and be refused."""
        with pytest.raises(RuntimeConfigError) as caught:
            await self.run(registered=registered)
        return caught.value


def _lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str, Mapping[str, Any]]]:
    found = [each for each in caplog.records if each.name == "perago.worker"]
    return [(each.levelname, each.msg, vars(each)["perago"]) for each in found]


async def test_a_conductor_that_comes_back_is_waited_for_and_everyone_hears(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "perago.worker")
    away = [refuse("queue.check", AWAY, nth=nth) for nth in range(1, 9)]
    start = Start(tmp_path, *away, refuse("definitions.read", AWAY))
    await start.harness.start()
    asking = asyncio.ensure_future(start.ask())
    await start.harness.clock.let_pass(3)
    assert start.heard.has_waited
    assert start.heard.lines() == ["the start of this worker waits for Conductor"]
    await start.harness.drive(asking)
    assert start.heard.lines() == []
    (_, event, waiting), (_, ended, waited), (_, differs, found) = _lines(caplog)
    assert (differs, found["task_name"]) == ("registered TaskDef differs from the code", TASK)
    assert (event, waiting["service"], waiting["error"]) == (
        "worker waiting",
        "Conductor",
        str(AWAY),
    )
    assert (ended, waited["failures"], waited["lasted"]) == ("worker waited", 9, True)
    assert waited["waited_seconds"] > 1
    labels = '{service="Conductor",task_name=""}'
    assert f"runtime_service_wait_seconds_count{labels} 1" in start.metrics.text()


async def test_patience_that_is_over_ends_the_start_with_the_old_code(tmp_path: Path) -> None:
    start = Start(tmp_path, always(refuse("queue.check", AWAY)))
    error = await start.refused()
    waited = f"; waited {PATIENCE_SECONDS:.0f} s for Conductor, until PERAGO_PATIENCE was over"
    assert (str(error), error.code) == (f"{SAID}{AWAY}{waited}", "PRG-L008")


async def test_without_patience_nothing_is_waited_for(tmp_path: Path) -> None:
    start = Start(tmp_path, always(refuse("queue.check", AWAY)), patience=0)
    error = await start.refused()
    assert (str(error), error.code) == (f"{SAID}{AWAY}", "PRG-L008")
    assert start.calls.calls["queue.check"] == 1


@pytest.mark.parametrize(
    ("refusal", "code"),
    [
        (AccessDeniedError("401 who are you"), "PRG-L007"),
        (WrongServerError("no Conductor at http://conductor: another server answers"), "PRG-L008"),
    ],
    ids=["a refused key", "another server"],
)
async def test_a_refusal_is_final(
    tmp_path: Path, refusal: AccessDeniedError | WrongServerError, code: str
) -> None:
    start = Start(tmp_path, refuse("queue.check", refusal))
    error = await start.refused()
    assert (str(error), error.code) == (f"{SAID}{refusal}", code)
    assert start.harness.clock.monotonic() == 0


async def test_a_task_that_is_not_registered_is_refused_at_once(tmp_path: Path) -> None:
    start = Start(tmp_path)
    error = await start.refused(registered=False)
    assert (error.code, start.harness.clock.monotonic()) == ("PRG-T019", 0)


@final
class HastyClock(Clock):
    """Time that passes faster, so that a loop without beats is found dead sooner."""

    FACTOR = 12

    def __init__(self) -> None:
        self._clock = SystemClock()

    def now(self) -> datetime:
        """As it is."""
        return self._clock.now()

    def monotonic(self) -> float:
        """Faster."""
        return self._clock.monotonic() * self.FACTOR

    async def sleep(self, seconds: float) -> None:
        """As long as it says."""
        await self._clock.sleep(seconds)


@final
class NoExecutors:
    """Slots that cannot be made ready."""

    def __init__(self, bodies: ThreadBody) -> None:
        self._bodies = bodies

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - of any type
        return getattr(self._bodies, name)

    async def start(self) -> None:
        """Fail after a moment."""
        await asyncio.sleep(0.05)
        raise ExecutorStartError("no module named team")


def starting(
    tmp_path: Path, job: Job, *, executors: bool = True
) -> tuple[Worker, "asyncio.Task[WorkerEnd]"]:
    """A worker with one thing to do before its first poll."""
    harness = AttemptHarness(tmp_path, PolicySetting.SETTLED)
    made, clock, tasks = harness.worker(), HastyClock(), {TASK: harness.task}
    bodies = ThreadBody(tasks, slots=1)
    ask = made.harness.queue.check
    gate = ServiceGate("conductor", ask, now=clock.monotonic, fraction=lambda: 1.0)
    worker = Worker(
        WorkerParts(
            ports=replace(made.harness, body=bodies, clock=clock),
            bodies=bodies if executors else cast("Any", NoExecutors(bodies)),
            tasks=tasks,
            types=[PolledType(TASK)],
            settings=made.settings,
            listeners=(),
            conductor_gate=gate,
            before_polling=[job],
        )
    )
    return worker, asyncio.create_task(worker.run())


async def for_ever() -> None:
    """A wait that does not end by itself."""
    await asyncio.Event().wait()


async def swallowed() -> None:
    """A request that outlives its caller, as those of Conductor do, until it is given up."""
    over = asyncio.ensure_future(asyncio.sleep(5))
    while not over.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait([over])


async def test_a_worker_that_waits_at_its_start_lives_and_is_not_ready(tmp_path: Path) -> None:
    worker, running = starting(tmp_path, for_ever)
    await asyncio.sleep(2 * BEATS_MISSED_MAX * BEAT_SECONDS / HastyClock.FACTOR)
    assert worker.is_live
    assert not worker.is_ready
    assert not worker.has_started
    worker.drain()
    assert await asyncio.wait_for(running, 5) is WorkerEnd.DRAINED


@pytest.mark.parametrize("job", [for_ever, swallowed], ids=["a pause", "a request"])
async def test_an_order_to_stop_ends_the_wait_at_once(tmp_path: Path, job: Job) -> None:
    worker, running = starting(tmp_path, job)
    await asyncio.sleep(0.1)
    worker.drain()
    async with asyncio.timeout(GIVEN_UP_SECONDS + 1):
        assert await running is WorkerEnd.DRAINED
    assert not worker.has_started


async def test_executors_that_cannot_start_end_the_wait_for_a_service(tmp_path: Path) -> None:
    """A missing module is no outage: it has to be known now and not when Conductor is back."""
    _, running = starting(tmp_path, for_ever, executors=False)
    with pytest.raises(ExecutorStartError, match="no module named team"):
        await asyncio.wait_for(running, 5)
