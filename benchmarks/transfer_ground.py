"""The ground all subjects stand on: real servers, a seeded repository, and a count of requests."""

import asyncio
import itertools
import os
import re
import subprocess
from collections.abc import AsyncGenerator, Generator, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

from benchmarks.transfer_rows import Case
from perago.adapters.http import HttpTerms
from perago.adapters.lakefs.configuration import LakeFSConfiguration
from perago.adapters.lakefs.installation import open_lakefs
from perago.adapters.system import AsyncioConcurrency
from perago.domain.fence import FENCE_FILE
from perago.domain.lakefs import BranchName, RepositoryId
from perago.domain.paths import FENCE_PATH
from perago.ports.installations import LakeFSInstallation
from perago.ports.lakefs import CommitRequest
from perago.ports.objects import ObjectUpload
from perago_servers import LakefsServer, lakefs_server, toxiproxy_server
from perago_servers.http import ask

MAIN = BranchName("main")
FILES_IN_DIRECTORY = 500
CHANGED_EACH = 100
CPUS_SHARED_BELOW = 4
_COUNTED = re.compile(r"^api_request_duration_seconds_count\{.*\} (\d+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Seeded:
    """A repository that holds one case, in two commits that differ by one percent.

    Where a case has many repositories, the second commit of each adds the fence.
    """

    case: Case
    server: LakefsServer
    repository: str
    commit: str
    next_commit: str
    tree: Path
    others: Sequence["Seeded"] = ()  # the repositories of a case that has many, this one included


@dataclass(frozen=True, slots=True)
class Ground:
    """The servers, by block store and TLS; each straight and through a proxy with a round trip."""

    servers: dict[tuple[str, bool], LakefsServer]
    endpoints: dict[tuple[str, bool, int], str]
    place: Path
    certificate: Path  # of the servers with TLS, and the one authority that subjects trust


@contextmanager
def scratch_place() -> Generator[Path]:
    """A directory in memory where the machine has such a place.

    A file system that makes up for files that were just removed would be measured with the rest.
    """
    in_memory = Path("/dev/shm")  # noqa: S108 - a fresh private directory is made in it
    with TemporaryDirectory(
        prefix="perago-bench-", dir=in_memory if in_memory.is_dir() else None
    ) as place:
        yield Path(place)


@contextmanager
def ground(rtts_ms: tuple[int, ...], stores: set[str]) -> Generator[Ground]:
    """Start everything; local files lie in memory where the machine has such a place."""
    with ExitStack() as stack:
        place = stack.enter_context(scratch_place())
        certificate = own_certificate(place)
        toxiproxy = stack.enter_context(toxiproxy_server())
        servers: dict[tuple[str, bool], LakefsServer] = {}
        endpoints: dict[tuple[str, bool, int], str] = {}
        for store, tls in itertools.product(sorted(stores), (False, True)):
            server = stack.enter_context(
                lakefs_server(
                    flavour="s3" if store == "s3" else "local",
                    certificate=certificate if tls else None,
                )
            )
            servers[store, tls] = server
            _pin(server)
            for rtt in rtts_ms:
                distant = stack.enter_context(toxiproxy.distant(server.endpoint, rtt))
                scheme = "https" if tls else "http"
                endpoints[store, tls, rtt] = f"{scheme}://{urlsplit(distant).netloc}"
        yield Ground(servers, endpoints, place, certificate)


def client_cpus() -> set[int] | None:
    """The processors that belong to the measured client; None where there are too few to share.

    With four or more, half of them serve and half of them ask. With two, a client that had one
    for itself would be measured with less than a worker has.
    """
    cpus = sorted(os.sched_getaffinity(0))
    return set(cpus[len(cpus) // 2 :]) if len(cpus) >= CPUS_SHARED_BELOW else None


def _pin(server: LakefsServer) -> None:
    ours = client_cpus()
    if ours is not None and server.pid is not None:
        os.sched_setaffinity(server.pid, os.sched_getaffinity(0) - ours)


def own_certificate(place: Path) -> Path:
    """Make a certificate of 127.0.0.1 that signs itself, with its key in the same file."""
    made, key = place / "certificate.pem", place / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    # Not an authority itself: the TLS of Rust's clients refuses a server that shows one.
    names = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", str(key), "-out", str(made)]
    subprocess.run(
        [*command, *names, "-addext", "basicConstraints=critical,CA:FALSE", *files],
        check=True,
        capture_output=True,
    )
    made.write_bytes(key.read_bytes() + made.read_bytes())
    return made


def requests_of(server: LakefsServer) -> int:
    """How many API requests the server has answered."""
    _, body = ask("GET", f"{server.endpoint}/metrics")
    return sum(int(count) for count in _COUNTED.findall(body.decode()))


def create_repository(server: LakefsServer, name: str) -> RepositoryId:
    """Create it by the API, which no port offers."""
    status, answer = ask(
        "POST",
        f"{server.endpoint}/api/v1/repositories",
        body={
            "name": name,
            "storage_namespace": server.storage_namespace(name),
            "default_branch": MAIN,
        },
        basic_auth=(server.access_key_id, server.secret_access_key),
    )
    assert status < 300, answer
    return RepositoryId(name)


def seed(server: LakefsServer, case: Case, place: Path, *, authority: Path | None = None) -> Seeded:
    """Write the files of a case and commit them; then change one file in a hundred."""
    return asyncio.run(_seeded(server, case, place, authority))


async def _seeded(server: LakefsServer, case: Case, place: Path, authority: Path | None) -> Seeded:
    name = re.sub(r"[^a-z0-9]+", "-", case.name.lower()).strip("-") + f"-{os.urandom(3).hex()}"
    async with _connected(server, authority) as lakefs:
        if case.repositories == 1:
            return await _one_seeded(server, case, place / name, lakefs)
        several = [
            await _one_seeded(server, case, place / f"{name}-{number}", lakefs)
            for number in range(case.repositories)
        ]
    return replace(several[0], others=several)


async def _one_seeded(
    server: LakefsServer, case: Case, tree: Path, lakefs: LakeFSInstallation
) -> Seeded:
    name = tree.name
    repository, transport = create_repository(server, name), lakefs.transport(AsyncioConcurrency())
    paths = list(_written(case, tree))
    uploads = [ObjectUpload(f"ws/{path.relative_to(tree)}", path) for path in paths]
    await transport.store(repository, MAIN, uploads)
    first = await lakefs.commits.commit(CommitRequest(repository, MAIN, "seed", {}))
    if case.repositories == 1:
        for path in paths[::CHANGED_EACH]:
            path.write_bytes(os.urandom(case.size))
        uploads = uploads[::CHANGED_EACH]
    else:
        fence = tree / "fence"
        fence.write_bytes(FENCE_FILE)
        uploads = [ObjectUpload(FENCE_PATH, fence)]
    await transport.store(repository, MAIN, uploads)
    second = await lakefs.commits.commit(CommitRequest(repository, MAIN, "seed", {}))
    return Seeded(case, server, name, first, second, tree)


@asynccontextmanager
async def _connected(
    server: LakefsServer, authority: Path | None
) -> AsyncGenerator[LakeFSInstallation]:
    lakefs = open_lakefs(
        LakeFSConfiguration(
            endpoint_url=server.endpoint,
            access_key_id=server.access_key_id,
            secret_access_key=server.secret_access_key,
            http=HttpTerms(ca_file=authority),
        )
    )
    yield lakefs
    await lakefs.close()


def branches(seeded: Seeded, name: str, *, fenced: bool) -> dict[str, str]:
    """Make a branch of that name in every repository; its first commit, by repository."""
    server = seeded.server
    auth = (server.access_key_id, server.secret_access_key)
    inputs: dict[str, str] = {}
    for one in seeded.others:
        inputs[one.repository] = one.next_commit if fenced else one.commit
        url = f"{server.endpoint}/api/v1/repositories/{one.repository}/branches"
        body = {"name": name, "source": inputs[one.repository]}
        ask("POST", url, body=body, basic_auth=auth)
    return inputs


def _written(case: Case, tree: Path) -> Iterator[Path]:
    for number in range(case.files):
        path = tree / f"part-{number // FILES_IN_DIRECTORY:04}" / f"{number:06}.bin"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(case.size))
        yield path
