"""The servers of the tests themselves: real ones, each reachable, each with its own data."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from http import HTTPStatus
from pathlib import Path

import pytest
from tests.documented_commands import page_lines
from tests.integration.page_reader import STARTS_SECONDS, Reader

from perago_servers import (
    ConductorServer,
    LakefsServer,
    ServerError,
    ToxiproxyServer,
    lakefs_server,
)
from perago_servers.http import ask
from perago_servers.process import PORTS, leased_port

ROOT = Path(__file__).parents[2]
LINUX_EPHEMERAL_START = 32_768
GONE_SECONDS = 10


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


@pytest.mark.lakefs
def test_nothing_of_a_stopped_server_stays() -> None:
    with lakefs_server() as server:
        assert server.data is not None
        assert server.data.exists()
    assert not server.data.exists()
    with pytest.raises(ConnectionError):
        ask("GET", f"{server.endpoint}/_health")


@pytest.mark.lakefs
def test_a_server_dies_with_the_run_that_started_it() -> None:
    command = [sys.executable, "-m", "perago_servers", "up", "lakefs"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as tool:
        assert tool.stdout is not None
        lines = [line for line in iter(tool.stdout.readline, "# ready; Ctrl-C stops\n") if line]
        tool.kill()
    pid, _, log = lines[-1].removeprefix("# lakefs: pid ").strip().partition(", log ")
    assert is_gone(int(pid))
    shutil.rmtree(Path(log).parent)


def killed(command: Sequence[str], ready: str, server: str, folder: Path) -> tuple[int, str]:
    """Kill a server under the command that runs it: the command's exit code, and what it said."""
    output = folder / "output"
    with output.open("wb") as both:
        tool = subprocess.Popen([sys.executable, *command], cwd=ROOT, stdout=both, stderr=both)
    try:
        deadline = time.monotonic() + STARTS_SECONDS
        while ready not in output.read_text():
            assert tool.poll() is None, output.read_text()
            assert time.monotonic() < deadline, output.read_text()
            time.sleep(0.05)  # noqa: TID251 - another process's clock, not ours
        found = re.search(rf"{server}: pid (\d+), log (.+)", output.read_text())
        assert found is not None
        os.kill(int(found[1]), signal.SIGKILL)
        code = tool.wait(GONE_SECONDS)
    finally:
        tool.kill()
        tool.wait()
    assert Path(found[2]).exists(), "the log is kept"
    shutil.rmtree(Path(found[2]).parent)
    return code, output.read_text()


@pytest.mark.lakefs
def test_the_tool_says_which_server_has_ended(tmp_path: Path) -> None:
    command = ["-m", "perago_servers", "up", "lakefs", "toxiproxy"]
    code, said = killed(command, "# ready; Ctrl-C stops\n", "# lakefs", tmp_path)
    assert code == 1
    assert "lakefs is not running any more: the process ended with -9; its directory" in said
    assert "lakeFS" in said.rpartition("--- last 40 lines of ")[2], "the end of its log"


@pytest.mark.lakefs
@pytest.mark.conductor
@pytest.mark.parametrize("server", ["lakeFS", "Conductor"])
def test_perago_servers_says_which_server_has_ended(tmp_path: Path, server: str) -> None:
    command = [str(Path(sys.executable).with_name("perago")), "servers", "up"]
    code, said = killed(command, "ready; Ctrl-C stops both", server, tmp_path)
    assert code == 1
    assert f"{server} is not running any more: the process ended with -9; its directory" in said
    assert "--- last 40 lines of " in said
    assert "PRG-X005" in said


# Of all tests that are marked so, two are enough to see that they ask the servers which are up.
CHOSEN = "-p no:cacheprovider tests/integration/test_servers.py -k 'local_block or its_version'"


@pytest.mark.lakefs
@pytest.mark.conductor
@pytest.mark.timeout(2 * STARTS_SECONDS)
def test_the_commands_of_the_page_run_tests_on_servers_that_are_up(tmp_path: Path) -> None:
    every, beside, exported, tested = page_lines(
        "docs/development.md", "python -m perago_servers up", "set -a", "pytest -m"
    )
    reader = Reader(tmp_path, {"PYTEST_ADDOPTS": CHOSEN})
    # It is ended once the first of its servers is up; tests of their own start the others.
    with reader.running(every, until="PERAGO_TEST_LAKEFS_NAMESPACE_ROOT="):
        pass
    typed = [
        f"cd {ROOT}",
        beside,
        "trap 'kill $!; wait' EXIT",
        'until grep -q "# ready" build/servers.env; do kill -0 $!; sleep 0.1; done',
        exported,
        tested,
    ]
    # A test writes to no `build` of the clone.
    said = reader.type("\n".join(typed).replace("build/", f"{tmp_path}/"))
    assert "2 passed" in said


def is_gone(pid: int) -> bool:
    """Tell whether the process ends within a few seconds."""
    deadline = time.monotonic() + GONE_SECONDS
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)  # noqa: TID251 - the kernel's clock, not ours
    return False


def test_ports_that_are_leased_at_once_are_all_different() -> None:
    with ExitStack() as stack:
        ports = [stack.enter_context(leased_port()) for _ in range(50)]
    assert len(set(ports)) == len(ports)


def test_no_leased_port_is_one_that_a_client_may_be_given() -> None:
    assert max(PORTS) < LINUX_EPHEMERAL_START
