"""What one more small object costs a workspace: functions of Perago's, files they are in, threads.

Counted is the difference between a workspace of one object and one of two, on a process that has
moved an object before: each function of Perago that is entered more often, in any thread, from
the listing to the file on disk. A coroutine that goes on after a wait is not entered again, and a
comprehension belongs to its function. The transfer reports its progress, no proxy is set, and the
cache is off, because it works aside when the download is done.
"""

import asyncio
import sys
import threading
from collections import Counter
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest
from tests.integration.transfer_scene import REPOSITORY, Bench, md5_of, transfer_bench
from tests.recordings import RecordingProgress

import perago
from perago.adapters.system import AsyncioConcurrency, SystemClock
from perago.adapters.workspace.pipeline import LocalWorkspacePipeline, TransferListener
from perago.domain.lakefs import CommitId
from perago.ports.objects import ObjectEntry, Page
from perago.ports.workspace import WorkspaceSource

FUNCTIONS_MAX = 30
FILES_MAX = 8
OURS = str(Path(perago.__file__).parent)
IN_A_FUNCTION = ("genexpr>", "listcomp>", "setcomp>", "dictcomp>")


class Listing:
    """Lists what the server on loopback has; the transfer is what is measured."""

    def __init__(self, objects: Mapping[str, bytes]) -> None:
        self._objects = objects

    async def list_page(self, *_given: object, **_named: object) -> Page[ObjectEntry]:
        """All of it."""
        entries = (
            ObjectEntry(path, md5_of(held), len(held)) for path, held in self._objects.items()
        )
        return Page(tuple(entries), more=False, last="")


class Entered:
    """Counts the functions of Perago that are entered, and the threads that are started."""

    def __init__(self) -> None:
        self.functions: Counter[CodeType] = Counter()
        self.threads: list[str] = []
        self._is_on = False
        # Kept, because an address that is used again would hide a call.
        self._frames: dict[int, FrameType] = {}

    def profile(self, frame: FrameType, event: str, _given: object) -> None:
        """Hear of one event of the interpreter."""
        if not self._is_on or event != "call" or id(frame) in self._frames:
            return
        code = frame.f_code
        if code.co_filename.startswith(OURS) and not code.co_name.endswith(IN_A_FUNCTION):
            self._frames[id(frame)] = frame
            self.functions[code] += 1

    @contextmanager
    def counting(self, monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
        """Count within the block."""
        start = threading.Thread.start

        def started(thread: threading.Thread) -> None:
            self.threads.append(thread.name)
            start(thread)

        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", started)
            self._is_on = True
            yield
            self._is_on = False


@pytest.fixture
def watching() -> Generator[list[Entered]]:
    """Whoever is in the list is told of every call, in every thread that starts from now on."""
    watchers: list[Entered] = []

    def profile(frame: FrameType, event: str, given: Any) -> None:  # noqa: ANN401 - the interpreter's
        for watcher in watchers:
            watcher.profile(frame, event, given)

    before = sys.getprofile()
    threading.setprofile(profile)
    sys.setprofile(profile)
    yield watchers
    sys.setprofile(before)
    threading.setprofile(None)


async def materialise(
    bench: Bench, place: Path, count: int, entered: Entered, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bring down a workspace of so many small objects, by the transport that is already open."""
    bench.lakefs.objects = {f"data/{number}": b"small %d" % number for number in range(count)}
    listing: Any = Listing(bench.lakefs.objects)
    concurrency = AsyncioConcurrency(threads_max=1)
    await concurrency.blocking(int)  # the thread that the attempt's own steps share
    listener = TransferListener(RecordingProgress(), SystemClock())
    pipeline = LocalWorkspacePipeline(
        listing, listing, concurrency, bench.transport, listener=listener
    )
    directory = place / f"workspace-{count}"
    directory.mkdir()
    with entered.counting(monkeypatch):
        await pipeline.materialise(WorkspaceSource(REPOSITORY, CommitId("c"), "data"), directory)
    assert len(list(directory.iterdir())) == count
    await asyncio.to_thread(concurrency.close)


async def test_one_more_small_object_runs_few_functions_in_few_files_and_starts_no_thread(
    tmp_path: Path, watching: list[Entered], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, one, two = Entered(), Entered(), Entered()
    watching.extend([first, one, two])
    async with transfer_bench(tmp_path) as bench:
        (tmp_path / "first").mkdir()
        await materialise(bench, tmp_path / "first", 1, first, monkeypatch)
        alive = threading.active_count()
        await materialise(bench, tmp_path, 1, one, monkeypatch)
        await materialise(bench, tmp_path, 2, two, monkeypatch)
        assert threading.active_count() == alive
    assert first.threads == ["perago-lakefs-loop"]  # so a thread would be seen
    assert one.threads == two.threads == []
    more = [code for code, count in two.functions.items() if count > one.functions[code]]
    shown = sorted(f"{Path(code.co_filename).name} {code.co_qualname}" for code in more)
    assert any("write_whole" in name for name in shown)  # so the other end of it is counted too
    assert len(shown) <= FUNCTIONS_MAX, shown
    assert len({code.co_filename for code in more}) <= FILES_MAX, shown
