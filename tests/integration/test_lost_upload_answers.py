"""A lost answer of any request of an upload costs no attempt, whichever way the bytes go.

The steps and the adapter are the real ones. Uploads travel over HTTP to a scripted lakeFS and its
block store; what arrives there is on the branch of the in-memory lakeFS that has everything else.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import final

import pytest
from tests.integration.transfer_scene import BRANCH, REPOSITORY, Bench, transfer_bench
from tests.unit.app.attempt.attempt_harness import AttemptHarness
from tests.unit.app.attempt.attempt_scene import TASK

from perago.adapters.lakefs.block_store import MULTIPART_BYTES_MIN
from perago.adapters.lakefs.configuration import RouteChoice
from perago.adapters.memory.lakefs_ports import MemoryTransport
from perago.adapters.system import SystemClock
from perago.adapters.workspace.pipeline import LocalWorkspacePipeline
from perago.domain.attempt import AttemptStatus
from perago.domain.lakefs import BranchName, RepositoryId
from perago.domain.policy import PolicySetting
from perago.ports.objects import (
    Fetched,
    FetchOrder,
    Moved,
    ObjectEntry,
    Objects,
    ObjectTransport,
    ObjectUpload,
    uncounted,
)


@final
class OverHttp(ObjectTransport):
    """Downloads come from memory, uploads go over HTTP and then to where they arrived."""

    def __init__(self, bench: Bench, beneath: ObjectTransport, objects: Objects) -> None:
        self._bench = bench
        self._beneath = beneath
        self._objects = objects

    async def fetch(
        self,
        repository: RepositoryId,
        ref: str,
        orders: Sequence[FetchOrder],
        moved: Moved = uncounted,
    ) -> Sequence[Fetched]:
        """From memory."""
        return await self._beneath.fetch(repository, ref, orders, moved)

    async def store(
        self,
        repository: RepositoryId,
        branch: BranchName,
        uploads: Sequence[ObjectUpload],
        moved: Moved = uncounted,
    ) -> Sequence[ObjectEntry]:
        """Over HTTP; what has arrived is there whatever was answered."""
        arrived = self._bench.lakefs.objects
        try:
            return await self._bench.transport.store(REPOSITORY, BRANCH, uploads, moved)
        finally:
            for upload in uploads:
                if arrived.get(upload.path) == upload.source.read_bytes():
                    await self._objects.upload(repository, branch, upload)


@dataclass(frozen=True, slots=True)
class Form:
    """One way of the bytes, and a request of it whose answer is lost."""

    name: str
    lost: str
    route: RouteChoice = RouteChoice.PRESIGNED
    size: int = 2000

    def __str__(self) -> str:
        return self.name


LARGE = MULTIPART_BYTES_MIN + 1
FORMS = [
    Form("put", r"POST .*/objects\?", RouteChoice.API),
    Form("presigned: the address", r"GET .*/staging/backing\?"),
    Form("presigned: the bytes", r"PUT /data/out.bin\?signature"),
    Form("presigned: the link", r"PUT .*/staging/backing\?"),
    Form("parts: the begin", r"POST .*/staging/pmpu\?", size=LARGE),
    Form("parts: an address", r"PUT .*/pmpu/u1/parts/2\?", size=LARGE),
    Form("parts: the bytes of one", r"PUT /data/out.bin/2\?signature", size=LARGE),
    Form("parts: the join", r"PUT .*/staging/pmpu/u1\?", size=LARGE),
]


@pytest.mark.parametrize("repeats", [True, False], ids=["the adapter repeats", "the step repeats"])
@pytest.mark.parametrize("form", FORMS, ids=str)
async def test_a_lost_answer_of_an_upload_costs_nothing(
    tmp_path: Path,
    form: Form,
    repeats: bool,  # noqa: FBT001 - a row of the table
) -> None:
    content = bytes(range(256)) * (form.size // 256) + b"the end"

    def write(workspace: Path, run: int) -> None:
        (workspace / "out.bin").write_bytes(content + b"%d" % run)

    harness = await AttemptHarness(tmp_path / "world", PolicySetting.SETTLED, body=write).started()
    seconds = 5.0 if repeats else 0.0
    async with transfer_bench(tmp_path, route=form.route, retry_seconds=seconds) as bench:
        bench.lakefs.signs = form.route is RouteChoice.PRESIGNED
        bench.lakefs.loses = form.lost
        made = harness.worker()
        lakefs, concurrency = made.harness.lakefs, made.harness.concurrency
        beneath = MemoryTransport(lakefs.objects, concurrency)
        transport = OverHttp(bench, beneath, lakefs.objects)
        pipeline = LocalWorkspacePipeline(lakefs.objects, lakefs.commits, concurrency, transport)
        ports = replace(
            made.harness, clock=SystemClock(), lakefs=replace(lakefs, pipeline=pipeline)
        )
        worker = replace(made, harness=ports)
        record = await worker.poll(TASK)
        assert record is not None
        report = await worker.run(record)
        assert report.error is None
        assert not bench.lakefs.loses, "no request of that kind came"
    (row,) = (await harness.read()).attempts
    assert (row.snapshot.status, harness.runs) == (AttemptStatus.COMPLETED, 1)
    files = harness.repository.files()
    mine = {path: files[path] for path in files if path.startswith("data/")}
    assert mine.pop("data/out.bin") == content + b"1"
    assert mine == {"data/kept.txt": b"kept", "data/old.txt": b"old"}
