"""An attempt as a span: its steps, its ids, its end, whatever the end was."""

from dataclasses import replace
from pathlib import Path

from tests.recordings import RememberedTelemetry
from tests.unit.app.attempt.attempt_harness import AttemptHarness
from tests.unit.app.attempt.attempt_scene import TASK

from perago.app.attempt.context import Attempt
from perago.app.attempt.run_attempt import run_attempt
from perago.app.telemetry.exports import AttemptSpans
from perago.app.telemetry.listeners import AttemptEvents
from perago.app.telemetry.metrics import AttemptMetrics, Metrics
from perago.domain.policy import PolicySetting
from perago.domain.text import NO_SECRETS, Secrets
from perago.ports.task_body import NoLease
from perago.ports.telemetry import FinishedSpan

SECRET = 's3cr"et\\key of the worker'
TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


async def heard(harness: AttemptHarness, secrets: Secrets = NO_SECRETS) -> RememberedTelemetry:
    """What a collector has after one attempt."""
    await harness.start()
    worker = harness.worker()
    telemetry = RememberedTelemetry()
    record = await worker.poll(TASK)
    assert record is not None
    dispatch = Attempt(
        worker.harness,
        harness.task,
        record,
        worker.harness.identities.new_execution_id(),
        replace(worker.settings, secrets=secrets),
        traceparent=TRACEPARENT,
    )
    listeners = [
        AttemptSpans(telemetry, worker.harness.clock, secrets),
        AttemptMetrics(Metrics(telemetry)),
    ]
    events = AttemptEvents(dispatch, listeners, worker.harness.clock)
    heard = replace(dispatch, ports=replace(worker.harness, progress=events))
    await harness.drive(run_attempt(heard, NoLease()))
    return telemetry


def only_span(telemetry: RememberedTelemetry) -> FinishedSpan:
    (span,) = telemetry.spans
    return span


async def test_a_published_attempt_is_a_span_of_its_steps_in_its_callers_trace(
    tmp_path: Path,
) -> None:
    span = only_span(await heard(AttemptHarness(tmp_path, PolicySetting.SETTLED)))
    assert (span.name, span.parent, span.error) == (f"process {TASK}", TRACEPARENT, None)
    names = [step.name for step in span.steps]
    assert names[0] == "policy"
    assert names[-2:] == ["completed", "cleaned"]
    assert {"materialised", "function-ended", "staged", "decided", "fenced", "published"} <= set(
        names
    )
    assert all(span.began <= step.began <= step.ended <= span.ended for step in span.steps)
    assert span.facts["perago.status"] == "COMPLETED"
    assert span.facts["messaging.destination.name"] == TASK


async def test_a_failed_attempt_is_a_span_with_its_error(tmp_path: Path) -> None:
    harness = AttemptHarness(tmp_path, PolicySetting.SETTLED, params={"text": 7})
    span = only_span(await heard(harness))
    assert span.error is not None
    assert span.facts["perago.status"] == "FAILED"
    assert span.facts["error.type"] == "PRG-I003"


async def test_a_secret_is_in_no_reason_and_in_no_span(tmp_path: Path) -> None:
    def body(workspace: Path, run: int) -> None:
        raise ValueError(f"{workspace.name} {run} refused {SECRET} of {[SECRET]}")

    harness = AttemptHarness(tmp_path, PolicySetting.SETTLED, body=body)
    span = only_span(await heard(harness, Secrets.of([SECRET])))
    reason = str((await harness.read()).attempts[0].reason)
    assert "refused *** of ['***']" in reason
    assert reason == span.error
    assert "s3cr" not in reason + repr(span)


async def test_a_secret_is_masked_before_a_reason_is_cut(tmp_path: Path) -> None:
    """Half of it would not be found any more."""

    def body(workspace: Path, run: int) -> None:
        del workspace, run
        raise ValueError("x" * 480 + SECRET)

    harness = AttemptHarness(tmp_path, PolicySetting.SETTLED, body=body)
    await heard(harness, Secrets.of([SECRET]))
    assert str((await harness.read()).attempts[0].reason).endswith("x***")


async def test_what_is_counted_of_a_published_attempt(tmp_path: Path) -> None:
    telemetry = await heard(AttemptHarness(tmp_path, PolicySetting.HEAD_PARENT))
    counted = {name: dict(labels) for name, labels in telemetry.counters}
    assert counted["runtime.publications_total"]["effect"] == "merged"
    assert counted["runtime.task_attempts_total"]["recorded"] == "recorded"
    assert counted["runtime.attempt_fence_verdicts_total"]["verdict"] == "current"
    moved = {dict(labels)["operation"] for _, labels in telemetry.samples if len(labels) == 2}
    assert moved == {"download", "upload", "publish"}
