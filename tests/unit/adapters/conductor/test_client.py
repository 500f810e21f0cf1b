"""Addresses of a Conductor, and the table of failures, row by row, for a read and for a write."""

import json

import pytest

from perago.adapters.conductor.client import (
    ApiRequest,
    ConductorClient,
    ConductorSettings,
    NotConductorError,
    PageError,
    RefusedError,
    api_address,
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


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ("http://conductor:8080/api", "http://conductor:8080/api"),
        ("http://conductor:8080/api/", "http://conductor:8080/api"),
        ("  https://conductor/gateway/api//\n", "https://conductor/gateway/api"),
        ("http://conductor:8080/api?x=1#y", "http://conductor:8080/api"),
        ("http://conductor:8080", "http://conductor:8080"),
        ("http://conductor:8080/", "http://conductor:8080"),
    ],
    ids=["as it is", "slash at the end", "blanks", "query", "no path stays so", "only a slash"],
)
def test_an_address_is_put_into_one_form(given: str, used: str) -> None:
    assert api_address(given) == used


@pytest.mark.parametrize(
    "given", ["", "conductor:8080/api", "ftp://conductor/api", "http:///api", "/api"]
)
def test_what_is_no_address_is_refused_with_the_variable_to_set(given: str) -> None:
    with pytest.raises(UnavailableError, match="PERAGO_CONDUCTOR"):
        api_address(given)


def test_credentials_in_an_address_are_not_shown() -> None:
    client = ConductorClient(ConductorSettings("http://key:secret@conductor:8080/api"))
    assert client.address == "http://conductor:8080/api"


@pytest.mark.parametrize(
    "given", ["ftp://key:secret@conductor/api", "http://key:secret@/api", "http://key:secret@[::1/"]
)
def test_credentials_in_what_is_no_address_are_not_shown(given: str) -> None:
    with pytest.raises(UnavailableError, match="PERAGO_CONDUCTOR") as caught:
        api_address(given)
    assert "secret" not in str(caught.value)


def test_a_password_that_is_not_quoted_is_refused_and_not_shown() -> None:
    """What stands before its slash would be taken for host and port."""
    with pytest.raises(UnavailableError, match="PERAGO_CONDUCTOR") as caught:
        api_address("http://key:with/secret@conductor:8080/api")
    assert "secret" not in str(caught.value)


def test_secrets_are_not_in_the_representation_of_settings() -> None:
    settings = ConductorSettings("http://conductor/api", auth_key="k", auth_secret="hidden")
    assert "hidden" not in repr(settings)


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


def test_of_a_page_only_the_title_is_shown() -> None:
    # Tomcat answers so before Conductor is asked, for example where a name in the path has a slash.
    page = """<!doctype html><html lang="en"><head><title>HTTP Status 400 - Bad
    Request</title><style type="text/css">body {font-family:Tahoma;}</style></head></html>"""
    assert str(service_error(READ, ADDRESS, RefusedError(400, page))) == (
        "read task 7 at http://conductor:8080/api: 400 HTTP Status 400 - Bad Request"
    )
