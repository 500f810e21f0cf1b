"""Executors as descriptions: what they are called, where they log, when they restart.

The worker itself is `perago.app.worker`; here nothing is started and nothing is polled.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from perago.app.settings.runtime_config import RuntimeConfig
from perago.app.settings.settings import WORKER_ID, child_environment, resolve_worker_id
from perago.domain.errors import RuntimeConfigError

# The table of 0.6.1. One crash costs a second. An executor that cannot start is tried twice a
# minute and does not take the processor from the others.
RESTART_BACKOFF_SECONDS = (1, 2, 4, 8, 16, 30)
MAX_RESTART_BACKOFF_SECONDS = RESTART_BACKOFF_SECONDS[-1]
_UNSAFE = re.compile(r"[^A-Za-z0-9_.=-]+")


@dataclass(frozen=True)
class WorkerRuntime:
    """One worker process: its name and its log file."""

    worker_id: str
    log_file: Path
    swept_workspaces: list[Path] = field(default_factory=list[Path])


@dataclass(frozen=True)
class WorkerChildSpec:
    """One executor: its slot, counted from 1, and its environment."""

    slot: int
    env: dict[str, str]

    @property
    def worker_id(self) -> str:
        """What the executor is called."""
        return self.env[WORKER_ID]


def prepare_worker_runtime(
    *, config: RuntimeConfig, module_target: str, env: Mapping[str, str]
) -> WorkerRuntime:
    """Name this process and make the folder of its log file."""
    worker_id = resolve_worker_id(module_target, env)
    log_file = worker_log_file(
        config.log_root,
        module_target=module_target,
        worker_id=worker_id,
        started=datetime.now(tz=UTC),  # noqa: TID251  # the signature of 0.6.1 has no clock
    )
    log_file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return WorkerRuntime(worker_id, log_file)


def worker_log_file(
    log_root: Path, *, module_target: str, worker_id: str, started: datetime
) -> Path:
    """Path of the log file of this process."""
    folder = log_root / safe_segment(module_target) / f"worker_id={safe_segment(worker_id)}"
    return folder / f"pid={os.getpid()}__started={started:%Y%m%dT%H%M%S%z}.jsonl"


def worker_child_specs(
    *, base_env: Mapping[str, str], module_target: str, process_count: int
) -> list[WorkerChildSpec]:
    """Describe the executors of one parent."""
    if process_count < 1:
        raise RuntimeConfigError("worker process count must be at least 1", code="PRG-C008")
    return [
        WorkerChildSpec(slot, child_environment(base_env, module_target, slot))
        for slot in range(1, process_count + 1)
    ]


def restart_backoff_seconds(restart_count: int) -> int:
    """Seconds before an executor is started again after so many restarts."""
    if restart_count < 0:
        message = "restart_count must be >= 0"
        raise ValueError(message)
    return RESTART_BACKOFF_SECONDS[min(restart_count, len(RESTART_BACKOFF_SECONDS) - 1)]


def safe_segment(text: str) -> str:
    """A name that one path segment can hold; an empty rest is `unknown`."""
    return _UNSAFE.sub("_", text).strip("._") or "unknown"
