"""The configuration record of 0.6.1: defaults, order of complaints, services, roots."""

import datetime as dt
from itertools import combinations
from pathlib import Path

import pytest

from perago.app.settings.runtime_config import (
    ConductorConfig,
    MetricsConfig,
    RuntimeConfig,
    load_runtime_config,
)
from perago.domain.errors import RuntimeConfigError, TaskDefinitionError

WHOLE = {
    "LAKECTL_SERVER_ENDPOINT_URL": " u ",
    "LAKECTL_CREDENTIALS_ACCESS_KEY_ID": "a",
    "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": "s",
}
EXPORTED = {"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": " http://h/v1/metrics "}


def load(
    tmp_path: Path, env: dict[str, str] | None = None, *, target: str = "app.workers.x"
) -> RuntimeConfig:
    roots = {
        "PERAGO_WORKSPACE_ROOT": str(tmp_path / "workspaces"),
        "PERAGO_LOG_ROOT": str(tmp_path / "logs"),
    }
    return load_runtime_config(target, cwd=tmp_path, process_env=roots | (env or {}))


def test_defaults(tmp_path: Path) -> None:
    assert load(tmp_path) == RuntimeConfig(
        workspace_root=tmp_path / "workspaces",
        log_root=tmp_path / "logs",
        log_file_max_size=104857600,
        log_retention=dt.timedelta(days=30),
        worker_id_prefix="appworkersx",
        execution_mode="process",
        workspace_gc_ttl=dt.timedelta(days=1),
        workspace_gc_interval=dt.timedelta(hours=1),
        shutdown_force_kill_after=None,
        failure_reason_max_length=500,
        conductor=None,
        lakefs=None,
        metrics=None,
    )


def test_roots_are_below_the_temporary_directory_by_default(tmp_path: Path) -> None:
    config = load_runtime_config("a", cwd=tmp_path, process_env={}, probe_roots=False)
    assert config.workspace_root.parts[-2:] == ("perago", "workspaces")
    assert config.log_root.parts[-2:] == ("perago", "logs")


def test_an_empty_root_is_the_current_directory(tmp_path: Path) -> None:
    env = {"PERAGO_WORKSPACE_ROOT": "", "PERAGO_LOG_ROOT": "~/x"}
    config = load_runtime_config("a", cwd=tmp_path, process_env=env, probe_roots=False)
    assert (config.workspace_root, config.log_root) == (Path(), Path("~/x"))


def test_roots_are_made_for_their_owner_only_and_left_empty(tmp_path: Path) -> None:
    config = load(tmp_path)
    for root in (config.workspace_root, config.log_root):
        assert root.stat().st_mode & 0o777 == 0o700
        assert not list(root.iterdir())


def test_a_root_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "workspaces").write_text("a file")
    with pytest.raises(RuntimeConfigError) as caught:
        load(tmp_path)
    assert str(caught.value).startswith(f"{tmp_path / 'workspaces'} is not writable: ")
    with pytest.raises(RuntimeConfigError) as caught:
        load(tmp_path, {"PERAGO_WORKSPACE_ROOT": str(tmp_path), "PERAGO_LOG_ROOT": "/proc"})
    # It is there, so only writing into it tells.
    assert str(caught.value).startswith("/proc is not writable: ")


ONLY_ASCII = "must contain only ASCII letters and digits"
DURATIONS = (
    "PERAGO_WORKSPACE_GC_TTL",
    "PERAGO_WORKSPACE_GC_INTERVAL",
    "PERAGO_SHUTDOWN_FORCE_KILL_AFTER",
)
WRONG = {
    "PERAGO_LOG_FILE_MAX_SIZE": ("x", "PERAGO_LOG_FILE_MAX_SIZE must be a positive size"),
    "PERAGO_LOG_RETENTION": ("x", "PERAGO_LOG_RETENTION must be a positive day count"),
    "PERAGO_WORKER_ID_PREFIX": ("-", "PERAGO_WORKER_ID_PREFIX must contain only ASCII"),
    "PERAGO_EXECUTION_MODE": ("x", "PERAGO_EXECUTION_MODE must be either"),
    "PERAGO_WORKSPACE_GC_TTL": ("x", "PERAGO_WORKSPACE_GC_TTL must be a positive duration"),
    "PERAGO_WORKSPACE_GC_INTERVAL": ("x", "PERAGO_WORKSPACE_GC_INTERVAL must be"),
    "PERAGO_SHUTDOWN_FORCE_KILL_AFTER": ("x", "PERAGO_SHUTDOWN_FORCE_KILL_AFTER must be"),
    "PERAGO_FAILURE_REASON_MAX_LENGTH": ("x", "PERAGO_FAILURE_REASON_MAX_LENGTH must be"),
    "CONDUCTOR_SERVER_URL": ("replace-me", "CONDUCTOR_SERVER_URL must be replaced"),
    "LAKECTL_SERVER_ENDPOINT_URL": ("u", "LakeFS config is incomplete; missing"),
    "PERAGO_INSTANCE_ID": ("a b", "PERAGO_INSTANCE_ID must contain only ASCII letters"),
    "OTEL_EXPORTER_OTLP_METRICS_COMPRESSION": (
        "zip",
        "OTEL_EXPORTER_OTLP_METRICS_COMPRESSION must be 'gzip'",
    ),
    "OTEL_EXPORTER_OTLP_METRICS_TIMEOUT": ("z", "OTEL_EXPORTER_OTLP_METRICS_TIMEOUT must"),
    "OTEL_METRIC_EXPORT_INTERVAL": ("z", "OTEL_METRIC_EXPORT_INTERVAL must be a positive"),
}


def test_complaints_come_in_the_order_of_0_6_1(tmp_path: Path) -> None:
    wrong = {name: value for name, (value, _) in WRONG.items()} | EXPORTED
    for name, (_, text) in WRONG.items():
        with pytest.raises(RuntimeConfigError) as caught:
            load(tmp_path, wrong)
        assert str(caught.value).startswith(text)
        del wrong[name]
    assert load(tmp_path, wrong).metrics is not None


@pytest.mark.parametrize("name", DURATIONS)
@pytest.mark.parametrize("text", ["0s", "5", "1.5h", "-1s", "2w"])
def test_a_duration_is_positive(tmp_path: Path, name: str, text: str) -> None:
    with pytest.raises(RuntimeConfigError) as caught:
        load(tmp_path, {name: text})
    assert str(caught.value) == (
        f"{name} must be a positive duration such as '30s', '5m', '1h', or '24h'"
    )
    assert getattr(load(tmp_path, {name: "2H"}), name.removeprefix("PERAGO_").lower()) == (
        dt.timedelta(hours=2)
    )


@pytest.mark.parametrize(
    ("env", "prefix"),
    [({}, "appworkersx"), ({"PERAGO_WORKER_ID_PREFIX": " mine "}, "mine")],
)
def test_the_prefix_is_configured_or_made_of_the_target(
    tmp_path: Path, env: dict[str, str], prefix: str
) -> None:
    assert load(tmp_path, env).worker_id_prefix == prefix
    for wrong, text in {" ": "must not be empty", "a-1": ONLY_ASCII, "é": ONLY_ASCII}.items():
        with pytest.raises(RuntimeConfigError) as caught:
            load(tmp_path, {"PERAGO_WORKER_ID_PREFIX": wrong})
        assert str(caught.value) == f"PERAGO_WORKER_ID_PREFIX {text}"


@pytest.mark.parametrize("target", ["", "...", "/"])
def test_a_target_that_gives_no_prefix_is_blamed_itself(tmp_path: Path, target: str) -> None:
    with pytest.raises(TaskDefinitionError, match="module target must be a Python import path"):
        load(tmp_path, target=target)


def test_a_dotted_target_without_ascii_needs_a_configured_prefix(tmp_path: Path) -> None:
    with pytest.raises(RuntimeConfigError, match="PERAGO_WORKER_ID_PREFIX must not be empty"):
        load(tmp_path, target="é")


@pytest.mark.parametrize(
    ("env", "conductor"),
    [
        ({}, None),
        ({"CONDUCTOR_SERVER_URL": " "}, None),
        ({"CONDUCTOR_SERVER_URL": " http://x/api "}, "http://x/api"),
        ({"CONDUCTOR_SERVER_URL": "a", "PERAGO_CONDUCTOR": "http://y/api"}, "http://y/api"),
        ({"CONDUCTOR_SERVER_URL": "a", "PERAGO_CONDUCTOR": "memory:"}, None),
    ],
    ids=str,
)
def test_the_address_of_conductor(
    tmp_path: Path, env: dict[str, str], conductor: str | None
) -> None:
    expected = None if conductor is None else ConductorConfig(server_url=conductor)
    assert load(tmp_path, env).conductor == expected


def test_the_three_parts_of_lakefs(tmp_path: Path) -> None:
    config = load(tmp_path, WHOLE).lakefs
    assert config is not None
    assert (config.endpoint_url, config.access_key_id) == ("u", "a")
    assert config.secret_access_key.get_secret_value() == "s"
    assert load(tmp_path, WHOLE | {"PERAGO_LAKEFS": "memory:"}).lakefs is None
    for count in (1, 2):
        for missing in combinations(WHOLE, count):
            part = {name: value for name, value in WHOLE.items() if name not in missing}
            with pytest.raises(RuntimeConfigError) as caught:
                load(tmp_path, part)
            assert str(caught.value) == (
                f"LakeFS config is incomplete; missing {', '.join(missing)}"
            )
    elsewhere = load(tmp_path, WHOLE | {"PERAGO_LAKEFS": "http://v"}).lakefs
    assert elsewhere is not None
    assert elsewhere.endpoint_url == "http://v"


def test_metrics_are_looked_at_only_when_they_go_somewhere(tmp_path: Path) -> None:
    assert load(tmp_path, {"PERAGO_INSTANCE_ID": "a b"}).metrics is None
    full = EXPORTED | {
        "PERAGO_INSTANCE_ID": " x ",
        "OTEL_EXPORTER_OTLP_METRICS_COMPRESSION": "gzip",
        "OTEL_EXPORTER_OTLP_METRICS_TIMEOUT": "10",
        "OTEL_METRIC_EXPORT_INTERVAL": "5",
        "OTEL_SERVICE_NAME": "honoured by OpenTelemetry itself",
    }
    assert load(tmp_path, full).metrics == MetricsConfig(
        endpoint="http://h/v1/metrics",
        instance_id="x",
        compression="gzip",
        timeout_millis=10,
        export_interval_millis=5,
    )
