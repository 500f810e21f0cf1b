"""Laws of `WorkspacePipeline`, and the bench they run on: a repository and a directory."""

import os
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path

import pytest

from perago.domain.errors import ReservedPathError
from perago.domain.lakefs import BranchName, CommitId, RepositoryId, StagedReference
from perago.domain.paths import ATTEMPT_MARKER
from perago.domain.sync_plan import SyncPlan
from perago.ports import errors
from perago.ports.objects import ObjectEntry
from perago.ports.workspace import Materialised, StagingArea, WorkspacePipeline, WorkspaceSource
from perago.testing.contract.lakefs_under_test import MAIN, LakeFSUnderTest

Files = Mapping[str, bytes]
TREE: Files = {
    "data/a.csv": b"one,two\n",
    "data/deep/er/b.bin": bytes(range(256)),
    "data/empty": b"",
    "data/spaß mit + % ? # &.txt": "ümläut".encode(),
    "data2/sibling.csv": b"not ours",
    "datafile": b"not ours either",
    "top.txt": b"top",
}


@dataclass(frozen=True, slots=True)
class UnheardPipeline:
    """A pipeline of another worker, which gets no answer from the call of `lose` on.

    Its requests arrive and take effect. It gets answers before, because a workspace must be
    materialised and compared before anything of it can be sent.
    """

    pipeline: WorkspacePipeline
    lose: Callable[[], object]


@dataclass
class Bench:
    """One repository with one workspace, and the pipeline that moves it."""

    under_test: LakeFSUnderTest
    pipeline: WorkspacePipeline
    repository: RepositoryId
    directory: Path
    unheard: Callable[[], AbstractAsyncContextManager[UnheardPipeline]]

    async def commit(self, files: Mapping[str, bytes | None]) -> CommitId:
        """Commit files on main."""
        return await self.under_test.commit_files(self.repository, MAIN, files)

    async def materialise(
        self, commit: CommitId, prefix: str = "data", *, by: WorkspacePipeline | None = None
    ) -> Materialised:
        """Materialise into a fresh directory that holds its marker."""
        self.directory.mkdir()
        (self.directory / ATTEMPT_MARKER).write_text("{}")
        source = WorkspaceSource(self.repository, commit, prefix)
        return await (by or self.pipeline).materialise(source, self.directory)

    async def open_staging(self, materialised: Materialised) -> StagingArea:
        """Open a staging branch at the input."""
        branch = BranchName(self.under_test.unique_name("staging"))
        source = materialised.source
        await self.under_test.branches.create(self.repository, branch, source.commit)
        return StagingArea(StagedReference(self.repository, branch, source.commit), source.prefix)

    async def stage(self, materialised: Materialised) -> tuple[SyncPlan, StagingArea]:
        """Plan and transfer."""
        plan = await self.pipeline.plan(materialised)
        area = await self.open_staging(materialised)
        await self.pipeline.transfer(materialised, plan, area)
        return plan, area

    async def tree(self, ref: str) -> dict[str, bytes]:
        """Every object with its bytes."""
        return {
            path: await self.under_test.objects.read(self.repository, ref, path)
            for path in await self.entries(ref)
        }

    async def entries(self, ref: str) -> dict[str, ObjectEntry]:
        """Every object as the listing shows it."""
        page = await self.under_test.objects.list_page(self.repository, ref, prefix="")
        return {entry.path: entry for entry in page.items}

    def local(self) -> dict[str, bytes]:
        """Every file of the directory but the marker."""
        return {
            path.relative_to(self.directory).as_posix(): path.read_bytes()
            for path in self.directory.rglob("*")
            if path.is_file() and path.name != ATTEMPT_MARKER
        }

    def write(self, path: str, content: bytes) -> None:
        """Do what a body does."""
        target = self.directory / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)


def below(prefix: str, files: Files) -> dict[str, bytes]:
    outer = f"{prefix}/"
    return {
        path.removeprefix(outer): content
        for path, content in files.items()
        if path.startswith(outer)
    }


async def test_P1_materialise_is_exact(bench: Bench) -> None:
    commit = await bench.commit(TREE)
    materialised = await bench.materialise(commit)
    assert bench.local() == below("data", TREE)
    assert materialised.counts.objects == 4
    assert materialised.counts.bytes == sum(map(len, below("data", TREE).values()))
    assert not [path for path in bench.directory.iterdir() if path.name.startswith(".perago-p")]


async def test_P2_prefix_is_mapped(bench: Bench) -> None:
    commit = await bench.commit(TREE)
    await bench.materialise(commit, "data/deep")
    assert bench.local() == {"er/b.bin": bytes(range(256))}


async def test_P3_reserved_paths_stay_out(bench: Bench) -> None:
    hook = b"name: nothing\non: {post-merge: {branches: [none]}}\nhooks: []\n"
    commit = await bench.commit(
        {
            "_lakefs_actions/x.yaml": hook,
            f"deep/{ATTEMPT_MARKER}": b"{}",
            ATTEMPT_MARKER: b"{}",
            "a": b"a",
        }
    )
    materialised = await bench.materialise(commit, "/")
    assert bench.local() == {"a": b"a"}
    (bench.directory / "a").unlink()
    _, area = await bench.stage(materialised)
    assert set(await bench.entries(area.staged.branch)) == {
        "_lakefs_actions/x.yaml",
        f"deep/{ATTEMPT_MARKER}",
        ATTEMPT_MARKER,
    }


@pytest.mark.parametrize(
    "names",
    [
        ["a\\b"],
        ["c:x"],
        ["a//b"],
        ["./a"],
        ["a/../b"],
        ["x" * 256],
        ["a", "a/b"],
        # More segments than are allowed, within the 1,024 characters that lakeFS takes.
        ["d/" * 505 + "f"],
    ],
    ids=lambda names: " and ".join(names)[:20],
)
async def test_P4_unsafe_names_are_refused_before_anything_moves(
    bench: Bench, names: list[str]
) -> None:
    files = {f"data/{name}": b"x" for name in names}
    commit = await bench.commit({**TREE, **files})
    with pytest.raises(errors.UnsafeNameError) as raised:
        await bench.materialise(commit)
    assert all(repr(name) in str(raised.value) for name in names)
    assert bench.local() == {}


async def test_P5_untouched_workspace_has_no_changes(bench: Bench) -> None:
    materialised = await bench.materialise(await bench.commit(TREE))
    (bench.directory / "empty-directory").mkdir()
    os.mkfifo(bench.directory / "pipe")
    (bench.directory / "a.csv").chmod(0o600)
    assert (await bench.pipeline.plan(materialised)).is_empty


async def test_P6_plan_names_additions_changes_deletions(bench: Bench) -> None:
    materialised = await bench.materialise(await bench.commit(TREE))
    (bench.directory / "deep/er/b.bin").rename(bench.directory / "moved.bin")
    (bench.directory / "empty").unlink()
    bench.write("a.csv", b"two,one\n")
    bench.write("new/file", b"new")
    plan = await bench.pipeline.plan(materialised)
    assert [(facts.path, facts.size) for facts in plan.upload] == [("a.csv", 8), ("new/file", 3)]
    assert [(facts.path, source) for facts, source in plan.copy] == [("moved.bin", "deep/er/b.bin")]
    assert list(plan.delete) == ["deep/er/b.bin", "empty"]


async def test_P7_same_bytes_are_no_change(bench: Bench) -> None:
    materialised = await bench.materialise(await bench.commit(TREE))
    (bench.directory / "a.csv").unlink()
    bench.write("a.csv", TREE["data/a.csv"])
    os.utime(bench.directory / "empty", (1, 1))
    assert (await bench.pipeline.plan(materialised)).is_empty


@pytest.mark.parametrize("target", ["a.csv", "deep", "nowhere"])
async def test_P8_symlinks_are_refused(bench: Bench, target: str) -> None:
    materialised = await bench.materialise(await bench.commit(TREE))
    (bench.directory / "deep/link").symlink_to(bench.directory / target)
    refusal = "workspace publication does not support symlinks: deep/link"
    with pytest.raises(errors.ServiceError, match=refusal):
        await bench.pipeline.plan(materialised)


async def test_P9_transfer_makes_the_tree(bench: Bench) -> None:
    materialised = await bench.materialise(await bench.commit(TREE))
    (bench.directory / "deep/er/b.bin").rename(bench.directory / "moved.bin")
    (bench.directory / "empty").unlink()
    bench.write("empty/now-a-directory", b"")
    bench.write("a.csv", b"two,one\n")
    bench.write("odd %41+ name?#.txt", b"odd")
    _, area = await bench.stage(materialised)
    expected = {path: content for path, content in TREE.items() if not path.startswith("data/")}
    expected.update({f"data/{path}": content for path, content in bench.local().items()})
    assert await bench.tree(area.staged.branch) == expected


async def described(bench: Bench) -> CommitId:
    for name in ("kept", "changed", "moved"):
        await bench.under_test.write(
            bench.repository,
            MAIN,
            f"data/{name}",
            name.encode(),
            content_type="text/x-perago",
            metadata={"owner": f"{name} team"},
        )
    return await bench.commit({"data/other": b"other"})


async def test_P10_untouched_objects_keep_their_metadata(bench: Bench) -> None:
    commit = await described(bench)
    materialised = await bench.materialise(commit)
    bench.write("other", b"changed")
    _, area = await bench.stage(materialised)
    before, after = await bench.entries(commit), await bench.entries(area.staged.branch)
    for path in ("data/kept", "data/changed", "data/moved"):
        assert after[path] == before[path]


async def test_P11_changed_objects_keep_their_metadata(bench: Bench) -> None:
    commit = await described(bench)
    materialised = await bench.materialise(commit)
    bench.write("changed", b"now changed")
    (bench.directory / "moved").rename(bench.directory / "moved-to")
    _, area = await bench.stage(materialised)
    before, after = await bench.entries(commit), await bench.entries(area.staged.branch)
    for old, new in [("data/changed", "data/changed"), ("data/moved", "data/moved-to")]:
        assert (after[new].content_type, dict(after[new].metadata)) == (
            before[old].content_type,
            dict(before[old].metadata),
        )


async def test_P12_a_lost_directory_is_an_error(bench: Bench) -> None:
    materialised = await bench.materialise(await bench.commit(TREE))
    bench.directory.rename(bench.directory.with_name("elsewhere"))
    with pytest.raises(errors.WorkspaceLostError):
        await bench.pipeline.plan(materialised)
    bench.directory.mkdir()
    with pytest.raises(errors.WorkspaceLostError):
        await bench.pipeline.plan(materialised)


async def test_P13_verify_accepts_the_transfer(bench: Bench) -> None:
    materialised = await bench.materialise(await bench.commit(TREE))
    (bench.directory / "deep/er/b.bin").rename(bench.directory / "moved.bin")
    bench.write("a.csv", b"two,one\n")
    bench.write("new", b"new")
    plan, area = await bench.stage(materialised)
    await bench.pipeline.verify(materialised, plan, area)


@pytest.mark.parametrize(
    "path", ["data/a.csv", "data/empty", "data/unplanned", "outside", "data/moved.bin"]
)
async def test_P14_verify_finds_a_difference(bench: Bench, path: str) -> None:
    materialised = await bench.materialise(await bench.commit(TREE))
    (bench.directory / "deep/er/b.bin").rename(bench.directory / "moved.bin")
    bench.write("a.csv", b"two,one\n")
    plan, area = await bench.stage(materialised)
    await bench.under_test.write(bench.repository, area.staged.branch, path, b"behind")
    with pytest.raises(errors.DamagedObjectError, match=path):
        await bench.pipeline.verify(materialised, plan, area)


async def test_P15_reserved_writes_are_refused(bench: Bench) -> None:
    materialised = await bench.materialise(await bench.commit(TREE), "/")
    bench.write("_lakefs_actions/mine.yaml", b"name: mine")
    with pytest.raises(ReservedPathError, match=r"_lakefs_actions/mine\.yaml"):
        await bench.pipeline.plan(materialised)


async def test_P16_directory_markers_are_ignored(bench: Bench) -> None:
    commit = await bench.commit({"data/": b"", "data/deep/": b"", "data/deep/a": b"a", "b/": b""})
    materialised = await bench.materialise(commit)
    assert bench.local() == {"deep/a": b"a"}
    (bench.directory / "deep/a").unlink()
    plan, area = await bench.stage(materialised)
    assert list(plan.delete) == ["deep/a"]
    assert set(await bench.entries(area.staged.branch)) == {"data/", "data/deep/", "b/"}


async def test_P17_unknown_commit(bench: Bench) -> None:
    with pytest.raises(errors.ReferenceMissingError):
        await bench.materialise(CommitId("0" * 64))


async def test_P18_empty_prefix_is_empty(bench: Bench) -> None:
    commit = await bench.commit(TREE)
    materialised = await bench.materialise(commit, "nothing/here")
    assert bench.local() == {}
    bench.write("first", b"first")
    _, area = await bench.stage(materialised)
    entries = await bench.entries(area.staged.branch)
    assert set(entries) == {*TREE, "nothing/here/first"}
    before = (await bench.entries(commit))["top.txt"]
    assert entries["top.txt"] == before._replace(modified_at=entries["top.txt"].modified_at)


async def test_P19_another_process_goes_on(bench: Bench) -> None:
    materialised = await bench.materialise(await bench.commit(TREE))
    bench.write("a.csv", b"two,one\n")
    bench.write("new", b"new")
    (bench.directory / "empty").unlink()
    plan = await bench.pipeline.plan(materialised)
    described = await bench.pipeline.describe(materialised)
    await bench.pipeline.forget(materialised)
    if described is None:
        with pytest.raises(errors.WorkspaceLostError):
            await bench.pipeline.reopen(materialised.source, bench.directory, "")
        return
    again = await bench.pipeline.reopen(materialised.source, bench.directory, described)
    assert await bench.pipeline.plan(again) == plan
    _, area = await bench.stage(again)
    await bench.pipeline.verify(again, plan, area)
    staged = await bench.tree(area.staged.branch)
    assert below("data", staged) == bench.local()


def _rewrite(directory: Path) -> None:
    (directory / "deep/er/b.bin").write_bytes(bytes(256))


def _append(directory: Path) -> None:
    with (directory / "a.csv").open("ab") as file:
        file.write(b"three\n")


def _add(directory: Path) -> None:
    (directory / "late").write_bytes(b"late")


def _remove(directory: Path) -> None:
    (directory / "new").unlink()


def _replace(directory: Path) -> None:
    directory.rename(directory.with_name("old"))
    directory.mkdir()


@pytest.mark.parametrize("change", [_rewrite, _append, _add, _remove, _replace])
async def test_P20_a_changed_directory_is_not_reopened(
    bench: Bench, change: Callable[[Path], None]
) -> None:
    materialised = await bench.materialise(await bench.commit(TREE))
    bench.write("new", b"new")
    described = await bench.pipeline.describe(materialised)
    await bench.pipeline.forget(materialised)
    for text in ("", "not a description"):
        with pytest.raises(errors.WorkspaceLostError):
            await bench.pipeline.reopen(materialised.source, bench.directory, text)
    change(bench.directory)
    with pytest.raises(errors.WorkspaceLostError):
        await bench.pipeline.reopen(materialised.source, bench.directory, described or "")


def _move(directory: Path) -> None:
    (directory / "deep/er/b.bin").rename(directory / "moved.bin")


def _unlink(directory: Path) -> None:
    (directory / "empty").unlink()


# Each is one kind of request: an upload, a copy on the server, a deletion.
@pytest.mark.parametrize("change", [_add, _move, _unlink])
async def test_P21_lost_answer_is_unknown(bench: Bench, change: Callable[[Path], None]) -> None:
    commit = await bench.commit(TREE)
    async with bench.unheard() as unheard:
        materialised = await bench.materialise(commit, by=unheard.pipeline)
        change(bench.directory)
        plan = await unheard.pipeline.plan(materialised)
        area = await bench.open_staging(materialised)
        unheard.lose()
        with pytest.raises(errors.OutcomeUnknownError):
            await unheard.pipeline.transfer(materialised, plan, area)
