"""What `up` prints is what the fixtures read."""

import os

import pytest

from perago_servers import ConductorServer, LakefsServer, ToxiproxyServer
from perago_servers.process import PREFIX

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
    for name, value in LAKEFS.variables("lakefs-s3").items():
        monkeypatch.setenv(name, value)
    assert LakefsServer.given("lakefs-s3") == LAKEFS
    assert LakefsServer.given("lakefs") is None


def test_a_printed_conductor_and_toxiproxy_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    conductor, toxiproxy = (
        ConductorServer(endpoint="http://a"),
        ToxiproxyServer(endpoint="http://b"),
    )
    printed = conductor.variables("conductor") | toxiproxy.variables("toxiproxy")
    for name, value in printed.items():
        monkeypatch.setenv(name, value)
    assert ConductorServer.given("conductor") == conductor
    assert ToxiproxyServer.given("toxiproxy") == toxiproxy


def test_a_lakefs_without_its_secret_is_an_error_and_not_another_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PERAGO_TEST_LAKEFS_ENDPOINT", "http://127.0.0.1:1")
    with pytest.raises(KeyError, match="PERAGO_TEST_LAKEFS_ACCESS_KEY_ID"):
        LakefsServer.given("lakefs")
