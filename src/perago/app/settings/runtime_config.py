"""`RuntimeConfig`, the configuration record of 0.6.1, and how 0.6.1 calls a process.

The record is a view of `Settings` for one module target, for callers of 0.6.1 who load or build it
themselves; the roots are probed for writing. The functions at the end give workers and executors
their ids.
"""

import os
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, SecretStr

from perago.app.settings import parsing
from perago.app.settings.roots import check_writable_root
from perago.app.settings.settings import ExecutionMode, Settings, is_address, load_settings
from perago.domain.errors import TaskDefinitionError


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
    config = RuntimeConfig(
        workspace_root=settings.workspace_root,
        log_root=settings.log_root,
        log_file_max_size=settings.log_file_max_size,
        log_retention=settings.log_retention,
        worker_id_prefix=worker_id_prefix_of(settings.worker_id_prefix, module_target),
        execution_mode=settings.execution_mode,
        workspace_gc_ttl=settings.workspace_gc_ttl,
        workspace_gc_interval=settings.workspace_gc_interval,
        shutdown_force_kill_after=settings.shutdown_force_kill_after,
        failure_reason_max_length=settings.failure_reason_max_length,
        conductor=_conductor_config(settings),
        lakefs=_lakefs_config(settings),
        metrics=metrics_config(settings),
    )
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
