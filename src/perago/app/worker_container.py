"""The composition root of what only a worker has: its log, its lock, its service manager.

Beside `container`, which names the adapters of attempts. Those of extras are imported when they
are asked for.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from pathlib import Path

from perago.adapters import system
from perago.adapters.filesystem.locks import RootLock
from perago.adapters.observability.json_lines import WorkerLogSettings, worker_log
from perago.adapters.observability.probe_server import ProbeAnswers, probe_server
from perago.app.gc.local_pass import WorkerNames
from perago.app.settings.settings import Settings
from perago.app.telemetry.exports import ExportedSignals
from perago.app.telemetry.metrics import BUCKETS, BYTE_BUCKETS
from perago.domain.text import Secrets
from perago.ports.telemetry import DataEvents, Telemetry

notify_service = system.notify_service


def open_worker_log(
    settings: Settings, file: Path, secrets: Collection[str]
) -> AbstractContextManager[None]:
    """Send the log of this process to its file, for a block."""
    return worker_log(
        WorkerLogSettings(
            file=file,
            root=settings.log_root,
            bytes_max=settings.log_file_max_size,
            retention=settings.log_retention,
            secrets=Secrets.of(secrets),
        )
    )


def open_root_lock(root: Path) -> AbstractContextManager[WorkerNames]:
    """Keep every other worker away from a workspace root, for a block; who was there before."""
    return RootLock(root)


def open_probe_server(
    host: str,
    port: int,
    probes: Mapping[str, Callable[[], bool]],
    metrics: Callable[[], str],
    notes: Callable[[], Sequence[str]],
) -> AbstractAsyncContextManager[int]:
    """Answer probes and metrics, for a block; `notes` are lines below the answer of a probe."""
    return probe_server(host, port, ProbeAnswers(probes, metrics, notes))


def open_telemetry(signals: ExportedSignals, service: Mapping[str, str]) -> Telemetry:
    """Send spans and samples to a collector; ImportError without the extra `otel`."""
    from perago.adapters.observability.otlp import OtlpSettings, open_otlp  # noqa: PLC0415 - lazy

    return open_otlp(
        OtlpSettings(
            service=service,
            traces=signals.traces,
            metrics=signals.metrics,
            metrics_endpoint=signals.metrics_endpoint,
            metrics_gzip=signals.metrics_gzip,
            metrics_timeout_seconds=signals.metrics_timeout_seconds,
            metrics_interval_millis=signals.metrics_interval_millis,
            seconds_bounds=BUCKETS,
            bytes_bounds=BYTE_BUCKETS,
        )
    )


def open_data_events() -> DataEvents:
    """Tell a catalogue which data attempts use; ImportError without the extra `openlineage`."""
    from perago.adapters.observability import open_lineage  # noqa: PLC0415 - lazy

    return open_lineage.open_data_events()
