"""The ground all subjects stand on: real servers, a seeded repository, and a count of requests."""

import asyncio
import os
import re
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tools.servers import LakefsServer, lakefs_server, toxiproxy_server
from tools.servers.http import ask

from benchmarks.transfer_rows import Case
from perago.adapters.lakefs.configuration import LakeFSConfiguration
from perago.adapters.lakefs.installation import open_lakefs
from perago.adapters.system.concurrency import AsyncioConcurrency
from perago.adapters.transfer.configuration import TransferConfiguration
from perago.adapters.transfer.http_transport import HttpTransport
from perago.domain.references import BranchName, RepositoryId
from perago.ports.commits import CommitRequest
from perago.ports.objects import ObjectUpload

MAIN = BranchName("main")
FILES_IN_DIRECTORY = 500
CHANGED_EACH = 100
_COUNTED = re.compile(r"^api_request_duration_seconds_count\{.*\} (\d+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Seeded:
    """A repository that holds one case, in two commits that differ by one percent."""

    case: Case
    server: LakefsServer
    repository: str
    commit: str
    next_commit: str
    tree: Path


@dataclass(frozen=True, slots=True)
class Ground:
    """The servers, by block store, each straight and through a proxy with a round trip."""

    servers: dict[str, LakefsServer]
    endpoints: dict[tuple[str, int], str]
    place: Path


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
        toxiproxy = stack.enter_context(toxiproxy_server())
        servers: dict[str, LakefsServer] = {}
        endpoints: dict[tuple[str, int], str] = {}
        for store in sorted(stores):
            server = stack.enter_context(lakefs_server(flavour="s3" if store == "s3" else "local"))
            servers[store] = server
            for rtt in rtts_ms:
                distant = toxiproxy.distant(server.endpoint, rtt)
                endpoints[store, rtt] = stack.enter_context(distant)
        yield Ground(servers, endpoints, place)


def requests_of(server: LakefsServer) -> int:
    """How many API requests the server has answered."""
    _, body = ask("GET", f"{server.endpoint}/metrics")
    return sum(int(count) for count in _COUNTED.findall(body.decode()))


def seed(server: LakefsServer, case: Case, place: Path) -> Seeded:
    """Write the files of a case and commit them; then change one file in a hundred."""
    name = re.sub(r"[^a-z0-9]+", "-", case.name.lower()).strip("-") + f"-{os.urandom(3).hex()}"
    tree = place / name
    return asyncio.run(_seeded(server, case, name, tree))


async def _seeded(server: LakefsServer, case: Case, name: str, tree: Path) -> Seeded:
    created = {
        "name": name,
        "storage_namespace": server.storage_namespace(name),
        "default_branch": MAIN,
    }
    auth = (server.access_key_id, server.secret_access_key)
    ask("POST", f"{server.endpoint}/api/v1/repositories", body=created, basic_auth=auth)
    concurrency = AsyncioConcurrency()
    transport = HttpTransport(
        TransferConfiguration(
            endpoint_url=server.endpoint,
            access_key_id=server.access_key_id,
            secret_access_key=server.secret_access_key,
        ),
        concurrency,
    )
    lakefs = open_lakefs(
        LakeFSConfiguration(
            endpoint_url=server.endpoint,
            access_key_id=server.access_key_id,
            secret_access_key=server.secret_access_key,
        )
    )
    repository = RepositoryId(name)
    commits: list[str] = []
    paths = list(_written(case, tree))
    for changed in (paths, paths[::CHANGED_EACH]):
        if changed is not paths:
            for path in changed:
                path.write_bytes(os.urandom(case.size))
        uploads = [ObjectUpload(f"ws/{path.relative_to(tree)}", path) for path in changed]
        await transport.store(repository, MAIN, uploads)
        commits.append(await lakefs.commits.commit(CommitRequest(repository, MAIN, "seed", {})))
    transport.close()
    concurrency.close()
    await lakefs.close()
    return Seeded(case, server, name, commits[0], commits[1], tree)


def _written(case: Case, tree: Path) -> Iterator[Path]:
    for number in range(case.files):
        path = tree / f"part-{number // FILES_IN_DIRECTORY:04}" / f"{number:06}.bin"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(case.size))
        yield path
