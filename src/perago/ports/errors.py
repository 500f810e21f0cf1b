"""What outside systems did: the only exceptions that cross a port.

Adapters map their vendor's errors in one file. What follows from an error is not decided here.

Law L0, which every port with effects repeats as its law `lost_answer_is_unknown`: an effect whose
answer is lost raises OutcomeUnknownError, or returns NoAnswer where the port says so. It raises
neither UnavailableError nor a refusal, because callers do something else after those, while the
effect may have happened. An adapter that sends a request again keeps the law as well: when one
answer was lost, what the next request meets says nothing about the first.
"""

import errno
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from perago.domain.hand_back import Cause


class ServiceError(Exception):
    """A port could not do what it was asked; the message names the operation and the object."""

    code = "PRG-L001"
    cause = Cause.SERVICE_AWAY
    """What ended a wait for the service; only of an answer that is missing."""


class MissingError(ServiceError):
    """A repository, branch, commit, tag or object that was named does not exist."""

    code = "PRG-L002"


class RepositoryMissingError(MissingError):
    """There is no such repository."""


class BranchMissingError(MissingError):
    """There is no such branch."""


class ReferenceMissingError(MissingError):
    """There is no such commit or reference."""


class ObjectMissingError(MissingError):
    """There is no such object."""


class ExistsError(ServiceError):
    """The name is taken; what stood there before is untouched."""

    code = "PRG-L004"


class BranchExistsError(ExistsError):
    """A branch of that name exists."""


class TagExistsError(ExistsError):
    """A tag of that name exists."""


class ProtectedBranchError(ServiceError):
    """Branch protection refused a write or a relocation."""

    code = "PRG-L005"


class DirtyBranchError(ServiceError):
    """The branch has uncommitted objects."""

    code = "PRG-F013"


class NothingToCommitError(ServiceError):
    """A commit without changes was asked for and empty commits were not allowed."""

    code = "PRG-L006"


class BrokenActionsError(ServiceError):
    """A file under `_lakefs_actions/` cannot be used and blocks this operation."""

    code = "PRG-F011"


class AccessDeniedError(ServiceError):
    """The credentials were refused, or do not allow this."""

    code = "PRG-L007"


class RequestRefusedError(ServiceError):
    """Any other refusal of a request that was understood."""

    code = "PRG-L003"


class UnavailableError(ServiceError):
    """No usable answer, and nothing can have changed: a read failed, or nothing was sent."""

    code = "PRG-L008"


class WrongServerError(UnavailableError):
    """Another server answers at the address, or one that is not trusted: a setting is wrong."""


class OutcomeUnknownError(ServiceError):
    """The request left and no answer came: it may have happened, and it may still happen."""

    code = "PRG-L009"


def is_away(error: BaseException) -> bool:
    """Whether a service was unreachable, overloaded or silent: asked later, it may answer.

    Every refusal is an answer. It would be the same a minute later.
    """
    return isinstance(error, UnavailableError | OutcomeUnknownError)


class DamagedObjectError(ServiceError):
    """Bytes that arrived are not the bytes that were promised."""

    code = "PRG-L010"


class UnsafeNameError(ServiceError):
    """A name that cannot round-trip between lakeFS and the local disk; nothing was moved."""

    code = "PRG-W002"


class WorkspaceLostError(ServiceError):
    """The attempt's directory is gone or another execution has it; never read as empty."""

    code = "PRG-W003"


DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_DISK_REMEDIES = {
    errno.ENOSPC: "free space or move PERAGO_WORKSPACE_ROOT to a larger disk",
    errno.EDQUOT: "raise the quota or move PERAGO_WORKSPACE_ROOT to another disk",
    errno.EACCES: "give the worker's user access to it",
    errno.EPERM: "give the worker's user access to it",
    errno.EROFS: "move PERAGO_WORKSPACE_ROOT to a writable disk",
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
}


class LocalDiskError(ServiceError):
    """The local disk refused: full, read-only, or not permitted."""

    code = "PRG-W004"
    is_full = False
    """Whether space was missing: that passes, or another machine has more."""

    @classmethod
    def of(cls, path: str | Path, error: OSError) -> Self:
        """The error for one refusal: where, what, and the remedy where there is one."""
        named = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else ""
        # A name without a folder is one of a call on an open directory: it leads a reader nowhere.
        where = named if os.sep in named else path
        reason = error.strerror.lower() if error.strerror else str(error) or type(error).__name__
        remedy = _DISK_REMEDIES.get(error.errno or 0)
        refused = cls(f"{where}: {reason}" + (f"; {remedy}" if remedy else ""))
        refused.is_full = error.errno in DISK_FULL
        return refused


@contextmanager
def disk_errors(path: str | Path) -> Generator[None]:
    """Raise LocalDiskError for whatever the disk refuses inside the block."""
    try:
        yield
    except OSError as error:
        raise LocalDiskError.of(path, error) from error
