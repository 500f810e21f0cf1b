"""MD5 of large bodies while they arrive: those that arrive at the same time are digested together.

A stream hands over full pieces and goes on reading; when its memory is full it takes others'
pieces along and digests up to eight in one pass, in the thread that has to wait anyway. Without
the compiled library each stream is `hashlib`'s.
"""

import hashlib
from collections import deque
from itertools import islice
from threading import Condition
from typing import Protocol, final

from perago.adapters.transfer.md5_library import (
    COMPANY_MIN,
    LANES,
    Block,
    Md5State,
    Take,
    md5_end,
)

PIECE_BYTES = 512 * 1024
PIECES_MAX = 3  # of one stream: one is filled while others wait for company
ALONE_BYTES = 1024 * 1024


class Md5Stream(Protocol):
    """One body: `room` is filled, `take` says how far, again and again."""

    def room(self) -> memoryview:
        """Where the next bytes may be put; never empty."""
        ...

    def take(self, count: int) -> None:
        """So many bytes were put there."""
        ...

    def hexdigest(self) -> str:
        """The digest of all that was taken; nothing may follow."""
        ...

    def close(self) -> None:
        """Nobody digests it any more."""
        ...


@final
class Md5Streams:
    """The streams of one process."""

    def __init__(self, library: Take | None) -> None:
        self._library = library
        self._changed = Condition()
        self._ready: dict[_LaneStream, None] = {}  # in the order in which they became so
        self._open = 0
        self._digesting = 0

    def open(self) -> Md5Stream:
        """A stream, to be closed whatever happens."""
        if self._library is None:
            return _HashlibStream()
        with self._changed:
            self._open += 1
        return _LaneStream(self)

    def forget(self, stream: "_LaneStream") -> None:
        """Digest it no more; the pass that is under way goes on."""
        with self._changed:
            self._ready.pop(stream, None)
            self._open -= not stream.is_over
            stream.is_over = True
            self._changed.notify_all()

    def offer(self, stream: "_LaneStream", piece: Block) -> None:
        """A full piece, to be digested before its memory is used again."""
        with self._changed:
            stream.full.append(piece)
            if not stream.is_away:
                self._ready[stream] = None

    def digest_until(self, stream: "_LaneStream", pieces_max: int) -> None:
        """Digest, and wait for who digests, until no more than so many pieces of it are left."""
        assert self._library is not None, "a stream of lanes has its library"
        while True:
            with self._changed:
                while len(stream.full) > pieces_max and not self._may_digest(stream):
                    self._changed.wait()
                if len(stream.full) <= pieces_max:
                    return
                company = self._company(stream)
                self._digesting += 1
            try:
                self._library([(each.state, each.full[0]) for each in company], PIECE_BYTES)
            finally:
                with self._changed:
                    self._digesting -= 1
                    for each in company:
                        self._come_back(each)
                    self._changed.notify_all()

    def take_end(self, stream: "_LaneStream", end: Block, size: int) -> None:
        """The last blocks of a stream, alone."""
        assert self._library is not None, "a stream of lanes has its library"
        self._library([(stream.state, end)], size)

    def _may_digest(self, stream: "_LaneStream") -> bool:
        """Whether nobody digests it and nobody is worth waiting for; the lock is held."""
        at_once = self._open if self._open < COMPANY_MIN else max(1, self._open // LANES)
        return not stream.is_away and self._digesting < at_once

    def _company(self, stream: "_LaneStream") -> "list[_LaneStream]":
        """It and those that have waited longest, each with its oldest piece; the lock is held."""
        del self._ready[stream]
        company = [stream, *islice(self._ready, LANES - 1)]
        for each in company[1:]:
            del self._ready[each]
        for each in company:
            each.is_away = True
        return company

    def _come_back(self, stream: "_LaneStream") -> None:
        """One piece less; the lock is held."""
        stream.is_away = False
        stream.spare.append(stream.full.popleft())
        if stream.full and not stream.is_over:
            self._ready[stream] = None


@final
class _LaneStream:
    """Fills pieces; what is full and who is away belong to the lock of all streams."""

    def __init__(self, streams: Md5Streams) -> None:
        self._streams = streams
        self.state = Md5State()
        self.full: deque[Block] = deque()
        self.spare: list[Block] = []
        self.is_away = self.is_over = False
        self._made = 0
        self._filling: Block | None = None
        self._filled = 0
        self._length = 0

    def room(self) -> memoryview:
        """The rest of the piece that is being filled."""
        if self._filling is None:
            self._filling, self._filled = self._piece(), 0
        return self._filling.view[self._filled :]

    def take(self, count: int) -> None:
        """Offer the piece once it is full."""
        assert self._filling is not None, "room was asked for"
        self._filled += count
        self._length += count
        if self._filled == PIECE_BYTES:
            self._streams.offer(self, self._filling)
            self._filling = None

    def hexdigest(self) -> str:
        """Digest what is left."""
        self._streams.digest_until(self, 0)
        rest = b"" if self._filling is None else bytes(self._filling.view[: self._filled])
        rest += md5_end(self._length)
        end = Block(len(rest))
        end.view[:] = rest
        self._streams.take_end(self, end, len(rest))
        return self.state.hexdigest()

    def close(self) -> None:
        """Leave the others."""
        self._streams.forget(self)

    def _piece(self) -> Block:
        """Memory that nobody reads any more."""
        if self._made < PIECES_MAX:
            self._made += 1
            return Block(PIECE_BYTES)
        if not self.spare:
            self._streams.digest_until(self, PIECES_MAX - 1)
        return self.spare.pop()


@final
class _HashlibStream:
    """One piece, digested as it comes."""

    def __init__(self) -> None:
        self._digest = hashlib.md5(usedforsecurity=False)
        self._piece = memoryview(bytearray(ALONE_BYTES))

    def room(self) -> memoryview:
        """All of it."""
        return self._piece

    def take(self, count: int) -> None:
        """Digest at once."""
        self._digest.update(self._piece[:count])

    def hexdigest(self) -> str:
        """What `hashlib` says."""
        return self._digest.hexdigest()

    def close(self) -> None:
        """It was alone."""
