"""Every setting of Perago with its type and default, and how a process is called.

`Settings` adds what came after 0.6.1 to `InheritedSettings`; `load_settings` reads files and the
environment that it is given. The functions at the end give workers and executors their ids. Asks
no service and creates nothing.
"""

import os
import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Literal

from perago.app.settings import parsing
from perago.app.settings.inherited_settings import InheritedSettings, Text
from perago.app.settings.layers import (
    ENVIRONMENT,
    Found,
    Layer,
    ShownSetting,
    as_found,
    find,
    standard_layers,
    variables,
)
from perago.app.settings.parsing import Variable, parse_worker_id_prefix, value_text
from perago.domain.attempt import PATIENCE_SECONDS
from perago.domain.checkpoints import BYTES_MAX, INTERVAL_SECONDS
from perago.domain.errors import RuntimeConfigError, TaskDefinitionError
from perago.domain.policy import PolicyName, PolicySetting

SPARK_CONF = "PERAGO_SPARK_CONF_"
# What Spark itself redacts when it shows its configuration.
_SPARK_SECRET = re.compile(r"secret|password|token|access[.]?key", re.IGNORECASE)
NO_FLAGS: Mapping[str, object] = MappingProxyType({})


class Settings(InheritedSettings):
    """All settings, frozen; `load_settings` makes them from flags, the environment and files."""

    publication_policy: Annotated[
        PolicyName,
        Variable(
            "PERAGO_PUBLICATION_POLICY",
            parsing.one_of(*PolicySetting),
            "Policy of tasks without one: " + ", ".join(f"`{each}`" for each in PolicySetting),
        ),
    ] = "auto"
    attempt_fence: Annotated[
        Literal["wide", "narrow"],
        Variable(
            "PERAGO_ATTEMPT_FENCE",
            parsing.one_of("wide", "narrow"),
            "What is compared with Conductor before an attempt writes. `narrow`: workflow, task,"
            " retry and status, as in 0.6.1. `wide`: also worker, poll count and times of the row,"
            " newer rows of the task, and the workflow's status",
        ),
    ] = "wide"
    require_ownership: Annotated[
        bool,
        Variable(
            "PERAGO_REQUIRE_OWNERSHIP",
            parsing.parse_boolean,
            "Whether `head-parent` refuses to replace a commit without an owner",
        ),
    ] = False
    strict_input: Annotated[
        bool,
        Variable(
            "PERAGO_STRICT_INPUT",
            parsing.parse_boolean,
            "Whether unknown top-level keys of a task input are refused",
        ),
    ] = False
    body_seconds: Annotated[
        int,
        Variable(
            "PERAGO_BODY_SECONDS",
            parsing.parse_count,
            "How many seconds a task function may run if its task sets no limit. 0: no limit",
        ),
    ] = 0
    patience: Annotated[
        timedelta,
        Variable(
            "PERAGO_PATIENCE",
            parsing.parse_time_to_live,
            "How long a step of an attempt waits for a lakeFS or Conductor that does not answer, or"
            " the start of a worker for Conductor. A step never waits longer than the row can be"
            " its own. `0s`: not at all",
        ),
    ] = timedelta(seconds=PATIENCE_SECONDS)
    checkpoint_interval: Annotated[
        timedelta,
        Variable(
            "PERAGO_CHECKPOINT_INTERVAL",
            parsing.parse_duration,
            "Shortest time between two checkpoints of a task function; earlier calls keep nothing",
        ),
    ] = timedelta(seconds=INTERVAL_SECONDS)
    checkpoint_size: Annotated[
        int,
        Variable(
            "PERAGO_CHECKPOINT_SIZE",
            parsing.parse_size,
            "Largest size of a checkpoint. The disk of the worker holds up to three copies of it",
        ),
    ] = BYTES_MAX
    executor_python: Annotated[
        str | None,
        Variable(
            "PERAGO_EXECUTOR_PYTHON",
            Text,
            "Python that runs task code, for example `/opt/team/venv/bin/python`. Unset: the"
            " Python of the worker",
        ),
    ] = None
    executor_user: Annotated[
        str | None,
        Variable(
            "PERAGO_EXECUTOR_USER",
            Text,
            "User, by name or number, that runs task code. Unset: the user of the worker",
        ),
    ] = None
    cache_dir: Annotated[
        Path | None,
        Variable(
            "PERAGO_CACHE_DIR",
            parsing.parse_path,
            "Directory of the content cache. Unset: a directory beside the workspaces",
        ),
    ] = None
    cache_size: Annotated[
        int,
        Variable("PERAGO_CACHE_SIZE", parsing.parse_size, "Largest size of the content cache"),
    ] = 10 * 1024**3
    transfer_route: Annotated[
        Literal["auto", "presigned", "api"],
        Variable(
            "PERAGO_TRANSFER_ROUTE",
            parsing.one_of("auto", "presigned", "api"),
            "How objects are transferred: `presigned` by signed addresses of the block store, `api`"
            " through lakeFS, `auto` by size",
        ),
    ] = "auto"
    transfer_concurrency: Annotated[
        int,
        Variable(
            "PERAGO_TRANSFER_CONCURRENCY",
            parsing.parse_count,
            "Most parallel requests for objects, for all attempts together. 0: 48. Other requests"
            " to lakeFS have 48 of their own",
        ),
    ] = 0
    disk_free_min: Annotated[
        int | None,
        Variable(
            "PERAGO_DISK_FREE_MIN",
            parsing.parse_size,
            "Stop polling workspace tasks when less disk space than this is free. Unset: 512 MiB,"
            " or 2 % of a small disk",
        ),
    ] = None
    pipeline: Annotated[
        Literal["local", "spark", "auto"],
        Variable(
            "PERAGO_PIPELINE",
            parsing.one_of("local", "spark", "auto"),
            "What moves workspaces: `local` (the worker), `spark` (Spark jobs), or `auto` (Spark"
            " for more objects than `PERAGO_PIPELINE_OBJECTS`)",
        ),
    ] = "local"
    pipeline_objects: Annotated[
        int,
        Variable(
            "PERAGO_PIPELINE_OBJECTS",
            parsing.parse_count,
            "Most objects that the worker moves itself if `PERAGO_PIPELINE` is `auto`",
        ),
    ] = 200_000
    probe_address: Annotated[
        str | None,
        Variable(
            "PERAGO_PROBE_ADDRESS",
            parsing.parse_address,
            "Address or port of probes and metrics. Unset: they are not served",
        ),
    ] = None
    gc_staging_ttl: Annotated[
        timedelta,
        Variable(
            "PERAGO_GC_STAGING_TTL",
            parsing.parse_time_to_live,
            "How old a staging branch must be before it is deleted if Conductor does not know its"
            " attempt",
        ),
    ] = timedelta(hours=24)
    gc_tag_ttl: Annotated[
        timedelta,
        Variable(
            "PERAGO_GC_TAG_TTL",
            parsing.parse_time_to_live,
            "How long decisions are kept after their workflow has ended",
        ),
    ] = timedelta(days=7)
    gc_run_ttl: Annotated[
        timedelta,
        Variable(
            "PERAGO_GC_RUN_TTL",
            parsing.parse_time_to_live,
            "How long a run that was not published is kept after its workflow has ended",
        ),
    ] = timedelta(days=7)
    code_version: Annotated[
        str | None,
        Variable(
            "PERAGO_CODE_VERSION",
            parsing.parse_code_version,
            "Version of the task modules, which every commit keeps as `perago.code_version`, for"
            " example an image digest. Unset: the git commit of the first task module, if it is in"
            " a git working tree",
        ),
    ] = None
    spark_master: Annotated[
        str | None,
        Variable(
            "PERAGO_SPARK_MASTER",
            Text,
            "Spark master of Spark tasks. Unset: `local[*]`, in the executor",
        ),
    ] = None
    tls_ca_file: Annotated[
        Path | None,
        Variable(
            "PERAGO_TLS_CA_FILE",
            parsing.parse_path,
            "File with CA certificates to trust for lakeFS and Conductor, besides those of the"
            " machine",
        ),
    ] = None
    tls_verify: Annotated[
        bool,
        Variable("PERAGO_TLS_VERIFY", parsing.parse_boolean, "Whether certificates are checked"),
    ] = True
    http_proxy: Annotated[
        str | None,
        Variable("HTTP_PROXY", Text, "Proxy for http addresses"),
    ] = None
    https_proxy: Annotated[
        str | None,
        Variable("HTTPS_PROXY", Text, "Proxy for https addresses"),
    ] = None
    no_proxy: Annotated[
        str | None,
        Variable("NO_PROXY", Text, "Hosts that need no proxy"),
    ] = None

    def shown(self) -> Iterator[ShownSetting]:
        """Every setting, in order, and the Spark options that are set."""
        yield from super().shown()
        for name, found in self._spark_options().items():
            key = _spark_key(name)
            is_secret = _SPARK_SECRET.search(key) is not None
            variable = Variable(name, parsing.parse_anything, f"Spark option {key}", is_secret)
            yield ShownSetting(variable, value_text(variable, found.value), found.origin)

    @property
    def spark_conf(self) -> dict[str, str]:
        """Spark options: `PERAGO_SPARK_CONF_spark_executor_memory` is `spark.executor.memory`."""
        return {_spark_key(name): str(found.value) for name, found in self._spark_options().items()}

    def _spark_options(self) -> dict[str, Found]:
        names = dict.fromkeys(
            name for layer in self._layers for name in layer.values if name.startswith(SPARK_CONF)
        )
        found = {name: find(self._layers, name, secret=False) for name in names}
        return {name: each for name, each in found.items() if each is not None}


def load_settings(
    *,
    flags: Mapping[str, object] = NO_FLAGS,
    cwd: Path | None = None,
    process_env: Mapping[str, str] | None = None,
) -> Settings:
    """Read flags, environment, `.env`, `[tool.perago]` and lakectl's file, in this order."""
    return Settings.of(_layers(flags, cwd, process_env))


def settings_as_found() -> Iterator[ShownSetting]:
    """Every setting of this process as the text it was found as, however wrong.

    Without the files where one of them is wrong: names that are known must be seen all the same.
    """
    try:
        layers = _layers(NO_FLAGS, None, None)
    except RuntimeConfigError:
        layers = [Layer(ENVIRONMENT, os.environ)]
    return as_found(Settings, layers)


def _layers(
    flags: Mapping[str, object], cwd: Path | None, process_env: Mapping[str, str] | None
) -> list[Layer]:
    secrets = {variable.name: variable.secret for _, variable in variables(Settings)}
    return standard_layers(
        flags=flags,
        process_env=os.environ if process_env is None else process_env,
        cwd=Path.cwd() if cwd is None else cwd,
        variables=secrets,
    )


def _spark_key(name: str) -> str:
    key = name.removeprefix(SPARK_CONF)
    if "." in key:
        return key
    return "_".join(part.replace("_", ".") for part in key.split("__"))


WORKER_ID, WORKER_ID_PREFIX = "PERAGO_WORKER_ID", "PERAGO_WORKER_ID_PREFIX"


def worker_id_prefix_of(configured: str | None, module_target: str) -> str:
    """Return the configured prefix, or the one that the module target gives."""
    if configured is not None:
        return parse_worker_id_prefix(configured, WORKER_ID_PREFIX)
    prefix = default_worker_id_prefix(module_target)
    # A path of a file has letters, and the import refuses it. Without any (`./`) it would be called
    # a wrong prefix; a module name without any (`_`) is told to set one.
    if not prefix and not all(part.isidentifier() for part in module_target.split(".")):
        raise TaskDefinitionError(
            "module target must be a Python import path, not a file path or object path",
            code="PRG-T013",
        )
    return parse_worker_id_prefix(prefix, WORKER_ID_PREFIX)


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
