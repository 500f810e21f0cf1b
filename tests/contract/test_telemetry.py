"""Laws of perago.ports.telemetry."""

import pytest
from tests.contract.telemetry_harnesses import HARNESSES, Harness, SeenSpan

from perago.ports.telemetry import FinishedSpan, FinishedStep

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
ODD = {"": "", "ключ": "\x00", "long": "x" * 100_000, "le": '"\\\n', "lone": "\udcff"}
STEPS = (
    FinishedStep("materialised", 1000.0, 1001.5, {"perago.objects": 3}),
    FinishedStep("published", 1001.5, 1002.0),
)


@pytest.fixture(params=list(HARNESSES))
def harness(request: pytest.FixtureRequest) -> Harness:
    return HARNESSES[request.param]()


def span(parent: str | None = None, error: str | None = None) -> FinishedSpan:
    return FinishedSpan(
        "process t", 999.5, 1002.5, {"perago.execution_id": "e"}, STEPS, parent, error
    )


def test_E1_never_raises(harness: Harness) -> None:
    for _ in range(2):
        harness.telemetry.span(
            FinishedSpan("\udcff", 2.0, 1.0, ODD, parent="no context", error="\x00")
        )
        for value in (0.0, -1.0, float("nan"), float("inf")):
            harness.telemetry.count("", ODD, value)
            harness.telemetry.gauge("a b", ODD, value)
            harness.telemetry.observe("\udcff", ODD, value)
        harness.telemetry.close()


def test_E2_span_belongs_to_its_parent(harness: Harness) -> None:
    harness.telemetry.span(span(f"00-{TRACE}-{PARENT}-01"))
    assert {each.trace for each in harness.spans()} == {TRACE}
    assert harness.spans()[-1].parent == PARENT


def test_E3_steps_lie_in_their_span(harness: Harness) -> None:
    harness.telemetry.span(span(error="it failed"))
    assert harness.spans() == [
        SeenSpan("materialised", None, "process t", 1000.0, 1001.5),
        SeenSpan("published", None, "process t", 1001.5, 1002.0),
        SeenSpan("process t", None, None, 999.5, 1002.5),
    ]


def test_E4_samples_are_kept_apart_by_labels(harness: Harness) -> None:
    for task in ("a", "a", "b"):
        labels = {"task_name": task}
        harness.telemetry.count("runtime.task_attempts_total", labels)
        harness.telemetry.count("runtime.cache_hits_total", labels, 5)
        harness.telemetry.observe("runtime.queue_wait_seconds", labels, 0.25)
    harness.telemetry.gauge("runtime.busy_slots", {}, 4)
    harness.telemetry.gauge("runtime.busy_slots", {}, 2)
    a, b = (("task_name", "a"),), (("task_name", "b"),)
    assert harness.numbers() == {
        ("runtime.task_attempts_total", a): 2,
        ("runtime.task_attempts_total", b): 1,
        ("runtime.cache_hits_total", a): 10,
        ("runtime.cache_hits_total", b): 5,
        ("runtime.queue_wait_seconds", a): (0.5, 2),
        ("runtime.queue_wait_seconds", b): (0.25, 1),
        ("runtime.busy_slots", ()): 2,
    }
