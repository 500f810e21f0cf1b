"""What a Spark job leaves beside its tables, and what it may not have written.

Knows names only; who lists and who deletes is not known here.
"""

from perago.domain.prefix_projection import listing_prefix
from perago.domain.reserved_paths import is_reserved_object

LITTER_NAMES = frozenset({"_SUCCESS", "_temporary", "_started"})
LITTER_SEGMENT_PREFIXES = ("__magic", ".spark-staging-", "_temporary-", "_started_", "_committed_")


def is_job_litter(path: str) -> bool:
    """Whether an object is left over from a commit protocol and no part of any table.

    Directory markers (a trailing slash), `_SUCCESS`, task directories, Hadoop's hidden `.crc`
    files. A `_delta_log` with its own checksums is part of a table.
    """
    if path.endswith("/"):
        return True
    segments = path.split("/")
    name = segments[-1]
    if name.startswith(".") and name.endswith(".crc"):
        return True
    return any(
        segment in LITTER_NAMES or segment.startswith(LITTER_SEGMENT_PREFIXES)
        for segment in segments
    )


def is_foreign_write(path: str, prefix: str) -> bool:
    """Whether a Spark body had no business there: outside the prefix, or a reserved path."""
    return is_reserved_object(path) or not path.startswith(listing_prefix(prefix))
