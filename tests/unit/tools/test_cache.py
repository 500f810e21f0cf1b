"""The cache of servers: made once, complete or absent, whoever asks at the same moment."""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from perago_servers.cache import cache_root, is_made, make_once


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def test_of_many_who_ask_at_once_one_makes_it_and_all_get_it() -> None:
    makers: list[Path] = []

    def make(directory: Path) -> None:
        makers.append(directory)
        time.sleep(0.02)  # noqa: TID251 - long enough for the others to arrive
        (directory / "program").write_text("made")

    with ThreadPoolExecutor(8) as threads:
        asked = [threads.submit(make_once, "thing-1", make) for _ in range(8)]
        places = {answer.result() for answer in asked}
    assert len(makers) == 1
    assert places == {cache_root() / "thing-1"}
    assert (cache_root() / "thing-1" / "program").read_text() == "made"


def test_what_failed_half_way_is_made_again_from_nothing() -> None:
    def fail(directory: Path) -> None:
        (directory / "half").write_text("")
        raise OSError("no space")

    with pytest.raises(OSError, match="no space"):
        make_once("thing-2", fail)
    assert not is_made("thing-2")
    place = make_once("thing-2", lambda directory: (directory / "whole").touch())
    assert [path.name for path in place.iterdir()] == ["whole"]


def test_another_version_is_another_thing() -> None:
    for key in ("thing-1", "thing-2"):
        make_once(key, lambda directory: (directory / "program").touch())
    assert is_made("thing-1")
    assert is_made("thing-2")
    assert not is_made("thing-3")
