"""Many small objects over few connections, requests sent ahead of their answers.

One thread waits for all connections at once: a thread for each request costs more than the request.
Only the good case is done here. Whatever is answered or arrives otherwise is left out, for whoever
tries again and knows what a failure means.
"""

import selectors
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import final

from perago.adapters.transfer.answer_buffer import Answer
from perago.adapters.transfer.connections import Connections, Request
from perago.adapters.transfer.failures import NETWORK_ERRORS, THROTTLED, BrokenError
from perago.adapters.transfer.landing import land_whole
from perago.adapters.transfer.line import Line
from perago.adapters.transfer.line_openers import LineOpeners
from perago.adapters.transfer.pace import Pace
from perago.ports.errors import DamagedObjectError
from perago.ports.object_transport import Fetched, FetchOrder, Moved

BODY_BYTES_MAX = 256 * 1024
REQUESTS_AHEAD = 4  # on each line: what hides the way there and back
_LOOK_SECONDS = 0.5
_REFUSALS_MAX = 8
_OK = 200


@final
class PipelinedFetch:
    """One list of orders under way; their requests need nothing asked first."""

    def __init__(
        self,
        connections: Connections,
        pace: Pace,
        orders: Sequence[FetchOrder],
        ask: Callable[[FetchOrder], Request],
        moved: Moved,
    ) -> None:
        self.landed: dict[int, Fetched] = {}
        self._orders = orders
        self._ask = ask
        self._moved = moved
        self._pace = pace
        self._connections = connections
        self._left = deque(range(len(orders)))
        self._lines: set[Line] = set()
        self._selector = selectors.DefaultSelector()
        self._openers = LineOpeners(connections, ask(orders[0]).origin)
        self._refusals = 0
        self._is_over = False

    def stop(self) -> None:
        """Ask for nothing further; from any thread."""
        self._is_over = True

    def run(self) -> None:
        """Fetch what can be fetched; `landed` has each of them, by position."""
        self._selector.register(self._openers.wake_up, selectors.EVENT_READ)
        try:
            self._open_lines()
            while self._is_under_way():
                for key, _ in self._selector.select(_LOOK_SECONDS):
                    line = key.data
                    if line is None:
                        self._welcome()
                    elif line in self._lines:
                        self._guarded(line, self._hear)
                self._part_with_the_silent()
        finally:
            self._selector.close()
            self._openers.close()
            for line in self._lines:
                if line.is_idle:
                    self._connections.keep(self._openers.origin, line.connection)
                else:
                    line.connection.close()

    def _is_under_way(self) -> bool:
        if any(line.waiting for line in self._lines):
            return not self._is_over
        return bool(self._left and (self._lines or self._openers.under_way)) and not self._is_over

    def _open_lines(self) -> None:
        """As many lines as the pace allows, and no more than there is work for."""
        open_now = len(self._lines) + self._openers.under_way
        useful = -(-len(self._left) // REQUESTS_AHEAD)
        wanted = min(self._pace.limit - open_now, useful - self._openers.under_way)
        if wanted > 0:
            self._openers.want(wanted)

    def _welcome(self) -> None:
        fresh = [Line(connection, BODY_BYTES_MAX) for connection in self._openers.taken()]
        self._lines.update(fresh)
        for line in fresh:
            line.events = selectors.EVENT_READ
            self._selector.register(line.socket, line.events, line)
        for line in fresh:
            self._guarded(line, self._feed)

    def _guarded(self, line: Line, act: Callable[[Line], None]) -> None:
        try:
            act(line)
        except (*NETWORK_ERRORS, BrokenError):
            self._drop(line)

    def _hear(self, line: Line) -> None:
        line.flush()
        for answer in line.answers():
            self._take(line, answer)
        self._feed(line)

    def _take(self, line: Line, answer: Answer) -> None:
        if not line.waiting:
            raise BrokenError("an answer that nobody asked for")
        position, asked = line.waiting.popleft()
        line.heard = now = time.monotonic()
        if answer.status != _OK:
            self._refused(answer.status)
            return
        order = self._orders[position]
        try:
            self.landed[position] = land_whole(order, answer.body)
        except DamagedObjectError:
            return
        self._pace.answered(work=1.0, waited=now - asked, now=now)
        self._moved(order.entry.size, 1)
        if answer.closes:
            raise BrokenError("the server announced the end of the connection")

    def _refused(self, status: int) -> None:
        """Slow down when the server asks for it; any other refusal is not for here."""
        self._refusals += 1
        if status in THROTTLED and self._refusals <= _REFUSALS_MAX:
            self._pace.throttled()
        else:
            self._is_over = True

    def _feed(self, line: Line) -> None:
        """Ask ahead; a line beyond the pace runs dry and leaves."""
        requests: list[bytes] = []
        if len(self._lines) > self._pace.limit:
            if line.is_idle:
                self._lines.discard(line)
                self._selector.unregister(line.socket)
                self._connections.keep(self._openers.origin, line.connection)
                return
        elif not self._is_over:
            now = time.monotonic()
            if not line.waiting:
                line.heard = now
            while self._left and len(line.waiting) < REQUESTS_AHEAD:
                position = self._left.popleft()
                line.waiting.append((position, now))
                requests.append(self._ask(self._orders[position]).head())
        if requests:
            line.ask(requests)
            self._open_lines()
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if line.is_sending else 0)
        if events != line.events:
            line.events = events
            self._selector.modify(line.socket, events, line)

    def _drop(self, line: Line) -> None:
        """A line that ended: one that had answered is replaced, and its orders are asked again."""
        self._lines.discard(line)
        self._selector.unregister(line.socket)
        line.connection.close()
        if line.answered:
            self._left.extendleft(position for position, _ in reversed(line.waiting))
            self._open_lines()
            for other in [other for other in self._lines if not other.waiting]:
                self._guarded(other, self._feed)

    def _part_with_the_silent(self) -> None:
        patience = self._connections.answer_seconds
        now = time.monotonic()
        for line in [line for line in self._lines if line.waiting]:
            if now - line.heard > patience:
                line.answered = 0
                self._drop(line)
