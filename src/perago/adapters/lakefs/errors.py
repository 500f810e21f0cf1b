"""What became of one request to lakeFS, and what that means: a port error or an answer.

The only place that knows the server's statuses and texts. It trusts no conclusion that came from
something else than lakeFS. Must not know who asked, nor what follows.
"""

import json
import re
from dataclasses import dataclass
from typing import TypeAlias, cast

from perago.adapters.http import without_query
from perago.domain import outcome
from perago.domain.fence import HEAD_MOVED_TEXT
from perago.ports import errors

# Of HTTP's classes of status: from 400 on the request is at fault, from 500 on the server.
FIRST_REFUSAL = 400
FIRST_SERVER_ERROR = 500

# lakeFS 1.86 gives several reasons the same status, so its words have to tell them apart.
_HOOK_ABORTED = "hook aborted"
_NO_CHANGES = "no changes"
_DIRTY = re.compile(r"dirty branch|uncommitted changes")
_TAKEN = re.compile(r"not unique|already exists")
_BRANCH_MISSING = re.compile(r"^branch not found$|^branch '[^']*' not found$")
# A commit on an absent branch fails where its hooks are listed; a broken file names itself.
_NO_BRANCH_TO_LIST = re.compile(r"(?s)prepare-commit hook aborted.*listing actions: not found$")
# `main^2` of a commit with one parent, or `name@` of what is no branch.
_MEANS_NOTHING = re.compile(r"^ref: (ref: )?invalid value")
# Hooks are read from the block store, and their log is written there. lakeFS says a failure of that
# in the words of the store's library or in its own, and nothing about the files.
_STORE_FAILED = re.compile(
    r'operation error |(Get|Head|Put|Post) "https?://'
    r"|loading file |list actions from commit|failed to write action log"
)
_NOT_A_PERMISSION = re.compile(r"read-only|default branch")

_SAID = re.compile(r"(?s)<(Code|Message)>(.*?)</\1>")

TEXT_MAX_CHARACTERS = 2000  # a hook's whole refusal fits; the page of a proxy need not
# A caller concludes something from these, so only lakeFS itself may say them: a proxy's own 404
# during a deployment would otherwise read as "there is no such tag".
_CONCLUSIVE_STATUSES = frozenset({404, 409, 412})
_NO_SUCH_ENDPOINT = "invalid API endpoint"


@dataclass(frozen=True, slots=True)
class Refused:
    """lakeFS, or a proxy before it, answered with this status and said this."""

    status: int
    text: str


@dataclass(frozen=True, slots=True)
class Lost:
    """The request left and no usable answer came; `broken` when its connection broke."""

    text: str
    broken: bool = False


@dataclass(frozen=True, slots=True)
class NotSent:
    """No connection was made: nothing can have happened."""

    text: str


Failure: TypeAlias = Refused | Lost | NotSent


def read_refusal(status: int, body: str) -> Refused | Lost:
    """Read the body of an answer whose status is not a success."""
    try:
        document: object = json.loads(body)
    except ValueError:
        document = None
    if isinstance(document, dict):
        message = str(cast("dict[str, object]", document).get("message", ""))
        if message != _NO_SUCH_ENDPOINT:
            return Refused(status, message)
    elif status not in _CONCLUSIVE_STATUSES:
        return Refused(status, shortened(body))
    text = f"status {status} from something that is no lakeFS API: {shortened(body)}"
    return Lost(text)


def store_refusal(status: int, page: str) -> Refused:
    """Read the page of a block store, which knows no lakeFS: its status says all that counts.

    S3, Google and Azure answer a wrong signature with XML that quotes it beside these elements.
    """
    said = ": ".join(match[2] for match in _SAID.finditer(page)) or page
    return Refused(status, f"the block store says {shortened(said) or status}")


def shortened(text: str) -> str:
    """Text that fits into a message, where a web page does not, and shows no signature."""
    text = without_query(text)
    return text if len(text) <= TEXT_MAX_CHARACTERS else f"{text[:TEXT_MAX_CHARACTERS]}..."


@dataclass(frozen=True, slots=True)
class Operation:
    """One request in the words of an error: what is done to what, and what may be missing."""

    name: str
    subject: str
    writes: bool = False
    missing: type[errors.MissingError] = errors.ReferenceMissingError
    taken: type[errors.ExistsError] = errors.ExistsError


def port_error(operation: Operation, failure: Failure) -> errors.ServiceError:
    """The exception that crosses the port.

    not sent                      nothing can have happened
    lost, 408, 499, 5xx, 3xx      unknown after a write, else no usable answer
    any other status              what `_refusal` says
    """
    doing = f"{operation.name} {operation.subject}".rstrip()
    match failure:
        case NotSent(text):
            return errors.UnavailableError(
                f"{doing}: lakeFS was not reached, nothing was sent: {text}"
            )
        case Lost(text):
            return _unanswered(operation, text)
        case Refused(status, text) if is_no_answer(failure):
            return _unanswered(operation, f"status {status}: {text}")
        case Refused(status, text):
            return _refusal(operation, status, text)(f"{doing}: {text or f'status {status}'}")


def merge_answer(operation: Operation, failure: Failure) -> outcome.MergeAnswer:
    """What lakeFS answered to a merge; raises when it never reached a branch."""
    match failure:
        case NotSent():
            raise port_error(operation, failure)
        case Lost(text):
            return outcome.NoAnswer(text)
        case Refused(412, text):
            return (
                outcome.HeadMoved(text) if HEAD_MOVED_TEXT in text else outcome.RefusedByHook(text)
            )
        case Refused(status, text) if is_no_answer(failure):
            return outcome.NoAnswer(f"status {status}: {text}")
        case Refused(status, text) if _HOOK_ABORTED in text:
            return outcome.BrokenActions(f"status {status}: {text}")
        case Refused(404):
            raise port_error(operation, failure)
        case Refused(409, text):
            return outcome.MergeConflict(text or "conflict")
        case Refused(400, text) if _NO_CHANGES in text:
            return outcome.NoChanges(text)
        case Refused(400, text) if _DIRTY.search(text):
            return outcome.DirtyTarget(text)
        case Refused(423 | 429, text):
            return outcome.TooManyTries(text)
        case Refused(status, text):
            return outcome.MergeRefused(f"status {status}: {text}")


def relocation_answer(operation: Operation, failure: Failure) -> outcome.RelocationAnswer:
    """What lakeFS answered to a hard reset; raises when there was nothing to relocate."""
    match failure:
        case NotSent() | Refused(404):
            raise port_error(operation, failure)
        case Lost(text):
            return outcome.NoAnswer(text)
        case Refused(status, text) if is_no_answer(failure):
            return outcome.NoAnswer(f"status {status}: {text}")
        case Refused(403, text) if "protected branch" in text:
            return outcome.RelocationRefused(text, protected=True)
        case Refused(status, text):
            return outcome.RelocationRefused(f"status {status}: {text}")


def is_unknown(failure: Failure) -> bool:
    """Whether a write that failed in this way may have happened."""
    return isinstance(failure, Lost) or (isinstance(failure, Refused) and is_no_answer(failure))


def is_no_answer(failure: Refused) -> bool:
    """Whether a status says nothing of what the server did: a redirect is not followed either.

    A server error that says what was refused is an answer: nothing happened then. That the block
    store was away while hooks were read or their log was written is none: later it may be there.
    """
    if failure.status >= FIRST_SERVER_ERROR:
        is_of_hook = _HOOK_ABORTED in failure.text and not _STORE_FAILED.search(failure.text)
        return not is_of_hook and not _MEANS_NOTHING.search(failure.text)
    return failure.status < FIRST_REFUSAL or failure.status in {408, 499}


def _unanswered(operation: Operation, text: str) -> errors.ServiceError:
    doing = f"{operation.name} {operation.subject}".rstrip()
    if operation.writes:
        return errors.OutcomeUnknownError(
            f"{doing}: the request left and no usable answer came: {text}"
        )
    return errors.UnavailableError(f"{doing}: no usable answer: {text}")


def _refusal(operation: Operation, status: int, text: str) -> type[errors.ServiceError]:
    by_hook = _HOOK_ABORTED in text
    match status:
        case _ if by_hook and _NO_BRANCH_TO_LIST.search(text):
            return errors.BranchMissingError
        case 412 if by_hook:
            return errors.RequestRefusedError
        case _ if by_hook:
            return errors.BrokenActionsError
        case 400 if _NO_CHANGES in text:
            return errors.NothingToCommitError
        case 400 if _DIRTY.search(text):
            return errors.DirtyBranchError
        case 400 | 500 if _MEANS_NOTHING.search(text):
            return operation.missing
        case 401 | 403 if "protected branch" in text:
            return errors.ProtectedBranchError
        case 403 if _NOT_A_PERMISSION.search(text):
            return errors.RequestRefusedError
        case 401 | 403:
            return errors.AccessDeniedError
        case 404 if text == "repository not found":
            return errors.RepositoryMissingError
        case 404 if _BRANCH_MISSING.search(text):
            return errors.BranchMissingError
        case 404:
            return operation.missing
        case 409:
            return operation.taken if _TAKEN.search(text) else errors.ExistsError
        case 423 | 429:
            return errors.UnavailableError
        case _:
            return errors.RequestRefusedError
