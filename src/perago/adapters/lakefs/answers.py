"""What lakeFS answered to one request: values of the ports, a port error, or an answer to a merge.

The only place that knows the server's JSON, its statuses and its texts. It trusts no conclusion
that came from something else than lakeFS. Must not know who asked, nor what follows.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, TypeAlias, TypeVar, cast

from perago.adapters.http import without_query
from perago.domain import outcome
from perago.domain.fence import HEAD_MOVED_TEXT
from perago.domain.lakefs import BranchName, CommitId, CommitRecord, RepositoryId
from perago.ports import errors
from perago.ports.installations import ServerFacts
from perago.ports.lakefs import Change, ChangeKind, RepositoryFacts
from perago.ports.objects import DEFAULT_CONTENT_TYPE, ObjectEntry, Page

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
# Of lakeFS, and of Conductor: exchanged addresses must not look like a repository that is missing.
_NO_SUCH_ENDPOINT = ("invalid API endpoint", "No static resource ")
# Locked, too early, too many requests: nothing was done, and the next try may be answered.
_SERVER_ASKS_TO_WAIT = frozenset({423, 425, 429})

Value = TypeVar("Value")


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
class NotLakeFS(Lost):
    """Something that is no lakeFS API answered."""


@dataclass(frozen=True, slots=True)
class NotSent:
    """No connection was made: nothing can have happened."""

    text: str


Failure: TypeAlias = Refused | Lost | NotSent


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
    match _as_lost_where_unknown(failure):
        case NotSent(text):
            return errors.UnavailableError(
                f"{doing}: lakeFS was not reached, nothing was sent: {text}"
            )
        case Lost(text) if operation.writes:
            return errors.OutcomeUnknownError(
                f"{doing}: the request left and no usable answer came: {text}"
            )
        case Lost(text):
            return errors.UnavailableError(f"{doing}: no usable answer: {text}")
        case Refused(status, text):
            return _refusal(operation, status, text)(f"{doing}: {text or f'status {status}'}")


def merge_answer(operation: Operation, failure: Failure) -> outcome.MergeAnswer:
    """What lakeFS answered to a merge; raises when it never reached a branch."""
    match _as_lost_where_unknown(failure):
        case NotSent():
            raise port_error(operation, failure)
        case Lost(text):
            return outcome.NoAnswer(text)
        case Refused(412, text):
            return (
                outcome.HeadMoved(text) if HEAD_MOVED_TEXT in text else outcome.RefusedByHook(text)
            )
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
    match _as_lost_where_unknown(failure):
        case NotSent() | Refused(404):
            raise port_error(operation, failure)
        case Lost(text):
            return outcome.NoAnswer(text)
        case Refused(403, text) if "protected branch" in text:
            return outcome.RelocationRefused(text, protected=True)
        case Refused(status, text):
            return outcome.RelocationRefused(f"status {status}: {text}")


def is_unknown(failure: Failure) -> bool:
    """Whether a write that failed in this way may have happened."""
    return isinstance(_as_lost_where_unknown(failure), Lost)


def _as_lost_where_unknown(failure: Failure) -> Failure:
    """The failure; a status that says nothing of what the server did is a lost answer."""
    if isinstance(failure, Refused) and is_no_answer(failure):
        return Lost(f"status {failure.status}: {failure.text}")
    return failure


def is_no_answer(failure: Refused) -> bool:
    """Whether a status says nothing of what the server did: a redirect is not followed either.

    A server error that says what was refused is an answer: nothing happened then. That the block
    store was away while hooks were read or their log was written is none: later it may be there.
    """
    if failure.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        is_of_hook = _HOOK_ABORTED in failure.text and not _STORE_FAILED.search(failure.text)
        return not is_of_hook and not _MEANS_NOTHING.search(failure.text)
    return failure.status < HTTPStatus.BAD_REQUEST or failure.status in {408, 499}


def is_worth_repeating(failure: Failure) -> bool:
    """Whether another attempt may be answered differently.

    not sent, lost            yes
    408, 499, 5xx             yes, unless the server says what it refuses
    423, 425, 429             yes
    redirect, another 4xx     no
    """
    match failure:
        case NotSent() | Lost():
            return True
        case Refused(status):
            return status in _SERVER_ASKS_TO_WAIT or (
                status >= HTTPStatus.BAD_REQUEST and is_no_answer(failure)
            )


def asked_for_seconds(headers: Mapping[str, str]) -> float | None:
    """What `Retry-After` asks for: seconds, or a time, which the answer's own clock measures."""
    text = headers.get("retry-after", "").strip()
    if text.isdecimal():
        return float(text)
    try:
        until = parsedate_to_datetime(text)
        return max(0.0, (until - parsedate_to_datetime(headers["date"])).total_seconds())
    except (KeyError, TypeError, ValueError):
        return None


def read_refusal(status: int, body: str) -> Refused | Lost:
    """Read the body of an answer whose status is not a success."""
    try:
        document: object = json.loads(body)
    except ValueError:
        document = None
    if isinstance(document, dict):
        message = str(cast("dict[str, object]", document).get("message", ""))
        if not message.startswith(_NO_SUCH_ENDPOINT):
            return Refused(status, message)
    elif status not in _CONCLUSIVE_STATUSES:
        return Refused(status, shortened(body))
    text = f"status {status} from something that is no lakeFS API: {shortened(body)}"
    return NotLakeFS(text)


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


def object_entry(stats: Mapping[str, Any]) -> ObjectEntry:
    """Take one object over, field by field."""
    return ObjectEntry(
        path=stats["path"],
        checksum=stats["checksum"],
        size=stats["size_bytes"],
        modified_at=stats["mtime"],
        content_type=stats.get("content_type") or DEFAULT_CONTENT_TYPE,
        metadata=MappingProxyType(dict(stats.get("metadata") or {})),
    )


def stored_object(body: bytes) -> ObjectEntry:
    """Read what is said of one object."""
    return object_entry(json.loads(body))


def text_of(name: str) -> Callable[[bytes], str]:
    """Read one field of an answer."""
    return lambda body: str(json.loads(body)[name])


def storage_terms(body: bytes) -> dict[str, object]:
    """Read what a server says of its block store."""
    return dict(json.loads(body).get("storage_config") or {})


def page_of(read: Callable[[Mapping[str, Any]], Value], key: str) -> Callable[[bytes], Page[Value]]:
    """Read one page with this reader of its entries; the key is what they are in order of."""

    def read_page(body: bytes) -> Page[Value]:
        page = json.loads(body)
        results, more = page["results"], page["pagination"]["has_more"]
        # An empty page that says more follow is no answer: it would be asked for without end.
        last = results[-1][key] if results or more else ""
        return Page(tuple(read(each) for each in results), more, last)

    return read_page


def repository_facts(body: bytes) -> RepositoryFacts:
    """Read one repository."""
    found = json.loads(body)
    return RepositoryFacts(
        repository=RepositoryId(found["id"]),
        default_branch=BranchName(found["default_branch"]),
        storage_namespace=found["storage_namespace"],
        read_only=bool(found.get("read_only")),
    )


def server_facts(body: bytes, user: str) -> ServerFacts:
    """Read the configuration of the server."""
    found = json.loads(body)
    return ServerFacts(
        version=str(found["version_config"]["version"]),
        user=user,
        signs=bool(found["storage_config"].get("pre_sign_support")),
    )


def commit_record(commit: Mapping[str, Any]) -> CommitRecord:
    """Take one commit over."""
    return CommitRecord(
        commit=CommitId(commit["id"]),
        parents=tuple(CommitId(parent) for parent in commit["parents"]),
        metadata=MappingProxyType(dict(commit.get("metadata") or {})),
        message=commit["message"],
        metarange=commit["meta_range_id"],
        created_at=commit["creation_date"],
    )


def change(difference: Mapping[str, Any]) -> Change:
    """Take one difference over; it carries the right side."""
    kind = ChangeKind(difference["type"])
    right = difference.get("right")
    # Of a removed object the server sends the left side under the same name.
    if right is None or kind is ChangeKind.REMOVED:
        return Change(difference["path"], kind)
    sides = {"path": difference["path"], "size_bytes": difference["size_bytes"], **right}
    return Change(difference["path"], kind, object_entry(sides))


page_of_changes = page_of(change, "path")
page_of_commits = page_of(commit_record, "id")
page_of_objects = page_of(object_entry, "path")


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
