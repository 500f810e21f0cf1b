"""An attempt whose service is away waits, looks, and goes on; its function runs once."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

import pytest
from tests.unit.app.attempt.attempt_harness import (
    AttemptHarness,
    at_each_request,
)
from tests.unit.app.attempt.attempt_scene import AttemptScene, assert_accepted, told

from perago.adapters.memory.system import VirtualClock
from perago.app.attempt.context import KnownRepositories
from perago.app.attempt.patience import (
    REPEATED,
    Patience,
    PatienceTerms,
    StopOrder,
    WorkTime,
)
from perago.app.fence.trust import FenceTrust
from perago.domain.attempt import AttemptStatus
from perago.domain.errors import PublishFenceError
from perago.domain.hand_back import Cause
from perago.domain.policy import PolicySetting
from perago.ports.asking import Repetitions, hearing
from perago.ports.conductor import TaskQueue
from perago.ports.errors import (
    AccessDeniedError,
    OutcomeUnknownError,
    ServiceError,
    UnavailableError,
)
from perago.ports.lakefs import Branches, Commits, Tags
from perago.ports.objects import Objects
from perago.ports.task_body import BodyStopped, NoLease
from perago.ports.workspace import Phase, WorkspacePipeline
from perago.testing.embedded_workers import DIED
from perago.testing.faults import (
    ANY_CALL,
    Fault,
    Moment,
    Outage,
    Refuse,
    Side,
    always,
    crash,
    lose_answer,
    lose_request,
    meanwhile,
    outage,
    refuse,
)

Answer = TypeVar("Answer")
OUTAGE_SECONDS = 20.0

POLICIES = [PolicySetting.HEAD_PARENT, PolicySetting.LINEAGE, PolicySetting.SETTLED]


STRIKES: Mapping[str, Callable[[int], Fault]] = {
    "the answer": lambda nth: lose_answer(ANY_CALL, nth=nth),
    "the request": lambda nth: lose_request(ANY_CALL, nth=nth),
    "the connection": lambda nth: refuse(ANY_CALL, UnavailableError("refused"), nth=nth),
}


async def _assert_nothing_was_spent(scene: AttemptScene, why: object) -> None:
    workflow = await scene.read()
    rows = [(row.snapshot.status, row.reason) for row in workflow.attempts]
    assert len(rows) == 1, (why, rows)
    assert scene.runs == 1, why
    await assert_accepted(scene)


@pytest.mark.scale
@pytest.mark.parametrize("changes", [True, False], ids=["changed", "unchanged"])
@pytest.mark.parametrize("strike", STRIKES)
@pytest.mark.parametrize("policy", POLICIES, ids=str)
async def test_a_failure_of_any_one_call_spends_nothing(
    tmp_path: Path,
    policy: PolicySetting,
    strike: str,
    changes: bool,  # noqa: FBT001 - a row of the table
) -> None:
    async for nth, harness in at_each_request(tmp_path, policy, first=2, changes=changes):
        await harness.attempt(harness.worker([STRIKES[strike](nth)]))
        await _assert_nothing_was_spent(harness, (nth, harness.requests()))


@pytest.mark.scale
@pytest.mark.parametrize("side", Side)
@pytest.mark.parametrize("policy", POLICIES, ids=str)
async def test_an_outage_that_begins_at_any_call_spends_nothing(
    tmp_path: Path, policy: PolicySetting, side: Side
) -> None:
    async for nth, harness in at_each_request(tmp_path, policy, first=2):
        begins = Outage(Moment(ANY_CALL, side, nth=nth), OUTAGE_SECONDS)
        await harness.attempt(harness.worker([begins]))
        away = set(harness.workers[0].outages.until)
        await _assert_nothing_was_spent(harness, (nth, away, harness.requests()))


async def test_the_wait_is_reported_when_it_lasts_and_when_it_is_over(tmp_path: Path) -> None:
    scene = await AttemptScene(tmp_path, PolicySetting.SETTLED).started()
    story = await scene.next_attempt(outage(before="tags.read", seconds=OUTAGE_SECONDS))
    assert story.accepted, story.reason
    (waiting,), (waited,) = told(story, Phase.WAITING), told(story, Phase.WAITED)
    assert waiting["service"] == waited["service"] == "lakeFS"
    assert "connection refused" in str(waiting["error"])
    seconds = waited["waited_seconds"]
    assert isinstance(seconds, float)
    assert OUTAGE_SECONDS <= seconds <= OUTAGE_SECONDS + 5


@pytest.mark.parametrize("response_seconds", [60, 180])
async def test_the_wait_ends_when_the_row_can_no_longer_be_its_own(
    tmp_path: Path, response_seconds: int
) -> None:
    scene = AttemptScene(tmp_path, PolicySetting.SETTLED, response_seconds=response_seconds)
    await scene.start()
    story = await scene.next_attempt(outage(before="stage", seconds=1e6))
    assert story.facts_of(Phase.ENDED)["code"] == UnavailableError.code
    assert "until the row could no longer be this attempt's" in str(story.reason)
    assert response_seconds <= scene.env.seconds <= response_seconds + 5


async def test_the_wait_is_no_longer_than_the_setting(tmp_path: Path) -> None:
    scene = await AttemptScene(tmp_path, PolicySetting.SETTLED, patience_seconds=30).started()
    story = await scene.next_attempt(outage(before="branch", seconds=1e6))
    assert "until PERAGO_PATIENCE was over" in str(story.reason)
    assert 30 <= scene.env.seconds <= 35
    assert story.status == AttemptStatus.FAILED
    assert "PRG-L008" in str(story.reason)


async def test_without_patience_the_first_failure_is_the_last(tmp_path: Path) -> None:
    scene = await AttemptScene(tmp_path, PolicySetting.SETTLED, patience_seconds=0).started()
    story = await scene.next_attempt(lose_answer("branch"))
    assert story.facts_of(Phase.ENDED)["code"] == OutcomeUnknownError.code


async def test_an_upload_that_is_repeated_moves_only_what_is_not_there(tmp_path: Path) -> None:
    harness = await AttemptHarness(tmp_path, PolicySetting.SETTLED).started()
    worker = harness.worker([lose_answer("objects.upload")])
    report = await harness.report_of(worker)
    assert report.error is None
    # Two files: one arrived without an answer, so the repetition sends at most the other one.
    assert harness.workers[0].calls["objects.upload"] == 2
    await assert_accepted(harness)


async def test_a_head_that_was_read_before_a_wait_is_read_again(tmp_path: Path) -> None:
    """Else a relocation would drop what came while Conductor was away."""
    scene = await AttemptScene(tmp_path, PolicySetting.HEAD_PARENT, fenced=False).started()
    away = [lose_request("fence", nth=nth) for nth in (2, 3, 4)]
    come = meanwhile(scene.human, before="fence", nth=2)
    scene.human("data/abandoned.txt")
    story = await scene.next_attempt(come, *away, always(crash(before="branches.relocate")))
    assert story.status != DIED
    assert "elsewhere/human.txt" in scene.repository.files()


async def test_a_no_op_is_not_accepted_on_a_head_that_was_read_before_a_wait(
    tmp_path: Path,
) -> None:
    """Else the output would be the input, and what came meanwhile was published before that."""
    scene = AttemptScene(tmp_path, PolicySetting.LINEAGE, body=lambda _, __: None)
    await scene.start()
    away = [lose_request("fence", nth=nth) for nth in (1, 2, 3)]
    come = meanwhile(scene.human, before="fence")
    story = await scene.next_attempt(come, *away)
    assert story.facts_of(Phase.ENDED)["code"] == PublishFenceError.code
    assert "cannot complete no-op" in str(story.reason)


async def test_a_refusal_is_never_waited_for(tmp_path: Path) -> None:
    scene = await AttemptScene(tmp_path, PolicySetting.SETTLED).started()
    story = await scene.next_attempt(refuse("branch", AccessDeniedError("no")))
    assert story.facts_of(Phase.ENDED)["code"] == AccessDeniedError.code
    assert scene.env.seconds == 0


async def test_a_comparison_that_spark_could_not_make_is_made_again(tmp_path: Path) -> None:
    """Its jobs ask no lakeFS, but their cluster may be away when the task function has ended."""
    scene = await AttemptScene(tmp_path, PolicySetting.SETTLED).started()
    cluster_is_away = UnavailableError("plan: no answer")
    moments = [Moment("compare", Side.BEFORE, nth=nth) for nth in (1, 2, 3)]
    await scene.next_attempt(*(Refuse(moment, cluster_is_away) for moment in moments))
    await _assert_nothing_was_spent(scene, "the comparison")


def _terms(clock: VirtualClock, heard: list[Phase], *, stop: str = "") -> PatienceTerms:
    class Heard:
        def phase(self, phase: Phase, facts: object) -> None:
            del facts
            heard.append(phase)

    class Order(StopOrder):
        async def before_end_of(self, work: Awaitable[Answer]) -> Answer | BodyStopped:
            waiting = asyncio.ensure_future(work)
            await asyncio.sleep(0)
            clock.advance(clock.seconds_to_next() or 0)
            answer = await waiting
            return BodyStopped(stop, Cause.DRAIN) if stop else answer

    return PatienceTerms(
        clock=clock,
        fraction=lambda: 0.5,
        seconds_max=100,
        progress=Heard(),
        lease=NoLease(),
        stop_order=Order(),
    )


def _failing(
    times: int, error: ServiceError | None = None
) -> tuple[Callable[[], Awaitable[str]], list[int]]:
    calls: list[int] = []

    async def do() -> str:
        calls.append(1)
        if len(calls) <= times:
            raise error or UnavailableError("away")
        return "done"

    return do, calls


@pytest.mark.parametrize("chance", [0.0, 0.25, 1.0])
async def test_pauses_double_up_to_five_seconds_and_all_of_each_is_left_to_chance(
    chance: float,
) -> None:
    clock = VirtualClock()
    patience = Patience(replace(_terms(clock, []), fraction=lambda: chance))
    asked: list[float] = []

    async def do() -> str:
        asked.append(clock.monotonic())
        if len(asked) < 8:
            raise UnavailableError("away")
        return "done"

    await patience.until_done("lakeFS", "x", do)
    pauses = [later - earlier for earlier, later in pairwise(asked)]
    longest = (0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0)
    assert pauses == pytest.approx([chance * each for each in longest])


async def test_what_a_look_finds_is_the_answer() -> None:
    patience = Patience(_terms(VirtualClock(), []))
    do, calls = _failing(5)
    seen: Sequence[str | None] = [None, None, "found"]
    looks = iter(seen)

    async def look() -> str | None:
        return next(looks)

    assert await patience.until_done("lakeFS", "x", do, look) == "found"
    assert len(calls) == 3


async def test_an_order_to_stop_ends_the_wait() -> None:
    patience = Patience(_terms(VirtualClock(), [], stop="worker draining"))
    do, calls = _failing(5)
    with pytest.raises(UnavailableError, match="until worker draining") as raised:
        await patience.until_done("lakeFS", "x", do)
    assert len(calls) == 1
    assert raised.value.cause is Cause.DRAIN, "a drain hands the row back at any moment"


async def test_patience_that_is_over_does_not_begin_again() -> None:
    clock = VirtualClock()
    patience = Patience(_terms(clock, []))
    do, _ = _failing(10_000)
    with pytest.raises(UnavailableError, match="waited 100 s") as raised:
        await patience.until_done("lakeFS", "x", do)
    assert raised.value.cause is Cause.SERVICE_AWAY
    before = clock.monotonic()
    with pytest.raises(UnavailableError, match=r"^away$"):
        await patience.until_done("lakeFS", "x", do)
    assert clock.monotonic() == before


async def test_work_time_stands_still_while_a_service_is_away() -> None:
    clock = VirtualClock()
    patience = Patience(_terms(clock, []))
    time = WorkTime(patience, clock, 60)
    do, _ = _failing(20)
    await patience.until_done("lakeFS", "x", do)
    assert patience.waited_seconds > 10
    assert time.left == pytest.approx(60)
    clock.advance(10)
    assert time.left == pytest.approx(50)


async def _repeating(clock: VirtualClock, seconds: float, heard: list[Phase]) -> Patience:
    """What an adapter tells that sends one request again for so long, in a call of an attempt."""
    patience = Patience(_terms(clock, heard))

    async def transfer() -> str:
        hears = hearing()
        hears.failed("second", UnavailableError("503 Slow Down"))
        for _ in range(3):
            hears.failed("first", UnavailableError("connection refused"))
            clock.advance(seconds / 3)
        hears.failed("first", UnavailableError("connection refused"))
        for each in ("second", "first"):
            hears.over(each)
        clock.advance(1000)  # the transfer goes on, and nothing waits
        return "moved"

    assert await patience.until_done("lakeFS", "the upload", transfer) == "moved"
    return patience


async def test_requests_that_an_adapter_repeats_by_itself_are_one_wait() -> None:
    heard: list[Phase] = []
    patience = await _repeating(VirtualClock(), 30, heard)
    assert heard == [Phase.WAITING, Phase.WAITED]
    assert patience.waits == 1
    assert patience.waited_seconds == pytest.approx(30)


async def test_a_request_that_is_repeated_for_a_moment_is_no_wait_that_lasts() -> None:
    heard: list[Phase] = []
    patience = await _repeating(VirtualClock(), 3, heard)
    assert heard == []
    assert patience.waited_seconds == pytest.approx(3)


async def test_a_transfer_that_fails_ends_the_wait_for_its_requests() -> None:
    clock, heard, hears = VirtualClock(), list[Phase](), list[Repetitions]()
    patience = Patience(_terms(clock, heard))

    async def transfer() -> None:
        hears.append(hearing())
        for _ in range(2):
            hears[0].failed("it", UnavailableError("connection refused"))
            clock.advance(6)
        raise AccessDeniedError("no")

    with pytest.raises(AccessDeniedError):
        await patience.until_done("lakeFS", "the upload", transfer)
    assert heard == [Phase.WAITING, Phase.WAITED]
    hears[0].failed("late", UnavailableError("connection refused"))
    assert patience.waits == 1, "nobody waits for it"


EFFECTS = {
    "branches": {"create", "delete", "merge", "relocate", "protect", "unprotect"},
    "commits": {"commit"},
    "tags": {"create", "delete"},
    "objects": {"download", "upload", "copy"},
    "pipeline": {"materialise", "transfer", "forget", "describe", "reopen"},
    "trust": {"distrust"},
    "known": set[str](),
    "queue": {
        "poll",
        "extend_lease",
        "complete",
        "hand_back",
        "log",
        "read_log",
        "check",
    },
}
PORTS = {
    "branches": Branches,
    "commits": Commits,
    "tags": Tags,
    "objects": Objects,
    "pipeline": WorkspacePipeline,
    "trust": FenceTrust,
    "known": KnownRepositories,
    "queue": TaskQueue,
}


@pytest.mark.parametrize("name", sorted(PORTS))
def test_of_every_call_it_is_decided_whether_it_may_be_repeated_as_it_is(name: str) -> None:
    calls = {verb for verb in vars(PORTS[name]) if not verb.startswith("_")}
    assert REPEATED[name] | EFFECTS[name] == calls
    assert not REPEATED[name] & EFFECTS[name]
