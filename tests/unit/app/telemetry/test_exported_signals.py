"""Which signals leave a worker, by the standard variables."""

import sys
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader

from perago.adapters.observability import otlp
from perago.app.container import open_telemetry
from perago.app.settings.settings import load_settings
from perago.app.start_worker import open_collectors
from perago.app.telemetry.exports import Collectors, exported_signals
from perago.app.worker_assembly import StartOrder
from perago.ports.telemetry import BUCKETS, BYTE_BUCKETS, ExportedSignals

ALL, METRICS = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"
TRACES, HERE = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://127.0.0.1:4318"


@pytest.mark.parametrize(
    ("environment", "signals"),
    [
        ({}, set[str]()),
        ({ALL: " "}, set[str]()),
        ({ALL: HERE}, {"traces", "metrics"}),
        ({TRACES: HERE}, {"traces"}),
        ({METRICS: HERE}, {"metrics"}),
        ({ALL: HERE, "OTEL_TRACES_EXPORTER": "none"}, {"metrics"}),
        ({ALL: HERE, "OTEL_METRICS_EXPORTER": "none"}, {"traces"}),
        ({ALL: HERE, "OTEL_TRACES_EXPORTER": "console, otlp"}, {"traces", "metrics"}),
        ({ALL: HERE, "OTEL_SDK_DISABLED": "TRUE"}, set[str]()),
    ],
)
def test_an_endpoint_turns_a_signal_on(
    tmp_path: Path, environment: dict[str, str], signals: set[str]
) -> None:
    settings = load_settings(cwd=tmp_path, process_env=environment)
    found = exported_signals(settings, environment)
    assert {name for name in ("traces", "metrics") if getattr(found, name)} == signals
    assert found.any is bool(signals)


def test_the_settings_of_0_6_1_reach_the_exporter(tmp_path: Path) -> None:
    environment = {
        METRICS: HERE,
        "OTEL_EXPORTER_OTLP_METRICS_COMPRESSION": "gzip",
        "OTEL_EXPORTER_OTLP_METRICS_TIMEOUT": "2500",
        "OTEL_METRIC_EXPORT_INTERVAL": "1000",
    }
    settings = load_settings(cwd=tmp_path, process_env=environment)
    assert exported_signals(settings, environment) == ExportedSignals(
        metrics=True,
        metrics_endpoint=HERE,
        metrics_gzip=True,
        metrics_timeout_seconds=2.5,
        metrics_interval_millis=1000,
    )


def test_without_the_extra_there_is_an_import_error(monkeypatch: pytest.MonkeyPatch) -> None:
    # Both: an import of a module from its package takes the package's attribute first.
    monkeypatch.delitem(sys.modules, "perago.adapters.observability.otlp", raising=False)
    monkeypatch.delattr("perago.adapters.observability.otlp", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", None)
    with pytest.raises(ImportError, match="opentelemetry"):
        open_telemetry(ExportedSignals(traces=True), {})


def test_all_that_is_said_of_signals_reaches_the_exporter(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[object] = []

    def opening(*given: object) -> None:
        opened.append(given)

    monkeypatch.setattr(otlp, "open_otlp", opening)
    signals = ExportedSignals(
        traces=True,
        metrics=True,
        metrics_endpoint=HERE,
        metrics_gzip=True,
        metrics_timeout_seconds=2.5,
        metrics_interval_millis=1000,
    )
    service = {"service.name": "perago-worker"}
    open_telemetry(signals, service)
    assert opened == [(signals, service)]


@pytest.mark.parametrize(
    ("name", "bounds", "unit"),
    [
        ("runtime.queue_wait_seconds", BUCKETS, "s"),
        ("runtime.workspace_io_bytes", BYTE_BUCKETS, "By"),
        ("app.songs", BUCKETS, ""),
    ],
)
def test_a_collector_counts_between_our_edges(
    name: str, bounds: tuple[float, ...], unit: str
) -> None:
    reader = InMemoryMetricReader()
    otlp.OtlpTelemetry({}, None, reader).observe(name, {}, 1.0)
    data = reader.get_metrics_data()
    assert data is not None
    (metric,) = data.resource_metrics[0].scope_metrics[0].metrics
    (point,) = metric.data.data_points
    assert isinstance(point, HistogramDataPoint)
    assert (point.explicit_bounds, metric.unit) == (bounds, unit)


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        (
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_BSP_MAX_QUEUE_SIZE": "1"},
            "OpenTelemetry is configured but cannot start",
        ),
        (
            {"OPENLINEAGE__TRANSPORT__TYPE": "http"},
            "OpenLineage is configured but cannot start",
        ),
    ],
)
async def test_a_worker_goes_on_without_a_collector_that_cannot_start(
    variables: dict[str, str],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)  # the libraries read the process's own environment
    order = StartOrder(load_settings(cwd=tmp_path, process_env={}), (), (), environment=variables)
    async with AsyncExitStack() as stack:
        collectors = open_collectors(stack, order, "worker-1")
    assert collectors == Collectors()
    (record,) = (each for each in caplog.records if each.name == "perago.worker")
    assert record.getMessage() == said
    assert "Error" in str(vars(record))
