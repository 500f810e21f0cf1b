"""Object paths and local paths, reserved paths, and the MD5 in a checksum.

A name either round-trips exactly between lakeFS and the disk, or `name_problem` says why not.
`collision` finds two paths that one directory cannot hold. Reserved are lakeFS's action files and
our marker. What a file system folds together is told by the caller: no disk is read here.
"""

import unicodedata
from collections.abc import Collection
from dataclasses import dataclass

ROOT_PREFIX = "/"  # as in 0.6.1; object paths do not start with a slash, so no folder is named so
SEGMENT_BYTES_MAX = 255  # NAME_MAX of ext4, XFS and APFS: a longer name cannot be a file
SEGMENTS_MAX = 500
"""Python's own tools for directories recurse a level for each segment, and give up near 1,000."""
_DRIVE_LETTER_LENGTH = 2  # `C:`
_ODD = ("\\", "\x00", ":", "//", "/./", "/../")  # more than what a name may not have


@dataclass(frozen=True, slots=True)
class NameRules:
    """What the local file system cannot tell apart or hold."""

    folds_case: bool = False
    folds_unicode: bool = False
    path_bytes_max: int = 3800  # PATH_MAX of Linux (4096) less room for the workspace root


DEFAULT_NAME_RULES = NameRules()


def listing_prefix(prefix: str) -> str:
    """The string prefix of a listing: with its slash, so that siblings stay out."""
    return "" if prefix == ROOT_PREFIX else f"{prefix}/"


def object_path(prefix: str, relative: str) -> str:
    """The object that a relative path of the workspace stands for."""
    return listing_prefix(prefix) + relative


def relative_path(prefix: str, path: str) -> str | None:
    """The workspace path of an object, or None for an object outside the prefix."""
    outer = listing_prefix(prefix)
    return path[len(outer) :] if path.startswith(outer) else None


def is_directory_marker(path: str, size: int) -> bool:
    """Whether an object only says that a directory exists, as Spark's S3A leaves behind."""
    return size == 0 and (not path or path.endswith("/"))


def name_problem(relative: str, rules: NameRules = DEFAULT_NAME_RULES) -> str | None:
    """Say why a path cannot stand in lakeFS and on disk alike, or None when it can."""
    # These three on every system: whether a task publishes must not depend on where its worker
    # runs.
    if "\\" in relative:
        return "contains a backslash"
    if "\x00" in relative:
        return "contains a NUL character"
    if len(relative) >= _DRIVE_LETTER_LENGTH and relative[0].isalpha() and relative[1] == ":":
        return "starts with a drive letter"
    try:
        encoded = relative.encode("utf-8")
    except UnicodeEncodeError:
        return "is not valid Unicode"
    if len(encoded) > rules.path_bytes_max:
        return f"is longer than {rules.path_bytes_max} bytes"
    return _segment_problem(relative, checks_length=len(encoded) > SEGMENT_BYTES_MAX)


def are_plain(names: Collection[str], rules: NameRules = DEFAULT_NAME_RULES) -> bool:
    """Whether one look at all names finds nothing odd; otherwise each has to be looked at."""
    text = "/" + "/\n/".join(names) + "/"
    longest = max(map(len, names), default=0)
    return (
        text.isascii()
        and longest <= min(SEGMENT_BYTES_MAX, rules.path_bytes_max)
        and not any(odd in text for odd in _ODD)
    )


def _segment_problem(relative: str, *, checks_length: bool) -> str | None:
    """What is wrong with a segment; a path that is short has none that is too long.

    Every object of a listing comes here, so the segments of short paths are not encoded again.
    """
    if relative.count("/") >= SEGMENTS_MAX:
        return f"has more than {SEGMENTS_MAX} path segments"
    for segment in relative.split("/"):
        if not segment:
            return "has an empty path segment"
        if segment in {".", ".."}:
            return f"has a {segment!r} path segment"
        if checks_length and len(segment.encode("utf-8")) > SEGMENT_BYTES_MAX:
            return f"has a path segment longer than {SEGMENT_BYTES_MAX} bytes"
    return None


def collision(
    paths: Collection[str], rules: NameRules = DEFAULT_NAME_RULES
) -> tuple[str, str] | None:
    """Find two paths that one directory cannot hold together, or None.

    A file beside a directory of its name (`a` and `a/b`), and, where the file system folds them,
    names that differ in case or Unicode normal form only, directories included.
    """
    folds = rules.folds_case or rules.folds_unicode
    spelled: dict[str, str] = {} if folds else dict(zip(paths, paths, strict=True))
    if len(spelled) < len(paths):
        spelled = {}
        for path in paths:
            folded = folded_name(path, rules)
            if folded in spelled:
                return spelled[folded], path
            spelled[folded] = path
    directories: dict[str, str] = {}
    # One path speaks for all of its directory.
    for parent, path in {path.rpartition("/")[0]: path for path in paths}.items():
        above = parent
        while above and directories.get(folded := folded_name(above, rules)) != above:
            if folded in spelled:
                return spelled[folded], path
            if folded in directories:
                return directories[folded] + "/", path
            directories[folded] = above
            above = above.rpartition("/")[0]
    return None


def folded_name(path: str, rules: NameRules) -> str:
    """What the file system takes a path for: two paths that fold alike are one."""
    if rules.folds_unicode:
        path = unicodedata.normalize("NFD", path)
    return path.casefold() if rules.folds_case else path


ACTIONS_PREFIX = "_lakefs_actions/"
# The name of 0.6.1, whose directories are cleaned up after an upgrade as well.
ATTEMPT_MARKER = ".perago-attempt.json"
FENCE_PATH = "_lakefs_actions/perago_publication_fence.yaml"


def path_part_problem(value: str) -> str | None:
    """Say why a value cannot be a part of a folder's name, or None when it can."""
    if not value.strip():
        return "is empty"
    if "/" in value:
        return "contains a slash"
    return name_problem(value)


def prefix_problem(prefix: str) -> str | None:
    """Say why no task can work below a folder, or None; every part of it may be right alone."""
    if is_reserved_object(f"{prefix}/") or ATTEMPT_MARKER in prefix.split("/"):
        return "makes a reserved path"
    return name_problem(prefix)


def is_reserved_object(path: str) -> bool:
    """Whether an object belongs to lakeFS (action files) or to Perago (the marker)."""
    return path.startswith(ACTIONS_PREFIX) or path.rpartition("/")[2] == ATTEMPT_MARKER


def is_refused_object(path: str) -> bool:
    """Whether a body that wrote this object must fail; our own marker is merely invisible."""
    return path.startswith(ACTIONS_PREFIX)


_MD5_LENGTH = 32  # 128 bits in hexadecimal digits; `-N` follows where an object came in N parts
_HEX_DIGITS = "0123456789abcdef"


def md5_of_checksum(checksum: str) -> str | None:
    """The MD5 that a checksum states, or None when it states something else."""
    text = checksum.strip('"').lower()
    return text if len(text) == _MD5_LENGTH and not text.strip(_HEX_DIGITS) else None
