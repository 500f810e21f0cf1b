"""The text of the metrics, and that no label can take all memory."""

import re
from pathlib import Path

from perago.app.telemetry import attempt_metrics
from perago.app.telemetry import metrics as module
from perago.app.telemetry.metrics import Metrics


def test_the_text_is_the_exposition_format() -> None:
    metrics = Metrics()
    metrics.count("runtime.task_attempts_total", {"task_name": 'a"b\\c\nd', "status": "FAILED"})
    metrics.count("runtime.task_attempts_total", {"task_name": 'a"b\\c\nd', "status": "FAILED"}, 2)
    metrics.gauge("runtime.busy_slots", {}, 3)
    metrics.observe("app.rows", {"task_name": "t"}, 0.2)
    metrics.observe("app.rows", {"task_name": "t"}, 9000)
    lines = metrics.text().splitlines()
    assert lines[:4] == [
        "# TYPE runtime_task_attempts_total counter",
        r'runtime_task_attempts_total{status="FAILED",task_name="a\"b\\c\nd"} 3',
        "# TYPE runtime_busy_slots gauge",
        "runtime_busy_slots 3",
    ]
    assert 'app_rows_bucket{task_name="t",le="0.1"} 0' in lines
    assert 'app_rows_bucket{task_name="t",le="0.25"} 1' in lines
    assert 'app_rows_bucket{task_name="t",le="7200"} 1' in lines
    assert lines[-3:] == [
        'app_rows_bucket{task_name="t",le="+Inf"} 2',
        'app_rows_sum{task_name="t"} 9000.2',
        'app_rows_count{task_name="t"} 2',
    ]


def test_a_label_that_never_repeats_ends_with_the_largest_number_of_series() -> None:
    metrics = Metrics()
    for number in range(module.SERIES_MAX + 5):
        metrics.gauge("app.x", {"user": str(number)}, 1)
    assert len(metrics.gauges["app.x"]) == module.SERIES_MAX
    metrics.gauge("app.x", {"user": "0"}, 7)
    assert metrics.gauges["app.x"][(("user", "0"),)] == 7


def test_operators_read_of_every_metric() -> None:
    text = (Path(__file__).parents[4] / "docs/operations.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(runtime\.\w+)`", text))
    made = {value for value in vars(attempt_metrics).values() if str(value).startswith("runtime.")}
    assert named == made
