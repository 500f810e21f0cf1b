"""What `up` prints is what the fixtures read."""

import os

import pytest

from perago_servers import ConductorServer, LakefsServer, ToxiproxyServer
from perago_servers.environment import (
    PREFIX,
    given_conductor,
    given_lakefs,
    given_toxiproxy,
    variables,
)

LAKEFS = LakefsServer(
    endpoint="http://127.0.0.1:1",
    access_key_id="id",
    secret_access_key="secret",
    namespace_root="s3://bucket/",
)


@pytest.fixture(autouse=True)
def _no_servers_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(PREFIX)]:
        monkeypatch.delenv(name)


def test_a_printed_lakefs_is_the_one_that_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in variables("lakefs-s3", LAKEFS).items():
        monkeypatch.setenv(name, value)
    assert given_lakefs("lakefs-s3") == LAKEFS
    assert given_lakefs("lakefs") is None


def test_a_printed_conductor_and_toxiproxy_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    conductor, toxiproxy = (
        ConductorServer(endpoint="http://a"),
        ToxiproxyServer(endpoint="http://b"),
    )
    printed = variables("conductor", conductor) | variables("toxiproxy", toxiproxy)
    for name, value in printed.items():
        monkeypatch.setenv(name, value)
    assert given_conductor("conductor") == conductor
    assert given_toxiproxy("toxiproxy") == toxiproxy


def test_a_lakefs_without_its_secret_is_an_error_and_not_another_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PERAGO_TEST_LAKEFS_ENDPOINT", "http://127.0.0.1:1")
    with pytest.raises(KeyError, match="PERAGO_TEST_LAKEFS_ACCESS_KEY_ID"):
        given_lakefs("lakefs")
