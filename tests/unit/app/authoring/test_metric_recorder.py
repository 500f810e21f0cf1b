"""What a body records: names, labels that it may not take, and timers."""

import logging

import pytest

from perago.app.authoring.metrics import (
    InMemoryMetricRecorder,
    RecordedMetricSample,
    RuntimeMetricContext,
    TaskAttemptMetricContext,
)

ATTEMPT = TaskAttemptMetricContext("t", "task", "workflow", "execution", "worker", 0)
RUNTIME = RuntimeMetricContext("t", "host-1")
T = {"task_name": "t"}


@pytest.mark.parametrize(
    ("labels", "merged", "ignored"),
    [
        (None, T, []),
        ({"a": "b"}, T | {"a": "b"}, []),
        ({"task_name": "mine", "a": "b"}, T | {"a": "b"}, ["task_name"]),
        (
            dict.fromkeys(["task_id", "workflow_instance_id", "execution_id", "worker_id"], "1"),
            T,
            ["task_id", "workflow_instance_id", "execution_id", "worker_id"],
        ),
    ],
    ids=str,
)
def test_labels_of_the_runtime_win_and_the_loser_is_logged(
    labels: dict[str, str] | None,
    merged: dict[str, str],
    ignored: list[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    recorder = InMemoryMetricRecorder(context=ATTEMPT)
    with caplog.at_level(logging.WARNING):
        recorder.histogram("m", 1, labels=labels)
    assert recorder.histograms == [RecordedMetricSample("app.m", 1, merged)]
    keys = [each.getMessage().split("label_key=")[1].split()[0] for each in caplog.records]
    assert keys == ignored


def test_labels_of_the_runtime_name_the_instance() -> None:
    recorder = InMemoryMetricRecorder()
    recorder.runtime_gauge("m", 1, context=RuntimeMetricContext("t"), labels={"a": "b"})
    recorder.runtime_gauge("m", 1, context=RUNTIME, labels={"perago_instance_id": "x"})
    own = T | {"perago_instance_id": "host-1"}
    assert [each.labels for each in recorder.gauges] == [T | {"a": "b"}, own]


def test_a_recorder_needs_an_attempt_for_samples_of_task_code() -> None:
    with pytest.raises(RuntimeError, match="MetricRecorder context is not bound"):
        InMemoryMetricRecorder().histogram("x", 1)


def test_bound_recorders_write_to_the_lists_they_came_from() -> None:
    recorder = InMemoryMetricRecorder()
    bound = recorder.with_context(ATTEMPT)
    bound.histogram("rows", 3, labels={"kind": "new"})
    bound.gauge("depth", 2)
    recorder.runtime_histogram("wait", 1, context=RUNTIME)
    recorder.runtime_gauge("busy_slots", 4, context=RUNTIME)
    runtime = T | {"perago_instance_id": "host-1"}
    assert recorder.histograms == [
        RecordedMetricSample("app.rows", 3, T | {"kind": "new"}),
        RecordedMetricSample("runtime.wait", 1, runtime),
    ]
    assert recorder.gauges == [
        RecordedMetricSample("app.depth", 2, T),
        RecordedMetricSample("runtime.busy_slots", 4, runtime),
    ]
    assert (recorder.context, bound.context) == (None, ATTEMPT)


def test_a_timer_records_seconds_also_when_its_block_fails() -> None:
    recorder = InMemoryMetricRecorder(context=ATTEMPT)
    with pytest.raises(KeyError), recorder.timer("parse"):
        raise KeyError
    with recorder.runtime_timer("task_attempt_duration_seconds", context=RUNTIME):
        pass
    names = [each.name for each in recorder.histograms]
    assert names == ["app.parse", "runtime.task_attempt_duration_seconds"]
    assert all(0 <= each.value < 60 for each in recorder.histograms)
