"""Where settings come from: which layer wins, what `.env` means, and what is never mixed."""

from pathlib import Path

import pytest

from perago.app.settings.layers import read_dotenv
from perago.app.settings.settings import Settings, load_settings
from perago.domain.errors import RuntimeConfigError

MODE, LENGTH = "PERAGO_EXECUTION_MODE", "PERAGO_FAILURE_REASON_MAX_LENGTH"
ENDPOINT = "LAKECTL_SERVER_ENDPOINT_URL"
KEY = "LAKECTL_CREDENTIALS_ACCESS_KEY_ID"
SECRET = "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY"
LAKECTL = """
credentials:
  access_key_id: from-file
  secret_access_key: secret-from-file
server:
  endpoint_url: http://127.0.0.1:1
"""


@pytest.fixture
def cwd(tmp_path: Path) -> Path:
    """Return a project directory beside a home directory."""
    (tmp_path / "home").mkdir()
    project = tmp_path / "project"
    project.mkdir()
    return project


def load(
    cwd: Path, env: dict[str, str] | None = None, flags: dict[str, object] | None = None
) -> Settings:
    return load_settings(cwd=cwd, process_env=env or {}, flags=flags or {})


def origins(settings: Settings) -> dict[str, str]:
    return {each.name: each.origin for each in settings.shown() if each.origin != "default"}


def test_the_stronger_layer_wins(cwd: Path) -> None:
    name = "PERAGO_BODY_SECONDS"
    (cwd / "pyproject.toml").write_text("[tool.perago]\nbody-seconds = 1\n")
    assert load(cwd).body_seconds == 1
    (cwd / ".env").write_text(f"{name}=2\n")
    assert load(cwd).body_seconds == 2
    assert load(cwd, {name: "3"}).body_seconds == 3
    assert load(cwd, {name: "3"}, {name: "4"}).body_seconds == 4
    assert origins(load(cwd)) == {name: ".env"}
    assert origins(load(cwd, {name: "3"})) == {name: "environment"}
    assert origins(load(cwd, {name: "3"}, {name: "4"})) == {name: "flag"}
    (cwd / ".env").unlink()
    assert origins(load(cwd)) == {name: "[tool.perago]"}


def test_a_blank_value_of_a_stronger_layer_is_the_default(cwd: Path) -> None:
    (cwd / ".env").write_text(f"{MODE}=thread\n")
    assert load(cwd).execution_mode == "thread"
    assert load(cwd, {MODE: " "}).execution_mode == "process"


def test_dotenv_lines(cwd: Path) -> None:
    path = cwd / ".env"
    path.write_text(
        "# comment\n"
        "A=1\n"
        "export B=2\n"
        " C = 3 \n"
        'D="x y"\n'
        "E='q\"q'\n"
        'F="unclosed\n'
        "G=a#b\n"
        "H=a # c\n"
        "I=\n"
        "no separator\n"
        "K=${A}\n"
        "L=x=y\n"
    )
    assert read_dotenv(path) == {
        "A": "1",
        "B": "2",
        "C": "3",
        "D": "x y",
        "E": 'q"q',
        "F": '"unclosed',
        "G": "a#b",
        "H": "a # c",
        "I": "",
        "K": "${A}",
        "L": "x=y",
    }
    assert read_dotenv(cwd / "missing") == {}


def test_credentials_of_conductor_are_read_from_dotenv_too(cwd: Path) -> None:
    (cwd / ".env").write_text("CONDUCTOR_AUTH_KEY=key\nCONDUCTOR_AUTH_SECRET=hush\n")
    settings = load(cwd)
    assert settings.conductor_auth_key == "key"
    assert settings.conductor_auth_secret is not None
    assert settings.conductor_auth_secret.get_secret_value() == "hush"


@pytest.mark.parametrize("name", ["CONDUCTOR_AUTH_SECRET", SECRET])
def test_a_secret_may_be_in_a_file_of_its_own(cwd: Path, name: str) -> None:
    (cwd / "secret").write_text("hush\n")
    whole = {ENDPOINT: "http://127.0.0.1:1", KEY: "k"} if name == SECRET else {}
    env = whole | {f"{name}_FILE": str(cwd / "secret")}
    settings = load(cwd, env)
    value = getattr(settings, name.lower())
    assert value.get_secret_value() == "hush"
    assert origins(settings)[name] == f"environment: {name}_FILE"
    assert getattr(load(cwd, env | {name: "own"}), name.lower()).get_secret_value() == "own"


@pytest.mark.parametrize("path", ["missing", "  "])
def test_a_secret_file_that_cannot_be_read_is_named(cwd: Path, path: str) -> None:
    with pytest.raises(RuntimeConfigError, match="CONDUCTOR_AUTH_SECRET_FILE cannot be read"):
        load(cwd, {"CONDUCTOR_AUTH_SECRET_FILE": path})


def test_a_secret_file_that_is_empty_is_named(cwd: Path) -> None:
    (cwd / "secret").write_text("\n")
    with pytest.raises(RuntimeConfigError, match="CONDUCTOR_AUTH_SECRET_FILE is empty"):
        load(cwd, {"CONDUCTOR_AUTH_SECRET_FILE": str(cwd / "secret")})


def test_a_refusal_carries_no_values_of_the_other_settings(cwd: Path) -> None:
    """An error of pydantic has them all: a log that follows causes would show a secret."""
    with pytest.raises(RuntimeConfigError) as caught:
        load(cwd, {"CONDUCTOR_AUTH_SECRET": "hush", "PERAGO_BODY_SECONDS": "9" * 5000})
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_pyproject_may_name_the_file_of_a_secret(cwd: Path) -> None:
    (cwd / "secret").write_text("hush")
    (cwd / "pyproject.toml").write_text(
        f"[tool.perago]\nconductor-auth-secret-file = '{cwd / 'secret'}'\n"
    )
    secret = load(cwd).conductor_auth_secret
    assert secret is not None
    assert secret.get_secret_value() == "hush"


@pytest.mark.parametrize(
    ("env", "kept", "hidden"),
    [
        ({"HTTP_PROXY": "http://me:hush@proxy:1"}, "http://me:**********@proxy:1", "HTTP_PROXY"),
        ({"PERAGO_CONDUCTOR": "http://:hush@c"}, "http://:**********@c", "PERAGO_CONDUCTOR"),
        (
            {"PERAGO_SPARK_CONF_spark_hadoop_fs_s3a_secret_key": "hush"},
            "**********",
            "PERAGO_SPARK_CONF_spark_hadoop_fs_s3a_secret_key",
        ),
    ],
    ids=["proxy", "address", "spark"],
)
def test_passwords_inside_of_values_are_masked(
    cwd: Path, env: dict[str, str], kept: str, hidden: str
) -> None:
    shown = {each.name: each.text for each in load(cwd, env).shown()}
    assert shown[hidden] == kept
    assert "hush" not in str(shown)


def test_secrets_are_masked_wherever_they_are_shown(cwd: Path) -> None:
    settings = load(cwd, {ENDPOINT: "http://127.0.0.1:1", KEY: "k", SECRET: "hush"})
    shown = {each.name: each.text for each in settings.shown()}
    assert (shown[KEY], shown[SECRET]) == ("k", "**********")
    assert "hush" not in repr(settings) + str(shown)


@pytest.mark.parametrize(
    ("table", "text"),
    [
        ("unknown = 1", "[tool.perago] has an unknown key: unknown"),
        ("conductor-auth-secret = 'x'", "CONDUCTOR_AUTH_SECRET is a secret and must not be in"),
        ("failure-reason-max-length = 0", f"{LENGTH} must be greater than zero"),
        ("spark-conf = 3", "spark-conf in pyproject.toml must be a table"),
        ("log-retention = ['7d']", "[tool.perago] log-retention must be one value"),
    ],
)
def test_a_wrong_table_in_pyproject_is_refused(cwd: Path, table: str, text: str) -> None:
    (cwd / "pyproject.toml").write_text(f"[tool.perago]\n{table}\n")
    with pytest.raises(RuntimeConfigError) as caught:
        load(cwd)
    assert text in str(caught.value)


def test_keys_of_pyproject_are_names_in_lower_case(cwd: Path) -> None:
    (cwd / "pyproject.toml").write_text(
        "[tool.perago]\nconductor_server_url = 'http://127.0.0.1:2/api'\nstrict-input = true\n"
        "[tool.perago.spark-conf]\n'spark.executor.memory' = '2g'\n"
    )
    settings = load(cwd)
    assert settings.conductor_server_url == "http://127.0.0.1:2/api"
    assert settings.strict_input is True
    assert settings.spark_conf == {"spark.executor.memory": "2g"}


def test_a_pyproject_that_is_not_toml_is_named(cwd: Path) -> None:
    (cwd / "pyproject.toml").write_text("[tool.perago\n")
    with pytest.raises(RuntimeConfigError, match=r"pyproject\.toml cannot be read"):
        load(cwd)


@pytest.mark.parametrize("text", ["tool = 1", "[tool]\nperago = 'x'"])
def test_a_pyproject_of_another_shape_is_refused(cwd: Path, text: str) -> None:
    (cwd / "pyproject.toml").write_text(text)
    with pytest.raises(RuntimeConfigError, match=r"in pyproject\.toml must be a table"):
        load(cwd)


def test_spark_options_come_from_names_in_the_environment(cwd: Path) -> None:
    env = {
        "PERAGO_SPARK_CONF_spark_executor_memoryOverhead": "1g",
        "PERAGO_SPARK_CONF_spark_a__b": "2",
    }
    (cwd / ".env").write_text("PERAGO_SPARK_CONF_spark_a__b=3\n")
    assert load(cwd, env).spark_conf == {
        "spark.executor.memoryOverhead": "1g",
        "spark.a_b": "2",
    }


def test_spark_options_are_shown_with_their_origin(cwd: Path) -> None:
    shown = list(load(cwd, {"PERAGO_SPARK_CONF_spark_a": "1"}).shown())
    assert (shown[-1].about, shown[-1].text) == ("Spark option spark.a", "1")
    assert shown[-1].origin == "environment"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("PERAGO_LOG_FILE_MAX_SIZE", "100MB"),
        ("PERAGO_LOG_FILE_MAX_SIZE", "1.5KB"),
        ("PERAGO_LOG_RETENTION", "30d"),
        ("PERAGO_WORKSPACE_GC_INTERVAL", "90m"),
        ("PERAGO_WORKSPACE_GC_TTL", "1s"),
        ("PERAGO_GC_TAG_TTL", "0s"),
        ("PERAGO_STRICT_INPUT", "true"),
        ("PERAGO_EXECUTION_MODE", "thread"),
        ("PERAGO_CACHE_DIR", "some/where"),
        ("PERAGO_BODY_SECONDS", "0"),
    ],
)
def test_a_value_is_shown_as_the_text_one_would_set(cwd: Path, name: str, text: str) -> None:
    shown = {each.name: each for each in load(cwd, {name: text}).shown()}
    assert shown[name].text == text


def test_lakectls_own_file_is_the_last_resort(cwd: Path) -> None:
    home = cwd.parent / "home"
    (home / ".lakectl.yaml").write_text(LAKECTL)
    settings = load(cwd, {"HOME": str(home)})
    assert settings.lakectl_credentials_access_key_id == "from-file"
    assert set(origins(settings).values()) == {"~/.lakectl.yaml"}
    assert load(cwd).lakectl_credentials_access_key_id is None


@pytest.mark.parametrize("given", [ENDPOINT, KEY, SECRET])
def test_a_key_of_lakectls_file_never_meets_an_address_from_elsewhere(
    cwd: Path, given: str
) -> None:
    home = cwd.parent / "home"
    (home / ".lakectl.yaml").write_text(LAKECTL)
    missing = ", ".join(name for name in (ENDPOINT, KEY, SECRET) if name != given)
    with pytest.raises(RuntimeConfigError) as caught:
        load(cwd, {"HOME": str(home), given: "http://127.0.0.1:9"})
    assert str(caught.value) == f"LakeFS config is incomplete; missing {missing}"


@pytest.mark.parametrize(
    ("chosen", "key"),
    [
        ("http://127.0.0.1:1", "from-file"),
        ("http://127.0.0.1:1/api/v1/", "from-file"),
        (" ", "from-file"),
        ("http://127.0.0.1:9", None),
        ("memory:", None),
    ],
)
def test_a_key_of_lakectls_file_is_for_its_own_address_only(
    cwd: Path, chosen: str, key: str | None
) -> None:
    home = cwd.parent / "home"
    (home / ".lakectl.yaml").write_text(LAKECTL)
    env = {"HOME": str(home), "PERAGO_LAKEFS": chosen}
    if key is None and chosen != "memory:":
        with pytest.raises(RuntimeConfigError) as caught:
            load(cwd, env)
        assert str(caught.value) == f"LakeFS config is incomplete; missing {KEY}, {SECRET}"
    else:
        assert load(cwd, env).lakectl_credentials_access_key_id == key


def test_a_lakectl_file_that_is_not_yaml_is_named_but_not_quoted(cwd: Path) -> None:
    home = cwd.parent / "home"
    (home / ".lakectl.yaml").write_text("credentials: [hush")
    with pytest.raises(RuntimeConfigError, match="cannot be read") as caught:
        load(cwd, {"HOME": str(home)})
    assert "hush" not in str(caught.value)


def test_an_address_in_perago_lakefs_is_the_endpoint(cwd: Path) -> None:
    with pytest.raises(RuntimeConfigError) as caught:
        load(cwd, {"PERAGO_LAKEFS": "http://127.0.0.1:1", KEY: "k"})
    assert str(caught.value) == f"LakeFS config is incomplete; missing {SECRET}"
    assert load(cwd, {"PERAGO_LAKEFS": "memory:"}).lakefs == "memory:"


def test_keys_for_elsewhere_do_not_hurt_an_adapter_that_is_named(cwd: Path) -> None:
    (cwd / ".env").write_text(f"{KEY}=k\n{SECRET}=s\nPERAGO_LAKEFS=https://lakefs.example.org\n")
    assert load(cwd, {"PERAGO_LAKEFS": "memory:"}).lakefs == "memory:"


def test_every_setting_has_a_name_a_sentence_and_an_origin(cwd: Path) -> None:
    rows = list(load(cwd).shown())
    names = [each.name for each in rows]
    assert len(names) == len(set(names)) == len(Settings.model_fields)
    assert all(each.about for each in rows)
    assert {each.origin for each in rows} == {"default"}
