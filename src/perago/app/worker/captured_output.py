"""What a process writes to its standard output and error, cut into lines, read without waiting.

Pipes that the parent reads itself: once a body's end was told, everything it printed is in them.
"""

import asyncio
import contextlib
import os
from collections import deque
from collections.abc import Callable
from typing import final

READ_BYTES = 64 * 1024
LINE_BYTES_MAX = 16 * 1024
LAST_LINES = 20


@final
class CapturedOutput:
    """One pipe: its write end for the child, its lines for a function."""

    def __init__(self, take: Callable[[str], None]) -> None:
        self._take = take
        self.read_end, self.write_end = os.pipe()
        os.set_blocking(self.read_end, False)
        self._rest = b""
        self._open = True
        self._loop: asyncio.AbstractEventLoop | None = None
        self.last_lines: deque[str] = deque(maxlen=LAST_LINES)

    def started(self, loop: asyncio.AbstractEventLoop) -> None:
        """The child has its end: close ours, and read from now on."""
        os.close(self.write_end)
        loop.add_reader(self.read_end, self.drain)
        self._loop = loop

    def drain(self) -> None:
        """Take everything that is in the pipe now."""
        while self._open:
            try:
                data = os.read(self.read_end, READ_BYTES)
            except BlockingIOError:
                return
            if not data:
                self.close()
                return
            self._cut(data)

    def close(self) -> None:
        """Read no more; a line without its end is a line."""
        if not self._open:
            return
        self._open = False
        if self._loop is None:  # never started: the write end is still ours
            os.close(self.write_end)
        else:
            self._loop.remove_reader(self.read_end)
        with contextlib.suppress(OSError):
            os.close(self.read_end)
        if self._rest:
            self._line(self._rest)
            self._rest = b""

    def _cut(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._line(line)
        if len(self._rest) > LINE_BYTES_MAX:
            self._line(self._rest)
            self._rest = b""

    def _line(self, line: bytes) -> None:
        text = line.decode("utf-8", "replace").rstrip("\r")
        self.last_lines.append(text)
        self._take(text)
