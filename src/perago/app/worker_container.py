"""The composition root of what only a worker has: its log, its lock, its service manager.

Beside `container`, which names the adapters of attempts. Each is imported when it is asked for.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from pathlib import Path

from perago.app.gc.local_pass import WorkerNames
from perago.app.settings.settings import Settings
from perago.app.telemetry.attempt_spans import ExportedSignals
from perago.app.telemetry.metrics import BUCKETS, BYTE_BUCKETS
from perago.domain.text import Secrets
from perago.ports.telemetry import DataEvents, Telemetry


def open_worker_log(
    settings: Settings, file: Path, secrets: Collection[str]
) -> AbstractContextManager[None]:
    """Send the log of this process to its file, for a block."""
    from perago.adapters.observability.json_lines import WorkerLogSettings, worker_log  # noqa: PLC0415

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
    from perago.adapters.filesystem.tree_removal import RootLock  # noqa: PLC0415 - lazy

    return RootLock(root)


def notify_service(text: str) -> None:
    """Tell the service manager, if there is one."""
    from perago.adapters.system import host  # noqa: PLC0415 - lazy

    host.notify_service(text)


def open_probe_server(
    host: str,
    port: int,
    probes: Mapping[str, Callable[[], bool]],
    metrics: Callable[[], str],
    notes: Callable[[], Sequence[str]],
) -> AbstractAsyncContextManager[int]:
    """Answer probes and metrics, for a block; `notes` are lines below the answer of a probe."""
    from perago.adapters.observability.probe_server import (  # noqa: PLC0415 - lazy
        ProbeAnswers,
        probe_server,
    )

    return probe_server(host, port, ProbeAnswers(probes, metrics, notes))


def open_telemetry(signals: ExportedSignals, service: Mapping[str, str]) -> Telemetry:
    """Send spans and samples to a collector; ImportError without the extra `otel`."""
    from perago.adapters.observability.otlp import (  # noqa: PLC0415 - lazy
        OtlpSettings,
        open_otlp,
    )

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
