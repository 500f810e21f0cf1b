"""A real Conductor on SQLite, started lean.

Decides its start flags, and what of it is cached: the unpacked program, which starts in a third of
the time of the boot jar, and the archive of loaded classes, which halves that again. Must not know
which workflows it runs.
"""

import hashlib
import json
import shutil
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from http import HTTPStatus
from pathlib import Path
from typing import Literal, TypeAlias

from perago_servers import versions
from perago_servers.cache import build_log, make_once, run_logged
from perago_servers.http import ask
from perago_servers.ivy import Library, retrieve
from perago_servers.java import Java, conductor_java
from perago_servers.process import HOST, Launch, Server, running

Profile: TypeAlias = Literal["lean", "workers"]
KEY = f"conductor-{versions.CONDUCTOR}"
JAR_NAME = f"conductor-server-{versions.CONDUCTOR}-boot.jar"
JVM_OPTIONS = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
DEADLINE_SECONDS = 150.0  # 5 s on two idle cores; builds may run beside it
ARCHIVE_SECONDS = 120.0  # the JVM writes the class archive while it stops
# Without spring.main.lazy-initialization: it starts faster and changes the JSON.
LEAN: Mapping[str, object] = {
    "conductor.integrations.ai.enabled": False,
    "conductor.scheduler.enabled": False,
    "conductor.system-task-workers.enabled": False,
    "conductor.workflow-monitor.enabled": False,
    "conductor.metrics-prometheus.enabled": False,
    "springdoc.api-docs.enabled": False,
    "springdoc.swagger-ui.enabled": False,
}
# JOIN, DO_WHILE and the other system tasks that wait are driven by these workers.
WORKERS: Mapping[str, object] = {**LEAN, "conductor.system-task-workers.enabled": True}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConductorServer(Server):
    """A running Conductor."""

    @property
    def api_url(self) -> str:
        """Return the URL that clients are given; without `/api` a landing page answers."""
        return f"{self.endpoint}/api"


@contextmanager
def conductor_server(
    *,
    profile: Profile = "lean",
    settings: Mapping[str, object] | None = None,
    certificate: Path | None = None,
) -> Generator[ConductorServer]:
    """Run a Conductor of its own; `settings` are Spring properties by their dotted names.

    With a certificate (a PEM file that holds its key as well) it speaks TLS.
    """
    java, jar = conductor_java(), _unpacked_jar()
    archive = _class_archive(java, jar)
    profiled = LEAN if profile == "lean" else WORKERS
    options = {**profiled, **_tls(certificate), **(settings or {})}
    shared = (f"-XX:SharedArchiveFile={archive}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off")

    def plan(port: int, directory: Path) -> Launch:
        return _launch(java, jar, port, directory, jvm=shared, options=options)

    with running(f"conductor-{profile}", plan, ConductorServer) as server:
        yield server


def _tls(certificate: Path | None) -> dict[str, object]:
    if certificate is None:
        return {}
    pem = f"file:{certificate}"
    return {"server.ssl.certificate": pem, "server.ssl.certificate-private-key": pem}


def prepare_conductor() -> Path:
    """Fetch and unpack the server and write its class archive."""
    return _class_archive(conductor_java(), _unpacked_jar())


def _unpacked_jar() -> Path:
    """Return the launcher jar beside its unpacked libraries."""
    return make_once(KEY, _unpack) / "app" / JAR_NAME


def _unpack(directory: Path) -> None:
    boot = Library(
        group="org.conductoross",
        name="conductor-server",
        version=versions.CONDUCTOR,
        classifier="boot",
        is_alone=True,
    )
    log = build_log(KEY)
    download = directory / "download"
    retrieve([boot], download, log=log)
    run_logged(
        [
            *(conductor_java().program, "-Djarmode=tools", "-jar", str(download / JAR_NAME)),
            *("extract", "--destination", str(directory / "app")),
        ],
        what="the unpacked Conductor",
        log=log,
    )
    shutil.rmtree(download)


def _class_archive(java: Java, jar: Path) -> Path:
    """Return the archive of the classes of one start; it fits one Java and these options."""
    facts = "\n".join([str(java.home), java.version, str(jar), *JVM_OPTIONS])
    digest = hashlib.sha256(facts.encode()).hexdigest()[:12]
    name = "classes.jsa"

    def make(directory: Path) -> None:
        writing = (f"-XX:ArchiveClassesAtExit={directory / name}", "-Xlog:cds=off")

        def plan(port: int, data: Path) -> Launch:
            launch = _launch(java, jar, port, data, jvm=writing, options=WORKERS)
            return replace(launch, stop_seconds=ARCHIVE_SECONDS)

        with running("conductor-training", plan, ConductorServer):
            pass

    return make_once(f"{KEY}-classes-{digest}", make) / name


def store(directory: Path) -> dict[str, object]:
    """Return the property that names the database; deploy/compose.yaml has it too."""
    url = f"jdbc:sqlite:{directory}/conductor.db?busy_timeout=15000&journal_mode=WAL"
    return {"spring.datasource.url": url}


def _launch(
    java: Java,
    jar: Path,
    port: int,
    directory: Path,
    *,
    jvm: tuple[str, ...],
    options: Mapping[str, object],
) -> Launch:
    properties = {"server.address": HOST, "server.port": port, **store(directory), **options}
    scheme = "https" if "server.ssl.certificate" in options else "http"
    return Launch(
        command=[
            *(java.program, *JVM_OPTIONS, *jvm),
            # It writes to both, whatever the options say.
            *(f"-Duser.home={directory}", f"-Djava.io.tmpdir={directory}"),
            *("-jar", str(jar)),
            *(f"--{name}={as_text(value)}" for name, value in properties.items()),
        ],
        is_ready=lambda: _is_healthy(f"{scheme}://{HOST}:{port}/health"),
        scheme=scheme,
        deadline_seconds=DEADLINE_SECONDS,
    )


def as_text(value: object) -> str:
    """Return a value as a file of properties has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _is_healthy(url: str) -> bool:
    try:
        status, answer = ask("GET", url, timeout_seconds=2.0)
        return status == HTTPStatus.OK and json.loads(answer)["healthy"] is True
    except (OSError, ValueError, KeyError):
        return False
