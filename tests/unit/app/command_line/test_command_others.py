"""`config`, `explain`, `version`, and the program around all commands."""

import json
import sys
from dataclasses import asdict
from pathlib import Path

import pytest
import typer
from tests.unit.app.command_line.command_run import Run
from tools.write_reference import command_names

from perago import __version__
from perago.app.command_line.program import COMMANDS, CommandRow
from perago.app.command_line.reporting import CommandUsageError, reports_errors
from perago.app.command_line.servers import write_settings
from perago.domain.error_codes import error_codes

SECRET = {
    "LAKECTL_SERVER_ENDPOINT_URL": "http://127.0.0.1:1",
    "LAKECTL_CREDENTIALS_ACCESS_KEY_ID": "key",
    "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": "hush",
    # Said here, so that no server has to be asked.
    "PERAGO_TRANSFER_ROUTE": "api",
}
# These print a log for as long as they run, not one document.
LONG_RUNNING = {"start", "dev", "servers up"}


def test_config_shows_every_value_with_its_origin_and_masks_secrets(
    project: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in SECRET.items():
        monkeypatch.setenv(name, value)
    (project / ".env").write_text("PERAGO_LOG_RETENTION=7d\n")
    (project / "pyproject.toml").write_text("[tool.perago]\nstrict-input = true\n")
    ran = run("config", "show", "--origin")
    lines = ran.out.splitlines()
    assert "PERAGO_LOG_RETENTION=7d  (.env)" in lines
    assert "PERAGO_STRICT_INPUT=true  ([tool.perago])" in lines
    assert "LAKECTL_CREDENTIALS_ACCESS_KEY_ID=key  (environment)" in lines
    assert "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY=**********  (environment)" in lines
    assert "PERAGO_LOG_FILE_MAX_SIZE=100MB  (default)" in lines
    as_json = run("config", "show", "--json")
    assert as_json.document["schema"] == "perago.config/1"
    retention = as_json.document["settings"]["PERAGO_LOG_RETENTION"]
    assert (retention["value"], retention["origin"]) == ("7d", ".env")
    assert lines[-1] == ("# transfer route in force: api  (PERAGO_TRANSFER_ROUTE, environment)")
    in_force = as_json.document["transfer_route_in_force"]
    assert in_force == {"value": "api", "origin": "PERAGO_TRANSFER_ROUTE, environment"}
    assert "hush" not in ran.out + as_json.out
    assert "(" not in run("config", "show").out


@pytest.mark.parametrize(
    ("variables", "line"),
    [
        ({}, "none  (no lakeFS is configured)"),
        ({"PERAGO_LAKEFS": "memory:"}, "objects port  (memory:)"),
    ],
)
def test_config_says_what_moves_bytes_without_a_transfer_route(
    project: Path,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    variables: dict[str, str],
    line: str,
) -> None:
    assert project.is_dir()
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    last = run("config", "show", "--origin").out.splitlines()[-1]
    assert last == f"# transfer route in force: {line}"


def test_config_exits_with_3_if_a_setting_is_wrong(
    project: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert project.is_dir()
    monkeypatch.setenv("PERAGO_STRICT_INPUT", "maybe")
    ran = run("config", "show", "--origin")
    assert ran.code == 3
    # The remedy of a wrong setting asks for this very command.
    assert "PERAGO_STRICT_INPUT=maybe  (environment)" in ran.out
    assert "PERAGO_LOG_RETENTION=30d  (default)" in ran.out
    assert run("config", "show", "--json").document["schema"] == "perago.error/1"
    assert ran.err.startswith("error: PERAGO_STRICT_INPUT must be 'true' or 'false'\n")


def test_config_refuses_settings_of_a_conductor_that_cannot_be_asked(
    project: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERAGO_CONDUCTOR", "https://c.example/api")
    monkeypatch.setenv("PERAGO_TLS_CA_FILE", str(project / "missing"))
    ran = run("config", "show")
    assert (ran.code, "PRG-C006" in ran.err) == (3, True)
    assert f"PERAGO_TLS_CA_FILE={project / 'missing'}" in ran.out


def test_config_names_the_file_of_a_secret_that_cannot_be_read(
    project: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONDUCTOR_AUTH_SECRET_FILE", str(project / "missing"))
    ran = run("config", "show", "--origin")
    assert ran.code == 3
    origin = "(environment: CONDUCTOR_AUTH_SECRET_FILE)"
    assert f"CONDUCTOR_AUTH_SECRET=**********  {origin}" in ran.out
    assert "NO_PROXY=  (default)" in ran.out, "all settings are shown"


@pytest.mark.parametrize("code", ["PRG-U001", "prg-u001"])
def test_a_code_is_explained_at_length(run: Run, code: str) -> None:
    row = error_codes()["PRG-U001"]
    ran = run("explain", code)
    assert ran.code == 0
    for text in asdict(row).values():
        assert text in ran.out
    assert run("explain", code, "--json").document == {"schema": "perago.explain/1", **asdict(row)}


def test_all_codes_are_listed(run: Run) -> None:
    lines = run("explain").out.splitlines()
    assert [line.split()[0] for line in lines] == list(error_codes())
    assert len(run("explain", "--json").document["codes"]) == len(error_codes())


@pytest.mark.parametrize(
    ("asked", "near"), [("PRG-U01", "PRG-U001"), ("f002", "PRG-F002"), ("PRGF002", "PRG-F002")]
)
def test_an_unknown_code_lists_similar_codes(run: Run, asked: str, near: str) -> None:
    ran = run("explain", asked)
    assert ran.code == 1
    assert ran.err.startswith(f"error: there is no error code {asked}; did you mean {near}")


def test_the_version_is_bare_or_says_what_it_runs_on(run: Run) -> None:
    assert run("version").out == run("--version").out == f"{__version__}\n"
    document = run("version", "--json").document
    assert (document["schema"], document["version"]) == ("perago.version/1", __version__)
    assert document["packages"]["pydantic"]


def test_without_a_command_there_is_help_and_a_usage_error(run: Run) -> None:
    ran = run()
    assert (ran.code, ran.err) == (2, "")
    assert run("--help").code == 0
    for text in (ran.out, run("--help").out):
        assert all(row.name in text and row.summary in text for row in COMMANDS)
        assert "--install-completion" in text


@pytest.mark.parametrize(
    ("error", "said", "code"),
    [
        (ZeroDivisionError("by zero"), "error: ZeroDivisionError: by zero", "PRG-X001"),
        (FileNotFoundError(2, "No such file", "a.json"), "error: [Errno 2] No such", "PRG-X004"),
        (CommandUsageError("needs --repo"), "error: needs --repo", "PRG-X003"),
    ],
    ids=["unforeseen", "file", "usage"],
)
def test_every_error_that_ends_a_command_has_a_code(
    capsys: pytest.CaptureFixture[str], error: Exception, said: str, code: str
) -> None:
    @reports_errors
    def command(*, as_json: bool) -> None:
        assert as_json
        raise error

    with pytest.raises(typer.Exit) as ended:
        command(as_json=True)
    printed = capsys.readouterr()
    assert ended.value.exit_code == (2 if code == "PRG-X003" else 1)
    assert said in printed.err
    assert f"(perago explain {code})" in printed.err
    # Only a bug of ours shows where it happened.
    assert ("Traceback" in printed.err) == (code == "PRG-X001")
    facts = json.loads(printed.out)["error"]
    assert (facts["code"], facts["type"]) == (code, type(error).__name__)


def test_an_unknown_command_is_a_usage_error(run: Run) -> None:
    ran = run("chekc")
    assert (ran.code, ran.out) == (2, "")
    assert "No such command 'chekc'" in ran.err


@pytest.mark.parametrize("name", command_names())
def test_every_command_has_help_and_json(run: Run, name: str) -> None:
    ran = run(*name.split(), "--help")
    assert ran.code == 0
    assert f"Usage: perago {name}" in ran.out
    assert name in LONG_RUNNING or "--json" in ran.out


@pytest.mark.parametrize("row", COMMANDS, ids=lambda row: row.name)
def test_a_summary_is_a_short_sentence(row: CommandRow) -> None:
    assert row.summary.endswith(".")
    assert len(row.summary) < 60


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize("command", [("report", "publications"), ("verify",)])
def test_a_job_on_spark_asks_for_pyspark_before_it_asks_any_server(
    run: Run, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    monkeypatch.setenv("PERAGO_LAKEFS", "memory:")
    ran = run(*command, "no-such-repository@main")
    assert ran.code == 3
    assert "pip install 'perago[spark]'" in ran.err
    assert "PRG-K001" in ran.err


def test_a_file_of_settings_that_was_open_to_others_is_private_once_it_has_the_key(
    tmp_path: Path,
) -> None:
    env_file = tmp_path / ".env"
    env_file.write_text("")
    env_file.chmod(0o644)
    write_settings(env_file, {"LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": "hush"})
    assert "hush" in env_file.read_text()
    assert env_file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("name", ["folder", "missing/.env"])
def test_a_file_of_settings_that_cannot_be_written_starts_no_server(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (tmp_path / "folder").mkdir()
    started: list[str] = []
    monkeypatch.setattr("perago_servers.lakefs_server", lambda: started.append("lakeFS"))
    ran = run("servers", "up", "--env-file", str(tmp_path / name))
    assert (ran.code, ran.out) == (1, "")
    assert str(tmp_path / name) in ran.err
    assert "PRG-X004" in ran.err
    assert started == []
