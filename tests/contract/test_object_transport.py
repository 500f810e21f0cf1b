"""Laws of perago.ports.objects."""

import hashlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

import pytest
from tests.contract.adapters import Factory, parameters
from tests.contract.pipelines import TRANSPORTS, TransportHarness

from perago.domain.lakefs import NO_METADATA, BranchName, RepositoryId
from perago.ports.errors import (
    BranchMissingError,
    DamagedObjectError,
    LocalDiskError,
    ObjectMissingError,
)
from perago.ports.objects import (
    DEFAULT_CONTENT_TYPE,
    FetchOrder,
    ObjectEntry,
    ObjectTransport,
    ObjectUpload,
)
from perago.testing.contract.lakefs_under_test import MAIN
from perago.testing.contract.objects import Unheard
from perago.testing.contract.objects import (
    test_M10_lost_answer_is_unknown as test_M10_lost_answer_is_unknown,
)
from perago.testing.contract.objects import (
    test_U6_lost_answer_is_unknown as test_U6_lost_answer_is_unknown,
)

ODD = ("a b+c%41?d#e&f=g.txt", "ünï/cødé", "x~'()!*;:@,$", "%2F", "semi;colon/.hidden")
LARGE = bytes(range(256)) * 4096 * 41  # 41 MiB: in one piece, in ranges, by any route


@dataclass
class Bench:
    """One repository, and the transport that moves its objects."""

    opened: TransportHarness
    repository: RepositoryId
    place: Path

    @property
    def transport(self) -> ObjectTransport:
        """The transport under test."""
        return self.opened.transport

    async def write(self, files: Mapping[str, bytes]) -> None:
        """Write objects on main."""
        for path, content in files.items():
            await self.opened.harness.write(self.repository, MAIN, path, content)

    async def orders(self, ref: str = MAIN) -> list[FetchOrder]:
        """An order for each object."""
        page = await self.opened.harness.objects.list_page(self.repository, ref, prefix="")
        return [
            FetchOrder(entry, self.place / f"target-{number}")
            for number, entry in enumerate(page.items)
        ]

    def upload(
        self,
        path: str,
        content: bytes,
        content_type: str = DEFAULT_CONTENT_TYPE,
        metadata: Mapping[str, str] = NO_METADATA,
    ) -> ObjectUpload:
        """A local file to be written."""
        name = hashlib.sha256(path.encode()).hexdigest()
        (self.place / name).write_bytes(content)
        return ObjectUpload(path, self.place / name, content_type, metadata)

    def targets(self) -> list[Path]:
        """Everything a fetch left behind."""
        return sorted(path for path in self.place.iterdir() if not path.name.isalnum())


def md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


@dataclass
class Tally:
    """What was told of a transfer."""

    bytes: int = 0
    objects: int = 0
    lock: Lock = field(default_factory=Lock)

    def __call__(self, size: int, objects: int) -> None:
        """Add it up, whichever thread tells."""
        with self.lock:
            self.bytes += size
            self.objects += objects


@pytest.fixture(params=parameters(TRANSPORTS))
async def bench(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Bench]:
    factory: Factory[TransportHarness] = request.param
    async with factory(request) as opened:
        yield Bench(opened, await opened.harness.create_repository(), tmp_path)


@pytest.fixture(params=parameters(TRANSPORTS))
async def unheard(request: pytest.FixtureRequest) -> AsyncIterator[Unheard]:
    """The public suite has one way of object bytes, and we have several."""
    factory: Factory[TransportHarness] = request.param
    async with factory(request) as opened, opened.unheard() as parts:
        yield parts


async def test_M1_fetch_writes_the_exact_bytes(bench: Bench) -> None:
    files = {f"f{number:02}": b"%d" % number * number for number in range(40)}
    await bench.write(files)
    orders = list(reversed(await bench.orders()))
    fetched = await bench.transport.fetch(bench.repository, MAIN, orders)
    assert [one.order for one in fetched] == orders
    for one in fetched:
        assert one.order.target.read_bytes() == files[one.order.entry.path]
        assert one.md5 == md5(files[one.order.entry.path])
    assert len(bench.targets()) == len(files)
    assert await bench.transport.fetch(bench.repository, MAIN, []) == []


async def test_M2_fetch_of_a_missing_object(bench: Bench) -> None:
    absent = FetchOrder(ObjectEntry("absent", "0" * 32, 5), bench.place / "target-absent")
    with pytest.raises(ObjectMissingError):
        await bench.transport.fetch(bench.repository, MAIN, [absent])
    assert bench.targets() == []


@pytest.mark.parametrize("size", [10, 2 * 1024 * 1024], ids=["small", "large"])
@pytest.mark.parametrize("promise", ["checksum", "fewer bytes", "more bytes"])
async def test_M3_fetch_of_other_bytes_is_damage(bench: Bench, size: int, promise: str) -> None:
    await bench.write({"x": b"x" * size})
    (order,) = await bench.orders()
    promised = {
        "checksum": order.entry._replace(checksum="0" * 32),
        "fewer bytes": order.entry._replace(size=size - 1),
        "more bytes": order.entry._replace(size=size + 1),
    }
    with pytest.raises(DamagedObjectError, match="x arrived damaged"):
        await bench.transport.fetch(
            bench.repository, MAIN, [order._replace(entry=promised[promise])]
        )
    assert bench.targets() == []


DESCRIPTIONS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "plain": (DEFAULT_CONTENT_TYPE, NO_METADATA),
    "type": ("text/csv; charset=utf-8", NO_METADATA),
    "metadata": (DEFAULT_CONTENT_TYPE, {"owner": "team one", "spark.rows": "7"}),
}


@pytest.mark.parametrize(("content_type", "metadata"), DESCRIPTIONS.values(), ids=DESCRIPTIONS)
async def test_M4_store_writes_the_exact_bytes(
    bench: Bench, content_type: str, metadata: Mapping[str, str]
) -> None:
    files = {f"f{number:02}": b"%d" % number * number for number in range(20)}
    uploads = [
        bench.upload(path, content, content_type, metadata) for path, content in files.items()
    ]
    stored = await bench.transport.store(bench.repository, MAIN, uploads)
    page = await bench.opened.harness.objects.list_page(bench.repository, MAIN, prefix="")
    for upload, answer, entry in zip(uploads, stored, page.items, strict=True):
        assert (answer.path, answer.size) == (upload.path, len(files[upload.path]))
        assert answer.checksum == entry.checksum == md5(files[upload.path])
        assert (entry.content_type, dict(entry.metadata)) == (
            upload.content_type,
            dict(upload.metadata),
        )
        assert (
            await bench.opened.harness.objects.read(bench.repository, MAIN, entry.path)
            == (files[entry.path])
        )


async def test_M5_store_on_a_missing_branch(bench: Bench) -> None:
    with pytest.raises(BranchMissingError):
        await bench.transport.store(
            bench.repository, BranchName("absent"), [bench.upload("x", b"x")]
        )


async def test_M6_odd_names_move(bench: Bench) -> None:
    uploads = [bench.upload(path, path.encode()) for path in ODD]
    await bench.transport.store(bench.repository, MAIN, uploads)
    orders = await bench.orders()
    assert {order.entry.path for order in orders} == set(ODD)
    for one in await bench.transport.fetch(bench.repository, MAIN, orders):
        assert one.order.target.read_bytes() == one.order.entry.path.encode()


async def test_M7_large_objects_move(bench: Bench) -> None:
    await bench.transport.store(bench.repository, MAIN, [bench.upload("large", LARGE)])
    (one,) = await bench.transport.fetch(bench.repository, MAIN, await bench.orders())
    assert one.md5 == md5(LARGE)
    assert one.order.target.read_bytes() == LARGE
    assert len(bench.targets()) == 1


async def test_M8_unreadable_source(bench: Bench) -> None:
    absent = ObjectUpload("x", bench.place / "no-such-file")
    with pytest.raises(LocalDiskError, match="no such file"):
        await bench.transport.store(bench.repository, MAIN, [absent])
    assert await bench.orders() == []


async def test_M9_every_byte_is_counted(bench: Bench) -> None:
    uploads = [bench.upload(f"f{number}", b"x" * number * 1000) for number in range(10)]
    uploads.append(bench.upload("in parts, where large objects are", LARGE))
    sent, received = Tally(), Tally()
    await bench.transport.store(bench.repository, MAIN, uploads, sent)
    await bench.transport.fetch(bench.repository, MAIN, await bench.orders(), received)
    everything = (45_000 + len(LARGE), 11)
    assert (sent.bytes, sent.objects) == everything
    assert (received.bytes, received.objects) == everything
