"""`RuntimeConfig`, the configuration record of 0.6.1, and the connections for adapters.

The record is a view of `Settings` for one module target, for callers of 0.6.1 who load or build it
themselves; the roots are probed for writing. `connections_of` turns settings into the addresses,
keys and proxies of lakeFS and Conductor. Starts nothing.
"""

import tempfile
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, SecretStr

from perago.app.connections import (
    CacheTerms,
    ConductorConnection,
    Connections,
    LakeFSConnection,
    PipelineTerms,
    Proxies,
)
from perago.app.settings import parsing
from perago.app.settings.inherited_settings import (
    DEFAULT_EXECUTION_MODE,
    DEFAULT_FAILURE_REASON_MAX_LENGTH,
    DEFAULT_WORKSPACE_GC_INTERVAL,
    DEFAULT_WORKSPACE_GC_TTL,
    ExecutionMode,
    check_private_root,
    is_address,
)
from perago.app.settings.settings import Settings, load_settings, worker_id_prefix_of
from perago.domain.errors import RuntimeConfigError


class ConductorConfig(BaseModel):
    """How to reach Conductor."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    server_url: str


class LakeFSConfig(BaseModel):
    """How to reach lakeFS."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    endpoint_url: str
    access_key_id: str
    secret_access_key: SecretStr


class MetricsConfig(BaseModel):
    """Where metrics are exported to."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    endpoint: str
    instance_id: str | None = None
    compression: Literal["gzip"] | None = None
    timeout_millis: int | None = None
    export_interval_millis: int | None = None


class RuntimeConfig(BaseModel):
    """What 0.6.1 calls the runtime configuration."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    workspace_root: Path
    log_root: Path
    log_file_max_size: int
    log_retention: timedelta
    worker_id_prefix: str
    execution_mode: ExecutionMode = DEFAULT_EXECUTION_MODE
    workspace_gc_ttl: timedelta = DEFAULT_WORKSPACE_GC_TTL
    workspace_gc_interval: timedelta = DEFAULT_WORKSPACE_GC_INTERVAL
    shutdown_force_kill_after: timedelta | None = None
    failure_reason_max_length: int = DEFAULT_FAILURE_REASON_MAX_LENGTH
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
        conductor=conductor_config(settings),
        lakefs=lakefs_config(settings),
        metrics=metrics_config(settings),
    )
    if probe_roots:
        check_writable_root(config.workspace_root, "PERAGO_WORKSPACE_ROOT")
        check_writable_root(config.log_root, "PERAGO_LOG_ROOT")
        if settings.cache_dir is not None:
            check_writable_root(settings.cache_dir, "PERAGO_CACHE_DIR")
    return config


def conductor_config(settings: Settings) -> ConductorConfig | None:
    """How to reach Conductor over HTTP, or None when that is not configured."""
    address = settings.conductor or settings.conductor_server_url
    # An adapter of another scheme (`memory:`), of which the record of 0.6.1 knows nothing.
    if settings.conductor is not None and not is_address(settings.conductor):
        return None
    return None if address is None else ConductorConfig(server_url=address)


def lakefs_config(settings: Settings) -> LakeFSConfig | None:
    """How to reach lakeFS over HTTP, or None when that is not configured."""
    if settings.lakefs is not None and not is_address(settings.lakefs):
        return None
    address = settings.lakefs or settings.lakectl_server_endpoint_url
    key = settings.lakectl_credentials_access_key_id
    secret = settings.lakectl_credentials_secret_access_key
    if address is None or key is None or secret is None:
        return None
    return LakeFSConfig(endpoint_url=address, access_key_id=key, secret_access_key=secret)


def metrics_config(settings: Settings) -> MetricsConfig | None:
    """Where metrics go; without an endpoint nothing else of them is looked at."""
    if settings.otel_exporter_otlp_metrics_endpoint is None:
        return None
    return MetricsConfig.model_validate(
        {
            "endpoint": settings.otel_exporter_otlp_metrics_endpoint,
            "instance_id": _read(
                parsing.parse_instance_id, settings.instance_id, "PERAGO_INSTANCE_ID"
            ),
            "compression": _read(
                parsing.parse_compression,
                settings.otel_exporter_otlp_metrics_compression,
                "OTEL_EXPORTER_OTLP_METRICS_COMPRESSION",
            ),
            "timeout_millis": _read(
                parsing.parse_milliseconds,
                settings.otel_exporter_otlp_metrics_timeout,
                "OTEL_EXPORTER_OTLP_METRICS_TIMEOUT",
            ),
            "export_interval_millis": _read(
                parsing.parse_milliseconds,
                settings.otel_metric_export_interval,
                "OTEL_METRIC_EXPORT_INTERVAL",
            ),
        }
    )


def check_writable_root(path: Path, variable: str) -> None:
    """Create a root if it is not there, for its owner only, and write into it once."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        check_private_root(path, variable)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        raise RuntimeConfigError(f"{path} is not writable: {error}", code="PRG-C005") from error


def _read(
    parse: parsing.Parse[parsing.Parsed], value: str | None, name: str
) -> parsing.Parsed | None:
    return None if value is None else parse(value, name)


def connections_of(settings: Settings) -> Connections:
    """Return the environment of this process; a service that is not configured is None."""
    return Connections(
        workspace_root=settings.workspace_root,
        lakefs=lakefs_connection(settings),
        conductor=conductor_connection(settings),
        cache=CacheTerms(directory=settings.cache_dir, bytes_max=settings.cache_size),
        pipeline=PipelineTerms(
            kind=settings.pipeline,
            local_objects_max=settings.pipeline_objects,
            spark_master=settings.spark_master,
            spark_options=settings.spark_conf,
        ),
    )


def lakefs_connection(settings: Settings) -> LakeFSConnection | None:
    """How to reach lakeFS, whatever adapter its address asks for."""
    url = settings.lakefs or settings.lakectl_server_endpoint_url
    if url is None:
        return None
    return LakeFSConnection(
        url=url,
        access_key_id=settings.lakectl_credentials_access_key_id or "",
        secret_access_key=_revealed(settings.lakectl_credentials_secret_access_key) or "",
        ca_file=_certificates(settings),
        verify_tls=settings.tls_verify,
        proxies=_proxies_to(url, settings),
        route=settings.transfer_route,
        requests_max=settings.transfer_concurrency,
    )


def conductor_connection(settings: Settings) -> ConductorConnection | None:
    """How to reach Conductor, whatever adapter its address asks for."""
    url = settings.conductor or settings.conductor_server_url
    if url is None:
        return None
    return ConductorConnection(
        url=url,
        auth_key=settings.conductor_auth_key,
        auth_secret=_revealed(settings.conductor_auth_secret),
        ca_file=_certificates(settings),
        verify_tls=settings.tls_verify,
        proxies=_proxies_to(url, settings),
    )


def proxies_of(settings: Settings) -> Proxies:
    """The proxies of the settings, which have read the usual variables."""
    words = (word.strip() for word in (settings.no_proxy or "").split(","))
    return Proxies(settings.http_proxy, settings.https_proxy, tuple(filter(None, words)))


def _proxies_to(url: str, settings: Settings) -> Proxies:
    """The proxies, refused before anything is sent when the one to this address speaks no HTTP.

    Only then: a desktop sets ALL_PROXY to a SOCKS proxy for everything, and lists what is near.
    """
    proxies = proxies_of(settings)
    try:
        scheme, found, address = (proxies(url) or "").partition("://")
        host = urlsplit(url).hostname
    except ValueError:  # no address at all: its adapter says what is wrong with it
        return proxies
    if found and scheme.lower() not in {"http", "https"}:
        raise RuntimeConfigError(
            f"{scheme}://{address.rpartition('@')[2]} cannot be the proxy to {host}: expected one"
            f" that speaks HTTP, for example HTTPS_PROXY=http://proxy:3128; without a proxy it is"
            f" reached with NO_PROXY={host}",
            code="PRG-C002",
        )
    return proxies


def _certificates(settings: Settings) -> Path | None:
    """The file of the settings, refused before anything is sent when it holds no certificate."""
    path = settings.tls_ca_file
    if path is not None:
        import ssl  # noqa: PLC0415  # needed only by those who have the file

        try:
            ssl.create_default_context(cafile=str(path))
        except OSError as error:  # an SSLError is one
            text = f"PERAGO_TLS_CA_FILE cannot be used: {path}: {error}"
            raise RuntimeConfigError(text, code="PRG-C006") from error
    return path


def _revealed(secret: SecretStr | None) -> str | None:
    return None if secret is None else secret.get_secret_value()
