"""`RuntimeConfig`, the configuration record of 0.6.1, and how 0.6.1 calls a process.

The record is a view of `Settings` for one module target, for callers of 0.6.1 who load or build it
themselves. The roots are probed for writing: `check_private_root` refuses one in which another user
could replace files, because that user would decide what an attempt publishes. The functions at the
end give workers and executors their ids.
"""

import os
import stat
import tempfile
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, SecretStr

from perago.app.settings import parsing
from perago.app.settings.settings import ExecutionMode, Settings, is_address, load_settings
from perago.domain.errors import RuntimeConfigError, TaskDefinitionError


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ConductorConfig(_Record):
    """How to reach Conductor."""

    server_url: str


class LakeFSConfig(_Record):
    """How to reach lakeFS."""

    endpoint_url: str
    access_key_id: str
    secret_access_key: SecretStr


class MetricsConfig(_Record):
    """Where metrics are exported to."""

    endpoint: str
    instance_id: str | None = None
    compression: Literal["gzip"] | None = None
    timeout_millis: int | None = None
    export_interval_millis: int | None = None


class RuntimeConfig(_Record):
    """What 0.6.1 calls the runtime configuration."""

    workspace_root: Path
    log_root: Path
    log_file_max_size: int
    log_retention: timedelta
    worker_id_prefix: str
    execution_mode: ExecutionMode = "process"
    workspace_gc_ttl: timedelta = timedelta(hours=24)
    workspace_gc_interval: timedelta = timedelta(hours=1)
    shutdown_force_kill_after: timedelta | None = None
    failure_reason_max_length: int = 500
    conductor: ConductorConfig | None = None
    lakefs: LakeFSConfig | None = None
    metrics: MetricsConfig | None = None


def load_runtime_config(
    module_target: str,
    *,
    cwd: Path | None = None,
    process_env: Mapping[str, str] | None = None,
    probe_roots: bool = True,
) -> RuntimeConfig:
    """Read the configuration for one module; an empty `process_env` is no environment at all."""
    settings = load_settings(cwd=cwd, process_env=process_env)
    return runtime_config(settings, module_target, probe_roots=probe_roots)


def runtime_config(
    settings: Settings, module_target: str, *, probe_roots: bool = True
) -> RuntimeConfig:
    """Return the settings as the record of 0.6.1."""
    same = RuntimeConfig.model_fields.keys() & Settings.model_fields.keys()
    own = {
        "worker_id_prefix": worker_id_prefix_of(settings.worker_id_prefix, module_target),
        "conductor": _conductor_config(settings),
        "lakefs": _lakefs_config(settings),
        "metrics": metrics_config(settings),
    }
    config = RuntimeConfig.model_validate({name: getattr(settings, name) for name in same} | own)
    if probe_roots:
        check_writable_root(config.workspace_root, "PERAGO_WORKSPACE_ROOT")
        check_writable_root(config.log_root, "PERAGO_LOG_ROOT")
        if settings.cache_dir is not None:
            check_writable_root(settings.cache_dir, "PERAGO_CACHE_DIR")
    return config


def _conductor_config(settings: Settings) -> ConductorConfig | None:
    """How to reach Conductor over HTTP; the record of 0.6.1 knows no other adapter."""
    address = settings.conductor_address
    if settings.conductor is not None and not is_address(settings.conductor):
        return None
    return None if address is None else ConductorConfig(server_url=address)


def _lakefs_config(settings: Settings) -> LakeFSConfig | None:
    """How to reach lakeFS over HTTP, in the same way."""
    if settings.lakefs is not None and not is_address(settings.lakefs):
        return None
    address = settings.lakefs_address
    key = settings.lakectl_credentials_access_key_id
    secret = settings.lakectl_credentials_secret_access_key
    # Never only one of them: `Settings` refuses a part of lakeFS.
    if address is None or key is None or secret is None:
        return None
    return LakeFSConfig(endpoint_url=address, access_key_id=key, secret_access_key=secret)


# Field of the record, field of the settings, and how its text is read.
_METRICS: tuple[tuple[str, str, parsing.Parse[object]], ...] = (
    ("instance_id", "instance_id", parsing.parse_instance_id),
    ("compression", "otel_exporter_otlp_metrics_compression", parsing.parse_compression),
    ("timeout_millis", "otel_exporter_otlp_metrics_timeout", parsing.parse_milliseconds),
    ("export_interval_millis", "otel_metric_export_interval", parsing.parse_milliseconds),
)


def metrics_config(settings: Settings) -> MetricsConfig | None:
    """Where metrics go; without an endpoint nothing else of them is looked at."""
    if settings.otel_exporter_otlp_metrics_endpoint is None:
        return None
    found: dict[str, object] = {"endpoint": settings.otel_exporter_otlp_metrics_endpoint}
    for field, setting, parse in _METRICS:
        text = getattr(settings, setting)
        found[field] = None if text is None else parse(text, parsing.variable_name(setting))
    return MetricsConfig.model_validate(found)


def check_writable_root(path: Path, variable: str) -> None:
    """Create a root if it is not there, for its owner only, and write into it once."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        check_private_root(path, variable)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        raise RuntimeConfigError(f"{path} is not writable: {error}", code="PRG-C005") from error


def check_private_root(root: Path, variable: str) -> None:
    """Refuse a root that another user owns or can write to, or can replace from above.

    In a directory like `/tmp` another user may have made `perago` first: everything below would be
    his to read, to replace, and to point at files of ours.
    """
    trusted = {0, os.geteuid(), Path("/").stat().st_uid}  # who owns "/" is root, under any number
    absolute, resolved = root.absolute(), root.resolve()
    # The root, all above it, and the same for what links among these stand for.
    for folder in dict.fromkeys((absolute, *absolute.parents, resolved, *resolved.parents)):
        status = folder.lstat()
        if status.st_uid not in trusted:
            raise _refused(root, variable, f"{folder} belongs to the user {status.st_uid}")
    for folder in (resolved, *resolved.parents):
        if _is_open(folder, is_root=folder == resolved):
            mend = f"; or run: chmod go-w {folder}"
            raise _refused(root, variable, f"other users can write to {folder}", mend)


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


WORKER_ID, WORKER_ID_PREFIX = "PERAGO_WORKER_ID", "PERAGO_WORKER_ID_PREFIX"


def worker_id_prefix_of(configured: str | None, module_target: str) -> str:
    """Return the configured prefix, or the one that the module target gives."""
    if configured is not None:
        return parsing.parse_worker_id_prefix(configured, WORKER_ID_PREFIX)
    prefix = default_worker_id_prefix(module_target)
    # A path of a file has letters, and the import refuses it. Without any (`./`) it would be called
    # a wrong prefix; a module name without any (`_`) is told to set one.
    if not prefix and not all(part.isidentifier() for part in module_target.split(".")):
        raise TaskDefinitionError(
            "module target must be a Python import path, not a file path or object path",
            code="PRG-T013",
        )
    return parsing.parse_worker_id_prefix(prefix, WORKER_ID_PREFIX)


def default_worker_id_prefix(module_target: str) -> str:
    """The ASCII letters and digits of a module target."""
    return "".join(each for each in module_target if each.isascii() and each.isalnum())


def worker_id_for_child(prefix: str, index: int) -> str:
    """Id of the executor in one slot."""
    return f"{prefix}{index:04d}"


def child_environment(
    base_env: Mapping[str, str], module_target: str, index: int
) -> dict[str, str]:
    """Environment of the executor in one slot."""
    prefix = worker_id_prefix_of(base_env.get(WORKER_ID_PREFIX), module_target)
    own = {WORKER_ID_PREFIX: prefix, WORKER_ID: worker_id_for_child(prefix, index)}
    return {**base_env, **own}


def resolve_worker_id(module_target: str, env: Mapping[str, str]) -> str:
    """Id of this process: the one its parent gave it, else one with its process id."""
    given = env.get(WORKER_ID)
    if given:
        return given
    prefix = worker_id_prefix_of(env.get(WORKER_ID_PREFIX), module_target)
    return f"{prefix}-pid-{os.getpid()}"
