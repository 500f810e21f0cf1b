"""Objects that are not small lie in files, where the in-memory lakeFS was given a place."""

from pathlib import Path

from perago.adapters.memory.installations import MAIN, RepositoryBuilder, lakefs_installation
from perago.adapters.memory.lakefs import FILE_BYTES_MIN, MemoryLakeFS
from perago.adapters.memory.worker_handle import WorkerHandle
from perago.ports.objects import ObjectUpload

LARGE = b"x" * FILE_BYTES_MIN


async def test_a_large_upload_is_kept_as_it_was_when_it_left(tmp_path: Path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    lakefs = MemoryLakeFS(files=files)
    repository = RepositoryBuilder(lakefs, "repo")
    objects = lakefs_installation(lakefs, WorkerHandle()).objects
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(LARGE)

    entry = await objects.upload(repository.id, MAIN, ObjectUpload("a", source))
    source.write_bytes(b"other")
    await objects.download(repository.id, MAIN, "a", target)

    assert entry.size == FILE_BYTES_MIN
    assert target.read_bytes() == LARGE
    assert await objects.read(repository.id, MAIN, "a") == LARGE
    assert len(list(files.iterdir())) == 1


async def test_a_large_object_in_a_file_equals_the_same_bytes_in_memory(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(LARGE)
    repository = RepositoryBuilder(MemoryLakeFS(), "repo")
    repository.commit({"a": LARGE})
    base = repository.head().commit
    repository.write("a", source)
    objects = lakefs_installation(repository.lakefs, WorkerHandle())

    page = await objects.commits.uncommitted_page(repository.id, MAIN)

    assert page.changes == ()
    assert repository.files(base) == {"a": LARGE}
