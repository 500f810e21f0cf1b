"""The text of the metrics, and that no label can take all memory."""

import re
from pathlib import Path

import pytest

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
    assert len(metrics.gauges["app_x"]) == module.SERIES_MAX
    metrics.gauge("app.x", {"user": "0"}, 7)
    assert metrics.gauges["app_x"][(("user", "0"),)] == 7


def test_names_without_end_stop_at_a_largest_number_and_the_log_says_why(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SERIES_MAX", 2)
    metrics = Metrics()
    for name in ("app.a", "app.b", "app.c"):
        metrics.gauge(name, {}, 1)
    metrics.count("app.a", {})
    assert list(metrics.gauges) == ["app_a", "app_b"]
    assert [record.getMessage() for record in caplog.records] == [
        "metric app.c (a gauge) is dropped: there are too many names",
        "metric app.a (a counter) is dropped: another metric has the name",
    ]


NAME = r"[a-zA-Z_][a-zA-Z0-9_]*"
VALUE = r'"(?:[^"\\\n]|\\["\\n])*"'
LINE = re.compile(rf"({NAME})(?:\{{((?:{NAME}={VALUE},?)*)\}})? [-+.\deInfNa]+")
LABEL = re.compile(rf"({NAME})=({VALUE})")


def accepted(text: str) -> list[str]:
    """The lines of a page, after the checks for which Prometheus refuses one whole."""
    series: set[tuple[str, tuple[tuple[str, str], ...]]] = set()
    families: list[str] = []
    lines = text.removesuffix("\n").split("\n")
    for line in lines:
        if line.startswith("# TYPE "):
            families.append(line.split()[2])
            continue
        found = LINE.fullmatch(line)
        assert found is not None, line
        labels = LABEL.findall(found[2] or "")
        names = [name for name, _ in labels]
        assert len(set(names)) == len(names), line
        assert not any(name.startswith("__") for name in names), line
        key = (found[1], tuple(sorted(labels)))
        assert key not in series, line
        series.add(key)
    assert len(set(families)) == len(families), families
    return lines


@pytest.mark.parametrize(
    "labels",
    [
        {"9th": "x"},
        {"": "x"},
        {"a.b": "1", "a_b": "2"},
        {"le": "7"},
        {"__name__": "other"},
        {"ü": "x", "é": "y"},
        {"a": 'text with } and \\ and \r and "'},
    ],
    ids=str,
)
def test_no_label_of_an_author_spoils_the_page(labels: dict[str, str]) -> None:
    metrics = Metrics()
    for kind in (metrics.gauge, metrics.count, metrics.observe):
        kind(f"app.{kind.__name__}", labels, 1)
    lines = accepted(metrics.text())
    assert len([line for line in lines if line.startswith("# TYPE")]) == 3


def test_of_labels_with_one_name_the_first_in_order_counts() -> None:
    metrics = Metrics()
    metrics.gauge("app.x", {"a_b": "2", "a.b": "1"}, 5)
    assert 'app_x{a_b="1"} 5' in accepted(metrics.text())


@pytest.mark.parametrize(
    ("name", "kind"),
    [("app.a_b", "count"), ("app.a.b", "gauge"), ("app.a.b_sum", "gauge"), ("app.9 th", "gauge")],
)
def test_no_name_of_an_author_spoils_the_page(name: str, kind: str) -> None:
    metrics = Metrics()
    metrics.observe("app.a.b", {}, 1)
    metrics.observe("app.a_b", {}, 1)
    getattr(metrics, kind)(name, {}, 1)
    lines = accepted(metrics.text())
    assert "app_a_b_count 2" in lines


def test_a_large_counter_shows_every_step() -> None:
    metrics = Metrics()
    metrics.count("app.bytes", {}, 1_234_567)
    assert "app_bytes 1234567" in accepted(metrics.text())


def test_operators_read_of_every_metric() -> None:
    text = (Path(__file__).parents[4] / "docs/operations.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(runtime\.\w+)`", text))
    made = {value for value in vars(module).values() if str(value).startswith("runtime.")}
    assert named == made
