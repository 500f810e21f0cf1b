"""Bytes that arrive, onto the disk: verified, and never visible before they are.

Small bodies are verified in memory and written once; large ones go to a temporary name beside
their target. Knows no HTTP but an answer to read from.
"""

import errno
import hashlib
import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from http.client import HTTPResponse
from pathlib import Path
from threading import get_ident

from perago.adapters.transfer.failures import BrokenError
from perago.domain.object_checksum import md5_of_checksum
from perago.ports.errors import DamagedObjectError, LocalDiskError
from perago.ports.object_transport import Fetched, FetchOrder, stamp_of

WHOLE_BYTES_MAX = 1024 * 1024
# hashlib lets other threads run while it digests a piece, so pieces must not be small.
PIECE_BYTES = 512 * 1024
PART_PREFIX = ".perago-part-"


@contextmanager
def local_disk(path: Path) -> Generator[None]:
    """Tell the local disk's refusals from the network's: both are OSError."""
    try:
        yield
    except OSError as error:
        raise disk_refusal(path, error) from error


def disk_refusal(path: Path, error: OSError) -> LocalDiskError:
    """The error for one refusal of the local disk."""
    reason = (error.strerror or str(error)).lower()
    full = error.errno in {errno.ENOSPC, errno.EDQUOT}
    remedy = "; free space or move PERAGO_WORKSPACE_ROOT to a larger disk" if full else ""
    return LocalDiskError(f"{path}: {reason}{remedy}")


def land(order: FetchOrder, answer: HTTPResponse) -> str:
    """Write an answer's body to the order's target and give its MD5."""
    if order.entry.size <= WHOLE_BYTES_MAX:
        content = answer.read(order.entry.size + 1)
        answer.read()
        md5 = hashlib.md5(content, usedforsecurity=False).hexdigest()
        verify(order, len(content), md5, broken=bool(answer.length))
        with local_disk(order.target):
            write_new(order.where, content)
        return md5
    return _land_stream(order, answer)


def land_whole(order: FetchOrder, content: memoryview) -> Fetched:
    """Write a body that is in memory to the order's target."""
    md5 = hashlib.md5(content, usedforsecurity=False).hexdigest()
    verify(order, len(content), md5)
    try:
        status = write_new(order.where, content)
    except OSError as error:
        raise disk_refusal(order.target, error) from error
    return Fetched(order, md5, stamp_of(status))


def verify(order: FetchOrder, size: int, md5: str, *, broken: bool = False) -> None:
    """Raise unless the bytes are those the listing promised."""
    if broken:
        raise BrokenError(f"{size} of {order.entry.size} bytes arrived")
    expected = md5_of_checksum(order.entry.checksum) or md5
    if (size, md5) != (order.entry.size, expected):
        raise DamagedObjectError(
            f"{order.entry.path} arrived damaged: expected {order.entry.size} bytes with MD5"
            f" {expected}, found {size} bytes with MD5 {md5}; nothing was used"
        )


def write_new(target: str | Path, content: bytes | memoryview) -> os.stat_result:
    """Write a file that does not exist yet; on a refusal it does not exist afterwards."""
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        written = os.write(descriptor, content)
        if written != len(content):
            _write_all(descriptor, memoryview(content)[written:])
        return os.fstat(descriptor)
    except BaseException:
        os.unlink(target)  # noqa: PTH108 - the name may be text
        raise
    finally:
        os.close(descriptor)


@contextmanager
def part_file(target: Path) -> Generator[Path]:
    """A temporary name beside a target; whatever happens, it is gone afterwards."""
    part = target.with_name(f"{PART_PREFIX}{get_ident()}-{os.getpid()}")
    try:
        yield part
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


def _land_stream(order: FetchOrder, answer: HTTPResponse) -> str:
    size, digest = 0, hashlib.md5(usedforsecurity=False)
    buffer = memoryview(bytearray(PIECE_BYTES))
    with part_file(order.target) as part:
        with local_disk(part):
            descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        try:
            while count := answer.readinto(buffer):
                size += count
                with local_disk(part):
                    _write_all(descriptor, buffer[:count])
                digest.update(buffer[:count])
        finally:
            os.close(descriptor)
        md5 = digest.hexdigest()
        verify(order, size, md5, broken=bool(answer.length))
        with local_disk(order.target):
            part.rename(order.target)
    return md5


def _write_all(descriptor: int, content: memoryview) -> None:
    while content:
        content = content[os.write(descriptor, content) :]
