"""A worker and its executors as descriptions: what they are called, where they log, what they run.

`worker_incarnation` names the process, and every start has another name: Conductor's row says which
worker has it, and after a restart with the old name an attempt of the dead process would look
current. `code_version_of` asks git which version of the task modules runs, for the commits that
they make. Whatever git cannot tell stays untold: a wrong version in a commit would be worse than
none. The worker itself is `perago.app.worker`; here nothing is polled.
"""

import inspect
import os
import re
import socket
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from perago.app.authoring.task_definition import TaskDefinition
from perago.app.settings.runtime_config import (
    WORKER_ID,
    RuntimeConfig,
    child_environment,
    resolve_worker_id,
)
from perago.domain.errors import RuntimeConfigError

# The table of 0.6.1. One crash costs a second. An executor that cannot start is tried twice a
# minute and does not take the processor from the others.
RESTART_BACKOFF_SECONDS = (1, 2, 4, 8, 16, 30)
MAX_RESTART_BACKOFF_SECONDS = RESTART_BACKOFF_SECONDS[-1]
_NOT_IN_A_PATH = re.compile(r"[^A-Za-z0-9_.=-]+")
# Room for a host name (63 characters, the longest DNS label), pid, chance and a prefix. Only the
# beginning is cut, because the end makes the name unique.
CHARACTERS_MAX = 100
# The name stands in log paths and in Conductor's rows.
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_.-]+")
# A worker that starts waits for it. In a tree of 100,000 files `git describe` takes seconds.
GIT_SECONDS_MAX = 10.0
# A file that git does not track, such as an installed package in a virtual environment inside the
# working tree, is not what the commit holds.
_IS_TRACKED = ("ls-files", "--error-unmatch", "--")
# The whole commit id, and `-dirty` where tracked files differ from it. No tags, because they move.
_DESCRIBE = ("describe", "--always", "--dirty", "--abbrev=40", "--exclude=*")
# A repository may name programs that git starts. None of them is needed to read a commit id.
_GIT = ("git", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")
# Those that remain, such as filters, run with what git itself needs, and without the worker's keys.
_VARIABLES = ("PATH", "HOME", "LANG")


def worker_incarnation(prefix: str, chance: str) -> str:
    """`prefix-host-pid-chance`, short enough for every store.

    The end of `chance`: an execution id begins with the time, so that two starts of one container
    within a minute would have the same beginning.
    """
    host = _NOT_IN_A_NAME.sub("-", socket.gethostname())
    tail = f"-{os.getpid()}-{chance[-8:]}"
    return f"{prefix}-{host}"[: CHARACTERS_MAX - len(tail)] + tail


def domain_of(task_name: str, environment: Mapping[str, str]) -> str | None:
    """The domain of one task, by conductor-python's variables; its own wins over all tasks'."""
    name = re.sub(r"[^A-Za-z0-9]+", "_", task_name)
    names = (
        f"CONDUCTOR_WORKER_{name.upper()}_DOMAIN",
        f"conductor_worker_{name}_domain",
        "CONDUCTOR_WORKER_ALL_DOMAIN",
        "conductor_worker_all_domain",
    )
    return next(filter(None, (environment.get(each, "").strip() for each in names)), None)


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
    return _NOT_IN_A_PATH.sub("_", text).strip("._") or "unknown"


def code_version_of(tasks: Iterable[TaskDefinition]) -> str | None:
    """The git commit of the first task module that git knows; None where it knows none."""
    for task in tasks:
        name = inspect.getsourcefile(inspect.unwrap(task.fn))
        if name is None:
            continue
        file = Path(name).absolute()
        if _ask(file.parent, *_IS_TRACKED, file.name) is not None:
            return _ask(file.parent, *_DESCRIBE) or None
    return None


def _ask(folder: Path, *words: str) -> str | None:
    """What git answers; None where there is no git, no working tree or no answer."""
    try:
        done = subprocess.run(  # noqa: S603 - words of this file and names of files, and no shell
            [*_GIT, *words],
            cwd=folder,
            env={"GIT_OPTIONAL_LOCKS": "0"}
            | {each: os.environ.get(each, "") for each in _VARIABLES},
            capture_output=True,
            check=True,
            text=True,
            timeout=GIT_SECONDS_MAX,
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
