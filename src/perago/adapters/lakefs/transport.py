"""Bulk transfer for the event loop of a worker, on another loop in a thread of its own.

A hundred downloads then never delay the heartbeats of the caller's loop. MD5 and the disk are done
by a few threads beside it. All of that is made when it is first needed, once for each process.
"""

import atexit
import os
from collections.abc import Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock
from typing import TypeVar, final

from perago.adapters.http import HttpClient, LoopThread, NotSentError
from perago.adapters.lakefs.object_bytes import ObjectBytes
from perago.adapters.lakefs.object_requests import (
    ObjectRequests,
    Place,
    RouteChoice,
    TransferConfiguration,
)
from perago.domain.logical_execution import BranchName, RepositoryId
from perago.ports.errors import UnavailableError
from perago.ports.objects import (
    Fetched,
    FetchOrder,
    Moved,
    ObjectEntry,
    ObjectTransport,
    ObjectUpload,
    nobody_counts,
)

# MD5 digests 0.6 GB a second and releases the interpreter meanwhile, so more threads than this
# wait for the disk or the interpreter, and not for a processor.
HANDS_MAX = 8
CLOSE_SECONDS = 2.0

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class _Running:
    """What one process needs to move objects; a fork of it needs its own."""

    process: int
    loop: LoopThread
    client: HttpClient
    hands: ThreadPoolExecutor
    objects: ObjectBytes


@final
class LakeFSTransport(ObjectTransport):
    """Objects of one installation; one instance per process."""

    def __init__(self, configuration: TransferConfiguration) -> None:
        self._configuration = configuration
        self._lock = Lock()
        self._running: _Running | None = None

    @property
    def route(self) -> str:
        signs = None if self._running is None else self._running.objects.server_signs
        if self._configuration.route is not RouteChoice.AUTO or signs is None:
            return f"{self._configuration.route} (not asked for yet)"
        return route_text(self._configuration, signs=signs)

    async def fetch(
        self,
        repository: RepositoryId,
        ref: str,
        orders: Sequence[FetchOrder],
        moved: Moved = nobody_counts,
    ) -> Sequence[Fetched]:
        if not orders:
            return []
        running = self._opened()
        return await _run(running, running.objects.fetch_all(Place(repository, ref), orders, moved))

    async def store(
        self,
        repository: RepositoryId,
        branch: BranchName,
        uploads: Sequence[ObjectUpload],
        moved: Moved = nobody_counts,
    ) -> Sequence[ObjectEntry]:
        if not uploads:
            return []
        running = self._opened()
        place = Place(repository, branch)
        return await _run(running, running.objects.store_all(place, uploads, moved))

    def ask_for_route(self) -> tuple[str, str]:
        """The route that `auto` means for this server, and why; asks the server, and blocks."""
        running = self._opened()
        if running.loop.submit(running.objects.ask_whether_signed()).result():
            text = route_text(self._configuration, signs=True)
            return text, "the block store of this lakeFS signs"
        return "api", "the block store of this lakeFS does not sign"

    def close(self) -> None:
        """Close the connections and let the threads go; what is under way is lost."""
        with self._lock:
            running, self._running = self._running, None
        if running is None or running.process != os.getpid():
            return
        atexit.unregister(self.close)
        with suppress(TimeoutError):
            running.loop.submit(running.client.close()).result(CLOSE_SECONDS)
        running.loop.close()
        running.hands.shutdown(wait=False)

    def _opened(self) -> _Running:
        with self._lock:
            if self._running is None or self._running.process != os.getpid():
                self._running = _open(self._configuration)
                atexit.register(self.close)  # sessions that are not closed complain at the end
            return self._running


async def _run(running: _Running, work: Coroutine[object, object, Value]) -> Value:
    try:
        return await running.loop.run(work)
    except NotSentError as error:
        raise UnavailableError(f"nothing was moved: {error}; try again") from error


def route_text(configuration: TransferConfiguration, *, signs: bool) -> str:
    """The routes of small and large objects, for people."""
    mebibytes = configuration.presigned_bytes_min // (1024 * 1024)
    return f"presigned from {mebibytes} MiB, else api" if signs else "api"


def _open(configuration: TransferConfiguration) -> _Running:
    client = HttpClient(configuration.http)
    hands = ThreadPoolExecutor(HANDS_MAX, thread_name_prefix="perago-transfer")
    requests = ObjectRequests(configuration, client, hands)
    loop = LoopThread("perago-transfer-loop")
    return _Running(os.getpid(), loop, client, hands, ObjectBytes(configuration, requests))
