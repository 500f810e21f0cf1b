"""The table of failures, row by row, for a read and for a write."""

import json

import pytest

from perago.adapters.conductor.requests import (
    ApiRequest,
    NotConductorError,
    PageError,
    RefusedError,
    service_error,
)
from perago.adapters.http import NoAnswerError, NotSentError, RequestFailedError
from perago.ports.errors import (
    AccessDeniedError,
    MissingError,
    OutcomeUnknownError,
    RequestRefusedError,
    ServiceError,
    UnavailableError,
)

ADDRESS = "http://conductor:8080/api"
READ = ApiRequest("read task 7", "GET", "/tasks/7")
WRITE = ApiRequest("send COMPLETED for task 7", "POST", "/tasks")
POLL = ApiRequest("poll count", "GET", "/tasks/poll/batch/count", is_poll=True)


def said(message: str, **more: object) -> str:
    return json.dumps({"status": 0, "message": message, "retryable": False, **more})


GONE = RefusedError(404, said("No such task found by id: 7"))
SPRING_404 = RefusedError(404, json.dumps({"status": 404, "error": "Not Found", "path": "/x"}))
PATH_404 = RefusedError(404, said("No static resource api/api/tasks/7."))


@pytest.mark.parametrize(
    ("failure", "read", "write"),
    [
        pytest.param(NotSentError("refused"), UnavailableError, UnavailableError, id="not sent"),
        pytest.param(NoAnswerError("lost"), UnavailableError, OutcomeUnknownError, id="lost"),
        pytest.param(RefusedError(500, ""), UnavailableError, OutcomeUnknownError, id="500"),
        pytest.param(RefusedError(503, ""), UnavailableError, OutcomeUnknownError, id="503"),
        pytest.param(RefusedError(408, ""), UnavailableError, OutcomeUnknownError, id="408"),
        pytest.param(RefusedError(429, ""), UnavailableError, UnavailableError, id="429"),
        pytest.param(RefusedError(302, ""), NotConductorError, NotConductorError, id="302"),
        pytest.param(RefusedError(401, ""), AccessDeniedError, AccessDeniedError, id="401"),
        pytest.param(RefusedError(403, ""), AccessDeniedError, AccessDeniedError, id="403"),
        pytest.param(GONE, MissingError, MissingError, id="404 of Conductor"),
        pytest.param(SPRING_404, NotConductorError, NotConductorError, id="404 of Spring"),
        pytest.param(PATH_404, NotConductorError, NotConductorError, id="404 of a wrong path"),
        pytest.param(RefusedError(404, "<p>"), NotConductorError, NotConductorError, id="404 HTML"),
        pytest.param(RefusedError(404, "[]"), NotConductorError, NotConductorError, id="404 list"),
        pytest.param(
            RefusedError(409, said("x")), RequestRefusedError, RequestRefusedError, id="409"
        ),
        pytest.param(
            RefusedError(400, said("x")), RequestRefusedError, RequestRefusedError, id="400"
        ),
    ],
)
def test_the_table(
    failure: RequestFailedError, read: type[ServiceError], write: type[ServiceError]
) -> None:
    assert type(service_error(READ, ADDRESS, failure)) is read
    assert type(service_error(WRITE, ADDRESS, failure)) is write
    assert type(service_error(POLL, ADDRESS, failure)) is write


def test_a_page_of_html_leaves_a_write_unknown_and_names_the_remedy() -> None:
    assert type(service_error(READ, ADDRESS, PageError())) is NotConductorError
    assert type(service_error(WRITE, ADDRESS, PageError())) is OutcomeUnknownError
    assert "usually /api" in str(service_error(READ, ADDRESS, PageError()))


def test_a_message_names_the_operation_the_address_and_what_the_server_said() -> None:
    assert str(service_error(READ, ADDRESS, GONE)) == (
        "read task 7 at http://conductor:8080/api: 404 No such task found by id: 7"
    )


def test_the_parts_of_a_failed_validation_are_shown() -> None:
    body = said("Validation failed", validationErrors=[{"message": "at least 1 second"}])
    error = service_error(WRITE, ADDRESS, RefusedError(400, body))
    assert "at least 1 second" in str(error)


def test_a_long_page_is_cut() -> None:
    assert len(str(service_error(READ, ADDRESS, RefusedError(502, "x" * 5000)))) < 400
