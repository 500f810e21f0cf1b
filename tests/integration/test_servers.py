"""The servers of the tests themselves: real ones, each reachable, each with its own data."""

import shutil
from http import HTTPStatus
from pathlib import Path

import pytest
from tools.servers import (
    ConductorServer,
    LakefsServer,
    ServerError,
    ToxiproxyServer,
    lakefs_server,
)
from tools.servers.http import ask


def create_repository(server: LakefsServer, name: str) -> int:
    body = {"name": name, "storage_namespace": server.storage_namespace(name)}
    auth = (server.access_key_id, server.secret_access_key)
    return ask("POST", f"{server.endpoint}/api/v1/repositories", body=body, basic_auth=auth)[0]


@pytest.mark.lakefs
def test_a_repository_can_be_created_on_a_local_block_store(
    lakefs_server: LakefsServer,
) -> None:
    assert create_repository(lakefs_server, "servers-local") == HTTPStatus.CREATED


@pytest.mark.lakefs
def test_a_repository_can_be_created_on_an_s3_block_store(
    lakefs_s3_server: LakefsServer,
) -> None:
    assert lakefs_s3_server.has_presigned_urls
    assert create_repository(lakefs_s3_server, "servers-s3") == HTTPStatus.CREATED


@pytest.mark.conductor
def test_conductor_tells_its_version(conductor_server: ConductorServer) -> None:
    status, answer = ask("GET", f"{conductor_server.api_url}/version")
    assert (status, answer.decode()) == (HTTPStatus.OK, "3.32.3")


@pytest.mark.lakefs
def test_a_disabled_proxy_refuses_and_an_enabled_one_passes(
    lakefs_server: LakefsServer, toxiproxy: ToxiproxyServer
) -> None:
    with toxiproxy.proxied(lakefs_server.endpoint) as proxy:
        assert ask("GET", f"{proxy.endpoint}/_health")[0] == HTTPStatus.OK
        proxy.set_enabled(enabled=False)
        with pytest.raises(ConnectionError):
            ask("GET", f"{proxy.endpoint}/_health")


@pytest.mark.lakefs
def test_a_server_that_does_not_come_up_shows_the_end_of_its_log(tmp_path: Path) -> None:
    unusable = tmp_path / "a file where a directory should be"
    unusable.write_text("")
    with (
        pytest.raises(ServerError, match="the process ended with 1") as caught,
        lakefs_server(settings={"database.local.path": str(unusable)}),
    ):
        pass
    assert str(unusable) in str(caught.value)
    assert caught.value.log.exists()
    shutil.rmtree(caught.value.log.parent)
