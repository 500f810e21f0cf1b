"""The settings that the public 0.6.1 has, in the order in which it complains about them.

Names, defaults and texts are its own. The newer ones are in `settings`.
"""

from datetime import timedelta
from pathlib import Path
from typing import Annotated, Literal

from pydantic import SecretStr, ValidationInfo, field_validator

from perago.app.settings import parsing
from perago.app.settings.layered_settings import LayeredSettings
from perago.app.settings.private_root import default_root
from perago.app.settings.variable import Variable
from perago.domain.authoring_errors import RuntimeConfigError

DEFAULT_LOG_FILE_MAX_SIZE = 100 * 1024**2
DEFAULT_LOG_RETENTION = timedelta(days=30)
DEFAULT_EXECUTION_MODE: Literal["process"] = "process"
DEFAULT_WORKSPACE_GC_TTL = timedelta(hours=24)
DEFAULT_WORKSPACE_GC_INTERVAL = timedelta(hours=1)
DEFAULT_FAILURE_REASON_MAX_LENGTH = 500

ExecutionMode = Literal["process", "thread"]
Text = parsing.parse_text
DEFAULT_ROOT = default_root()


class InheritedSettings(LayeredSettings):
    """What 0.6.1 can be told, and the addresses of the two services."""

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
            "First part of worker ids; by default the letters and digits of the module",
            blank_is_unset=False,
        ),
    ] = None
    worker_id: Annotated[
        str | None,
        Variable(
            "PERAGO_WORKER_ID",
            parsing.parse_anything,
            "Whole id of this worker; a parent sets it for its executors",
            blank_is_unset=False,
        ),
    ] = None
    execution_mode: Annotated[
        ExecutionMode,
        Variable(
            "PERAGO_EXECUTION_MODE",
            parsing.parse_execution_mode,
            "Where task bodies run: `process` or `thread`",
        ),
    ] = DEFAULT_EXECUTION_MODE
    workspace_gc_ttl: Annotated[
        timedelta,
        Variable(
            "PERAGO_WORKSPACE_GC_TTL",
            parsing.parse_duration,
            "Age at which an attempt directory goes whose owner cannot be told; one whose owner is"
            " gone goes at once",
        ),
    ] = DEFAULT_WORKSPACE_GC_TTL
    workspace_gc_interval: Annotated[
        timedelta,
        Variable(
            "PERAGO_WORKSPACE_GC_INTERVAL",
            parsing.parse_duration,
            "Pause between two passes over attempt directories",
        ),
    ] = DEFAULT_WORKSPACE_GC_INTERVAL
    shutdown_force_kill_after: Annotated[
        timedelta | None,
        Variable(
            "PERAGO_SHUTDOWN_FORCE_KILL_AFTER",
            parsing.parse_duration,
            "How long a drain may take before bodies are ended; unset: the longest grace of a"
            " task's budget, without budgets 30 seconds",
        ),
    ] = None
    failure_reason_max_length: Annotated[
        int,
        Variable(
            "PERAGO_FAILURE_REASON_MAX_LENGTH",
            parsing.parse_positive_integer,
            "Characters of a failure reason that Conductor gets",
        ),
    ] = DEFAULT_FAILURE_REASON_MAX_LENGTH
    conductor: Annotated[
        str | None,
        Variable(
            "PERAGO_CONDUCTOR",
            Text,
            "Which Conductor: `memory:`, an address, or an adapter of a package",
        ),
    ] = None
    conductor_server_url: Annotated[
        str | None,
        Variable("CONDUCTOR_SERVER_URL", Text, "Address of Conductor's API"),
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
            "PERAGO_LAKEFS", Text, "Which lakeFS: `memory:`, an address, or an adapter of a package"
        ),
    ] = None
    lakectl_server_endpoint_url: Annotated[
        str | None,
        Variable("LAKECTL_SERVER_ENDPOINT_URL", Text, "Address of lakeFS"),
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
            "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", Text, "Address that metrics are exported to"
        ),
    ] = None
    instance_id: Annotated[
        str | None,
        Variable(
            "PERAGO_INSTANCE_ID",
            parsing.parse_anything,
            "Identity of this worker in exported metrics",
        ),
    ] = None
    otel_exporter_otlp_metrics_compression: Annotated[
        str | None,
        Variable(
            "OTEL_EXPORTER_OTLP_METRICS_COMPRESSION", parsing.parse_anything, "`gzip` or `none`"
        ),
    ] = None
    otel_exporter_otlp_metrics_timeout: Annotated[
        str | None,
        Variable(
            "OTEL_EXPORTER_OTLP_METRICS_TIMEOUT",
            parsing.parse_anything,
            "Milliseconds one export may take",
        ),
    ] = None
    otel_metric_export_interval: Annotated[
        str | None,
        Variable(
            "OTEL_METRIC_EXPORT_INTERVAL",
            parsing.parse_anything,
            "Milliseconds between two exports",
        ),
    ] = None
    workspace_root: Annotated[
        Path,
        Variable(
            "PERAGO_WORKSPACE_ROOT",
            parsing.parse_path,
            "Where attempt directories are made",
            blank_is_unset=False,
        ),
    ] = DEFAULT_ROOT / "workspaces"
    log_root: Annotated[
        Path,
        Variable(
            "PERAGO_LOG_ROOT",
            parsing.parse_path,
            "Where log files are written",
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
