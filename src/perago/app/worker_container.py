"""The composition root of what only a worker has: its log, its lock, its service manager.

Beside `container`, which names the adapters of attempts. Each is imported when it is asked for.
"""

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from pathlib import Path

from perago.app.settings.settings import Settings


def open_worker_log(
    settings: Settings, file: Path, secrets: Collection[str]
) -> AbstractContextManager[None]:
    """Send the log of this process to its file, for a block."""
    from perago.adapters.observability.worker_log import (  # noqa: PLC0415 - lazy
        WorkerLogSettings,
        worker_log,
    )

    return worker_log(
        WorkerLogSettings(
            file=file,
            root=settings.log_root,
            bytes_max=settings.log_file_max_size,
            retention=settings.log_retention,
            secrets=secrets,
        )
    )


def open_root_lock(root: Path) -> AbstractContextManager[object]:
    """Keep every other worker away from a workspace root, for a block."""
    from perago.adapters.filesystem.root_lock import RootLock  # noqa: PLC0415 - lazy

    return RootLock(root)


def notify_service(text: str) -> None:
    """Tell the service manager, if there is one."""
    from perago.adapters.system import systemd  # noqa: PLC0415 - lazy

    systemd.notify_service(text)


def open_probe_server(
    host: str, port: int, probes: Mapping[str, Callable[[], bool]], metrics: Callable[[], str]
) -> AbstractAsyncContextManager[int]:
    """Answer probes and metrics, for a block."""
    from perago.adapters.observability.probe_server import (  # noqa: PLC0415 - lazy
        ProbeAnswers,
        probe_server,
    )

    return probe_server(host, port, ProbeAnswers(probes, metrics))
