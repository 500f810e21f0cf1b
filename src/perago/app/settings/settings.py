"""Every setting of Perago: its type, its default, its line in the reference, where it came from.

`load_settings` makes `Settings` from files and the environment that it is given. Asks no service
and creates nothing.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import (
    BaseModel,
    ByteSize,
    ConfigDict,
    Field,
    PrivateAttr,
    SecretStr,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from perago.app.settings import parsing
from perago.app.settings.layers import (
    ENVIRONMENT,
    Found,
    Layer,
    default_root,
    find,
    read_secret,
    standard_layers,
)
from perago.app.settings.parsing import read_by, value_text, variable_name
from perago.domain.attempt import PATIENCE_SECONDS
from perago.domain.checkpoints import BYTES_MAX, INTERVAL_SECONDS
from perago.domain.errors import RuntimeConfigError
from perago.domain.policy import PolicyName, PolicySetting

SPARK_CONF = "PERAGO_SPARK_CONF_"
# What Spark itself redacts when it shows its configuration.
_SPARK_SECRET = re.compile(r"secret|password|token|access[.]?key", re.IGNORECASE)
# Of all other settings a blank value counts as not set.
_MAY_BE_BLANK = frozenset(
    {"PERAGO_WORKER_ID_PREFIX", "PERAGO_WORKER_ID", "PERAGO_WORKSPACE_ROOT", "PERAGO_LOG_ROOT"}
)
# Once for each process, so that all settings of it mean the same place.
DEFAULT_ROOT = default_root()
DEFAULT = "default"

ExecutionMode = Literal["process", "thread"]
Text = Annotated[str, read_by(parsing.parse_text)]
Secret = Annotated[SecretStr, read_by(parsing.parse_text)]
Count = Annotated[int, read_by(parsing.parse_count)]
Size = Annotated[ByteSize, read_by(parsing.parse_size)]
Switch = Annotated[bool, read_by(parsing.parse_boolean)]
Duration = Annotated[timedelta, read_by(parsing.parse_duration)]
TimeToLive = Annotated[timedelta, read_by(parsing.parse_time_to_live)]


def setting(about: str, default: Any = None) -> Any:  # noqa: ANN401 - of the type of its field
    """A field with what the reference says of it; a text is read as if one had set it."""
    return Field(default, description=about)


@dataclass(frozen=True)
class ShownSetting:
    """One setting as it may be shown: a text, masked where it is secret, and its origin."""

    name: str
    about: str
    text: str
    origin: str


class Settings(BaseModel):
    """All settings, frozen; `load_settings` makes them from flags, the environment and files.

    Those down to the roots are of 0.6.1, whose users get the same defaults after an upgrade
    (docs/upgrade.md), or say where lakeFS and Conductor are. What is wrong is complained of in this
    order, which is that of 0.6.1.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        validate_default=True,
        hide_input_in_errors=True,
        alias_generator=variable_name,
    )

    _found: Mapping[str, Found] = PrivateAttr(default_factory=dict[str, Found])

    log_file_max_size: Size = setting("Size at which a log file is rotated", default="100MB")
    log_retention: Annotated[timedelta, read_by(parsing.parse_days)] = setting(
        "How long rotated log files are kept", default="30d"
    )
    worker_id_prefix: Annotated[str, read_by(parsing.parse_worker_id_prefix)] | None = setting(
        "First part of worker ids. Unset: the letters and digits of the module name"
    )
    worker_id: str | None = setting(
        "Complete id of this worker. A worker sets it for its executors"
    )
    execution_mode: Annotated[ExecutionMode, read_by(parsing.parse_execution_mode)] = setting(
        "Where task functions run: `process` or `thread`", default="process"
    )
    workspace_gc_ttl: Duration = setting(
        "How old an attempt directory must be before it is deleted if its owner cannot be"
        " identified. Directories of dead processes are deleted at once",
        default="24h",
    )
    workspace_gc_interval: Duration = setting(
        "Time between two passes of garbage collection", default="1h"
    )
    shutdown_force_kill_after: Duration | None = setting(
        "How long a worker waits for running task functions before it ends them. Unset: the"
        " longest `worker_shutdown_grace_seconds` of its tasks, or 30 seconds",
    )
    failure_reason_max_length: Annotated[int, read_by(parsing.parse_positive_integer)] = setting(
        "Longest failure reason that Perago sends to Conductor, in characters", default=500
    )
    conductor: Text | None = setting(
        "Conductor to use: `memory:`, an address, or the scheme of an adapter package"
    )
    conductor_server_url: Text | None = setting(
        "Used if `PERAGO_CONDUCTOR` is nowhere set. The name that 0.6.1 has"
    )
    conductor_auth_key: Text | None = setting("Key id for Conductor")
    conductor_auth_secret: Secret | None = setting("Secret for Conductor")
    lakefs: Text | None = setting(
        "lakeFS to use: `memory:`, an address, or the scheme of an adapter package"
    )
    lakectl_server_endpoint_url: Text | None = setting(
        "Used if `PERAGO_LAKEFS` is nowhere set. The name that lakectl has"
    )
    lakectl_credentials_access_key_id: Text | None = setting("Key id for lakeFS")
    lakectl_credentials_secret_access_key: Secret | None = setting("Secret for lakeFS")
    otel_exporter_otlp_metrics_endpoint: Text | None = setting(
        "Address to which metrics are exported. Unset: none are"
    )
    instance_id: str | None = setting(
        "Name of this worker in exported metrics. Unset: its worker id"
    )
    otel_exporter_otlp_metrics_compression: str | None = setting("`gzip` or `none`. Unset: `none`")
    otel_exporter_otlp_metrics_timeout: str | None = setting(
        "Time limit of one export, in milliseconds. Unset: 10000, OpenTelemetry's own"
    )
    otel_metric_export_interval: str | None = setting(
        "Time between two exports, in milliseconds. Unset: 60000, OpenTelemetry's own"
    )
    workspace_root: Path = setting(
        "Directory in which attempt directories are created", default=DEFAULT_ROOT / "workspaces"
    )
    log_root: Path = setting(
        "Directory to which log files are written", default=DEFAULT_ROOT / "logs"
    )

    publication_policy: Annotated[PolicyName, read_by(parsing.one_of(*PolicySetting))] = setting(
        "Policy of tasks without one: " + ", ".join(f"`{each}`" for each in PolicySetting),
        default="auto",
    )
    attempt_fence: Annotated[
        Literal["wide", "narrow"], read_by(parsing.one_of("wide", "narrow"))
    ] = setting(
        "What is compared with Conductor before an attempt writes. `narrow`: workflow, task, retry"
        " and status, as in 0.6.1. `wide`: also worker, poll count and times of the row, newer"
        " rows of the task, and the workflow's status",
        default="wide",
    )
    require_ownership: Switch = setting(
        "Whether `head-parent` refuses to replace a commit without an owner", default=False
    )
    strict_input: Switch = setting(
        "Whether unknown top-level keys of a task input are refused", default=False
    )
    body_seconds: Count = setting(
        "How many seconds a task function may run if its task sets no limit. 0: no limit", default=0
    )
    patience: TimeToLive = setting(
        "How long a step of an attempt waits for a lakeFS or Conductor that does not answer, or"
        " the start of a worker for Conductor. A step never waits longer than the row can be its"
        " own. `0s`: not at all",
        default=timedelta(seconds=PATIENCE_SECONDS),
    )
    checkpoint_interval: Duration = setting(
        "Shortest time between two checkpoints of a task function; earlier calls keep nothing",
        default=timedelta(seconds=INTERVAL_SECONDS),
    )
    checkpoint_size: Size = setting(
        "Largest size of a checkpoint. The disk of the worker holds up to three copies of it",
        default=BYTES_MAX,
    )
    executor_python: Text | None = setting(
        "Python that runs task code, for example `/opt/team/venv/bin/python`. Unset: the Python of"
        " the worker",
    )
    executor_user: Text | None = setting(
        "User, by name or number, that runs task code. Unset: the user of the worker"
    )
    cache_dir: Path | None = setting(
        "Directory of the content cache. Unset: a directory beside the workspaces"
    )
    cache_size: Size = setting("Largest size of the content cache", default="10GB")
    transfer_route: Annotated[
        Literal["auto", "presigned", "api"], read_by(parsing.one_of("auto", "presigned", "api"))
    ] = setting(
        "How objects are transferred: `presigned` by signed addresses of the block store, `api`"
        " through lakeFS, `auto` by size",
        default="auto",
    )
    transfer_concurrency: Count = setting(
        "Most parallel requests for objects, for all attempts together. 0: 48. Other requests to"
        " lakeFS have 48 of their own",
        default=0,
    )
    disk_free_min: Size | None = setting(
        "Stop polling workspace tasks when less disk space than this is free. Unset: 512 MiB, or 2"
        " % of a small disk",
    )
    pipeline: Annotated[
        Literal["local", "spark", "auto"], read_by(parsing.one_of("local", "spark", "auto"))
    ] = setting(
        "What moves workspaces: `local` (the worker), `spark` (Spark jobs), or `auto` (Spark for"
        " more objects than `PERAGO_PIPELINE_OBJECTS`)",
        default="local",
    )
    pipeline_objects: Count = setting(
        "Most objects that the worker moves itself if `PERAGO_PIPELINE` is `auto`", default=200_000
    )
    probe_address: Annotated[str, read_by(parsing.parse_address)] | None = setting(
        "Address or port of probes and metrics. Unset: they are not served"
    )
    gc_staging_ttl: TimeToLive = setting(
        "How old a staging branch must be before it is deleted if Conductor does not know its"
        " attempt",
        default="24h",
    )
    gc_tag_ttl: TimeToLive = setting(
        "How long decisions are kept after their workflow has ended", default="7d"
    )
    gc_run_ttl: TimeToLive = setting(
        "How long a run that was not published is kept after its workflow has ended", default="7d"
    )
    code_version: Annotated[str, read_by(parsing.parse_code_version)] | None = setting(
        "Version of the task modules, which every commit keeps as `perago.code_version`, for"
        " example an image digest. Unset: the git commit of the first task module, if it is in a"
        " git working tree",
    )
    spark_master: Text | None = setting(
        "Spark master of Spark tasks. Unset: `local[*]`, in the executor"
    )
    tls_ca_file: Path | None = setting(
        "File with CA certificates to trust for lakeFS and Conductor, besides those of the machine"
    )
    tls_verify: Switch = setting("Whether certificates are checked", default=True)
    http_proxy: Text | None = setting("Proxy for http addresses")
    https_proxy: Text | None = setting("Proxy for https addresses")
    no_proxy: Text | None = setting("Hosts that need no proxy")

    @field_validator("lakectl_credentials_secret_access_key")
    @classmethod
    def _lakefs_is_whole(cls, secret: SecretStr | None, info: ValidationInfo) -> SecretStr | None:
        """Refuse a part of lakeFS; an address in `PERAGO_LAKEFS` is one of the three as well.

        An adapter chosen by its name takes what it needs: keys for elsewhere do not hurt it.
        """
        chosen = info.data.get("lakefs")
        if chosen is not None and not is_address(chosen):
            return secret
        parts = {
            "LAKECTL_SERVER_ENDPOINT_URL": chosen or info.data.get("lakectl_server_endpoint_url"),
            "LAKECTL_CREDENTIALS_ACCESS_KEY_ID": info.data.get("lakectl_credentials_access_key_id"),
            "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": secret,
        }
        missing = [name for name, part in parts.items() if part is None]
        if 0 < len(missing) < len(parts):
            raise RuntimeConfigError(
                f"LakeFS config is incomplete; missing {', '.join(missing)}", code="PRG-C004"
            )
        return secret

    @classmethod
    def of(cls, layers: Sequence[Layer]) -> Self:
        """Return the settings that these layers make, the strongest first."""
        found = _found_in(layers)
        for name, each in found.items():
            if each.is_file:
                found[name] = replace(each, value=read_secret(str(each.value), name))
        try:
            settings = cls.model_validate({name: each.value for name, each in found.items()})
        except ValidationError as error:
            raise _first_refusal(error) from None  # the original carries the values
        settings._found = found | _spark_options(layers)  # noqa: SLF001 - its own
        return settings

    def shown(self) -> Iterator[ShownSetting]:
        """Every setting, in order, and the Spark options that are set."""
        for field, info in type(self).model_fields.items():
            name = variable_name(field)
            text = value_text(getattr(self, field), is_secret=VARIABLES[name])
            origin = self._found[name].origin if name in self._found else DEFAULT
            yield ShownSetting(name, info.description or "", text, origin)
        for name, found in self._found.items():
            if name.startswith(SPARK_CONF):
                key = _spark_key(name)
                is_secret = _SPARK_SECRET.search(key) is not None
                text = value_text(found.value, is_secret=is_secret)
                yield ShownSetting(name, f"Spark option {key}", text, found.origin)

    @property
    def conductor_address(self) -> str | None:
        """Conductor's address by the first of its two names that is set, or an adapter's scheme."""
        return self.conductor or self.conductor_server_url

    @property
    def lakefs_address(self) -> str | None:
        """The address of lakeFS, in the same way."""
        return self.lakefs or self.lakectl_server_endpoint_url

    @property
    def spark_conf(self) -> dict[str, str]:
        """Spark options: `PERAGO_SPARK_CONF_spark_executor_memory` is `spark.executor.memory`."""
        return {
            _spark_key(name): str(found.value)
            for name, found in self._found.items()
            if name.startswith(SPARK_CONF)
        }


# The name of every setting, and whether it is a secret.
VARIABLES: Mapping[str, bool] = {
    variable_name(field): Secret in get_args(info.annotation)
    for field, info in Settings.model_fields.items()
}


def load_settings(
    *,
    flags: Mapping[str, object] | None = None,
    cwd: Path | None = None,
    process_env: Mapping[str, str] | None = None,
) -> Settings:
    """Read flags, environment, `.env`, `[tool.perago]` and lakectl's file, in this order."""
    environment = os.environ if process_env is None else process_env
    return Settings.of(standard_layers(flags or {}, environment, cwd or Path.cwd(), VARIABLES))


def settings_as_found() -> Iterator[ShownSetting]:
    """Every setting of this process as the text it was found as, however wrong.

    Without the files where one of them is wrong: names that are known must be seen all the same.
    """
    try:
        layers = standard_layers({}, os.environ, Path.cwd(), VARIABLES)
    except RuntimeConfigError:
        layers = [Layer(ENVIRONMENT, os.environ)]
    found = _found_in(layers)
    for row in Settings.of(()).shown():
        if row.name in found:
            text = value_text(found[row.name].value, is_secret=VARIABLES[row.name])
            yield replace(row, text=text, origin=found[row.name].origin)
        else:
            yield row


def is_address(chosen: str | None) -> bool:
    """Whether a service is chosen by its address, not by the name of an adapter."""
    return chosen is not None and chosen.startswith(("http://", "https://"))


def _found_in(layers: Sequence[Layer]) -> dict[str, Found]:
    """The strongest value of each setting that has one; files of secrets are not read here."""
    every = {name: find(layers, name, secret=secret) for name, secret in VARIABLES.items()}
    return {
        name: found
        for name, found in every.items()
        if found is not None and (name in _MAY_BE_BLANK or not _is_blank(found))
    }


def _is_blank(found: Found) -> bool:
    # The name of a file is one even if it looks blank: who gave it means a secret.
    return not found.is_file and isinstance(found.value, str) and not found.value.strip()


def _spark_options(layers: Sequence[Layer]) -> dict[str, Found]:
    names = dict.fromkeys(
        name for layer in layers for name in layer.values if name.startswith(SPARK_CONF)
    )
    found = {name: find(layers, name, secret=False) for name in names}
    return {name: each for name, each in found.items() if each is not None}


def _spark_key(name: str) -> str:
    key = name.removeprefix(SPARK_CONF)
    if "." in key:
        return key
    return "_".join(part.replace("_", ".") for part in key.split("__"))


def _first_refusal(error: ValidationError) -> RuntimeConfigError:
    first = error.errors(include_url=False, include_input=False)[0]
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, RuntimeConfigError):
        return cause
    return RuntimeConfigError(f"{first['loc'][0]}: {cause or first['msg']}", code="PRG-C002")
