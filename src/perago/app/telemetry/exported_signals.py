"""Which signals leave the process, by OpenTelemetry's standard variables.

An endpoint turns a signal on, `none` turns it off again. Opens no connection.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from perago.app.settings.runtime_config import metrics_config
from perago.app.settings.settings import Settings

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
TRACES_ENDPOINT = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedSignals:
    """What is sent; of metrics, what is not left to the standard variables."""

    traces: bool = False
    metrics: bool = False
    metrics_endpoint: str | None = None
    metrics_gzip: bool = False
    metrics_timeout_seconds: float | None = None
    metrics_interval_millis: float | None = None

    @property
    def any(self) -> bool:
        """Whether anything is sent at all."""
        return self.traces or self.metrics

    @classmethod
    def of(cls, settings: Settings, environment: Mapping[str, str]) -> Self:
        """Read settings, and from the environment what is no setting of ours."""
        if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
            return cls()
        everything = bool(environment.get(ENDPOINT, "").strip())
        to_traces = everything or bool(environment.get(TRACES_ENDPOINT, "").strip())
        config = metrics_config(settings)
        timeout = None if config is None else config.timeout_millis
        return cls(
            traces=to_traces and _is_wanted(environment, "OTEL_TRACES_EXPORTER"),
            metrics=(everything or config is not None)
            and _is_wanted(environment, "OTEL_METRICS_EXPORTER"),
            metrics_endpoint=None if config is None else config.endpoint,
            metrics_gzip=config is not None and config.compression == "gzip",
            metrics_timeout_seconds=None if timeout is None else timeout / 1000,
            metrics_interval_millis=None if config is None else config.export_interval_millis,
        )


def _is_wanted(environment: Mapping[str, str], name: str) -> bool:
    """Unset means OTLP."""
    named = environment.get(name, "").strip()
    return not named or "otlp" in {each.strip() for each in named.split(",")}
