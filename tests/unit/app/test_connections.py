"""What the container is told: the proxy of each address, certificates, keys."""

from collections.abc import Callable
from pathlib import Path

import pytest

from perago.app.connections import (
    conductor_connection,
    connections_of,
    lakefs_connection,
    proxies_of,
)
from perago.app.settings.settings import Settings, load_settings
from perago.domain.errors import RuntimeConfigError

PLAIN, SECURE = "http://plain.example.org:8000/api", "https://secure.example.org"
BOTH = {"HTTP_PROXY": "http://p:1", "HTTPS_PROXY": "http://p:2"}


def proxy(tmp_path: Path, url: str, env: dict[str, str]) -> str | None:
    return proxies_of(load_settings(cwd=tmp_path, process_env=env))(url)


@pytest.mark.parametrize(
    ("env", "plain", "secure"),
    [
        ({}, None, None),
        (BOTH, "http://p:1", "http://p:2"),
        ({"HTTP_PROXY": ""}, None, None),
        ({"http_proxy": "http://p:3"}, "http://p:3", None),
        (BOTH | {"https_proxy": "http://p:3"}, "http://p:1", "http://p:3"),
        ({"ALL_PROXY": "http://p:4"}, "http://p:4", "http://p:4"),
        ({"all_proxy": "http://p:4", "HTTP_PROXY": "http://p:1"}, "http://p:1", "http://p:4"),
        (BOTH | {"NO_PROXY": "*"}, None, None),
        (BOTH | {"no_proxy": "secure.example.org"}, "http://p:1", None),
        (BOTH | {"NO_PROXY": "a.org, .example.org"}, None, None),
        (BOTH | {"NO_PROXY": "*.example.org"}, None, None),
        (BOTH | {"NO_PROXY": "example.org:8000"}, None, "http://p:2"),
        (BOTH | {"NO_PROXY": "secure.example.org:443"}, "http://p:1", None),
        (BOTH | {"NO_PROXY": "ample.org,plain,,10.0.0.0/8"}, "http://p:1", "http://p:2"),
    ],
    ids=str,
)
def test_the_usual_variables_say_which_proxy_an_address_has(
    tmp_path: Path, env: dict[str, str], plain: str | None, secure: str | None
) -> None:
    assert (proxy(tmp_path, PLAIN, env), proxy(tmp_path, SECURE, env)) == (plain, secure)


@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        ("10.0.0.0/8", None),
        ("10.1.2.3", None),
        ("10.1.2.3:80", None),
        ("10.1.2.3:99", "http://p:1"),
        ("::1", None),
        ("::/64", None),
        ("::2", "http://p:1"),
        ("[::1]", None),
        ("[::2]", "http://p:1"),
        ("[::1]:80", None),
        ("[::1]:99", "http://p:1"),
    ],
)
def test_a_network_can_be_listed(tmp_path: Path, listed: str, expected: str | None) -> None:
    host = "[::1]" if "::" in listed else "10.1.2.3"
    assert proxy(tmp_path, f"http://{host}:80/", BOTH | {"NO_PROXY": listed}) == expected


@pytest.mark.parametrize("host", ["plain.example.org", "plain.example.org.", "Plain.Example.ORG"])
@pytest.mark.parametrize(
    "listed", ["example.org.", ".example.org.", "EXAMPLE.org", "example.org.:80"]
)
def test_a_dot_at_the_end_makes_no_other_name(tmp_path: Path, host: str, listed: str) -> None:
    assert proxy(tmp_path, f"http://{host}/api", BOTH | {"NO_PROXY": listed}) is None


@pytest.mark.parametrize("connection", [lakefs_connection, conductor_connection])
@pytest.mark.parametrize("spelled", ["socks5://me:hush@p:1080", "SOCKS5H://p:1080", "ftp://p"])
def test_a_proxy_that_speaks_no_http_is_refused(
    tmp_path: Path, connection: Callable[[Settings], object], spelled: str
) -> None:
    env = {
        "PERAGO_LAKEFS": SECURE,
        "LAKECTL_CREDENTIALS_ACCESS_KEY_ID": "key",
        "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": "secret",
        "CONDUCTOR_SERVER_URL": PLAIN,
        "ALL_PROXY": spelled,
    }
    with pytest.raises(RuntimeConfigError, match=r"NO_PROXY=\w+\.example\.org") as raised:
        connection(load_settings(cwd=tmp_path, process_env=env))
    assert raised.value.code == "PRG-C002"
    assert "hush" not in str(raised.value)

    exempt = load_settings(cwd=tmp_path, process_env=env | {"NO_PROXY": "example.org"})
    assert connection(exempt) is not None, "a desktop sets one for everything that is far"


def test_an_address_that_is_none_is_left_to_its_adapter(tmp_path: Path) -> None:
    env = {"PERAGO_CONDUCTOR": "http://[::1/api", "ALL_PROXY": "socks5://p:1080"}
    found = conductor_connection(load_settings(cwd=tmp_path, process_env=env))
    assert found is not None
    assert found.url == "http://[::1/api"


def test_memory_has_no_proxy(tmp_path: Path) -> None:
    assert proxy(tmp_path, "memory:", BOTH) is None


def test_a_proxy_may_come_from_any_layer(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("https_proxy=http://p:5\n")
    assert proxy(tmp_path, SECURE, {}) == "http://p:5"
    shown = {
        each.name: each
        for each in load_settings(cwd=tmp_path, process_env={"ALL_PROXY": "http://p:6"}).shown()
    }
    assert shown["HTTPS_PROXY"].origin == "environment: ALL_PROXY"


def test_both_services_are_reached_with_what_the_settings_say(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("hush\n")
    env = BOTH | {
        "PERAGO_LAKEFS": SECURE,
        "LAKECTL_CREDENTIALS_ACCESS_KEY_ID": "key",
        "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY_FILE": str(tmp_path / "secret"),
        "CONDUCTOR_SERVER_URL": PLAIN,
        "CONDUCTOR_AUTH_KEY": "id",
        "CONDUCTOR_AUTH_SECRET_FILE": str(tmp_path / "secret"),
        "PERAGO_TLS_VERIFY": "false",
    }
    found = connections_of(load_settings(cwd=tmp_path, process_env=env))
    assert found.lakefs is not None
    assert (found.lakefs.url, found.lakefs.secret_access_key) == (SECURE, "hush")
    assert (found.lakefs.proxies(SECURE), found.lakefs.verify_tls) == ("http://p:2", False)
    assert found.conductor is not None
    assert (found.conductor.auth_key, found.conductor.auth_secret) == ("id", "hush")
    assert (found.conductor.proxies(PLAIN), found.conductor.verify_tls) == ("http://p:1", False)
    assert "hush" not in repr(found)


def test_the_password_of_a_proxy_is_in_no_text_of_the_connections(tmp_path: Path) -> None:
    """By its type no address is a secret, so the settings show it."""
    env = {"PERAGO_CONDUCTOR": PLAIN, "ALL_PROXY": "http://me:hush@p:1"}
    settings = load_settings(cwd=tmp_path, process_env=env)
    assert settings.https_proxy == "http://me:hush@p:1"
    assert "hush" not in repr(connections_of(settings))


@pytest.mark.parametrize("connection", [lakefs_connection, conductor_connection])
def test_a_file_without_certificates_is_refused(tmp_path: Path, connection: object) -> None:
    assert callable(connection)
    (tmp_path / "authority.pem").write_text("no certificate")
    env = {"PERAGO_LAKEFS": "memory:", "PERAGO_CONDUCTOR": "memory:"}
    settings = load_settings(
        cwd=tmp_path, process_env=env | {"PERAGO_TLS_CA_FILE": str(tmp_path / "authority.pem")}
    )
    with pytest.raises(RuntimeConfigError, match="PERAGO_TLS_CA_FILE cannot be used"):
        connection(settings)


def test_the_names_of_perago_win_over_the_others_wherever_they_are_set(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("PERAGO_CONDUCTOR=memory:\nPERAGO_LAKEFS=memory:\n")
    others = {
        "CONDUCTOR_SERVER_URL": "http://other.example.org/api",
        "LAKECTL_SERVER_ENDPOINT_URL": "http://other.example.org",
        "LAKECTL_CREDENTIALS_ACCESS_KEY_ID": "key",
        "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": "secret",
    }
    chosen = load_settings(cwd=tmp_path, process_env=others)
    conductor, lakefs = conductor_connection(chosen), lakefs_connection(chosen)
    assert conductor is not None
    assert lakefs is not None
    assert (conductor.url, lakefs.url) == ("memory:", "memory:")
