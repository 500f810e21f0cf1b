"""Requests and time of one publication, by policy and round trip, beside 0.6.1 in the same run.

A workspace of ten small files of which the body changes one. What is timed is what comes after
the body: compare, stage, decide, publish; for 0.6.1 its `stage` and `publish`. Requests are
counted by the server.
"""

import argparse
import asyncio
import json
import re
import statistics
import subprocess
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import final

from tests.integration.racing_attempts import Race

from benchmarks.transfer_ground import MAIN, create_repository
from perago.adapters.lakefs.configuration import LakeFSConfiguration
from perago.adapters.lakefs.installation import open_lakefs
from perago.adapters.system import AsyncioConcurrency
from perago.domain.fence import FENCE_FILE
from perago.domain.lakefs import CommitId, RepositoryId
from perago.domain.paths import FENCE_PATH
from perago.domain.policy import PolicySetting
from perago.ports.installations import LakeFSInstallation
from perago.ports.lakefs import CommitRequest
from perago.ports.objects import ObjectUpload
from perago.ports.workspace import Phase, Progress
from perago.testing.fault_injector import FaultInjector, faulty_installation
from perago_servers import LakefsServer, ToxiproxyServer, lakefs_server, toxiproxy_server
from perago_servers.cache import private_environment
from perago_servers.http import ask

FILES = 10
ROUNDS = 5
ROUND_TRIPS_MS = (0, 20)
RESULT = Path(__file__).parent / "results" / "publish.json"
PEER = "perago==0.6.1"
PEER_SCRIPT = Path(__file__).parent / "peer_publish.py"
SUBJECTS: dict[str, tuple[PolicySetting, bool]] = {
    "head-parent": (PolicySetting.HEAD_PARENT, False),
    "head-parent+fence": (PolicySetting.HEAD_PARENT, True),
    "lineage": (PolicySetting.LINEAGE, False),
    "settled": (PolicySetting.SETTLED, True),
}
_COUNTED = re.compile(r"^api_requests_total\{.*\} (\d+)$", re.MULTILINE)


@final
@dataclass
class Timed(Progress):
    """Remembers when the body ended and when the publication was there."""

    moments: dict[Phase, float] = field(default_factory=dict[Phase, float])

    def phase(self, phase: Phase, facts: Mapping[str, object]) -> None:
        """Keep the moment."""
        del facts
        self.moments[phase] = time.perf_counter()

    @property
    def seconds(self) -> float:
        """From the end of the body to the publication."""
        return self.moments[Phase.PUBLISHED] - self.moments[Phase.FUNCTION_ENDED]


@dataclass
class Row:
    """One line of the results."""

    case: str
    rtt_ms: int
    subject: str
    seconds: float
    requests: int
    calls: list[str]


def _server_requests(server: LakefsServer) -> int:
    _, body = ask("GET", f"{server.endpoint}/metrics")
    return sum(int(count) for count in _COUNTED.findall(body.decode()))


async def _seed(
    lakefs: LakeFSInstallation, server: LakefsServer, name: str, *, fenced: bool
) -> tuple[RepositoryId, CommitId]:
    repository = create_repository(server, name)
    files = {f"data/file-{number}.txt": f"file {number}".encode() for number in range(FILES)}
    if fenced:
        files[FENCE_PATH] = FENCE_FILE
    with TemporaryDirectory() as folder:
        for number, (path, content) in enumerate(files.items()):
            source = Path(folder) / str(number)
            await asyncio.to_thread(source.write_bytes, content)
            await lakefs.objects.upload(repository, MAIN, ObjectUpload(path, source))
    commit = await lakefs.commits.commit(CommitRequest(repository, MAIN, "seed", {}))
    return repository, commit


async def _ours(
    lakefs: LakeFSInstallation,
    place: Path,
    server: LakefsServer,
    subject: str,
    name: str,
) -> tuple[list[float], int, list[str]]:
    policy, fenced = SUBJECTS[subject]
    repository, head = await _seed(lakefs, server, name, fenced=fenced)
    seconds: list[float] = []
    requests, calls = 0, list[str]()
    injector = FaultInjector()  # without a fault it counts what it lets through
    # Bytes move as a worker moves them: the port's own download asks for the entry once more.
    transport = lakefs.transport(AsyncioConcurrency())
    race = Race(faulty_installation(lakefs, injector), place, policy, transport)
    for _ in range(ROUNDS + 1):  # the first runs the canary and warms connections
        records = await race.attempts(repository, head, workflows=1, racers=1)
        timed = Timed()
        injector.calls.clear()
        before = _server_requests(server)
        (report,) = await race.run(records, files=["file-0.txt"], progress=timed)
        assert report.error is None, report.error
        requests = _server_requests(server) - before
        calls = list(injector.calls.elements())
        seconds.append(timed.seconds)
        head = (await lakefs.branches.head(repository, MAIN)).commit
    return seconds[1:], requests, calls


async def _peer(
    lakefs: LakeFSInstallation, server: LakefsServer, endpoint: str, name: str
) -> tuple[list[float], int]:
    program = private_environment(PEER) / "bin" / "python"
    repository, head = await _seed(lakefs, server, name, fenced=False)
    seconds: list[float] = []
    requests = 0
    for number in range(ROUNDS):
        with TemporaryDirectory() as folder:
            keys = {"access_key_id": server.access_key_id}
            keys["secret_access_key"] = server.secret_access_key
            place = {"repository": repository, "branch": MAIN, "refType": "commit", "ref": head}
            request: dict[str, object] = {
                "lakefs": {"endpoint_url": endpoint, **keys},
                "workspace": place,
            }
            request |= {"folder": folder, "number": number}
            before = _server_requests(server)
            line = [
                str(program),
                str(PEER_SCRIPT),
                json.dumps(request),
            ]
            done = await asyncio.to_thread(
                subprocess.run, line, capture_output=True, text=True, check=True
            )
            requests = _server_requests(server) - before
            seconds.append(json.loads(done.stdout)["seconds"])
        head = (await lakefs.branches.head(repository, MAIN)).commit
    return seconds, requests


async def _measure(place: Path, server: LakefsServer, toxiproxy: ToxiproxyServer) -> list[Row]:
    rows: list[Row] = []
    for rtt_ms in ROUND_TRIPS_MS:
        with toxiproxy.distant(server.endpoint, rtt_ms) as endpoint:
            lakefs = open_lakefs(
                LakeFSConfiguration(
                    endpoint_url=endpoint,
                    access_key_id=server.access_key_id,
                    secret_access_key=server.secret_access_key,
                )
            )
            for number, subject in enumerate(SUBJECTS):
                name = f"publish-{rtt_ms}-{number}"
                taken, requests, calls = await _ours(lakefs, place, server, subject, name)
                seconds = round(statistics.median(taken), 4)
                rows.append(Row("10 files, 1 changed", rtt_ms, subject, seconds, requests, calls))
            taken, requests = await _peer(lakefs, server, endpoint, f"publish-{rtt_ms}-peer")
            seconds = round(statistics.median(taken), 4)
            rows.append(Row("10 files, 1 changed", rtt_ms, PEER, seconds, requests, []))
            await lakefs.close()
    return rows


def main() -> None:
    """Measure, print, write."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    with (
        TemporaryDirectory() as folder,
        lakefs_server() as server,
        toxiproxy_server() as toxiproxy,
    ):
        rows = asyncio.run(_measure(Path(folder), server, toxiproxy))
    for row in rows:
        facts = f"{row.rtt_ms:3} ms  {row.subject:20} {row.seconds * 1000:8.1f} ms"
        print(f"{facts}  {row.requests:3} requests of the whole attempt")
    RESULT.parent.mkdir(exist_ok=True)
    document = [asdict(row) for row in rows]
    RESULT.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
