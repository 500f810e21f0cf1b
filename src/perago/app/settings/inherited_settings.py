"""Settings that 0.6.1 had, the addresses of the two services, and the directories they name.

`default_root` is where Perago keeps files when no setting says so. `check_private_root` refuses a
root in which another user could replace files: that user would decide what an attempt
publishes. Creates nothing.
"""

import os
import stat
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from tempfile import gettempdir
from typing import Annotated, Literal

from pydantic import SecretStr, ValidationInfo, field_validator

from perago.app.settings import parsing
from perago.app.settings.layers import LayeredSettings
from perago.app.settings.parsing import Variable
from perago.domain.errors import RuntimeConfigError


def default_root(environment: Mapping[str, str] = os.environ, temporary: str | None = None) -> Path:
    """Where Perago keeps its files unless settings say otherwise.

    The state directory, because attempts and logs have to outlive a log-out and need a real disk:
    `XDG_RUNTIME_DIR` is a small file system in memory that goes with the session. A user without a
    home, as in many containers, gets a directory in the temporary one that names his number.
    """
    state = environment.get("XDG_STATE_HOME", "")
    home = environment.get("HOME", "")
    folders = [Path(state)] if Path(state).is_absolute() else []
    if Path(home).is_absolute():
        folders.append(Path(home) / ".local" / "state")
    for folder in folders:
        nearest = next(each for each in (folder, *folder.parents) if each.exists())
        # Only the root directory is there of a home like `/nonexistent`: it is none, though root
        # could make it.
        if os.access(nearest, os.W_OK | os.X_OK) and nearest != Path("/"):
            return folder / "perago"
    return Path(temporary or gettempdir()) / f"perago-{os.geteuid()}"


def check_private_root(root: Path, variable: str) -> None:
    """Refuse a root that another user owns or can write to, or can replace from above.

    In a directory like `/tmp` another user may have made `perago` first: everything below would be
    his to read, to replace, and to point at files of ours.
    """
    trusted = {0, os.geteuid(), Path("/").stat().st_uid}  # who owns "/" is root, under any number
    for folder in _leading_to(root.absolute()):
        status = folder.lstat()
        if status.st_uid not in trusted:
            raise _refused(root, variable, f"{folder} belongs to the user {status.st_uid}")
    resolved = root.resolve()
    for folder in (resolved, *resolved.parents):
        if _is_open(folder, is_root=folder == resolved):
            mend = f"; or run: chmod go-w {folder}"
            raise _refused(root, variable, f"other users can write to {folder}", mend)


def _leading_to(path: Path) -> Iterator[Path]:
    """The path, everything above it, and the same for what its links stand for."""
    yield from (path, *path.parents)
    resolved = path.resolve()
    if resolved != path:
        yield from (resolved, *resolved.parents)


def _is_open(folder: Path, *, is_root: bool) -> bool:
    """Whether other users can make and rename entries of a directory."""
    status = folder.stat()
    is_sticky = bool(status.st_mode & stat.S_ISVTX)
    if not is_sticky and folder.is_mount():
        # A volume that was mounted for the worker: Kubernetes makes an emptyDir writable to every
        # user, and the users of a pod are the worker's own containers. /tmp is always sticky.
        return False
    if not is_root:
        # In a sticky directory only the owner of an entry can rename it, and we know the owners.
        return bool(status.st_mode & stat.S_IWOTH) and not is_sticky
    # With a umask of 002 directories are writable to the group of the user, which has one member.
    foreign_group = bool(status.st_mode & stat.S_IWGRP) and status.st_gid != os.getegid()
    return bool(status.st_mode & stat.S_IWOTH) or foreign_group


def _refused(root: Path, variable: str, found: str, mend: str = "") -> RuntimeConfigError:
    return RuntimeConfigError(
        f"{root} is not private: {found}; expected a directory of this user (number"
        f" {os.geteuid()}) that no other user can write to, below directories of this user or root;"
        f' use another: mkdir -p -m 700 "$HOME/perago" && export {variable}="$HOME/perago"{mend}',
        code="PRG-C013",
    )


# These defaults are those of 0.6.1, whose users get the same after an upgrade (docs/upgrade.md).
DEFAULT_LOG_FILE_MAX_SIZE = 100 * 1024**2
DEFAULT_LOG_RETENTION = timedelta(days=30)
DEFAULT_EXECUTION_MODE: Literal["process"] = "process"
DEFAULT_WORKSPACE_GC_TTL = timedelta(hours=24)
DEFAULT_WORKSPACE_GC_INTERVAL = timedelta(hours=1)
DEFAULT_FAILURE_REASON_MAX_LENGTH = 500

ExecutionMode = Literal["process", "thread"]
Text = parsing.parse_text
# Once for each process, so that all settings of it mean the same place.
DEFAULT_ROOT = default_root()


class InheritedSettings(LayeredSettings):
    """The settings of 0.6.1, and the addresses of lakeFS and Conductor."""

    log_file_max_size: Annotated[
        int,
        Variable(
            "PERAGO_LOG_FILE_MAX_SIZE", parsing.parse_size, "Size at which a log file is rotated"
        ),
    ] = DEFAULT_LOG_FILE_MAX_SIZE
    log_retention: Annotated[
        timedelta,
        Variable("PERAGO_LOG_RETENTION", parsing.parse_days, "How long rotated log files are kept"),
    ] = DEFAULT_LOG_RETENTION
    worker_id_prefix: Annotated[
        str | None,
        Variable(
            "PERAGO_WORKER_ID_PREFIX",
            parsing.parse_worker_id_prefix,
            "First part of worker ids. Unset: the letters and digits of the module name",
            blank_is_unset=False,
        ),
    ] = None
    worker_id: Annotated[
        str | None,
        Variable(
            "PERAGO_WORKER_ID",
            parsing.parse_anything,
            "Complete id of this worker. A worker sets it for its executors",
            blank_is_unset=False,
        ),
    ] = None
    execution_mode: Annotated[
        ExecutionMode,
        Variable(
            "PERAGO_EXECUTION_MODE",
            parsing.parse_execution_mode,
            "Where task functions run: `process` or `thread`",
        ),
    ] = DEFAULT_EXECUTION_MODE
    workspace_gc_ttl: Annotated[
        timedelta,
        Variable(
            "PERAGO_WORKSPACE_GC_TTL",
            parsing.parse_duration,
            "How old an attempt directory must be before it is deleted if its owner cannot be"
            " identified. Directories of dead processes are deleted at once",
        ),
    ] = DEFAULT_WORKSPACE_GC_TTL
    workspace_gc_interval: Annotated[
        timedelta,
        Variable(
            "PERAGO_WORKSPACE_GC_INTERVAL",
            parsing.parse_duration,
            "Time between two passes of garbage collection",
        ),
    ] = DEFAULT_WORKSPACE_GC_INTERVAL
    shutdown_force_kill_after: Annotated[
        timedelta | None,
        Variable(
            "PERAGO_SHUTDOWN_FORCE_KILL_AFTER",
            parsing.parse_duration,
            "How long a worker waits for running task functions before it ends them. Unset: the"
            " longest `worker_shutdown_grace_seconds` of its tasks, or 30 seconds",
        ),
    ] = None
    failure_reason_max_length: Annotated[
        int,
        Variable(
            "PERAGO_FAILURE_REASON_MAX_LENGTH",
            parsing.parse_positive_integer,
            "Longest failure reason that Perago sends to Conductor, in characters",
        ),
    ] = DEFAULT_FAILURE_REASON_MAX_LENGTH
    conductor: Annotated[
        str | None,
        Variable(
            "PERAGO_CONDUCTOR",
            Text,
            "Conductor to use: `memory:`, an address, or the scheme of an adapter package",
        ),
    ] = None
    conductor_server_url: Annotated[
        str | None,
        Variable(
            "CONDUCTOR_SERVER_URL",
            Text,
            "Used if `PERAGO_CONDUCTOR` is nowhere set. The name that 0.6.1 has",
        ),
    ] = None
    conductor_auth_key: Annotated[
        str | None,
        Variable("CONDUCTOR_AUTH_KEY", Text, "Key id for Conductor"),
    ] = None
    conductor_auth_secret: Annotated[
        SecretStr | None,
        Variable("CONDUCTOR_AUTH_SECRET", Text, "Secret for Conductor", secret=True),
    ] = None
    lakefs: Annotated[
        str | None,
        Variable(
            "PERAGO_LAKEFS",
            Text,
            "lakeFS to use: `memory:`, an address, or the scheme of an adapter package",
        ),
    ] = None
    lakectl_server_endpoint_url: Annotated[
        str | None,
        Variable(
            "LAKECTL_SERVER_ENDPOINT_URL",
            Text,
            "Used if `PERAGO_LAKEFS` is nowhere set. The name that lakectl has",
        ),
    ] = None
    lakectl_credentials_access_key_id: Annotated[
        str | None,
        Variable("LAKECTL_CREDENTIALS_ACCESS_KEY_ID", Text, "Key id for lakeFS"),
    ] = None
    lakectl_credentials_secret_access_key: Annotated[
        SecretStr | None,
        Variable("LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY", Text, "Secret for lakeFS", secret=True),
    ] = None
    otel_exporter_otlp_metrics_endpoint: Annotated[
        str | None,
        Variable(
            "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
            Text,
            "Address to which metrics are exported. Unset: none are",
        ),
    ] = None
    instance_id: Annotated[
        str | None,
        Variable(
            "PERAGO_INSTANCE_ID",
            parsing.parse_anything,
            "Name of this worker in exported metrics. Unset: its worker id",
        ),
    ] = None
    otel_exporter_otlp_metrics_compression: Annotated[
        str | None,
        Variable(
            "OTEL_EXPORTER_OTLP_METRICS_COMPRESSION",
            parsing.parse_anything,
            "`gzip` or `none`. Unset: `none`",
        ),
    ] = None
    otel_exporter_otlp_metrics_timeout: Annotated[
        str | None,
        Variable(
            "OTEL_EXPORTER_OTLP_METRICS_TIMEOUT",
            parsing.parse_anything,
            "Time limit of one export, in milliseconds. Unset: 10000, OpenTelemetry's own",
        ),
    ] = None
    otel_metric_export_interval: Annotated[
        str | None,
        Variable(
            "OTEL_METRIC_EXPORT_INTERVAL",
            parsing.parse_anything,
            "Time between two exports, in milliseconds. Unset: 60000, OpenTelemetry's own",
        ),
    ] = None
    workspace_root: Annotated[
        Path,
        Variable(
            "PERAGO_WORKSPACE_ROOT",
            parsing.parse_path,
            "Directory in which attempt directories are created",
            blank_is_unset=False,
        ),
    ] = DEFAULT_ROOT / "workspaces"
    log_root: Annotated[
        Path,
        Variable(
            "PERAGO_LOG_ROOT",
            parsing.parse_path,
            "Directory to which log files are written",
            blank_is_unset=False,
        ),
    ] = DEFAULT_ROOT / "logs"

    @field_validator("lakectl_credentials_secret_access_key")
    @classmethod
    def _lakefs_is_whole(cls, secret: SecretStr | None, info: ValidationInfo) -> SecretStr | None:
        """Refuse a part of lakeFS; an address in `PERAGO_LAKEFS` is one of the three as well.

        An adapter chosen by its name takes what it needs: keys for elsewhere do not hurt it.
        """
        chosen = info.data.get("lakefs")
        if chosen is not None and not is_address(chosen):
            return secret
        address = chosen if is_address(chosen) else info.data.get("lakectl_server_endpoint_url")
        parts = {
            "LAKECTL_SERVER_ENDPOINT_URL": address,
            "LAKECTL_CREDENTIALS_ACCESS_KEY_ID": info.data.get("lakectl_credentials_access_key_id"),
            "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": secret,
        }
        missing = [name for name, part in parts.items() if part is None]
        if 0 < len(missing) < len(parts):
            raise RuntimeConfigError(
                f"LakeFS config is incomplete; missing {', '.join(missing)}", code="PRG-C004"
            )
        return secret


def is_address(chosen: str | None) -> bool:
    """Whether a service is chosen by its address, not by the name of an adapter."""
    return chosen is not None and chosen.startswith(("http://", "https://"))
