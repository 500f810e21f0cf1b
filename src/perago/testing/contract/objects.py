"""Laws of perago.ports.objects, and law L0 wherever object bytes travel.

Who has several ways to move bytes defines the fixture `unheard` for each of them.
"""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from hashlib import md5
from pathlib import Path

import pytest

from perago.adapters.system import AsyncioConcurrency
from perago.adapters.workspace.staging import Staging
from perago.domain.lakefs import BranchName, CommitId, RepositoryId, StagedReference
from perago.ports import errors
from perago.ports.asking import pages
from perago.ports.lakefs import Commits
from perago.ports.objects import ObjectEntry, Objects, ObjectTransport, ObjectUpload
from perago.ports.system import Concurrency, nothing
from perago.ports.workspace import StagingArea
from perago.testing.contract.lakefs_under_test import MAIN, LakeFSUnderTest

WORK = BranchName("work")
NOWHERE = BranchName("nowhere")
ODD_NAMES = [
    "with space",
    " leading and trailing ",
    "unicode/日本語 é",
    "decomposed/e\u0301",
    "a+b",
    "100%",
    "%2F",
    "why?",
    "a#b",
    "a&b=c",
    "semi;colon,comma",
    "'quoted' \"twice\"",
    "star*[x]{y}|z",
    "tilde~caret^at@",
    "a:b",
    "back\\slash",
    "..hidden/.dot",
]


@dataclass(frozen=True, slots=True)
class Scene:
    """A repository with one commit, and a work branch on it."""

    under_test: LakeFSUnderTest
    repository: RepositoryId
    start: CommitId
    folder: Path

    def file(self, content: bytes) -> Path:
        """A local file with these bytes."""
        path = self.folder / "local file"
        path.write_bytes(content)
        return path

    async def upload(self, path: str, content: bytes, branch: BranchName = WORK) -> ObjectEntry:
        """Upload bytes."""
        upload = ObjectUpload(path, self.file(content))
        return await self.under_test.objects.upload(self.repository, branch, upload)

    async def read(self, path: str, ref: str = WORK) -> bytes:
        """Read an object."""
        return await self.under_test.objects.read(self.repository, ref, path)

    async def paths(self, prefix: str = "", ref: str = WORK) -> list[str]:
        """The first page of paths."""
        page = await self.under_test.objects.list_page(self.repository, ref, prefix=prefix)
        assert not page.more
        return [entry.path for entry in page.items]


@pytest.fixture
async def scene(lakefs_under_test: LakeFSUnderTest, tmp_path: Path) -> Scene:
    repository = await lakefs_under_test.create_repository()
    start = await lakefs_under_test.commit_files(repository, MAIN, {"kept": b"kept"})
    await lakefs_under_test.branches.create(repository, WORK, start)
    return Scene(lakefs_under_test, repository, start, tmp_path)


async def test_O1_upload_then_read(scene: Scene) -> None:
    content = bytes(range(256)) * 300
    await scene.upload("data/new", content)
    assert await scene.read("data/new") == content


async def test_O2_upload_is_isolated(scene: Scene) -> None:
    await scene.upload("kept", b"changed")
    assert await scene.read("kept") == b"changed"
    for ref in (MAIN, scene.start, f"{WORK}@"):
        assert await scene.read("kept", ref) == b"kept"


async def test_O3_checksum_is_md5(scene: Scene) -> None:
    entry = await scene.upload("new", b"seven b")
    expected = md5(b"seven b", usedforsecurity=False).hexdigest()
    assert (entry.path, entry.checksum, entry.size) == ("new", expected, 7)
    page = await scene.under_test.objects.list_page(scene.repository, WORK, prefix="new")
    assert [(found.checksum, found.size) for found in page.items] == [(expected, 7)]


async def test_O4_list_is_paged_in_order(scene: Scene) -> None:
    files: dict[str, bytes | None] = {f"data/{number:02}": b"x" for number in range(8)}
    await scene.under_test.commit_files(scene.repository, WORK, {**files, "data": b"x", "e": b"x"})
    await scene.upload("data/03b", b"uncommitted")
    found: list[str] = []
    list_page, work = scene.under_test.objects.list_page, (scene.repository, WORK)
    async for page in pages(lambda after: list_page(*work, prefix="data/", after=after, amount=4)):
        assert 0 < len(page.items) <= 4
        found.extend(entry.path for entry in page.items)
    assert found == sorted([*files, "data/03b"])


async def test_O5_list_prefix_is_a_string(scene: Scene) -> None:
    names = ["data", "data-2/a", "data/a", "data2"]
    await scene.under_test.commit_files(scene.repository, WORK, dict.fromkeys(names, b"x"))
    assert await scene.paths("data") == names
    assert await scene.paths("data/") == ["data/a"]
    assert await scene.paths("data/nothing") == []


async def test_O6_listing_carries_content_type_and_metadata(scene: Scene) -> None:
    upload = ObjectUpload("new", scene.file(b"{}"), "application/json", {"origin": "a body"})
    written = await scene.under_test.objects.upload(scene.repository, WORK, upload)
    page = await scene.under_test.objects.list_page(scene.repository, WORK, prefix="new")
    for entry in (written, *page.items):
        assert (entry.content_type, dict(entry.metadata)) == (
            "application/json",
            {"origin": "a body"},
        )


async def test_O7_read_missing(scene: Scene) -> None:
    for path in ("nothing", "kep", "kept/"):
        with pytest.raises(errors.ObjectMissingError):
            await scene.read(path)
    with pytest.raises(errors.ObjectMissingError):
        await scene.under_test.objects.read(scene.repository, "nowhere", "kept")


async def test_O8_list_unknown_ref(scene: Scene) -> None:
    for ref in ("nowhere", "f" * 64):
        with pytest.raises(errors.ReferenceMissingError):
            await scene.under_test.objects.list_page(scene.repository, ref, prefix="")


async def test_O9_bulk_delete(scene: Scene) -> None:
    await scene.upload("uncommitted", b"x")
    absent = [f"absent/{number}" for number in range(998)]
    await scene.under_test.objects.delete_many(
        scene.repository, WORK, ["kept", "uncommitted", *absent]
    )
    assert await scene.paths() == []
    assert await scene.paths(ref=MAIN) == ["kept"]


async def test_O10_write_to_missing_branch(scene: Scene) -> None:
    with pytest.raises(errors.BranchMissingError):
        await scene.upload("new", b"new", NOWHERE)
    with pytest.raises(errors.BranchMissingError):
        await scene.under_test.objects.copy(
            scene.repository, NOWHERE, source_ref=MAIN, source_path="nothing", target_path="new"
        )


async def test_O11_copy_keeps_bytes_and_type(scene: Scene) -> None:
    upload = ObjectUpload("new", scene.file(b"{}"), "application/json")
    await scene.under_test.objects.upload(scene.repository, WORK, upload)
    copy = await scene.under_test.objects.copy(
        scene.repository, WORK, source_ref=WORK, source_path="new", target_path="copied/new"
    )
    assert (copy.path, copy.content_type, copy.size) == ("copied/new", "application/json", 2)
    assert await scene.read("copied/new") == b"{}"
    with pytest.raises(errors.ObjectMissingError):
        await scene.under_test.objects.copy(
            scene.repository, WORK, source_ref=MAIN, source_path="new", target_path="again"
        )


async def test_O12_write_to_protected_branch(scene: Scene) -> None:
    await scene.under_test.protect(scene.repository, f"{MAIN}*")
    with pytest.raises(errors.BranchMissingError):
        await scene.upload("new", b"new", BranchName(f"{MAIN}-2"))
    with pytest.raises(errors.ProtectedBranchError):
        await scene.upload("new", b"new", MAIN)
    with pytest.raises(errors.ProtectedBranchError):
        await scene.under_test.objects.delete_many(scene.repository, MAIN, ["kept"])
    assert await scene.paths(ref=MAIN) == ["kept"]


async def test_O13_empty_object(scene: Scene) -> None:
    entry = await scene.upload("empty", b"")
    assert entry.size == 0
    assert await scene.read("empty") == b""
    target = scene.folder / "downloaded"
    await scene.under_test.objects.download(scene.repository, WORK, "empty", target)
    assert target.read_bytes() == b""


async def test_O14_odd_names(scene: Scene) -> None:
    for name in ODD_NAMES:
        await scene.upload(name, name.encode())
    assert await scene.paths() == sorted([*ODD_NAMES, "kept"])
    for name in ODD_NAMES:
        assert await scene.read(name) == name.encode()
        assert name in await scene.paths(name)
    await scene.under_test.objects.delete_many(scene.repository, WORK, ODD_NAMES)
    assert await scene.paths() == ["kept"]


async def test_O15_download_writes_the_exact_bytes(scene: Scene) -> None:
    content = bytes(range(256)) * 10_000
    await scene.upload("data", content)
    target = scene.folder / "downloaded"
    await scene.under_test.objects.download(scene.repository, WORK, "data", target)
    assert target.read_bytes() == content


async def test_O16_long_paths(scene: Scene) -> None:
    longest = "ü" * 512
    await scene.upload(longest, b"x")
    assert await scene.read(longest) == b"x"
    with pytest.raises(errors.RequestRefusedError, match="maximum length"):
        await scene.upload(f"{longest}a", b"x")
    assert await scene.paths() == ["kept", longest]


async def test_O17_lost_answer_is_unknown(scene: Scene) -> None:
    at = scene.repository, WORK
    async with scene.under_test.losing_answers() as losing:
        with pytest.raises(errors.OutcomeUnknownError):
            await losing.objects.upload(*at, ObjectUpload("new", scene.file(b"new")))
        assert await scene.read("new") == b"new"
        with pytest.raises(errors.OutcomeUnknownError):
            await losing.objects.copy(*at, source_ref=WORK, source_path="new", target_path="copied")
        assert await scene.read("copied") == b"new"
        with pytest.raises(errors.OutcomeUnknownError):
            await losing.objects.delete_many(*at, ["new", "copied"])
    assert await scene.paths() == ["kept"]


@dataclass(frozen=True, slots=True)
class Unheard:
    """A lakeFS, and the ports of a worker there who gets no answer from the call of `lose` on."""

    under_test: LakeFSUnderTest
    objects: Objects
    commits: Commits
    transport: ObjectTransport
    concurrency: Concurrency
    lose: Callable[[], object]


@pytest.fixture
async def unheard(lakefs_under_test: LakeFSUnderTest) -> AsyncIterator[Unheard]:
    concurrency = AsyncioConcurrency()
    async with lakefs_under_test.losing_answers() as losing:
        transport = losing.transport(concurrency)
        yield Unheard(
            lakefs_under_test, losing.objects, losing.commits, transport, concurrency, nothing
        )
    concurrency.close()


# Where one object is several requests, the lost answer may be of a request before the last one.
# So the two laws do not say whether the object is there.
async def test_M10_lost_answer_is_unknown(unheard: Unheard, tmp_path: Path) -> None:
    repository = await unheard.under_test.create_repository()
    source = tmp_path / "new"
    source.write_bytes(b"new")
    unheard.lose()
    with pytest.raises(errors.OutcomeUnknownError):
        await unheard.transport.store(repository, MAIN, [ObjectUpload("new", source)])


async def test_U6_lost_answer_is_unknown(unheard: Unheard, tmp_path: Path) -> None:
    repository = await unheard.under_test.create_repository()
    (tmp_path / "new").write_bytes(b"new")
    area = StagingArea(StagedReference(repository, MAIN, CommitId("-")), "kept")
    ports = unheard.objects, unheard.commits, unheard.transport, unheard.concurrency
    unheard.lose()
    with pytest.raises(errors.OutcomeUnknownError):
        await Staging(*ports).bring(tmp_path, {}, area)
