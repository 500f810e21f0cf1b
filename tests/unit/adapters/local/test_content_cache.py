"""The cache of one host: what it fills, what it survives, and what it lets go."""

import hashlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from perago.adapters.local.cache_store import CacheStore
from perago.adapters.local.content_cache import BYTES_MAX_DEFAULT, ContentCache
from perago.ports.object_transport import Fetched, FetchOrder
from perago.ports.objects import ObjectEntry

SMALL, LARGE = b"small", b"large " * 40_000


def cache(place: Path, bytes_max: int = BYTES_MAX_DEFAULT, *, fillers: int = 0) -> ContentCache:
    store = CacheStore(place / "cache")
    return ContentCache(store, bytes_max=bytes_max, fillers=lambda _: fillers)


def order(content: bytes, target: Path, checksum: str | None = None) -> FetchOrder:
    digest = hashlib.md5(content, usedforsecurity=False).hexdigest()
    return FetchOrder(ObjectEntry("data/x", checksum or digest, len(content)), target)


def keep(kept: ContentCache, content: bytes, place: Path, checksum: str | None = None) -> None:
    place.mkdir(parents=True, exist_ok=True)
    source = place / hashlib.sha256(content).hexdigest()
    source.write_bytes(content)
    digest = hashlib.md5(content, usedforsecurity=False).hexdigest()
    kept.keep([Fetched(order(content, source, checksum), digest)])


def fill(kept: ContentCache, content: bytes, target: Path, checksum: str | None = None) -> bool:
    filled = kept.fill([order(content, target, checksum)])
    assert len(filled.fetched) + len(filled.missing) == 1
    return bool(filled.fetched)


@pytest.mark.parametrize("content", [b"", SMALL, LARGE], ids=["empty", "small", "large"])
@pytest.mark.parametrize("checksum", [None, "0123-4"], ids=["md5", "multipart"])
@pytest.mark.parametrize("fillers", [0, 1])
def test_what_was_kept_fills_a_target_in_another_process(
    tmp_path: Path, content: bytes, checksum: str | None, fillers: int
) -> None:
    keep(cache(tmp_path), content, tmp_path / "first", checksum)
    assert fill(cache(tmp_path, fillers=fillers), content, tmp_path / "target", checksum)
    assert (tmp_path / "target").read_bytes() == content


@pytest.mark.parametrize("content", [SMALL, LARGE], ids=["small", "large"])
def test_a_task_that_writes_to_its_file_does_not_reach_the_cache(
    tmp_path: Path, content: bytes
) -> None:
    kept = cache(tmp_path)
    keep(kept, content, tmp_path / "first")
    assert fill(kept, content, tmp_path / "one")
    for file in (tmp_path / "one", *(tmp_path / "first").iterdir()):
        with file.open("r+b") as opened:
            opened.write(b"scribble")
    assert fill(kept, content, tmp_path / "other")
    assert (tmp_path / "other").read_bytes() == content


def test_a_corrupted_content_is_dropped_and_fetched_again(tmp_path: Path) -> None:
    kept = cache(tmp_path)
    keep(kept, LARGE, tmp_path / "first")
    (stored,) = (path for path in (tmp_path / "cache/objects").rglob("*") if path.is_file())
    stored.write_bytes(LARGE[:-1] + b"!")
    assert not fill(kept, LARGE, tmp_path / "target")
    assert not (tmp_path / "target").exists()
    assert not stored.exists()
    keep(kept, LARGE, tmp_path / "first")
    assert fill(kept, LARGE, tmp_path / "target")


def test_a_content_whose_file_was_removed_is_fetched_again(tmp_path: Path) -> None:
    kept = cache(tmp_path)
    keep(kept, LARGE, tmp_path / "first")
    for stored in (tmp_path / "cache/objects").rglob("*"):
        if stored.is_file():
            stored.unlink()
    assert not fill(kept, LARGE, tmp_path / "target")


def test_a_damaged_store_is_begun_anew(tmp_path: Path) -> None:
    keep(cache(tmp_path), SMALL, tmp_path / "first")
    (tmp_path / "cache/cache.sqlite").write_bytes(b"no database at all" * 1000)
    kept = cache(tmp_path)
    assert not fill(kept, SMALL, tmp_path / "target")
    keep(kept, SMALL, tmp_path / "first")
    assert fill(kept, SMALL, tmp_path / "target")


def test_an_unusable_place_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "cache").write_bytes(b"a file stands where the cache should be")
    keep(cache(tmp_path), SMALL, tmp_path / "first")
    assert not fill(cache(tmp_path), SMALL, tmp_path / "target")


def test_the_oldest_contents_go_when_the_bound_is_reached(tmp_path: Path) -> None:
    kept = cache(tmp_path, bytes_max=5 * len(LARGE))
    contents = [LARGE + b"%d" % number for number in range(8)]
    for content in contents:
        keep(kept, content, tmp_path / "first")
    found = [fill(kept, content, tmp_path / f"{n}") for n, content in enumerate(contents)]
    assert found == sorted(found)
    assert 1 <= sum(found) <= 5
    stored = [path for path in (tmp_path / "cache/objects").rglob("*") if path.is_file()]
    assert len(stored) == sum(found)


def test_what_a_dead_process_left_half_kept_is_removed(tmp_path: Path) -> None:
    keep(cache(tmp_path), LARGE, tmp_path / "first")
    litter = tmp_path / "cache/objects/.new-dead"
    litter.write_bytes(b"half")
    keep(cache(tmp_path), SMALL, tmp_path / "first")
    assert not litter.exists()
    assert fill(cache(tmp_path), LARGE, tmp_path / "target")


def test_many_at_once_keep_and_fill_the_same_contents(tmp_path: Path) -> None:
    contents = [LARGE + b"%d" % (number % 3) for number in range(12)]

    def visit(number: int) -> None:
        own = cache(tmp_path)
        keep(own, contents[number], tmp_path / f"source-{number}")
        if fill(own, contents[number], tmp_path / f"target-{number}"):
            assert (tmp_path / f"target-{number}").read_bytes() == contents[number]

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(visit, range(12)))
    assert all(
        fill(cache(tmp_path), content, tmp_path / f"after-{n}")
        for n, content in enumerate(contents)
    )
