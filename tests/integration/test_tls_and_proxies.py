"""TLS, certificate and proxy settings as a user sets them: environment, `.env`, pyproject.

The commands talk to a TLS server on loopback that knows no object: whoever reaches it hears that
something is missing, whoever must not trust it sends nothing.
"""

import select
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import final

import pytest

TASK = """
from pydantic import BaseModel
from perago import task
class P(BaseModel):
    n: int = 1
@task(name="tls.task", owner_email="o@example.org")
def f(params: P) -> P: return params
"""
KEYS = {
    "LAKECTL_CREDENTIALS_ACCESS_KEY_ID": "key",
    "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": "hush",
}
UNTRUSTED = 6
COMMAND_SECONDS = 180  # of a machine with much else to do; a second or two otherwise

pytestmark = pytest.mark.timeout(COMMAND_SECONDS + 60)


@dataclass
class Seen:
    """What a server was asked."""

    port: int = 0
    lines: list[str] = field(default_factory=list[str])


@final
class Missing(BaseHTTPRequestHandler):
    """Answers that nothing is there."""

    seen: Seen

    def do_GET(self) -> None:
        """Say 404 as both services say it."""
        self.seen.lines.append(self.requestline)
        body = b'{"message": "not found"}'
        self.send_response(404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its own name
        """Say nothing."""


@final
class Tunnel(BaseHTTPRequestHandler):
    """A proxy that connects and hands bytes on."""

    seen: Seen

    def do_CONNECT(self) -> None:
        """Open a tunnel to the place that was asked for."""
        self.seen.lines.append(self.requestline)
        host, _, port = self.path.rpartition(":")
        with socket.create_connection((host, int(port)), timeout=10) as there:
            self.send_response(200)
            self.end_headers()
            sides = {self.connection: there, there: self.connection}
            while ready := select.select(list(sides), [], [], 10)[0]:
                for side in ready:
                    taken = side.recv(65536)
                    if not taken:
                        return
                    sides[side].sendall(taken)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its own name
        """Say nothing."""


def served(
    handler: type[BaseHTTPRequestHandler], tls: ssl.SSLContext | None = None
) -> Generator[Seen]:
    seen = Seen()
    with ThreadingHTTPServer(("127.0.0.1", 0), type("Own", (handler,), {"seen": seen})) as server:
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        seen.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield seen
        server.shutdown()
        thread.join()


@pytest.fixture
def service(certificate: Path) -> Generator[Seen]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    yield from served(Missing, context)


@pytest.fixture
def tunnel() -> Generator[Seen]:
    yield from served(Tunnel)


@dataclass(frozen=True)
class Service:
    """One of the two services: what is run, and how it ends when the service was reached."""

    command: tuple[str, ...]
    code: int
    said: str

    def environment(self, port: int) -> dict[str, str]:
        """The address of the service, and its keys."""
        if self.command[0] == "register":
            return {"PERAGO_CONDUCTOR": f"https://127.0.0.1:{port}/api"}
        return {"PERAGO_LAKEFS": f"https://127.0.0.1:{port}"} | KEYS


SERVICES = {
    "conductor": Service(("register", "tls_task", "--dry-run"), 0, "would be created: tls.task"),
    "lakefs": Service(("fence", "verify", "texts", "main"), 6, "PRG-L002"),
}


@pytest.fixture(params=SERVICES)
def asked(request: pytest.FixtureRequest) -> Service:
    return SERVICES[request.param]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "tls_task.py").write_text(TASK)
    return tmp_path


def run(project: Path, asked: Service, env: Mapping[str, str]) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "perago", *asked.command],
        cwd=project,
        env={"PATH": "/usr/bin:/bin"} | dict(env),
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_a_server_with_an_untrusted_certificate_gets_no_request(
    project: Path, asked: Service, service: Seen
) -> None:
    code, said = run(project, asked, asked.environment(service.port))
    assert (code, service.lines) == (UNTRUSTED, []), said
    assert "CERTIFICATE_VERIFY_FAILED" in said
    assert "PRG-L008" in said


def test_the_certificate_file_of_dotenv_is_in_force(
    project: Path, asked: Service, service: Seen, certificate: Path
) -> None:
    (project / ".env").write_text(f"PERAGO_TLS_CA_FILE={certificate}\n")
    code, said = run(project, asked, asked.environment(service.port))
    assert code == asked.code, said
    assert asked.said in said
    assert service.lines


def test_verification_can_be_switched_off_in_pyproject(
    project: Path, asked: Service, service: Seen
) -> None:
    (project / "pyproject.toml").write_text("[tool.perago]\ntls-verify = false\n")
    code, said = run(project, asked, asked.environment(service.port))
    assert code == asked.code, said
    assert service.lines


@pytest.mark.parametrize("text", [None, "no certificate"], ids=["missing", "garbage"])
def test_a_certificate_file_that_cannot_be_used_is_named_and_nothing_is_sent(
    project: Path, asked: Service, service: Seen, text: str | None
) -> None:
    path = project / "authority.pem"
    if text is not None:
        path.write_text(text)
    given = asked.environment(service.port) | {"PERAGO_TLS_CA_FILE": str(path)}
    code, said = run(project, asked, given)
    assert (code, service.lines) == (3, []), said
    assert said.startswith(f"error: PERAGO_TLS_CA_FILE cannot be used: {path}: ")
    assert "PRG-C006" in said


@pytest.mark.parametrize("name", ["HTTPS_PROXY", "https_proxy"])
def test_requests_take_the_way_through_the_proxy(
    project: Path, asked: Service, service: Seen, tunnel: Seen, certificate: Path, name: str
) -> None:
    given = asked.environment(service.port) | {
        "PERAGO_TLS_CA_FILE": str(certificate),
        name: f"http://127.0.0.1:{tunnel.port}",
    }
    code, said = run(project, asked, given)
    assert code == asked.code, said
    assert tunnel.lines[0].startswith(f"CONNECT 127.0.0.1:{service.port} ")
    assert service.lines


def test_a_listed_host_is_reached_without_the_proxy(
    project: Path, asked: Service, service: Seen, tunnel: Seen, certificate: Path
) -> None:
    given = asked.environment(service.port) | {
        "PERAGO_TLS_CA_FILE": str(certificate),
        "HTTPS_PROXY": f"http://127.0.0.1:{tunnel.port}",
        "NO_PROXY": "example.org,127.0.0.0/8",
    }
    code, said = run(project, asked, given)
    assert code == asked.code, said
    assert (tunnel.lines, bool(service.lines)) == ([], True)
