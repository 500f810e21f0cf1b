"""The compiled MD5 of several streams in one pass, where its build found a C compiler.

Loads and declares it, and tries it once: a library that says something else than `hashlib` is not
used. What is digested with whom is decided by `md5_streams`.
"""

import ctypes
import hashlib
import struct
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TypeAlias, final

LANES = 8
COMPANY_MIN = 3  # fewer streams are taken one after the other
BLOCK_BYTES = 64
LIBRARY = Path(__file__).with_name("_md5_lanes.so")
_BEGIN = struct.pack("<4I", 0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476)


@final
class Md5State:
    """How far one stream has come: whole blocks, until `digest` adds the end."""

    __slots__ = ("address", "memory")

    def __init__(self) -> None:
        self.memory = ctypes.create_string_buffer(_BEGIN, len(_BEGIN))
        self.address = ctypes.addressof(self.memory)

    def hexdigest(self) -> str:
        """The state as it is written."""
        return self.memory.raw.hex()


@final
class Block:
    """Memory that does not move: read into by Python, read by the library."""

    __slots__ = ("_memory", "address", "view")

    def __init__(self, size: int) -> None:
        self._memory = ctypes.create_string_buffer(size)
        self.address = ctypes.addressof(self._memory)
        self.view = memoryview(self._memory).cast("B")


# The bytes are whole blocks, as many of each stream.
Take: TypeAlias = Callable[[Sequence[tuple[Md5State, Block]], int], None]


@cache
def md5_library(library: Path = LIBRARY) -> Take | None:
    """What takes so many bytes of each of up to LANES streams, if it was compiled."""
    try:
        compress = ctypes.CDLL(str(library)).perago_md5
    except (OSError, AttributeError):
        return None
    compress.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)
    compress.restype = None
    addresses = ctypes.c_void_p * LANES

    def take(streams: Sequence[tuple[Md5State, Block]], size: int) -> None:
        states = addresses(*(state.address for state, _ in streams))
        data = addresses(*(block.address for _, block in streams))
        compress(states, data, len(streams), size // BLOCK_BYTES)

    return take if says_as_hashlib(take) else None


def md5_end(length: int) -> bytes:
    """What follows the last byte of a stream of that length, in whole blocks with its rest."""
    rest = length % BLOCK_BYTES
    zeros = (BLOCK_BYTES - 9 - rest) % BLOCK_BYTES
    return b"\x80" + bytes(zeros) + struct.pack("<Q", 8 * length & (1 << 64) - 1)


def says_as_hashlib(take: Take) -> bool:
    """Whether one and eight streams come out as `hashlib` says."""
    for streams in (1, LANES):
        begun = [(Md5State(), Block(2 * BLOCK_BYTES)) for _ in range(streams)]
        for number, (_, block) in enumerate(begun):
            block.view[:] = (bytes([number]) * BLOCK_BYTES) + md5_end(BLOCK_BYTES)
        take(begun, 2 * BLOCK_BYTES)
        for number, (state, _) in enumerate(begun):
            text = bytes([number]) * BLOCK_BYTES
            if state.hexdigest() != hashlib.md5(text, usedforsecurity=False).hexdigest():
                return False
    return True
