"""Statuses and texts of a real lakeFS 1.86, row by row, and what each becomes.

First what is believed of an answer that is not a success.
"""

import json

import pytest

from perago.adapters.lakefs.answers import (
    TEXT_MAX_CHARACTERS,
    Failure,
    Lost,
    NotSent,
    Operation,
    Refused,
    merge_answer,
    port_error,
    read_refusal,
    relocation_answer,
)
from perago.domain.outcome import (
    BrokenActions,
    DirtyTarget,
    HeadMoved,
    MergeAnswer,
    MergeConflict,
    MergeRefused,
    NoAnswer,
    NoChanges,
    RefusedByHook,
    RelocationRefused,
    TooManyTries,
)
from perago.ports.errors import (
    AccessDeniedError,
    BranchExistsError,
    BranchMissingError,
    BrokenActionsError,
    DirtyBranchError,
    ExistsError,
    NothingToCommitError,
    ObjectMissingError,
    OutcomeUnknownError,
    ProtectedBranchError,
    ReferenceMissingError,
    RepositoryMissingError,
    RequestRefusedError,
    ServiceError,
    TagExistsError,
    UnavailableError,
)

PAGE = "<!DOCTYPE html><html><title>default backend - 404</title></html>"
READ = Operation("read", "r/x")
WRITE = Operation("write", "r/x", writes=True)
CREATE_BRANCH = Operation("create branch", "r/b", writes=True, taken=BranchExistsError)
CREATE_TAG = Operation("create tag", "r/t", writes=True, taken=TagExistsError)
READ_HEAD = Operation("read the head of", "r/b", missing=BranchMissingError)
READ_OBJECT = Operation("read object", "r/x/o", missing=ObjectMissingError)
COMMIT = Operation("commit on", "r/b", writes=True, missing=BranchMissingError)
MERGE = Operation("merge", "s into r/main", writes=True)
RELOCATE = Operation("relocate", "r/main to c", writes=True)

ABORTED = "update branch main: pre-merge hook aborted, run id '4ore': "
OURS = (
    "\t* hook run id '0001_0000' failed on action 'perago publication fence' hook "
    "'perago_expected_head': action failed: runtime error: [string \"lua\"]:5: "
    "perago.head_moved 484843dc c17d1803\nstack traceback:\n\t[Go]: in ?\n"
)
OTHERS = (
    "\t* hook run id '0000_0000' failed on action 'other' hook 'no': action failed: runtime "
    'error: [string "lua"]:1: not on mondays\n'
)
BROKEN_FILE = "1 error occurred:\n\t* parsing file _lakefs_actions/README.md: 'name' is required"
SUB_FOLDER = (
    "1 error occurred:\n\t* loading file _lakefs_actions/sub/: get action file metadata "
    "_lakefs_actions/sub/: not found\n\n"
)
UNREACHED = (
    "operation error S3: PutObject, exceeded maximum number of attempts, 5, https response error "
    'StatusCode: 0, RequestID: , HostID: , request send failed, Put "http://127.0.0.1:1/perago/x": '
    "dial tcp 127.0.0.1:1: connect: connection refused"
)
UNREADABLE = (
    "1 error occurred:\n\t* loading file _lakefs_actions/perago.yaml: input/output error\n\n"
)


def test_a_refusal_of_lakefs_is_its_message() -> None:
    assert read_refusal(404, '{"message":"tag not found"}\n') == Refused(404, "tag not found")


def test_a_conflict_of_lakefs_has_no_message() -> None:
    assert read_refusal(409, '{"reference":""}') == Refused(409, "")


@pytest.mark.parametrize("status", [404, 409, 412])
@pytest.mark.parametrize("body", [PAGE, "", "404 page not found", "[]", '"no"'])
def test_a_proxy_cannot_say_that_something_is_missing_taken_or_refused(
    status: int, body: str
) -> None:
    assert isinstance(read_refusal(status, body), Lost)


@pytest.mark.parametrize("status", [400, 401, 403, 413, 429, 500, 502, 503, 504])
def test_a_proxy_can_refuse_or_fail(status: int) -> None:
    assert read_refusal(status, PAGE) == Refused(status, PAGE)


@pytest.mark.parametrize(
    "message", ["invalid API endpoint", "No static resource api/v1/repositories/songs."]
)  # of lakeFS, and of a Conductor whose address was given for it
def test_an_address_without_this_api_is_no_answer(message: str) -> None:
    assert isinstance(read_refusal(404, json.dumps({"message": message})), Lost)


def test_a_page_is_shortened_and_a_message_is_not() -> None:
    long = "x" * (TEXT_MAX_CHARACTERS + 1)

    assert len(read_refusal(502, long).text) == TEXT_MAX_CHARACTERS + len("...")
    assert read_refusal(412, f'{{"message":"{long}"}}') == Refused(412, long)


@pytest.mark.parametrize(
    ("failure", "answer"),
    [
        (Refused(412, f"{ABORTED}1 error occurred:\n{OURS}"), HeadMoved),
        (Refused(412, f"{ABORTED}2 errors occurred:\n{OTHERS}{OURS}"), HeadMoved),
        (Refused(412, f"{ABORTED}1 error occurred:\n{OTHERS}"), RefusedByHook),
        (Refused(412, "Precondition failed"), RefusedByHook),
        (Refused(500, f"{ABORTED}{BROKEN_FILE}"), BrokenActions),
        (Refused(404, f"{ABORTED}{SUB_FOLDER}"), BrokenActions),
        (Refused(500, f"{ABORTED}{UNREACHED}"), NoAnswer),
        (Refused(500, f"{ABORTED}{UNREADABLE}"), NoAnswer),
        (Refused(409, ""), MergeConflict),
        (Refused(400, "update branch main: no changes"), NoChanges),
        (Refused(400, "uncommitted changes (dirty branch)"), DirtyTarget),
        (Refused(400, "source reference: invalid reference"), MergeRefused),
        (Refused(423, "branch is locked"), TooManyTries),
        (Refused(429, "Too many attempts, try again later"), TooManyTries),
        (Refused(401, "error authenticating request"), MergeRefused),
        (Refused(403, "read-only repository"), MergeRefused),
        (Refused(410, "No data"), MergeRefused),
        (Refused(408, "request timeout"), NoAnswer),
        (Refused(499, "client closed request"), NoAnswer),
        (Refused(500, "branch is currently locked, try again later"), NoAnswer),
        (Refused(502, "<html>bad gateway</html>"), NoAnswer),
        (Refused(503, "Throughput exceeded. Slow down and retry"), NoAnswer),
        (Refused(307, ""), NoAnswer),
        (Lost("connection broken", broken=True), NoAnswer),
    ],
    ids=str,
)
def test_every_row_of_the_merge_table(failure: Failure, answer: type[MergeAnswer]) -> None:
    assert isinstance(merge_answer(MERGE, failure), answer)


@pytest.mark.parametrize(
    ("failure", "error"),
    [
        (NotSent("connection refused"), UnavailableError),
        (Refused(404, "branch not found"), BranchMissingError),
        (Refused(404, "repository not found"), RepositoryMissingError),
        (
            Refused(404, "update branch main: get commit by ref nope: not found"),
            ReferenceMissingError,
        ),
    ],
    ids=str,
)
def test_a_merge_that_reached_no_branch_raises(failure: Failure, error: type[ServiceError]) -> None:
    with pytest.raises(error):
        merge_answer(MERGE, failure)


def test_an_answer_to_a_merge_keeps_the_text_of_the_server() -> None:
    text = f"{ABORTED}1 error occurred:\n{OURS}"

    assert merge_answer(MERGE, Refused(412, text)) == HeadMoved(text)


@pytest.mark.parametrize(
    ("failure", "answer"),
    [
        (Refused(403, "protected branch"), RelocationRefused("protected branch", protected=True)),
        (Refused(403, "read-only"), RelocationRefused("status 403: read-only")),
        (Refused(400, "no parent"), RelocationRefused("status 400: no parent")),
        (Refused(500, "boom"), NoAnswer("status 500: boom")),
        (Lost("read timed out"), NoAnswer("read timed out")),
    ],
    ids=str,
)
def test_every_row_of_the_relocation_table(failure: Failure, answer: object) -> None:
    assert relocation_answer(RELOCATE, failure) == answer


@pytest.mark.parametrize(
    ("failure", "error"),
    [
        (
            Refused(404, "hard-reset main to 000: not found"),
            ReferenceMissingError,
        ),
        (Refused(404, "branch not found"), BranchMissingError),
        (NotSent("connection refused"), UnavailableError),
    ],
    ids=str,
)
def test_a_relocation_without_branch_or_commit_raises(
    failure: Failure, error: type[ServiceError]
) -> None:
    with pytest.raises(error):
        relocation_answer(RELOCATE, failure)


@pytest.mark.parametrize(
    ("operation", "failure", "error"),
    [
        (READ, Refused(404, "repository not found"), RepositoryMissingError),
        (READ, Refused(404, "ref: not found"), ReferenceMissingError),
        (READ, Refused(404, "stop_at: not found"), ReferenceMissingError),
        (READ, Refused(404, "commit not found"), ReferenceMissingError),
        (READ, Refused(404, "tag not found"), ReferenceMissingError),
        (READ, Refused(404, "branch not found"), BranchMissingError),
        (
            READ,
            Refused(400, "ref: invalid value: validation error"),
            ReferenceMissingError,
        ),
        (
            READ,
            Refused(500, "ref: invalid value: validation error"),
            ReferenceMissingError,
        ),
        (
            READ_HEAD,
            Refused(400, "ref: ref: invalid value: validation error"),
            BranchMissingError,
        ),
        (READ_OBJECT, Refused(404, "not found"), ObjectMissingError),
        (WRITE, Refused(404, "branch 'nope' not found"), BranchMissingError),
        (
            CREATE_BRANCH,
            Refused(404, "source reference 'branch': not found"),
            ReferenceMissingError,
        ),
        (
            COMMIT,
            Refused(
                404,
                "prepare-commit hook aborted, run id '4o': list actions from commit: "
                "listing actions: not found",
            ),
            BranchMissingError,
        ),
        (
            COMMIT,
            Refused(404, f"prepare-commit hook aborted, run id '4o': {SUB_FOLDER}"),
            BrokenActionsError,
        ),
        (
            COMMIT,
            Refused(500, f"prepare-commit hook aborted, run id '4o': {BROKEN_FILE}"),
            BrokenActionsError,
        ),
        (
            CREATE_TAG,
            Refused(500, f"pre-create-tag hook aborted, run id '4o': {BROKEN_FILE}"),
            BrokenActionsError,
        ),
        (
            COMMIT,
            Refused(500, f"prepare-commit hook aborted, run id '4o': {UNREACHED}"),
            OutcomeUnknownError,
        ),
        (
            COMMIT,
            Refused(412, f"pre-commit hook aborted, run id '4o': {OTHERS}"),
            RequestRefusedError,
        ),
        (CREATE_BRANCH, Refused(409, "branch already exists: not unique"), BranchExistsError),
        (CREATE_TAG, Refused(409, "tag already exists: not unique"), TagExistsError),
        (WRITE, Refused(412, "Precondition failed"), RequestRefusedError),
        (COMMIT, Refused(400, "commit: no changes"), NothingToCommitError),
        (
            COMMIT,
            Refused(400, "source metarange: uncommitted changes (dirty branch)"),
            DirtyBranchError,
        ),
        (CREATE_TAG, Refused(400, "argument tagID: invalid value"), RequestRefusedError),
        (WRITE, Refused(403, "cannot write to protected branch"), ProtectedBranchError),
        (COMMIT, Refused(403, "cannot commit to protected branch"), ProtectedBranchError),
        (WRITE, Refused(403, "cannot delete repository default branch"), RequestRefusedError),
        (WRITE, Refused(403, "read-only repository"), RequestRefusedError),
        (WRITE, Refused(403, "insufficient permissions"), AccessDeniedError),
        (READ, Refused(401, "error authenticating request"), AccessDeniedError),
        (WRITE, Refused(410, "No data"), RequestRefusedError),
        (WRITE, Refused(413, "<html>too large</html>"), RequestRefusedError),
        (WRITE, Refused(429, "Too many attempts"), UnavailableError),
        (WRITE, Refused(423, "locked"), UnavailableError),
    ],
    ids=str,
)
def test_every_row_of_the_error_table(
    operation: Operation, failure: Failure, error: type[ServiceError]
) -> None:
    assert type(port_error(operation, failure)) is error


@pytest.mark.parametrize(
    "failure",
    [
        Lost("read timed out"),
        Lost("unusable answer"),
        Refused(408, ""),
        Refused(499, ""),
        Refused(500, "internal"),
        Refused(503, ""),
        Refused(302, ""),
    ],
    ids=str,
)
def test_unanswered_is_unknown_after_a_write_and_unavailable_after_a_read(
    failure: Failure,
) -> None:
    assert type(port_error(WRITE, failure)) is OutcomeUnknownError
    assert type(port_error(READ, failure)) is UnavailableError


def test_what_was_never_sent_cannot_have_happened() -> None:
    assert type(port_error(WRITE, NotSent("refused"))) is UnavailableError
    assert type(port_error(READ, NotSent("refused"))) is UnavailableError


def test_a_name_taken_by_another_kind_is_not_called_a_tag() -> None:
    error = port_error(CREATE_TAG, Refused(409, "branch name main: conflict found"))

    assert type(error) is ExistsError


def test_an_error_names_the_operation_its_object_and_what_was_said() -> None:
    error = port_error(CREATE_TAG, Refused(404, "not found"))

    assert str(error) == "create tag r/t: not found"


def test_a_refusal_without_a_word_names_its_status() -> None:
    assert str(port_error(WRITE, Refused(410, ""))) == "write r/x: status 410"
