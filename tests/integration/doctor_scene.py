"""A person who runs `perago doctor` and then the commands that it prints, on real servers.

Commands of Perago run inside this process, those of other programs in a shell. `Front` stands
before a server and does to a request or an answer what an accident does.
"""

import asyncio
import base64
import http.client
import json
import os
import secrets
import subprocess
import threading
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from email.utils import format_datetime, parsedate_to_datetime
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeVar, final
from urllib.parse import urlsplit

from tests.contract.real_lakefs import RealLakeFS, connected
from tests.remedies import PLACEHOLDERS, placeholders_of
from tests.unit.app.command_line.command_run import Ran
from tests.unit.remedies.shell import Shell

from perago.domain.lakefs import BranchName, RepositoryId
from perago_servers import LakefsServer
from perago_servers.go_programs import lakefs_programs
from perago_servers.http import answers
from perago_servers.lakefs import own_options
from perago_servers.process import HOST, Launch, running

MAIN = BranchName("main")
Answer = TypeVar("Answer")
NOT_PASSED_ON = {"connection", "transfer-encoding", "content-length", "host"}


def typed(command: str, names: Mapping[str, str]) -> str:
    """A command with what a person puts in for its capital words."""
    for word in sorted(placeholders_of(command) - set(PLACEHOLDERS), key=len, reverse=True):
        assert word in names, f"{command}: what is {word}?"
    for word, value in sorted(names.items(), key=lambda each: -len(each[0])):
        command = command.replace(f"={word}", f"={value}")
    return command


@dataclass
class Scene:
    """One repository, the settings of its worker, and what was printed last."""

    shell: Shell
    lakefs: LakefsServer
    repository: RepositoryId
    findings: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    def use(self, lakefs: LakefsServer) -> None:
        """Work with this lakeFS from now on."""
        self.lakefs = lakefs
        self.shell(f"export PERAGO_LAKEFS={lakefs.endpoint}")
        self.use_key(lakefs.access_key_id, lakefs.secret_access_key)

    def use_key(self, key_id: str, secret: str) -> None:
        """Work with this key from now on."""
        names = "LAKECTL_CREDENTIALS_ACCESS_KEY_ID", "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY"
        self.shell(f"export {names[0]}={key_id} {names[1]}={secret}")

    def ask(self, what: Callable[[RealLakeFS], Awaitable[Answer]]) -> Answer:
        """Do something on the lakeFS itself, past every accident."""

        async def do() -> Answer:
            async with connected(self.lakefs) as harness:
                return await what(harness)

        return asyncio.run(do())

    def create(self, files: Mapping[str, bytes | None]) -> None:
        """A new repository with one commit."""

        async def make(harness: RealLakeFS) -> RepositoryId:
            made = await harness.create_repository()
            await harness.commit_files(made, MAIN, files)
            return made

        self.repository = self.ask(make)

    def commit(self, files: Mapping[str, bytes | None]) -> None:
        """Commit on the target as any other writer does."""
        self.ask(lambda harness: harness.commit_files(self.repository, MAIN, files))

    def examined(self) -> list[dict[str, Any]]:
        """What the doctor finds now."""
        ran = self.shell(f"perago doctor --repo {self.repository} --branch {MAIN} --json")
        document = json.loads(ran.out)
        assert document["schema"] == "perago.doctor/1"
        assert self.lakefs.secret_access_key not in ran.out + ran.err
        self.findings = document["findings"]
        return self.findings

    def problems(self) -> dict[str, dict[str, Any]]:
        """The first finding of each code."""
        found: dict[str, dict[str, Any]] = {}
        for each in self.examined():
            if each["code"]:
                found.setdefault(each["code"], each)
        return found

    def follow(self, finding: Mapping[str, Any], names: Mapping[str, str]) -> list[Ran]:
        """Run the commands as they were printed."""
        return [self.shell(typed(command, names)) for command in finding["commands"]]


def on_this_machine(program: str) -> Callable[[list[str]], Ran]:
    """Run a program with the environment of the scene."""
    path = f"{lakefs_programs()}:{os.environ['PATH']}"

    def run(words: list[str]) -> Ran:
        done = subprocess.run(
            [program, *words],
            env={**os.environ, "PATH": path},
            check=False,
            capture_output=True,
            text=True,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    return run


@dataclass
class Front:
    """A server on loopback before another one."""

    upstream: str
    reader: str = ""
    """The key of a user who may read only; it is passed on as `known_as`."""
    known_as: str = ""
    refuses_all: bool = False
    """As a proxy that lets nobody out."""
    ahead: timedelta = timedelta()
    endpoint: str = ""


@contextmanager
def front(to: Front) -> Generator[Front]:
    """Serve until the end of the block."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Head and body of an answer are two writes; the second would wait 40 ms for the first.
        disable_nagle_algorithm = True

        def handle_one_request(self) -> None:
            self.raw_requestline = self.rfile.readline(65537)
            if self.raw_requestline and self.parse_request():
                _pass_on(self, to)
            else:
                self.close_connection = True

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its own name
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    to.endpoint = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield to
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def basic(key: str) -> str:
    """A key as a request carries it."""
    return f"Basic {base64.b64encode(key.encode()).decode()}"


def _pass_on(request: BaseHTTPRequestHandler, to: Front) -> None:
    body = request.rfile.read(int(request.headers.get("content-length") or 0))
    key, json_text = request.headers.get("authorization", ""), {"Content-Type": "application/json"}
    is_reader = bool(to.reader) and key == basic(to.reader)
    if to.refuses_all:
        _answer(request, 403, {"Content-Type": "text/html"}, b"<html>not from here</html>")
        return
    if is_reader and request.command != "GET":
        _answer(request, 403, json_text, b'{"message":"insufficient permissions"}')
        return
    connection = http.client.HTTPConnection(urlsplit(to.upstream).netloc, timeout=30)
    try:
        headers = {k: v for k, v in request.headers.items() if k.lower() not in NOT_PASSED_ON}
        headers.pop("Authorization" if is_reader else "", None)
        if is_reader:
            headers["Authorization"] = basic(to.known_as)
        connection.request(request.command, request.path, body or None, headers)
        answer = connection.getresponse()
        passed = {k: v for k, v in answer.headers.items() if k.lower() not in NOT_PASSED_ON}
        if "Date" in passed:
            passed["Date"] = format_datetime(
                parsedate_to_datetime(passed["Date"]) + to.ahead, usegmt=True
            )
        _answer(request, answer.status, passed, answer.read())
    finally:
        connection.close()


def _answer(
    request: BaseHTTPRequestHandler, status: int, headers: Mapping[str, str], body: bytes
) -> None:
    request.send_response_only(status)
    for name, value in headers.items():
        request.send_header(name, value)
    if status != http.HTTPStatus.NO_CONTENT:
        request.send_header("Content-Length", str(len(body)))
    request.end_headers()
    request.wfile.write(body)


@final
class DataOfLakeFS:
    """The data of a lakeFS that is stopped and starts again."""

    def __init__(self, directory: Path) -> None:
        self._key = "AKIA" + secrets.token_hex(8).upper(), secrets.token_hex(20)
        options = {
            **own_options(directory),
            "blockstore.type": "local",
            "installation.access_key_id": self._key[0],
            "installation.secret_access_key": self._key[1],
        }
        self._environment = {
            f"LAKEFS_{name.upper().replace('.', '_')}": str(value)
            for name, value in options.items()
        }

    @contextmanager
    def lakefs(self, environment: Mapping[str, str]) -> Generator[LakefsServer]:
        """Run a lakeFS over it, in the environment of this process and this one."""

        def plan(port: int, directory: Path) -> Launch:
            own = {"HOME": str(directory), "LAKEFS_LISTEN_ADDRESS": f"{HOST}:{port}"}
            return Launch(
                command=[str(lakefs_programs() / "lakefs"), "run"],
                environment={**self._environment, **own, **environment},
                is_ready=lambda: answers(f"http://{HOST}:{port}/api/v1/user", basic_auth=self._key),
            )

        made = partial(
            LakefsServer,
            access_key_id=self._key[0],
            secret_access_key=self._key[1],
            namespace_root="local://",
        )
        with running("lakefs-again", plan, made) as server:
            yield server
