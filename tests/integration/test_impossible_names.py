"""Names that a path cannot hold: no request leaves for them, and the answer is "there is none"."""

import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from perago.adapters.conductor.client import ConductorSettings
from perago.adapters.conductor.installation import open_conductor
from perago.adapters.lakefs.client import LakeFSClient
from perago.adapters.lakefs.configuration import LakeFSConfiguration, RouteChoice
from perago.adapters.lakefs.installation import open_lakefs
from perago.adapters.lakefs.objects import LakeFSObjects
from perago.domain.lakefs import BranchName, CommitId, RepositoryId, TagName
from perago.ports.errors import MissingError
from perago.ports.installations import ConductorInstallation, LakeFSInstallation
from perago.ports.objects import ObjectUpload

REPOSITORY, MAIN, COMMIT = RepositoryId("team"), BranchName("main"), CommitId("c1")


class Asked(BaseHTTPRequestHandler):
    """Keeps what was asked and knows nothing."""

    asked: ClassVar[list[str]] = []

    def answer(self) -> None:
        """404, as a lakeFS or Conductor that has no such endpoint."""
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        type(self).asked.append(f"{self.command} {self.path}")
        self.send_response(404)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_POST = do_PUT = do_DELETE = answer  # noqa: N815 - the library's names

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Say nothing."""


@pytest.fixture
def asked() -> Generator[tuple[str, list[str]]]:
    """The address of a server, and what it was asked."""
    Asked.asked = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Asked)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", Asked.asked
    server.shutdown()
    server.server_close()


@asynccontextmanager
async def lakefs_at(address: str) -> AsyncGenerator[LakeFSInstallation]:
    lakefs = open_lakefs(
        LakeFSConfiguration(endpoint_url=address, access_key_id="a", secret_access_key="b")
    )
    yield lakefs
    await lakefs.close()


Question = Callable[[LakeFSInstallation, str], Awaitable[object]]
QUESTIONS: dict[str, Question] = {
    "a repository": lambda lakefs, name: lakefs.repositories.read(RepositoryId(name)),
    "a branch of a repository": lambda lakefs, name: lakefs.branches.head(RepositoryId(name), MAIN),
    "a commit": lambda lakefs, name: lakefs.commits.read(REPOSITORY, CommitId(name)),
    "an object of a commit": lambda lakefs, name: lakefs.objects.read(REPOSITORY, name, "a"),
    "an object of a repository": lambda lakefs, name: lakefs.objects.read(
        RepositoryId(name), MAIN, "a"
    ),
    "an object to delete": lambda lakefs, name: lakefs.objects.delete_many(
        REPOSITORY, BranchName(name), ["a"]
    ),
}
SILENT: dict[str, Question] = {
    "a tag that is read": lambda lakefs, name: lakefs.tags.read(REPOSITORY, TagName(name)),
    "a tag that is deleted": lambda lakefs, name: lakefs.tags.delete(REPOSITORY, TagName(name)),
    "a branch that is deleted": lambda lakefs, name: lakefs.branches.delete(
        REPOSITORY, BranchName(name)
    ),
}


@pytest.mark.parametrize("name", [".", "..", ""])
@pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS)
async def test_lakefs_is_not_asked_for_a_name_that_nothing_can_have(
    asked: tuple[str, list[str]], question: Question, name: str
) -> None:
    address, requests = asked
    async with lakefs_at(address) as lakefs:
        with pytest.raises(MissingError):
            await question(lakefs, name)
    assert requests == []


@pytest.mark.parametrize("name", [".", ".."])
@pytest.mark.parametrize("question", SILENT.values(), ids=SILENT)
async def test_what_cannot_be_there_is_absent_and_deleted_without_a_request(
    asked: tuple[str, list[str]], question: Question, name: str
) -> None:
    address, requests = asked
    async with lakefs_at(address) as lakefs:
        assert await question(lakefs, name) is None
    assert requests == []


@pytest.mark.parametrize(("repository", "branch"), [("..", "main"), ("team", "..")])
async def test_no_object_is_sent_to_a_name_that_nothing_can_have(
    asked: tuple[str, list[str]], tmp_path: Path, repository: str, branch: str
) -> None:
    address, requests = asked
    (tmp_path / "a").write_bytes(b"a")
    configuration = LakeFSConfiguration(
        endpoint_url=address, access_key_id="a", secret_access_key="b", route=RouteChoice.API
    )
    client = LakeFSClient(configuration)
    transport = LakeFSObjects(client)
    upload = ObjectUpload("a", tmp_path / "a")
    with pytest.raises(MissingError):
        await transport.store(RepositoryId(repository), BranchName(branch), [upload])
    client.close()
    assert requests == []


@asynccontextmanager
async def conductor_at(address: str) -> AsyncGenerator[ConductorInstallation]:
    conductor = open_conductor(ConductorSettings(url=f"{address}/api"))
    yield conductor
    await conductor.close()


async def test_conductor_is_not_asked_for_a_name_that_nothing_can_have(
    asked: tuple[str, list[str]],
) -> None:
    address, requests = asked
    async with conductor_at(address) as conductor:
        assert await conductor.queue.read_workflow("..") is None
        assert await conductor.queue.read_attempt("w1", "..") is None
        assert await conductor.definitions.read("..") is None
    assert requests == []
