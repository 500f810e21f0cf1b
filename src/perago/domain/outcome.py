"""What became of an effect on the target branch, and how a task's result is stored in commits.

The answers of lakeFS to a merge and to a relocation are values. `NoAnswer` is one of its own:
treating a lost answer as "did not happen" publishes twice. `split_result` and `join_result`
carry a result through commit metadata, so that a retry finds it without running the function.
"""

import base64
import binascii
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, cast

from perago.domain.commit_metadata import RESULT, RESULT_PART, RESULT_PARTS
from perago.domain.errors import DamagedResultError, ResultNotStorableError, ResultTooLargeError
from perago.domain.lakefs import CommitId


@dataclass(frozen=True, slots=True)
class Published:
    """The effect is on the target branch as this commit."""

    ref: CommitId


@dataclass(frozen=True, slots=True)
class NotPublished:
    """The effect did not happen and never will."""

    code: str
    reason: str
    is_of_the_commit: bool = False
    """Whether the reason lies in what is to be published, so that sending it again cannot help."""


@dataclass(frozen=True, slots=True)
class Merged:
    """200: the merge made this commit."""

    commit: CommitId


@dataclass(frozen=True, slots=True)
class _Said:
    """An answer of which the server's words are all that is kept."""

    text: str


class HeadMoved(_Said):
    """412 with our hook's text: the target's head is not the expected one."""


class RefusedByHook(_Said):
    """412 without our text: a hook that is not ours refused."""


class BrokenActions(_Said):
    """Another `hook aborted` that is an answer: a file under `_lakefs_actions/` cannot be used."""


class MergeConflict(_Said):
    """409: a conflict, or a lost race (conflicts are computed before the hook runs)."""


class NoChanges(_Said):
    """400 `no changes`: the staged commit is already an ancestor; never success."""


class DirtyTarget(_Said):
    """400 dirty branch: another writer left uncommitted objects on the target."""


class TooManyTries(_Said):
    """423 or 429: the server gave up after its own retries; nothing happened."""


class MergeRefused(_Said):
    """Any other 4xx: the request was understood and refused."""


class NoAnswer(_Said):
    """499, 503, another 5xx, a time-out or a broken connection after the request left."""


MergeAnswer: TypeAlias = (
    Merged
    | HeadMoved
    | RefusedByHook
    | BrokenActions
    | MergeConflict
    | NoChanges
    | DirtyTarget
    | TooManyTries
    | MergeRefused
    | NoAnswer
)


@dataclass(frozen=True, slots=True)
class Relocated:
    """204: the branch points to the asked commit."""


@dataclass(frozen=True, slots=True)
class RelocationRefused:
    """4xx: the branch did not move; `protected` when branch protection was the reason."""

    text: str
    protected: bool = False


RelocationAnswer: TypeAlias = Relocated | RelocationRefused | NoAnswer


METADATA_BYTES_MAX = 128 * 1024
"""Stores behind lakeFS cap an item near 400 KB; the other metadata needs room as well."""

RESULT_BYTES_MAX = 3 * 1024 * 1024
"""Canonical JSON; Conductor keeps larger outputs elsewhere."""

# How a stored text begins, so that it says itself how it is to be read.
_JSON = "json:"
_ZLIB = "zlib:"


@dataclass(frozen=True, slots=True)
class StoredResult:
    """Metadata of the staged commit, and of each empty commit below it, the lowest first."""

    metadata: Mapping[str, str]
    below: tuple[Mapping[str, str], ...] = ()


def split_result(result: Mapping[str, object]) -> StoredResult:
    """Turn a result into metadata, in as few commits as the limit of one allows."""
    text = _encode(canonical_json(result))
    if len(text.encode()) <= METADATA_BYTES_MAX:
        return StoredResult({RESULT: text})
    pieces = list(_pieces(text.encode()))
    return StoredResult(
        {RESULT_PARTS: str(len(pieces))},
        tuple({RESULT: piece, RESULT_PART: str(n)} for n, piece in enumerate(pieces, start=1)),
    )


def join_result(staged: Mapping[str, str], below: Sequence[Mapping[str, str]]) -> dict[str, object]:
    """Read a result back from the staged commit and the commits below it, in whatever order.

    Commits that carry no piece are passed over: a body may have committed on its own branch.
    """
    whole, parts = staged.get(RESULT), staged.get(RESULT_PARTS)
    if whole is not None and parts is None:
        return _decode(whole)
    if whole is None and parts is not None:
        return _decode("".join(_collect(parts, below)))
    raise DamagedResultError(f"expected one of {RESULT} and {RESULT_PARTS} on the staged commit")


def canonical_json(result: Mapping[str, object]) -> str:
    """One text for equal results: sorted keys, no spaces, no NaN."""
    text = _dump(result, ensure_ascii=False)
    try:
        size = len(text.encode())
    except UnicodeEncodeError:  # half of a surrogate pair is JSON, but not UTF-8
        text = _dump(result, ensure_ascii=True)
        size = len(text)
    if size > RESULT_BYTES_MAX:
        raise ResultTooLargeError(size, RESULT_BYTES_MAX)
    return text


def _dump(result: Mapping[str, object], *, ensure_ascii: bool) -> str:
    try:
        return json.dumps(
            result,
            sort_keys=True,
            separators=(",", ":"),
            allow_nan=False,
            ensure_ascii=ensure_ascii,
        )
    except (TypeError, ValueError, RecursionError) as error:
        raise ResultNotStorableError(str(error)) from error


def _encode(text: str) -> str:
    """The shorter of the two forms; plain JSON can be read by people, so it wins a tie."""
    packed = base64.b64encode(zlib.compress(text.encode())).decode()
    return _ZLIB + packed if len(packed) < len(text.encode()) else _JSON + text


def _pieces(content: bytes) -> Iterator[str]:
    """Cut UTF-8 into pieces that fit, never inside a character."""
    start = 0
    while start < len(content):
        end = min(start + METADATA_BYTES_MAX, len(content))
        while end < len(content) and content[end] & 0xC0 == 0x80:  # noqa: PLR2004 - UTF-8
            end -= 1
        yield content[start:end].decode()
        start = end


def _collect(parts: str, below: Sequence[Mapping[str, str]]) -> list[str]:
    """The pieces in order: each number from 1 to `parts` exactly once."""
    numbered = [record for record in below if RESULT_PART in record]
    pieces = {record[RESULT_PART]: record.get(RESULT, "") for record in numbered}
    names = [str(n + 1) for n in range(len(numbered))]
    if parts != str(len(numbered)) or sorted(pieces) != sorted(names):
        found = ", ".join(record[RESULT_PART] for record in numbered) or "none"
        raise DamagedResultError(f"expected {parts} pieces below the staged commit, found {found}")
    return [pieces[name] for name in names]


def _decode(stored: str) -> dict[str, object]:
    try:
        result: object = json.loads(_unpack(stored))
    except (ValueError, zlib.error, RecursionError) as error:
        raise DamagedResultError(f"{type(error).__name__}: {error}") from error
    if not isinstance(result, dict):
        raise DamagedResultError(f"expected a JSON object, found {type(result).__name__}")
    return cast("dict[str, object]", result)


def _unpack(stored: str) -> str:
    if stored.startswith(_JSON):
        return stored.removeprefix(_JSON)
    if not stored.startswith(_ZLIB):
        raise DamagedResultError(f"expected {_JSON} or {_ZLIB}, found {stored[:8]!r}")
    try:
        packed = base64.b64decode(stored.removeprefix(_ZLIB), validate=True)
    except binascii.Error as error:
        raise DamagedResultError(f"not base64: {error}") from error
    unpacker = zlib.decompressobj()
    content = unpacker.decompress(packed, RESULT_BYTES_MAX + 1)
    if not unpacker.eof or len(content) > RESULT_BYTES_MAX:
        raise DamagedResultError("the compressed text is cut, or larger than any stored result")
    return content.decode()
